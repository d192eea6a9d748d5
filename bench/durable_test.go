package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/postgres"
	braisesqlite "github.com/braise-run/braise/checkpoint/sqlite"
)

// medium is something that keeps what must not be lost.
type medium struct {
	name  string
	store func(testing.TB) checkpoint.Store // Braise's
	floor func(testing.TB) func() error     // makes one commit of one row, by hand
	dbos  func(testing.TB) dbos.Config      // nil: DBOS does not know it
}

var media = []medium{sqliteMedium("full"), sqliteMedium("normal"), {"postgres", postgresStore, postgresFloor, dbosPostgres}, {"jsonl", jsonlStore, jsonlFloor, nil}}

// row is what floors commit: about as long as a record of Braise's.
var row = []byte(strings.Repeat("x", 200))

func sqliteMedium(synchronous string) medium {
	return medium{
		name: "sqlite-" + synchronous,
		store: func(tb testing.TB) checkpoint.Store {
			s, err := braisesqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "runs.db"), &braisesqlite.Options{Synchronous: synchronous})
			return closed(tb, s, err)
		},
		floor: func(tb testing.TB) func() error { return sqliteFloor(tb, synchronous) },
		dbos:  func(tb testing.TB) dbos.Config { return dbosSQLite(tb, synchronous) },
	}
}

// closed closes a store at the end.
func closed(tb testing.TB, s checkpoint.Store, err error) checkpoint.Store {
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// sqliteFloor has the driver and the pragmas of Braise's store.
func sqliteFloor(tb testing.TB, synchronous string) func() error {
	c, err := sqlite.OpenConn(filepath.Join(tb.TempDir(), "floor.db"), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	for _, text := range []string{
		"PRAGMA synchronous = " + synchronous, "PRAGMA fullfsync = on", "PRAGMA checkpoint_fullfsync = on",
		"PRAGMA cache_size = -16384", "PRAGMA wal_autocheckpoint = 4096",
		"CREATE TABLE rows (key INTEGER PRIMARY KEY, line BLOB NOT NULL)",
	} {
		if err := sqlitex.ExecuteTransient(c, text, nil); err != nil {
			tb.Fatal(err)
		}
	}
	insert, err := c.Prepare("INSERT INTO rows (line) VALUES (?)")
	if err != nil {
		tb.Fatal(err)
	}
	return func() error {
		insert.BindBytes(1, row)
		if _, err := insert.Step(); err != nil {
			return err
		}
		return insert.Reset()
	}
}

// postgresURL is the database that tests may use; each caller gets a schema of its own.
func postgresURL() string {
	url := os.Getenv("BRAISE_TEST_POSTGRES")
	if url == "" {
		url = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	return url
}

// schema is a name that is dropped at the end, with all that is in it.
func schema(tb testing.TB) string {
	conn := connect(tb)
	name := "bench_" + strings.ToLower(rand.Text())
	tb.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			tb.Error(err)
		}
		conn.Close(context.Background())
	})
	return name
}

func connect(tb testing.TB) *pgx.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, postgresURL())
	if err != nil {
		tb.Skipf("no Postgres, see BRAISE_TEST_POSTGRES: %v", err)
	}
	return conn
}

func postgresStore(tb testing.TB) checkpoint.Store {
	name := schema(tb)
	s, err := postgres.Open(tb.Context(), postgresURL(), &postgres.Options{Schema: name})
	return closed(tb, s, err)
}

func dbosPostgres(tb testing.TB) dbos.Config {
	return dbos.Config{DatabaseSchema: schema(tb), DatabaseURL: postgresURL()}
}

func postgresFloor(tb testing.TB) func() error {
	name := schema(tb)
	conn := connect(tb)
	tb.Cleanup(func() { conn.Close(context.Background()) })
	ctx := context.Background()
	for _, text := range []string{"CREATE SCHEMA " + name, "CREATE TABLE " + name + ".rows (key bigserial PRIMARY KEY, line bytea NOT NULL)"} {
		if _, err := conn.Exec(ctx, text); err != nil {
			tb.Fatal(err)
		}
	}
	insert := "INSERT INTO " + name + ".rows (line) VALUES ($1)"
	return func() error {
		_, err := conn.Exec(ctx, insert, row)
		return err
	}
}

