package local

import (
	"context"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
)

type driverKey struct{}

// With returns a context in which runs are driven by another driver, which has to come to the engine's Done: for tests.
func With(ctx context.Context, drive func(*Run)) context.Context {
	return context.WithValue(ctx, driverKey{}, drive)
}

func driverOf(ctx context.Context) func(*Run) {
	drive, _ := ctx.Value(driverKey{}).(func(*Run))
	return drive
}

// Context is what the contexts of the run's calls are made of.
func (r *Run) Context() context.Context { return r.ctx }

// Now reads the clock that the run goes by.
func (r *Run) Now() time.Time { return r.now() }

// Next tells the engine the time and whether the run's context has ended, asks it for the next command, and shows
// sinks what happened. It is for other drivers, as Serve is.
func (r *Run) Next() engine.Command {
	r.Engine.Tick(r.now())
	r.checkContext()
	c := r.Engine.Next()
	r.show()
	return c
}

// Serve carries out a command that has nothing to do with calls and timers.
func (r *Run) Serve(c engine.Command) {
	if c.Op == engine.Save {
		r.flush()
		return
	}
	r.carryOut(c)
}

// Events returns the journal of the run, what is not in the store with it.
func (r *Run) Events() ([]journal.Event, error) {
	recs, err := Encode(r.Engine.Unsaved())
	if err != nil {
		return nil, err
	}
	if j := &r.Store; j.Seq > 0 {
		_, saved, err := j.Store.Load(context.WithoutCancel(r.ctx), r.ID, 0)
		if err != nil {
			return nil, err
		}
		recs = slices.Concat(saved, recs)
	}
	return Decode(recs)
}

// Replayed returns a new engine of the run that was told events, a whole journal under one definition.
func (r *Run) Replayed(events []journal.Event) (*engine.Run, error) {
	begun, err := engine.BegunOf(events)
	if err != nil {
		return nil, err
	}
	e := r.newEngine(r.now())
	return e, e.Resume(begun.Inputs, events, 0, false, false)
}
