package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

var started = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func note(t testing.TB, text string) checkpoint.Record {
	t.Helper()
	rec, err := checkpoint.NewRecord(started, "step.end", "greet", map[string]any{"output": text})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func create(t testing.TB, s checkpoint.Store, id string, ttl time.Duration) checkpoint.Lease {
	t.Helper()
	run := checkpoint.Run{ID: id, Recipe: "greet", Digest: "sha256:0123456789abcdef", Definition: []byte(`{"steps":[]}`), StartedAt: started}
	l, err := s.Create(t.Context(), run, checkpoint.NewOwner(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// BenchmarkAppend is what one small record costs, beside the floor: one row in a table, with the same settings.
func BenchmarkAppend(b *testing.B) {
	rec := note(b, strings.Repeat("x", 200))
	for _, synchronous := range []string{"full", "normal"} {
		b.Run(synchronous+"/store", func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "runs.db"), &Options{Synchronous: synchronous})
			l := create(b, s, "run", time.Hour)
			after := int64(0)
			for b.Loop() {
				after++
				if err := s.Append(b.Context(), l, after, rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(synchronous+"/floor", func(b *testing.B) {
			stmt := floor(b, synchronous)
			line := rec.AppendLine(nil)
			n := int64(0)
			for b.Loop() {
				n++
				step(b, stmt, n, line)
			}
		})
	}
}

// BenchmarkRuns is what a record costs when 1,000 runs append at the same time.
func BenchmarkRuns(b *testing.B) {
	const runs = 1000
	rec := note(b, strings.Repeat("x", 200))
	for _, synchronous := range []string{"full", "normal"} {
		b.Run(synchronous, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "runs.db"), &Options{Synchronous: synchronous})
			leases := make([]checkpoint.Lease, runs)
			for i := range leases {
				leases[i] = create(b, s, fmt.Sprint("run-", i), time.Hour)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, l := range leases {
				wg.Go(func() {
					for n := range (b.N + runs - 1 - i) / runs {
						if err := s.Append(b.Context(), l, int64(n+1), rec); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// floor returns a statement that commits one row.
func floor(b *testing.B, synchronous string) *sqlite.Stmt {
	b.Helper()
	c, err := sqlite.OpenConn(filepath.Join(b.TempDir(), "floor.db"), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	for _, sql := range []string{"PRAGMA synchronous = " + synchronous, "CREATE TABLE records (key INTEGER PRIMARY KEY, lines BLOB NOT NULL)"} {
		if err := query(c, nil, sql); err != nil {
			b.Fatal(err)
		}
	}
	stmt, err := c.Prepare("INSERT INTO records (key, lines) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	return stmt
}

func step(b *testing.B, stmt *sqlite.Stmt, key int64, lines []byte) {
	stmt.BindInt64(1, key)
	stmt.BindBytes(2, lines)
	if _, err := stmt.Step(); err != nil {
		b.Fatal(err)
	}
	if err := stmt.Reset(); err != nil {
		b.Fatal(err)
	}
}
