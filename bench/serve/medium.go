package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/postgres"
	"github.com/braise-run/braise/checkpoint/sqlite"
)

// medium is where a store lies: a filled one that is kept, and copies of it.
type medium interface {
	url() string                                      // of the copy
	open(context.Context) (checkpoint.Store, error)   // the copy
	renew(context.Context) error                      // makes a copy instead of the last one
	remove(context.Context) error                     // removes the copy
	filled(context.Context) (checkpoint.Store, error) // nil: it is filled
	keep(context.Context) error                       // notes that it is filled
}

// version changes when a filled store is to have something else in it.
const version = 3

// openMedium fills a store, unless that was done before, and copies it.
func openMedium(ctx context.Context, name string, o options) (m medium, err error) {
	filled := fmt.Sprintf("braise_load_v%d_%d", version, o.runs)
	switch name {
	case "sqlite":
		if err := os.MkdirAll(o.cache, 0o755); err != nil {
			return nil, err
		}
		m = &sqliteMedium{filledPath: filepath.Join(o.cache, filled+".db"), copyPath: filepath.Join(o.cache, fmt.Sprintf("copy-%d.db", os.Getpid()))}
	case "postgres":
		u := os.Getenv("BRAISE_TEST_POSTGRES")
		if u == "" {
			u = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
		}
		server, err := url.Parse(u)
		if err != nil {
			return nil, err
		}
		m = &postgresMedium{server: server, filledName: filled, copyName: fmt.Sprintf("braise_load_copy_%d", os.Getpid())}
	default:
		return nil, errors.New("it is sqlite or postgres")
	}
	begin := time.Now()
	s, err := m.filled(ctx)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if err := errors.Join(fill(ctx, s, o.runs), s.Close()); err != nil {
			return nil, err
		}
		if err := m.keep(ctx); err != nil {
			return nil, err
		}
		log.Printf("filled %s in %v", name, time.Since(begin).Round(time.Second))
	}
	return m, m.renew(ctx)
}

type sqliteMedium struct{ filledPath, copyPath string }

func (m *sqliteMedium) url() string { return "sqlite:" + m.copyPath }

func (m *sqliteMedium) open(ctx context.Context) (checkpoint.Store, error) {
	return sqlite.Open(ctx, m.copyPath, nil)
}

func (m *sqliteMedium) remove(context.Context) error { return removeStore(m.copyPath) }

// removeStore removes a file with what SQLite has beside it.
func removeStore(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *sqliteMedium) renew(ctx context.Context) error {
	if err := m.remove(ctx); err != nil {
		return err
	}
	from, err := os.Open(m.filledPath)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(m.copyPath)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}

func (m *sqliteMedium) filled(ctx context.Context) (checkpoint.Store, error) {
	if _, err := os.Stat(m.filledPath); err == nil {
		return nil, nil
	}
	if err := removeStore(m.filledPath + ".new"); err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, m.filledPath+".new", &sqlite.Options{Synchronous: "normal"})
}

func (m *sqliteMedium) keep(context.Context) error {
	return os.Rename(m.filledPath+".new", m.filledPath)
}

type postgresMedium struct {
	server               *url.URL
	filledName, copyName string
}

func (m *postgresMedium) of(database string) string {
	u := *m.server
	u.Path = "/" + database
	return u.String()
}

func (m *postgresMedium) url() string { return m.of(m.copyName) }

func (m *postgresMedium) open(ctx context.Context) (checkpoint.Store, error) {
	return postgres.Open(ctx, m.url(), nil)
}

// exec executes statements one by one.
func (m *postgresMedium) exec(ctx context.Context, database string, statements ...string) error {
	u := m.server.String()
	if database != "" {
		u = m.of(database)
	}
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

func (m *postgresMedium) remove(ctx context.Context) error {
	return m.exec(ctx, "", "DROP DATABASE IF EXISTS "+m.copyName+" WITH (FORCE)")
}

func (m *postgresMedium) renew(ctx context.Context) error {
	if err := m.remove(ctx); err != nil {
		return err
	}
	// A checkpoint now does not come while something is measured.
	return m.exec(ctx, "", "CREATE DATABASE "+m.copyName+" TEMPLATE "+m.filledName, "CHECKPOINT")
}

func (m *postgresMedium) filled(ctx context.Context) (checkpoint.Store, error) {
	conn, err := pgx.Connect(ctx, m.server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var there bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", m.filledName).Scan(&there)
	if err != nil || there {
		return nil, err
	}
	if err := m.exec(ctx, "", "DROP DATABASE IF EXISTS "+m.filledName+"_new WITH (FORCE)", "CREATE DATABASE "+m.filledName+"_new"); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, m.of(m.filledName+"_new"), nil)
}

func (m *postgresMedium) keep(ctx context.Context) error {
	if err := m.exec(ctx, m.filledName+"_new", "VACUUM ANALYZE"); err != nil {
		return err
	}
	return m.exec(ctx, "", "ALTER DATABASE "+m.filledName+"_new RENAME TO "+m.filledName)
}
