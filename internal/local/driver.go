package local

import (
	"context"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/past"
)

type driverKey struct{}

// With returns a context in which another driver drives runs. That driver must reach the engine's Done. For tests.
func With(ctx context.Context, drive func(*Run)) context.Context {
	return context.WithValue(ctx, driverKey{}, drive)
}

func driverOf(ctx context.Context) func(*Run) {
	drive, _ := ctx.Value(driverKey{}).(func(*Run))
	return drive
}

// Context is the parent of the contexts of the run's calls.
func (r *Run) Context() context.Context { return r.ctx }

// Digest is that of the recipe.
func (r *Run) Digest() string { return r.spec.Program.Digest }

// Now reads the run's clock.
func (r *Run) Now() time.Time { return r.now() }

// Next tells the engine the time and whether the run's context has ended, asks it for the next command, and sends new
// events to the sinks. It is for other drivers, as is Serve.
func (r *Run) Next() engine.Command {
	r.Engine.Tick(r.now())
	r.checkContext()
	c := r.Engine.Next()
	r.show()
	return c
}

// Serve carries out a command that does not concern calls or timers.
func (r *Run) Serve(c engine.Command) {
	if c.Op == engine.Save {
		r.flush()
		return
	}
	r.carryOut(c)
}

// Events returns the journal of the run, including events that are not in the store yet.
func (r *Run) Events() ([]journal.Event, error) {
	recs, err := ledger.Encode(r.Engine.Unsaved())
	if err != nil {
		return nil, err
	}
	if j := &r.Store; j.Seq > 0 {
		_, saved, err := j.Load(context.WithoutCancel(r.ctx), 0)
		if err != nil {
			return nil, err
		}
		recs = slices.Concat(saved, recs)
	}
	return ledger.Decode(recs)
}

// Replayed returns a new engine of the run that has read events, a whole journal under one definition.
func (r *Run) Replayed(events []journal.Event) (*engine.Run, error) {
	was, err := past.Read(r.ID, events)
	if err != nil {
		return nil, err
	}
	e := r.newEngine(r.now())
	return e, e.Resume(was.Begun.Inputs, was, false, false)
}
