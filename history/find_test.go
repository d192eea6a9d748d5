package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/runtime"
)

// A run is named by its id, by a prefix that no other id has, and as last.
func TestFind(t *testing.T) {
	store := &checkpoint.Memory{}
	if _, err := history.Find(t.Context(), store, "last"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("last of none: %v", err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, id := range []string{"abc", "abd", "ab"} {
		run := checkpoint.Run{ID: id, Recipe: "r", Digest: "sha256:x", StartedAt: at.Add(time.Duration(i) * time.Second)}
		if _, err := store.Create(t.Context(), run, checkpoint.NewOwner(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"abc": "abc", "ab": "ab", "abd": "abd", "last": "ab"} {
		if got, err := history.Find(t.Context(), store, name); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"abe", "", "A"} {
		if got, err := history.Find(t.Context(), store, name); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	_, err := history.Find(t.Context(), store, "a")
	const want = "3 runs have ids that begin with \"a\"\n  hint: give more of the id: ab, abd, abc"
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "run.notFound" || e.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}

	for _, id := range []string{"b1", "b2", "b3", "b4", "b5", "b6", "b7"} {
		run := checkpoint.Run{ID: id, Recipe: "r", Digest: "sha256:x", StartedAt: at}
		if _, err := store.Create(t.Context(), run, checkpoint.NewOwner(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	_, err = history.Find(t.Context(), store, "b")
	const many = "more than 5 runs have ids that begin with \"b\"\n  hint: give more of the id: b7, b6, b5, b4, b3"
	if err == nil || err.Error() != many {
		t.Errorf("%v, want %s", err, many)
	}
}
