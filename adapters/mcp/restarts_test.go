package mcp

import (
	"testing"
	"time"
)

func TestRestarts(t *testing.T) {
	var r restarts
	now := time.Unix(1_000_000, 0)
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		r.ended(now)
		if got := r.allow(now); got != want {
			t.Errorf("after %d ends: %s, want %s", i+1, got, want)
		}
		now = now.Add(want)
		if got := r.allow(now); got != 0 {
			t.Errorf("after the wait: %s", got)
		}
	}
	r.worked()
	r.ended(now)
	if got := r.allow(now); got != 0 {
		t.Errorf("after an answer: %s", got)
	}
}
