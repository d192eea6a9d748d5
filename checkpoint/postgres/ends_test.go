package postgres

import (
	"errors"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// Nobody holds a run that has ended, but its lease is good for its signals until it is released.
func TestEndedIsNotHeld(t *testing.T) {
	m := newMedium(t)
	s, other := m.open(), m.open()
	l := m.create(s, "run")
	signal := checkpoint.Signal{ID: "a", Kind: checkpoint.SignalTake, At: start}
	if err := s.PutSignal(t.Context(), "run", signal); err != nil {
		t.Fatal(err)
	}
	end, err := checkpoint.NewRecord(start, checkpoint.RunEnded, "", map[string]any{"status": "ok"})
	if err == nil {
		err = s.Append(t.Context(), l, 1, end)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum, _, err := other.Load(t.Context(), "run", 0)
	if err != nil || sum.Held {
		t.Errorf("Load: held %v, %v", sum.Held, err)
	}
	if err := s.EndSignals(t.Context(), l, "a"); err != nil {
		t.Errorf("EndSignals: %v", err)
	}
	before := m.column("SELECT xmin::text FROM SCHEMA.runs")
	if err := s.Release(t.Context(), l); err != nil {
		t.Errorf("Release: %v", err)
	}
	if after := m.column("SELECT xmin::text FROM SCHEMA.runs"); after[0] != before[0] {
		t.Errorf("Release has written: row version %s, then %s", before, after)
	}
	if err := other.Delete(t.Context(), "run"); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if err := s.Release(t.Context(), l); !errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("Release of no run: %v", err)
	}
}
