package checkpoint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// withClocks has the clocks of several machines, which go alike but show other times, and of processes without any.
func withClocks(t *testing.T) (on func(id string, ahead time.Duration)) {
	old, began := bootClock, time.Now()
	t.Cleanup(func() { bootClock = old })
	return func(id string, ahead time.Duration) {
		bootClock = func() (string, time.Duration) { return id, ahead + time.Since(began) }
	}
}

// trust 6.1: a lease is counted by the clock that gave it; on another machine it ends when it was seen unchanged for as long as it lasts.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := withClocks(t)
		var here, there, again Clock
		on("here", time.Hour)
		l := here.Give("run", "me", 1, 15*time.Second)
		time.Sleep(14 * time.Second)
		if err := again.Free(l); !errors.Is(err, ErrBusy) || !again.Held(l) {
			t.Errorf("another process of this machine, before the end: %v", err)
		}
		time.Sleep(time.Second)
		if err := again.Free(l); err != nil || again.Held(l) {
			t.Errorf("another process of this machine, at the end: %v", err)
		}

		on("there", 0)
		for i, want := range []error{ErrBusy, ErrBusy, nil} { // seen for the first time 0, 14 and 15 s ago
			if err := there.Free(l); !errors.Is(err, want) {
				t.Errorf("another machine, look %d: %v, want %v", i, err, want)
			}
			time.Sleep([]time.Duration{14 * time.Second, time.Second, 0}[i])
		}
		on("here", time.Hour)
		l = here.Give("run", "me", 1, 15*time.Second) // it was renewed after all
		on("there", 0)
		if err := there.Free(l); !errors.Is(err, ErrBusy) {
			t.Errorf("another machine, after it was renewed: %v", err)
		}
		time.Sleep(20 * time.Second)
		l = Lease{RunID: "run", Epoch: 2, Until: time.Now()}
		if err := there.Free(l); err != nil {
			t.Errorf("a lease that was given back: %v", err)
		}
		l = Lease{RunID: "old", Owner: "me", Epoch: 1, Until: time.Now().Add(-time.Hour)} // of an earlier version
		began := time.Now()
		if err := there.Watch(t.Context(), func() error { return there.Free(l) }); err != nil || time.Since(began) != wallLease {
			t.Errorf("a lease of an earlier version: %v after %v, want nil after %v", err, time.Since(began), wallLease)
		}
		l.Until = time.Now().Add(time.Second)
		if err := there.Watch(t.Context(), func() error { return there.Free(l) }); !errors.Is(err, ErrBusy) || time.Since(began) != wallLease {
			t.Errorf("a lease of an earlier version that lasts by the wall clock: %v after %v", err, time.Since(began)-wallLease)
		}
		ctx, cancel := context.WithTimeout(t.Context(), watchStep+watchStep/2) // not with a call
		defer cancel()
		l.Until = time.Now().Add(-time.Hour)
		err := there.Watch(ctx, func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return there.Free(l)
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch until its context is done: %v", err)
		}
	})
}

// What a clock has seen does not grow without limit.
func TestClockForgets(t *testing.T) {
	var c Clock
	for i := range maxSeen + 10 {
		c.Held(Lease{RunID: string(rune(i)), Owner: "me", Clock: "other", Ends: time.Hour, Length: time.Minute})
	}
	if len(c.seen) > maxSeen {
		t.Errorf("%d leases, want at most %d", len(c.seen), maxSeen)
	}
}

// A lease is read as it was written; a version before wrote no more than the time on the wall.
func TestLeaseLine(t *testing.T) {
	until := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, l := range []Lease{
		{RunID: "run", Owner: "me", Epoch: 3, Until: until},
		{RunID: "run", Epoch: 4, Until: until, Clock: "c"},
		{RunID: "run", Owner: "me", Epoch: 5, Until: until, Clock: "m/b/t", Ends: 1<<62 + 1, Length: 15 * time.Second},
	} {
		line, err := l.Line()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseLeaseLine("run", line); err != nil || got != l {
			t.Errorf("%s\nis read as %+v (%v), want %+v", line, got, err, l)
		}
	}
	old := Record{Seq: 3, At: until, Kind: "lease", Path: "me"}.AppendLine(nil)
	if got, err := ParseLeaseLine("run", old); err != nil || got != (Lease{RunID: "run", Owner: "me", Epoch: 3, Until: until}) {
		t.Errorf("the lease of an earlier version is %+v (%v)", got, err)
	}
	for _, rec := range []Record{
		{Seq: 1, At: until, Kind: "summary"},
		{Seq: 1, At: until, Kind: "lease", Data: []byte(`{"clock":"c"}`)},
		{Seq: 1, At: until, Kind: "lease", Data: []byte(`{"clock":"","ends":1,"length":1}`)},
	} {
		if _, err := ParseLeaseLine("run", rec.AppendLine(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", rec.Data, err)
		}
	}
	// The clock of the boot goes on, and is the same for all processes.
	id, now := bootClock()
	if again, later := bootClock(); id != again || id == "" || later < now {
		t.Errorf("the clock was %q at %v, then %q at %v", id, now, again, later)
	}
}
