package agentloop

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Run executes the loop until it ends or pauses. in.Journal may hold an earlier leg: then Run goes on
// there, and what has a result is not done again. The result is never nil; for a loop that has ended
// already it is the stored one, and nothing is written.
//
// The error is a [*PauseError], or a *runtime.Error: a failure that the journal keeps; one of the world
// around (a missing model, the journal itself), after which Run can be called again; or of category
// cancelled, the same.
func (l *Loop) Run(ctx context.Context, in Input, rt *runtime.Runtime) (*Result, error) {
	refuse := func(category runtime.Category, code string, err error) (*Result, error) {
		return &Result{StopReason: StopError}, &runtime.Error{Category: category, Code: code, Step: in.Path, Err: err}
	}
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := errors.Join(l.Validate(), rt.Validate()); err != nil {
		return refuse(runtime.CategoryConfig, "agent.invalid", err)
	}
	if in.Journal == nil {
		in.Journal = forgetful{}
	}
	state, err := Fold(in.Journal.Events())
	if err != nil {
		return refuse(runtime.CategoryInfra, "journal.corrupt", err)
	}
	d := &driver{in: &in, rt: rt, offers: rt.Resolve(), limits: rt.Limits.WithDefaults(),
		state: &state, skills: map[string][]runtime.Tool{}, done: make(chan made, 1)}
	terms := Terms{Prompt: in.Prompt, Context: in.Context, RunID: in.RunID, Path: in.Path,
		Vouched: in.Vouched, Answers: in.Answers, Content: in.Content}
	if d.leg, err = l.Begin(&state, terms, d.offer()); err != nil {
		return &Result{StopReason: StopError}, err
	}
	defer d.crew.dismiss()
	d.drive(ctx)
	return d.leg.Result(), d.leg.Err()
}

// driver carries out what a leg wants. It owns the goroutines, the clock and the adapters.
type driver struct {
	in     *Input
	rt     *runtime.Runtime
	offers *runtime.Resolution
	limits runtime.Limits
	crew   crew
	state  *State
	last   [1]Event
	env    []runtime.Tool
	skills map[string][]runtime.Tool // by frame

	mu   sync.Mutex // for leg, while calls are made
	leg  *Leg
	live sync.Mutex // for Input.Emit
	done chan made  // what came of calls that overlap
}

// made is a call with what came of it.
type made struct {
	job   *Job
	reply Reply
}

// drive does what the leg wants until it is over. A call that nothing overlaps with is made here.
func (d *driver) drive(ctx context.Context) {
	past := context.WithoutCancel(ctx)       // what has happened is recorded, also when the run is being cancelled
	apart, cancel := context.WithCancel(ctx) // so that guard keeps adapters out of the goroutines here
	defer cancel()
	var wanted []*Job
	flying := 0
	for {
		a := d.next(ctx)
		switch {
		case a.Over:
			return
		case a.Record != nil:
			d.record(past, a.Record)
		case a.Tell != nil:
			d.send(*a.Tell, a.Content)
		case a.Job != nil:
			wanted = append(wanted, a.Job)
		case len(wanted) == 1 && flying == 0:
			j := wanted[0]
			wanted = wanted[:0]
			d.ended(ctx, made{j, d.make(ctx, j)})
		default:
			for _, j := range wanted {
				flying++
				go func() { d.done <- made{j, d.make(apart, j)} }()
			}
			wanted = wanted[:0]
			d.ended(ctx, <-d.done)
			flying--
		}
	}
}

// next asks the leg what it wants, and tells it the time and whether the run is being cancelled.
func (d *driver) next(ctx context.Context) Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(ctx)
	return d.leg.Next()
}

func (d *driver) look(ctx context.Context) {
	if d.leg.Now = time.Now().UTC(); ctx.Err() != nil {
		d.leg.Stop(ctx.Err(), context.Cause(ctx))
	}
}

func (d *driver) ended(ctx context.Context, m made) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(ctx)
	d.leg.Done(m.job, m.reply)
}

// record reduces and persists an event.
func (d *driver) record(ctx context.Context, e *Event) {
	d.last[0] = *e
	err := d.state.Apply(&d.last[0])
	if err != nil {
		err = &runtime.Error{Category: runtime.CategoryInfra, Code: "journal.illegal",
			Step: framePath(d.in.Path, e.Frame), Err: err}
	} else {
		err = d.in.Journal.Append(ctx, d.last[:]...)
	}
	switch {
	case err != nil:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leg.Broken(err)
	case d.in.watch != nil:
		d.in.watch(d.state)
	}
}

func (d *driver) send(e trace.Event, content any) {
	if d.in.Emit != nil {
		d.live.Lock()
		defer d.live.Unlock()
		d.in.Emit(e, content)
	}
}

// told takes what is told from inside a call.
func (d *driver) told(j *Job) func(trace.Event) {
	return func(e trace.Event) {
		d.mu.Lock()
		open := d.leg.Told(j, e)
		d.mu.Unlock()
		if open {
			d.send(e, nil)
		}
	}
}
