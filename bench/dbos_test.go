package bench

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

// typed is value for those who keep values as JSON and read them into a Go type.
type typed = map[string]int64

func typed1(v typed) typed { return typed{"n": v["n"] + 1} }

func untyped(v typed) value { return value{"n": v["n"]} }

// dbosContext is DBOS on a database. Without a version of its own, DBOS would read the whole
// program to make one.
func dbosContext(ctx context.Context, c dbos.Config) (dbos.Context, error) {
	c.AppName, c.ApplicationVersion, c.Logger = "bench", "1", slog.New(slog.DiscardHandler)
	return dbos.NewContext(ctx, c)
}

// dbosSQLite is a file with DBOS's own pragmas and sizes, but for how it syncs: that DBOS sets to
// NORMAL, whatever its URL says, unless it is given the database.
func dbosSQLite(tb testing.TB, synchronous string) dbos.Config {
	path := filepath.Join(tb.TempDir(), "dbos.db")
	if synchronous == "normal" {
		return dbos.Config{DatabaseURL: "sqlite:" + path}
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(ON)&_pragma=journal_mode(WAL)&_pragma=synchronous("+synchronous+")")
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(4)
	tb.Cleanup(func() { db.Close() })
	return dbos.Config{SQLiteSystemDB: db}
}

// dbosSteps is a workflow: a chain of steps, after half of which between is called in a step.
func dbosSteps(steps int, between func()) dbos.Workflow[int, typed] {
	add := func(ctx dbos.Context, v typed, n int) (_ typed, err error) {
		for i := 0; i < n && err == nil; i++ {
			v, err = dbos.RunAsStep(ctx, func(context.Context) (typed, error) { return typed1(v), nil })
		}
		return v, err
	}
	return func(ctx dbos.Context, _ int) (typed, error) {
		if between == nil {
			return add(ctx, typed{}, steps)
		}
		v, err := add(ctx, typed{}, steps/2)
		if err == nil {
			_, err = dbos.RunAsStep(ctx, func(context.Context) (bool, error) { between(); return true, nil })
		}
		if err != nil {
			return nil, err
		}
		return add(ctx, v, steps-steps/2)
	}
}

func dbosChain(tb testing.TB, m medium, steps int) job {
	if m.dbos == nil {
		return nil
	}
	ctx, err := dbosContext(context.Background(), m.dbos(tb))
	if err != nil {
		tb.Fatal(err)
	}
	wf := dbosSteps(steps, nil)
	dbos.RegisterWorkflow(ctx, wf, dbos.WithWorkflowName("chain"))
	if err := dbos.Launch(ctx); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dbos.Shutdown(ctx, 10*time.Second) })
	return func(context.Context) (value, error) {
		handle, err := dbos.RunWorkflow(ctx, wf, 0)
		if err != nil {
			return nil, err
		}
		v, err := handle.GetResult()
		return untyped(v), err
	}
}
