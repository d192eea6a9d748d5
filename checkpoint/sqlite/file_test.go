package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/checkpoint"
)

func want(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// make1 makes a file with one run of 40 records, and closes it.
func make1(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runs.db")
	s := open(t, path, nil)
	l := create(t, s, "run", 0)
	for i := range int64(39) {
		want(t, "Append", s.Append(t.Context(), l, i+1, note(t, strings.Repeat("x", 300))), nil)
	}
	want(t, "Close", s.Close(), nil)
	return path
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	later, foreign := make1(t), write("foreign.db", "")
	change(t, later, func(c *sqlite.Conn) error { return query(c, nil, "PRAGMA user_version = 8") })
	change(t, foreign, func(c *sqlite.Conn) error { return query(c, nil, "CREATE TABLE t (x)") })
	for _, tt := range []struct {
		name, path, synchronous string
		want                    error  // nil: any
		text                    string // in the error, beside the path
	}{
		{"no folder", filepath.Join(dir, "none", "runs.db"), "", fs.ErrNotExist, "no such file"},
		{"a folder", dir, "", nil, "unable to open"},
		{"another format", write("text", strings.Repeat("not a database\n", 100)), "", checkpoint.ErrCorrupt, "not a database"},
		{"another program's", foreign, "", nil, "another program"},
		{"of a later version", later, "", checkpoint.ErrVersion, "version 8, not 7"},
		{"half of it", write("half", string(readFile(t, make1(t))[:6000])), "", checkpoint.ErrCorrupt, "malformed"},
		{"no path", "", "", nil, "no path"},
		{"no such mode", filepath.Join(dir, "new.db"), "off", nil, `"off"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := snapshot(t, tt.path)
			s, err := Open(t.Context(), tt.path, &Options{Synchronous: tt.synchronous})
			if err == nil {
				s.Close()
			}
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), tt.path) {
				t.Errorf("error %v, want %v and %q", err, tt.want, tt.text)
			}
			if after := snapshot(t, tt.path); after != before {
				t.Errorf("the file has changed from %d to %d bytes", len(before), len(after))
			}
		})
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(done, make1(t), nil)
	want(t, "Open with a context that is done", err, context.Canceled)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// snapshot returns a file's content, "" for what is no file.
func snapshot(t testing.TB, path string) string {
	t.Helper()
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return string(readFile(t, path))
}

func TestNamesAreFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{":memory:", "file:x?mode=memory", "a b%20c#?.db"} {
		create(t, open(t, name, nil), "run", 0)
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%q has mode %o", name, mode)
		}
	}
}

// A run whose pauses would not be found is damaged.
func TestDamagedPauses(t *testing.T) {
	for _, sql := range []string{"DELETE FROM pauses", "UPDATE pauses SET due = '2027'", "UPDATE pauses SET expires = '~'",
		"UPDATE pauses SET id = 'other'"} {
		s := open(t, make1(t), nil)
		archive(t, s)
		change(t, s.path, func(c *sqlite.Conn) error { return query(c, nil, sql+" WHERE owner = 'b-paused' AND id = 'approve'") })
		_, _, err := s.Load(t.Context(), "b-paused", 0)
		want(t, sql, err, checkpoint.ErrCorrupt)
		_, _, err = s.Load(t.Context(), "b-asks", 0)
		want(t, "Load of another run", err, nil)
	}
}

// Whatever has happened to the bytes of a file, there is an error or the whole journal.
func TestDamagedFile(t *testing.T) {
	path := make1(t)
	good := readFile(t, path)
	step := 97
	if testing.Short() {
		step = 997
	}
	for at := 0; at < len(good); at += step {
		bad := []byte(string(good))
		bad[at] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			continue
		}
		sum, recs, err := s.Load(t.Context(), "run", 0)
		if err == nil && (sum.Seq != 40 || len(recs) != 40) {
			t.Errorf("byte %d: %d records, last %d", at, len(recs), sum.Seq)
		}
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNotFound) {
			t.Logf("byte %d: %v", at, err)
		}
		if _, err := s.List(t.Context(), checkpoint.Filter{}); err == nil {
			_, _ = s.Prune(t.Context(), time.Time{}, checkpoint.Running)
		}
		s.Close()
	}
}

// TestDamagedRow changes what a row of runs says.
func TestDamagedRow(t *testing.T) {
	for _, tt := range []struct{ name, sql string }{
		{"status", "UPDATE runs SET status = 'ok'"},
		{"recipe", "UPDATE runs SET recipe = 'other'"},
		{"digest", "UPDATE runs SET digest = 'other'"},
		{"started", "UPDATE runs SET started = '2027' || substr(started, 5)"},
		{"queue", "UPDATE runs SET queue = 'other'"},
		{"parent", "UPDATE runs SET parent = 'other'"},
		{"ended", "UPDATE runs SET ended = started"},
		{"id", "UPDATE runs SET id = 'other'"},
		{"lease", "UPDATE runs SET lease = CAST(replace(lease, 'seq\":1', 'seq\":2') AS BLOB)"},
		{"summary", "UPDATE runs SET summary = CAST(replace(summary, 'running', 'paused') AS BLOB)"},
		{"a summary that is a lease", "UPDATE runs SET summary = lease"},
		{"a lease that is a summary", "UPDATE runs SET lease = summary"},
		{"no journal", "DELETE FROM records"},
		{"the end is missing", "DELETE FROM records WHERE key & 0xffffffff > 39"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := make1(t)
			s := open(t, path, nil)
			if tt.name == "the end is missing" { // only a summary that is newer tells
				sum, _, err := s.Load(t.Context(), "run", 0)
				want(t, "Load", err, nil)
				pause, _ := checkpoint.NewRecord(sum.UpdatedAt, checkpoint.RunPaused, "", nil)
				l, err := s.Claim(t.Context(), "run", "me", 0)
				want(t, "Claim", err, nil)
				want(t, "Append", s.Append(t.Context(), l, 40, pause), nil)
			}
			change(t, path, func(c *sqlite.Conn) error { return query(c, nil, tt.sql) })
			id := "run"
			if tt.name == "id" {
				id = "other"
			}
			_, _, err := s.Load(t.Context(), id, 0)
			want(t, "Load", err, checkpoint.ErrCorrupt)
			_, _, err = s.Load(t.Context(), id, 39)
			want(t, "Load of the end", err, checkpoint.ErrCorrupt)
			_, err = s.FindPause(t.Context(), id, nil)
			want(t, "FindPause", err, checkpoint.ErrCorrupt)
			all, err := s.List(t.Context(), checkpoint.Filter{})
			if want(t, "List", err, checkpoint.ErrCorrupt); len(all) > 0 {
				t.Errorf("List: %v", all)
			}
			_, err = s.Create(t.Context(), checkpoint.Run{ID: id, Digest: "d", StartedAt: started}, "me", 0)
			want(t, "Create", err, checkpoint.ErrExists)
			// Such a run can be removed, unless it is unknown whether somebody holds it.
			l, err := s.Claim(t.Context(), id, "me", 0)
			if strings.Contains(tt.name, "lease") && tt.name != "a summary that is a lease" {
				want(t, "Claim", err, checkpoint.ErrCorrupt)
				return
			}
			want(t, "Claim", err, nil)
			want(t, "Append", s.Append(t.Context(), l, 40, note(t, "late")), checkpoint.ErrCorrupt)
			want(t, "Delete", s.Delete(t.Context(), id), nil)
		})
	}
}

func TestMigration(t *testing.T) {
	path, old := make1(t), migrations
	t.Cleanup(func() { migrations = old })
	migrations = append(slices.Clone(old), "CREATE TABLE first (x);\nCREATE TABLE second (x);", "ALTER TABLE second ADD COLUMN y;")
	for range 2 {
		s := open(t, path, nil)
		sum, _, err := s.Load(t.Context(), "run", 0)
		if err != nil || sum.Seq != 40 {
			t.Errorf("the journal ends at %d (%v)", sum.Seq, err)
		}
		want(t, "write", s.write(t.Context(), func(w *writer) error { return w.exec("INSERT INTO second (x, y) VALUES (1, 2)") }), nil)
		s.Close()
	}
	migrations = old
	_, err := Open(t.Context(), path, nil)
	want(t, "Open with an earlier version", err, checkpoint.ErrVersion)
	// One that fails leaves the file as it was.
	path = make1(t)
	migrations = append(slices.Clone(old), "CREATE TABLE first (x);\nnonsense;")
	if _, err := Open(t.Context(), path, nil); err == nil {
		t.Error("Open with a migration that fails: no error")
	}
	migrations = old
	open(t, path, nil)
}

// A file that an earlier version made keeps what it has, takes what is new, and finds its runs as if it had been new.
func TestEarlierVersions(t *testing.T) {
	newer := []string{ // what each version brought, undone
		1: "DROP TABLE documents",
		6: `DROP INDEX runs_status; ALTER TABLE runs DROP COLUMN figures;
			CREATE INDEX runs_status ON runs (status, started, id, recipe, queue)`,
		5: "DROP INDEX runs_id",
		2: "DROP VIEW journal; DROP TABLE crowded",
		4: `CREATE TABLE old (key TEXT NOT NULL, value TEXT NOT NULL, started TEXT NOT NULL, id TEXT NOT NULL, run INTEGER NOT NULL,
			PRIMARY KEY (key, value, started, id)) WITHOUT ROWID;
			INSERT INTO old SELECT key, value, started, id, run FROM labels; DROP TABLE labels; ALTER TABLE old RENAME TO labels;
			DROP INDEX runs_recipe; DROP INDEX runs_queue; CREATE INDEX runs_recipe ON runs (recipe, started, id, queue);
			CREATE INDEX runs_queue ON runs (queue, started, id, recipe) WHERE queue <> ''`,
		3: `DROP TABLE labels; DROP TABLE pauses; DROP TABLE signals; DROP TABLE changes; DROP INDEX definitions_loose;
			DROP INDEX runs_status; DROP INDEX runs_recipe; DROP INDEX runs_queue; DROP INDEX runs_parent; DROP INDEX runs_ended;
			ALTER TABLE runs DROP COLUMN queue; ALTER TABLE runs DROP COLUMN parent; ALTER TABLE runs DROP COLUMN ended;
			ALTER TABLE runs ADD COLUMN due TEXT; ALTER TABLE definitions DROP COLUMN loose;
			CREATE INDEX runs_started ON runs (started, id); CREATE INDEX runs_due ON runs (due) WHERE due IS NOT NULL`,
	}
	for version := 1; version < len(migrations); version++ {
		path := make1(t)
		s := open(t, path, nil)
		archive(t, s)
		want(t, "Close", s.Close(), nil)
		change(t, path, func(c *sqlite.Conn) error {
			undo := slices.Clone(newer[version:])
			slices.Reverse(undo)
			return sqlitex.ExecuteScript(c, fmt.Sprintf("%s; PRAGMA user_version = %d", strings.Join(undo, ";"), version), nil)
		})
		s = open(t, path, nil)
		checkArchive(t, s)
		l, err := s.Claim(t.Context(), "run", "me", 0)
		want(t, "Claim", err, nil)
		crowded(t, s, "new", l)
		if sum, _, err := s.Load(t.Context(), "run", 0); err != nil || sum.Seq != 41 {
			t.Errorf("version %d: the journal ends at %d (%v)", version, sum.Seq, err)
		}
		want(t, "PutDocument", s.PutDocument(t.Context(), "c", checkpoint.Document{Name: "a"}), nil)
	}
}

// A time that no text can hold is refused, and nothing is written.
func TestTimesPastTheLast(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := create(t, s, "run", 0)
	late := map[string]any{"pause": "p", "kind": "wait", "dueAt": "9999-12-31T23:59:59-01:00"}
	pause, err := checkpoint.NewRecord(started, checkpoint.PauseOpened, "", late)
	want(t, "NewRecord", err, nil)
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "a"), pause), checkpoint.ErrInvalid)
	want(t, "Append", s.Append(t.Context(), l, 1, note(t, "b")), nil)
}

// A long summary that is read again is not parsed again, and another line is another summary.
func TestLongSummary(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	sum := checkpoint.Summary{Run: checkpoint.Run{ID: "run", Digest: "d", StartedAt: at}, Seq: 1, UpdatedAt: at}
	for i := range 400 {
		sum.Pauses = append(sum.Pauses, checkpoint.Pause{ID: fmt.Sprintf("f[%d]", i), Kind: "human", Seq: int64(i) + 2})
	}
	line := func() []byte {
		t.Helper()
		line, err := summaryLine(sum)
		if err != nil || len(line) < longLine {
			t.Fatalf("%d bytes, %v", len(line), err)
		}
		return line
	}
	parse := func(line []byte) checkpoint.Summary {
		t.Helper()
		got, err := parseSummary(line)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	written := sum
	written.Definition, written.Held = []byte("{}"), true
	keepParsed(line(), written)
	if got := parse(line()); !same(got.Pauses, sum.Pauses) {
		t.Error("what was written is parsed")
	}
	kept := parse(line())
	lastParsed.Store(nil)
	first, again := parse(line()), parse(line())
	if !same(first.Pauses, again.Pauses) {
		t.Error("it was parsed twice")
	}
	if !reflect.DeepEqual(kept, first) {
		t.Errorf("written: %+v\nparsed: %+v", kept, first)
	}
	sum.Pauses[7].ID = "other"
	if next := parse(line()); next.Pauses[7].ID != "other" || again.Pauses[7].ID != "f[7]" {
		t.Errorf("read %q, then %q", again.Pauses[7].ID, next.Pauses[7].ID)
	}
	bad := line()
	bad[len(bad)/2]++
	if _, err := parseSummary(bad); err == nil {
		t.Error("a damaged line was parsed")
	}
}
