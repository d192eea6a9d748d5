package history_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
)

// brokenStore panics when it is asked for a run.
type brokenStore struct{ checkpoint.Store }

func (brokenStore) Load(context.Context, string, int64) (checkpoint.Summary, []checkpoint.Record, error) {
	panic("it is broken")
}

func (brokenStore) List(context.Context, checkpoint.Filter) ([]checkpoint.Summary, error) {
	panic("it is broken")
}

// trust 8.13: a store that fails in any way is an error of who reads histories.
func TestStoresAreGuarded(t *testing.T) {
	store := brokenStore{&checkpoint.Memory{}}
	_, load := history.Load(t.Context(), store, "r")
	_, list := history.List(t.Context(), store, history.Filter{})
	_, find := history.Find(t.Context(), store, "last")
	_, origin := history.Origin(t.Context(), store, "r")
	_, step := (&history.Reader{Store: store}).Step(t.Context(), "r", "a")
	var watch error
	for _, err := range history.Watch(t.Context(), store, "r") {
		watch = errors.Join(watch, err)
	}
	for what, err := range map[string]error{"Load": load, "List": list, "Origin": origin, "Step": step, "Watch": watch} {
		if err == nil || !strings.Contains(err.Error(), "panic in the store: it is broken") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if find != nil { // reading the run will say what is wrong
		t.Errorf("Find: %v", find)
	}
}
