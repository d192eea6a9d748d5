package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
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

// BenchmarkAppend is what one small record costs, and what the floor does: one row in a table, with the same
// settings. They take turns, so that both see the same machine; each ratio is of one pair of turns.
func BenchmarkAppend(b *testing.B) {
	const turn = 20
	rec := note(b, strings.Repeat("x", 200))
	line := rec.AppendLine(nil)
	for _, synchronous := range []string{"full", "normal"} {
		b.Run(synchronous, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "runs.db"), &Options{Synchronous: synchronous})
			l := create(b, s, "run", time.Hour)
			stmt := floor(b, synchronous)
			var store, floor, ratios []float64
			for n := int64(0); b.Loop(); {
				from := time.Now()
				for i := range int64(turn) {
					if err := s.Append(b.Context(), l, n+i+1, rec); err != nil {
						b.Fatal(err)
					}
				}
				between := time.Now()
				for i := range int64(turn) {
					step(b, stmt, n+i+1, line)
				}
				n += turn
				store = append(store, float64(between.Sub(from))/turn)
				floor = append(floor, float64(time.Since(between))/turn)
				ratios = append(ratios, store[len(store)-1]/floor[len(floor)-1])
			}
			b.ReportMetric(median(store), "store-ns")
			b.ReportMetric(median(floor), "floor-ns")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
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
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(readFile(b, s.path)))/float64(b.N), "bytes/record")
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
	for _, sql := range append(pragmas(synchronous), "CREATE TABLE records (key INTEGER PRIMARY KEY, lines BLOB NOT NULL)") {
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

// BenchmarkCreate is what it costs to begin runs, and to begin and end them, when 64 do so at the same time.
func BenchmarkCreate(b *testing.B) {
	const workers = 64
	end, err := checkpoint.NewRecord(started, checkpoint.RunEnded, "", map[string]any{"status": "ok"})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"begun", "begun and ended"} {
		b.Run(name, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "runs.db"), nil)
			for i := range 1000 { // so that the file has some depth
				create(b, s, fmt.Sprint("old-", i), 0)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := w; i < b.N; i += workers {
						run := checkpoint.Run{ID: fmt.Sprintf("run-%08d", i), Recipe: fmt.Sprint("recipe-", i%20),
							Digest: "sha256:0123456789abcdef", Queue: "default", StartedAt: started.Add(time.Duration(i) * time.Millisecond)}
						l, err := s.Create(b.Context(), run, "me", time.Hour, note(b, "x"))
						if err == nil && name != "begun" {
							err = s.Append(b.Context(), l, 2, end)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
