package mcp

import (
	"testing"
	"time"
)

func TestRestarts(t *testing.T) {
	var r restarts
	now := time.Unix(1_000_000, 0)
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		r.ended(now)
		if got, err := r.allow(now); err != nil || got != want {
			t.Errorf("after %d ends: %s, %v, want %s", i+1, got, err, want)
		}
		now = now.Add(want)
		if got, err := r.allow(now); err != nil || got != 0 {
			t.Errorf("after the wait: %s, %v", got, err)
		}
	}
	r.ended(now)
	if _, err := r.allow(now.Add(time.Hour)); err == nil {
		t.Error("started for the sixth time")
	}
	r.worked()
	r.ended(now)
	if got, err := r.allow(now); err != nil || got != 0 {
		t.Errorf("after an answer: %s, %v", got, err)
	}
}
