package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
)

// changes watches a store, and returns where the runs come in.
func changes(t *testing.T, s *Store) (<-chan string, <-chan error) {
	t.Helper()
	ids, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- s.Watch(t.Context(), func(id string) { ids <- id }) }()
	if id := <-ids; id != "" {
		t.Fatalf("the first change is of %q", id)
	}
	return ids, ended
}

// serve 2: what another store does is told by the name of the run.
func TestWatchNamesRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	mine, other := open(t, path, nil), open(t, path, nil)
	create(t, mine, "quiet", time.Hour)
	l := create(t, mine, "run", time.Hour)
	ids, _ := changes(t, mine)
	want(t, "Append", other.Append(t.Context(), l, 1, note(t, "first")), nil) // then it names all that run
	for named := map[string]bool{}; !named["run"] || !named["quiet"]; named[<-ids] = true {
	}
	told := func(what, want string) {
		t.Helper()
		for late := time.After(2 * time.Minute); ; {
			select {
			case id := <-ids:
				if id == "quiet" && want != id || id == "" {
					t.Errorf("%s: %q was told, want %q", what, id, want)
				}
				if id == want {
					return
				}
			case <-late:
				t.Fatalf("%s: %q was not told", what, want)
			}
		}
	}
	create(t, mine, "here", 0)
	told("Create", "here")
	want(t, "Append", other.Append(t.Context(), l, 2, note(t, "a")), nil)
	told("Append of another store", "run")
	create(t, other, "there", 0)
	told("Create of another store", "there")
	signal := checkpoint.Signal{ID: "x", Kind: checkpoint.SignalTake, At: started}
	want(t, "PutSignal", other.PutSignal(t.Context(), "quiet", signal), nil)
	told("PutSignal of another store", "quiet")
	want(t, "Release", other.Release(t.Context(), l), nil)
	told("Release of another store", "run")
}

// More changes than are kept are told as a change of any run.
func TestWatchMissesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	mine, other := open(t, path, nil), open(t, path, nil)
	l := create(t, mine, "run", time.Hour)
	var seen sight
	look := func(what, found string) {
		t.Helper()
		runs, err := mine.look(t.Context(), &seen)
		if want(t, "look", err, nil); strings.Join(runs, " ") != found {
			t.Errorf("%s: %q, want %q", what, runs, found)
		}
	}
	look("the first look", "")
	look("without a change", "")
	want(t, "Append", other.Append(t.Context(), l, 1, note(t, "a")), nil)
	look("the first change of another store", "run")
	look("without another change", "")
	for _, tt := range []struct {
		sql  string // of the other store
		want string
	}{
		{"INSERT INTO changes (runs) VALUES ('1,99,1')", "run run"},
		{"DELETE FROM changes", ""},
		{"INSERT INTO changes (num, runs) VALUES (5000, '1')", " run"},
	} {
		want(t, "write", other.write(t.Context(), func(w *writer) error { return w.exec(tt.sql) }), nil)
		look(tt.sql, tt.want)
	}
}

// Watch ends with the store, and leaves nothing behind.
func TestWatchEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	_, ended := changes(t, s)
	want(t, "Close", s.Close(), nil)
	want(t, "Watch", <-ended, checkpoint.ErrClosed)
	want(t, "Watch", s.Watch(context.Background(), func(string) {}), checkpoint.ErrClosed)
}
