package sqlite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
)

func open(t testing.TB, path string, opts *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// change calls f with a connection of its own, as another program would have.
func change(t testing.TB, path string, f func(c *sqlite.Conn) error) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		c.SetBusyTimeout(10 * time.Second)
		err = inTransaction(c, "BEGIN IMMEDIATE", func() error { return f(c) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// text returns all rows of a query for one column, with new lines between.
func text(c *sqlite.Conn, sql string, args ...any) (string, error) {
	var rows []string
	err := query(c, func(stmt *sqlite.Stmt) error { rows = append(rows, stmt.ColumnText(0)); return nil }, sql, args...)
	return strings.Join(rows, "\n"), err
}

// suite are the ways to get at the medium.
var suite = checkpointtest.Options{
	Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store { return open(t, s.(*Store).path, nil) },
	Edit: func(t *testing.T, s checkpoint.Store, runID string, edit func([]string) []string) {
		change(t, s.(*Store).path, func(c *sqlite.Conn) error {
			e, err := find(c, runID)
			if err != nil {
				return err
			}
			old, err := text(c, "SELECT lines FROM journal WHERE key > ? AND key < ? ORDER BY key", key(e.num, 0), key(e.num+1, 0))
			if err == nil {
				err = query(c, nil, "DELETE FROM records WHERE key > ? AND key < ?", key(e.num, 0), key(e.num+1, 0))
			}
			if err == nil {
				err = query(c, nil, "DELETE FROM crowded WHERE key > ? AND key < ?", key(e.num, 0), key(e.num+1, 0))
			}
			for i, line := range edit(strings.Split(old, "\n")) {
				if err == nil {
					err = query(c, nil, "INSERT INTO records (key, lines) VALUES (?, ?)", key(e.num, int64(i+1)), []byte(line))
				}
			}
			return err
		})
	},
	EditDefinition: func(t *testing.T, s checkpoint.Store, digest string, edit func(string) string) {
		change(t, s.(*Store).path, func(c *sqlite.Conn) error {
			old, err := text(c, "SELECT line FROM definitions WHERE digest = ?", digest)
			if err != nil {
				return err
			}
			return query(c, nil, "UPDATE definitions SET line = ? WHERE digest = ?", []byte(edit(old)), digest)
		})
	},
	EditDocument: func(t *testing.T, s checkpoint.Store, collection, name string, edit func(string) string) {
		change(t, s.(*Store).path, func(c *sqlite.Conn) error {
			old, err := text(c, "SELECT line FROM documents WHERE collection = ? AND name = ?", collection, name)
			if err != nil {
				return err
			}
			return query(c, nil, "UPDATE documents SET line = ? WHERE collection = ? AND name = ?", []byte(edit(old)), collection, name)
		})
	},
	EditSignal: func(t *testing.T, s checkpoint.Store, runID, id string, edit func(string) string) {
		change(t, s.(*Store).path, func(c *sqlite.Conn) error {
			old, err := text(c, "SELECT line FROM signals WHERE run = (SELECT num FROM runs WHERE id = ?) AND id = ?", runID, id)
			if err != nil {
				return err
			}
			return query(c, nil, "UPDATE signals SET line = ? WHERE run = (SELECT num FROM runs WHERE id = ?) AND id = ?",
				[]byte(edit(old)), runID, id)
		})
	},
	EditLease: func(t *testing.T, s checkpoint.Store, runID string, edit func(checkpoint.Lease) checkpoint.Lease) {
		change(t, s.(*Store).path, func(c *sqlite.Conn) error {
			e, err := find(c, runID)
			if err != nil {
				return err
			}
			line, err := edit(e.lease).Line()
			if err != nil {
				return err
			}
			return query(c, nil, "UPDATE runs SET lease = ? WHERE num = ?", line, e.num)
		})
	},
	Break: func(t *testing.T, s checkpoint.Store) func() {
		if !alone {
			t.Skip("see TestWritesFail")
		}
		return limitFiles(t, s)
	},
	Size: func(t *testing.T, s checkpoint.Store) int64 {
		// What is in the log comes into the file, and is not counted twice.
		c, err := sqlite.OpenConn(s.(*Store).path, sqlite.OpenReadWrite)
		if err == nil {
			_, err = text(c, "PRAGMA wal_checkpoint(truncate)")
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		names, _ := filepath.Glob(s.(*Store).path + "*")
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		return size
	},
}

// alone says that this process runs only tests that may break its files.
var alone = os.Getenv("SQLITE_TEST_ALONE") != ""

// The limit on files is one of the process, and go test writes files too: so this is another one.
func TestWritesFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestStore$/./^broken_medium")
	cmd.Env = append(os.Environ(), "SQLITE_TEST_ALONE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestStore/full/broken_medium ") {
		t.Errorf("%v\n%s", err, out)
	}
}

func openPlace(path string) (checkpoint.Store, error) { return Open(context.Background(), path, nil) }

func TestProcesses(t *testing.T) {
	checkpointtest.RunProcesses(t, func(t *testing.T) string { return filepath.Join(t.TempDir(), "runs.db") }, openPlace)
}

func TestStore(t *testing.T) {
	for _, synchronous := range []string{"full", "normal"} {
		t.Run(synchronous, func(t *testing.T) {
			if testing.Short() && synchronous == "normal" {
				t.Skip("only one way to write in a short test")
			}
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
				return open(t, filepath.Join(t.TempDir(), "runs.db"), &Options{Synchronous: synchronous})
			}, suite)
		})
	}
}

// trust 6.10: an auditor who may not write reads all that there is.
func TestReadOnly(t *testing.T) {
	checkpointtest.RunReadOnly(t, filepath.Join(t.TempDir(), "runs.db"), openPlace)
}
