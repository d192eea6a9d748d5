package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
)

// trust 6.5: a file that is removed, replaced or cut while it is open is noticed at the next write, which fails; so does every other.
func TestFileChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(path string) error
		want   string
	}{
		{"removed", os.Remove, "the file was removed"},
		{"renamed", func(path string) error { return os.Rename(path, path+".old") }, "the file was removed"},
		{"replaced", func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", text, 0o600)
			}
			return errors.Join(err, os.Rename(path+".new", path))
		}, "the file was replaced"},
		{"emptied", func(path string) error { return os.Truncate(path, 0) }, "the file was cut"},
		{"cut", func(path string) error { return os.Truncate(path, 8192) }, "the file was cut"},
		{"cut in the header", func(path string) error { return os.Truncate(path, 50) }, "the file was cut"},
	} {
		for _, state := range []string{"with a log", "without a log"} {
			t.Run(tt.name+" "+state, func(t *testing.T) {
				path := make1(t)
				s := open(t, path, nil)
				l, err := s.Claim(t.Context(), "run", "me", 0)
				want(t, "Claim", err, nil)
				if state == "without a log" { // all is in the file
					c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
					want(t, "OpenConn", err, nil)
					_, err = text(c, "PRAGMA wal_checkpoint(truncate)")
					want(t, "checkpoint", err, nil)
					c.Close()
				}
				want(t, "Append", s.Append(t.Context(), l, 40, note(t, "a")), nil)
				want(t, "damage", tt.damage(path), nil)
				for range 2 {
					err := s.Append(t.Context(), l, 41, note(t, "b"))
					if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) ||
						checkpoint.Code(err) != "store.failed" {
						t.Errorf("Append: %v (%s), want %q", err, checkpoint.Code(err), tt.want)
					}
				}
				if _, err := s.Create(t.Context(), checkpoint.Run{ID: "new", Digest: "d", StartedAt: started}, "me", 0); err == nil {
					t.Error("Create: no error")
				}
			})
		}
	}
}

// A file that VACUUM made smaller is what it was.
func TestVacuum(t *testing.T) {
	path := make1(t)
	s := open(t, path, nil)
	create(t, s, "other", 0)
	want(t, "Delete", s.Delete(t.Context(), "run"), nil)
	before := len(readFile(t, path))
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	want(t, "OpenConn", err, nil)
	defer c.Close()
	want(t, "VACUUM", sqlitex.ExecuteTransient(c, "VACUUM", nil), nil)
	_, err = text(c, "PRAGMA wal_checkpoint(truncate)")
	want(t, "checkpoint", err, nil)
	if after := len(readFile(t, path)); after >= before {
		t.Fatalf("the file has %d bytes after VACUUM, %d before", after, before)
	}
	create(t, s, "new", 0)
	l, err := s.Claim(t.Context(), "new", "me", 0)
	want(t, "Claim", err, nil)
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "a")), nil)
}

// trust 6.5: a file that was emptied is no new store: not in the process that had it open before, and not beside its log.
func TestEmptied(t *testing.T) {
	path := make1(t)
	want(t, "Truncate", os.Truncate(path, 0), nil)
	_, err := Open(t.Context(), path, nil)
	want(t, "Open of a file that was a store", err, checkpoint.ErrCorrupt)
	want(t, "Remove", os.Remove(path), nil)
	create(t, open(t, path, nil), "run", 0)

	log := filepath.Join(t.TempDir(), "runs.db")
	for name, content := range map[string]string{log: "", log + "-wal": "a log"} {
		want(t, "WriteFile", os.WriteFile(name, []byte(content), 0o600), nil)
	}
	_, err = Open(t.Context(), log, nil)
	want(t, "Open of an empty file beside a log", err, checkpoint.ErrCorrupt)
	if got := string(readFile(t, log+"-wal")); got != "a log" {
		t.Errorf("the log is %q", got)
	}
	want(t, "Remove", os.Remove(log+"-wal"), nil)
	create(t, open(t, log, nil), "run", 0) // somebody has made an empty file for it
}