func jsonlStore(tb testing.TB) checkpoint.Store {
	s, err := jsonl.Open(tb.TempDir())
	return closed(tb, s, err)
}

// jsonlFloor appends lines to a file.
func jsonlFloor(tb testing.TB) func() error {
	f, err := os.Create(filepath.Join(tb.TempDir(), "floor.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	line := append(slices.Clone(row), '\n')
	return func() error {
		if _, err := f.Write(line); err != nil {
			return err
		}
		return f.Sync()
	}
}

// durable is something that runs a chain of steps, each of whose results is safe before the next
// step begins. build returns nil where the medium is not for it.
type durable struct {
	name  string
	build func(testing.TB, medium, int) job
	runs  int // at once in W8; 0: none, as one of them takes too long
}

var durables = []durable{
	{"braise", durableBraise, 1000},
	{"braise-pure", pureBraise, 0},
	{"dbos", dbosChain, 250},
	{"go-workflows", goWorkflows, 0},
}

// BenchmarkW6 has everybody take turns with a floor of 100 commits, so that both see the same
// machine: x-floor is the median of the turns' ratios.
func BenchmarkW6(b *testing.B) {
	const steps = 100
	ctx := context.Background()
	for _, m := range media {
		b.Run(m.name, func(b *testing.B) {
			for _, d := range durables {
				b.Run(d.name, func(b *testing.B) {
					run := d.build(b, m, steps)
					if run == nil {
						b.Skip(d.name + " does not know " + m.name)
					}
					floor := m.floor(b)
					turns(b, func() error { return run.check(ctx, steps) }, func() error { return commits(floor, steps) })
				})
			}
			b.Run("floor-commits", func(b *testing.B) {
				floor := m.floor(b)
				turns(b, func() error { return commits(floor, steps) }, nil)
			})
		})
	}
}

func commits(one func() error, n int) error {
	for range n {
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}

// turns measures work, in turns with a floor unless that is nil, after one of each to warm up.
func turns(b *testing.B, work, floor func() error) {
	var times, ratios []float64
	timed := func(f func() error) float64 {
		from := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return float64(time.Since(from))
	}
	timed(work)
	if floor != nil {
		timed(floor)
	}
	for b.Loop() {
		t := timed(work)
		times = append(times, t)
		if floor != nil {
			ratios = append(ratios, t/timed(floor))
		}
	}
	b.ReportMetric(median(times), "ns/op")
	if floor != nil {
		b.ReportMetric(median(ratios), "x-floor")
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// BenchmarkW8Durable is many runs at once of a chain of 10. Who is slow makes fewer runs: what
// counts is steps in a second.
func BenchmarkW8Durable(b *testing.B) {
	const steps = 10
	ctx := context.Background()
	for _, m := range media[:3] {
		b.Run(m.name, func(b *testing.B) {
			for _, d := range durables {
				if d.runs == 0 {
					continue
				}
				b.Run(d.name, func(b *testing.B) {
					run := d.build(b, m, steps)
					all := func(n int) {
						var group sync.WaitGroup
						for range n {
							group.Go(func() {
								if err := run.check(ctx, steps); err != nil {
									b.Error(err)
								}
							})
						}
						group.Wait()
					}
					all(10)
					var rates []float64
					for b.Loop() {
						from := time.Now()
						all(d.runs)
						rates = append(rates, float64(d.runs*steps)/time.Since(from).Seconds())
					}
					b.ReportMetric(median(rates), "steps/s")
				})
			}
		})
	}
}

// Everybody does the work, wherever it can.
func TestDurables(t *testing.T) {
	for _, m := range media {
		for _, d := range durables {
			t.Run(fmt.Sprint(m.name, "/", d.name), func(t *testing.T) {
				run := d.build(t, m, 3)
				if run == nil {
					t.Skip(d.name + " does not know " + m.name)
				}
				if err := run.check(t.Context(), 3); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
