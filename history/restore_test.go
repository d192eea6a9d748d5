package history_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
)

// A restored run is the same run: it is shown as before, and nobody holds it.
func TestRestore(t *testing.T) {
	store := &checkpoint.Memory{}
	answer(t, store, begin(t, store))
	want := past(t, store)
	sum, recs, err := store.Load(t.Context(), "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := store.Definition(t.Context(), sum.Digest)
	if err != nil {
		t.Fatal(err)
	}
	other := &checkpoint.Memory{}
	if got, err := history.Restore(t.Context(), other, recs, text); err != nil || got.Status != checkpoint.Failed {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff(want, past(t, other)); diff != "" {
		t.Errorf("the restored run (-want +got)\n%s", diff)
	}
	if _, err := history.Restore(t.Context(), other, recs, text); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("restored twice: %v", err)
	}
	for what, part := range map[string][]checkpoint.Record{"nothing": nil, "without the first": recs[1:], "with a gap": {recs[0], recs[2]}} {
		if _, err := history.Restore(t.Context(), &checkpoint.Memory{}, part, text); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// panicking is a store that panics where a run is created.
type panicking struct{ checkpoint.Memory }

func (*panicking) Create(
	context.Context, checkpoint.Run, string, time.Duration, ...checkpoint.Record,
) (checkpoint.Lease, error) {
	panic("out of cheese")
}

// trust 8.13: whatever a store does, its caller gets an error.
func TestRestoreIntoAStoreThatPanics(t *testing.T) {
	store := &checkpoint.Memory{}
	begin(t, store)
	_, recs, err := store.Load(t.Context(), "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := history.Restore(t.Context(), &panicking{}, recs, nil); err == nil || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("%v", err)
	}
}
