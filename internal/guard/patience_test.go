package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/internal/guard"
)

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p guard.Patience
		p.End() // there is none yet
		parent, cancel := context.WithCancel(t.Context())
		first := p.Context(parent)
		if end, ok := first.Deadline(); !ok || time.Until(end) != guard.StoreTime {
			t.Errorf("it ends at %v", end)
		}
		cancel()
		time.Sleep(guard.StoreTime/2 - 1)
		if p.Context(parent) != first || first.Err() != nil {
			t.Errorf("the first half does not share a context, or that ended: %v", first.Err())
		}
		time.Sleep(time.Nanosecond)
		second := p.Context(t.Context())
		if second == first || !errors.Is(first.Err(), context.Canceled) || second.Err() != nil {
			t.Errorf("after half of the time: %v, %v", first.Err(), second.Err())
		}
		p.End()
		if third := p.Context(t.Context()); !errors.Is(second.Err(), context.Canceled) || third.Err() != nil {
			t.Errorf("after its end: %v, %v", second.Err(), third.Err())
		}
		p.End()
	})
}

func TestRecovered(t *testing.T) {
	f := func(panics bool) (err error) {
		defer guard.Recovered(&err)
		if panics {
			panic("here")
		}
		return context.Canceled
	}
	if err := f(true); err == nil || err.Error()[:len("panic in a write: here\n")] != "panic in a write: here\n" {
		t.Error(err)
	}
	if err := f(false); err != context.Canceled {
		t.Error(err)
	}
}
