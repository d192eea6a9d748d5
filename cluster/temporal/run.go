package temporal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// The names of what a worker registers.
const (
	runWorkflow   = "braise.run"
	callActivity  = "braise.call"
	offerActivity = "braise.offer"
)

// run is a workflow that drives a run. Its legs are what elsewhere are executions: each ends when the run pauses, or is
// over, and the next one begins with what the journal says.
type run struct {
	ctx     workflow.Context // ends when the run is cancelled
	free    workflow.Context // does not
	in      *input
	before  carried // what the execution before says; zero: this one is the first
	id      string
	program *program.Program
	here    *runtime.Runtime
	offer   *offer
	caller  *call.Caller
	store   store
	leg

	asked     []*asked // by updates, not taken yet
	parts     parts
	cancelled *canceled
	asking    bool     // for an effect, see effectOf
	carries   bool     // another execution continues
	shown     *outcome // of the last leg; nil: a leg is under way
	text      []byte   // of shown
	moved     int      // see moves
	status    string   // that the search attribute has; "": none
	over      bool
}

// leg is an execution of a run.
type leg struct {
	engine *engine.Run
	start  trace.Event
	by     string // who has it executed
	driving
}

// canceled says why and by whom a run is cancelled.
type canceled struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	told   bool   // the leg
}

// begin is the workflow as workers have it: one that decodes itself what it is given. For one with arguments the SDK does,
// and ends the run if this worker lacks the key.
func (w *Worker) begin(ctx workflow.Context, args converter.EncodedValues) (*ended, error) {
	if name := workflow.GetInfo(ctx).WorkflowType.Name; name != runWorkflow {
		panic(fmt.Errorf("this version has no workflow %q", name)) // another version may: the task waits for it
	}
	var in input
	var packed []byte
	if err := args.Get(&in, &packed); err != nil {
		panic(fmt.Errorf("this worker cannot read what the run begins with: %w", err)) // another one can
	}
	return w.run(ctx, &in, packed)
}

// run drives a run to its end:
//
//  1. find out what the runtime of the worker offers
//  2. drive a leg
//  3. while it pauses, wait for an answer, a value or a time, and drive the next leg
//  4. if the run was cancelled, drive the leg that rolls it back
func (w *Worker) run(ctx workflow.Context, in *input, packed []byte) (*ended, error) {
	r := &run{ctx: ctx, in: in, id: workflow.GetInfo(ctx).WorkflowExecution.ID, here: w.rt}
	r.free, _ = workflow.NewDisconnectedContext(ctx)
	var err error
	if r.program, err = w.program(in.Definition); err != nil {
		panic(fmt.Errorf("this version cannot run the recipe: %w", err)) // another version can: the task waits for it
	}
	if err := r.listen(ctx); err != nil {
		return nil, err
	}
	end, err := r.first(packed)
	for err == nil && !r.carries {
		if end != nil { // else the run is still paused
			r.show(end)
			r.report(end.Trace)
		}
		next := r.next(end)
		if next == nil {
			break
		}
		end, err = next()
	}
	if err != nil {
		return nil, err
	}
	if r.carries {
		if end, err = r.carry(ctx); err != nil {
			return nil, err
		}
		r.show(end)
	}
	r.over = true
	_ = workflow.Await(r.free, func() bool { return workflow.AllHandlersFinished(r.free) })
	return r.result(end)
}

// first drives the first leg, or the first of this execution of the workflow, which begins with what the one before has
// packed.
func (r *run) first(packed []byte) (*engine.End, error) {
	if packed != nil {
		var err error
		if r.before, r.store, err = unpack(r.id, packed); err != nil {
			panic(unread(err))
		}
		r.offer, r.moved = r.before.Offer, r.before.Moved
		wire.Empties(r.offer)
		r.bind()
		if r.before.Outcome != nil {
			return nil, r.look(&r.before)
		}
		return r.again("recover", "", false, nil)
	}
	r.offer = &offer{}
	local := workflow.WithLocalActivityOptions(r.free, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteLocalActivity(local, offerActivity, r.in).Get(r.free, r.offer); unreadable(err) {
		panic(fmt.Errorf("this worker cannot read what another one offers: %w", err)) // that one can
	} else if err != nil {
		return nil, err
	}
	wire.Empties(r.offer)
	r.begin(r.program.About)
	if r.offer.Refused != nil {
		return r.refused(r.offer.Refused.Restore()), nil
	}
	r.bind()
	given, err := value.Decode(r.in.Inputs)
	if err != nil {
		return nil, err
	}
	m, _ := given.(map[string]any)
	inputs, err := r.program.Inputs.Check(m)
	if err != nil {
		return nil, err // the offer has checked them
	}
	r.newEngine(r.offer.Terms.Interrupt, r.in.By)
	r.engine.Begin(inputs, nil)
	return r.drives()
}

// look is for a run that was paused when an earlier execution drove it: answers are checked against what its journal says.
func (r *run) look(c *carried) error {
	was := r.past()
	r.leg = leg{start: trace.Event{At: r.now(), Kind: trace.RunStart, Data: r.program.About}}
	r.newEngine(was.Begun.Interrupt, "")
	if err := r.engine.Resume(was.Begun.Inputs, was, false, false); err != nil {
		return err
	}
	made := map[string]any{}
	for _, s := range r.engine.View().Steps() {
		if slices.Contains(c.Made, s.Path) {
			made[s.Path] = s.Output
		}
	}
	r.shown = c.Outcome
	r.shown.Artefact = &wire.Value{V: made}
	r.text, _ = json.Marshal(r.shown)
	return nil
}

// begin begins a leg.
func (r *run) begin(about trace.Data) {
	r.leg = leg{start: trace.Event{At: r.now(), Kind: trace.RunStart, Data: about}}
	r.shown, r.moved = nil, 0
	r.found("running")
}

func (r *run) now() time.Time { return workflow.Now(r.free).UTC() }

// bind makes what prepares the calls.
func (r *run) bind() {
	r.caller = call.Stand(r.program, r.offer.runtime(r.effectOf), r.offer.Remote)
}

// drives drives a leg, and returns how it ended; nil: another execution continues.
func (r *run) drives() (*engine.End, error) {
	if err := r.drive(); err != nil || r.carries {
		return nil, err
	}
	return r.ends()
}

// ends closes the journal of a leg.
func (r *run) ends() (*engine.End, error) {
	e := r.engine
	err := e.View().Err()
	stands := e.View().Standing()
	switch left := stands.Left; {
	case left != nil:
		e.Report(engine.StoppedWith(err)...)
		err = left
	case stands.Waits:
		end := e.End(nil, wire.ListOf(r.offer.Found))
		for _, p := range e.Pauses() {
			end.Pauses = append(end.Pauses, p.Pause)
		}
		e.NotePaused()
		if err := r.save(); err != nil {
			return nil, err
		}
		return r.close(end), nil
	default:
		e.NoteEnd(err)
	}
	if failed := r.save(); failed != nil {
		return nil, failed
	}
	return r.close(e.End(err, wire.ListOf(r.offer.Found))), nil
}

// close makes the end of a leg complete.
func (r *run) close(end engine.End) *engine.End {
	if r.engine != nil {
		end.Diagnostics = append(end.Diagnostics, r.engine.View().Diagnostics(end.Trace)...)
		end.Used, end.Calls = r.engine.View().Used()
	}
	end.EndedAt, end.StartedAt = r.now(), r.started()
	end.Close(end.EndedAt, func(trace.Event) {})
	return &end
}

// started is when the run began.
func (r *run) started() time.Time {
	if at := r.store.sum.StartedAt; !at.IsZero() {
		return at
	}
	return r.start.At
}

// refused is the end of a leg that did not begin.
func (r *run) refused(err error) *engine.End {
	r.engine = nil
	return r.close(engine.End{RunID: r.id, Recipe: r.program.Recipe.Name, Err: err, Trace: []trace.Event{r.start},
		Diagnostics: wire.ListOf(r.offer.Found)})
}

// save records what has happened.
func (r *run) save() error {
	events := r.engine.Unsaved()
	if len(events) > 0 {
		if err := r.store.append(r.about(), events); err != nil {
			return err
		}
	}
	r.engine.Saved()
	return nil
}

// about is the run as its journal begins.
func (r *run) about() checkpoint.Run {
	return checkpoint.Run{ID: r.id, Recipe: r.program.Recipe.Name, Digest: r.program.Digest, StartedAt: r.start.At,
		By: r.in.By}
}

// next waits for what follows the end of a leg; nil: nothing does. end is nil if an earlier execution drove the leg.
func (r *run) next(end *engine.End) func() (*engine.End, error) {
	if end == nil || end.Pauses != nil {
		return r.wait()
	}
	if r.cancelled != nil && r.engine != nil && !r.engine.View().Standing().Over() {
		return r.cancel
	}
	return nil
}

// wait waits while the run is paused.
func (r *run) wait() func() (*engine.End, error) {
	due := false
	timer, stop := workflow.WithCancel(r.free)
	defer stop()
	if at := r.store.sum.Due(); !at.IsZero() {
		workflow.Go(timer, func(ctx workflow.Context) {
			due = workflow.NewTimer(ctx, max(0, at.Sub(r.now()))).Get(ctx, nil) == nil || due
		})
	}
	_ = workflow.Await(r.free, func() bool {
		return due || len(r.asked) > 0 || r.cancelled != nil || r.moves() || r.full() && r.ctx.Err() == nil
	})
	switch {
	case r.cancelled != nil:
		return r.cancel
	case r.moves(): // whatever came is for the other version
		if _, _, err := r.handover(); err != nil { // it stays with this one
			r.moved = mostMoves
			r.warn("the run cannot move to another version of the workers", "", "error", err)
			return func() (*engine.End, error) { return nil, nil }
		}
	case len(r.asked) > 0:
		q := r.asked[0]
		r.asked = r.asked[1:]
		return func() (*engine.End, error) { return r.answered(q) }
	case due:
		return func() (*engine.End, error) { return r.again("recover", "", false, nil) }
	}
	return func() (*engine.End, error) {
		r.carries = true
		return nil, nil
	}
}

// cancel drives the leg that ends the run for good.
func (r *run) cancel() (*engine.End, error) {
	c := *r.cancelled
	r.cancelled = nil // a question that follows may be answered
	return r.again("recover", c.By, true, func() error {
		r.engine.CancelForGood(c.Reason, false)
		return nil
	})
}

// again drives a leg that begins with what the journal says and with act; nil: with nothing else. how it begins is for
// the trace. cancels says that act ends the run for good.
func (r *run) again(how, by string, cancels bool, act func() error) (*engine.End, error) {
	if act == nil {
		act = func() error { return nil }
	}
	was := r.past()
	r.begin(slices.Insert(slices.Clone(r.program.About), 2, trace.Attr{Key: how, Value: true}))
	r.newEngine(was.Begun.Interrupt, by)
	e := r.engine
	if err := e.Resume(was.Begun.Inputs, was, false, cancels); err != nil {
		return nil, err
	}
	steps := []func() error{r.restart, act, r.restart}
	if cancels {
		steps = []func() error{act}
	}
	for _, do := range steps {
		if err := do(); err != nil || r.carries {
			return r.stuck(err)
		}
	}
	e.TellReplayed()
	if err := r.save(); err != nil {
		return nil, err
	}
	return r.drives()
}

// stuck is the end of a leg that cannot continue: its rollback did not finish.
func (r *run) stuck(err error) (*engine.End, error) {
	known, ok := errors.AsType[*runtime.Error](err)
	if !ok {
		return nil, err
	}
	if err := r.save(); err != nil {
		return nil, err
	}
	return r.close(r.engine.End(known, wire.ListOf(r.offer.Found))), nil
}

// newEngine makes the engine of a leg. by is who has it executed.
func (r *run) newEngine(interrupt resume.Interrupt, by string) {
	t := &r.offer.Terms
	r.by = by
	r.engine = engine.New(r.program, engine.Options{
		ID: r.id, Owner: "temporal", Now: r.start.At, Start: r.start, Interrupt: interrupt,
		Limits: t.Limits.WithDefaults(), Parallel: min(r.program.Parallel(t.Limits), maxParallel), Budget: t.Budget,
		Prices: t.Prices, Retry: t.Retry, Defaults: t.RetryDefaults, Durable: true, Kept: true,
		Redact: r.caller.Redact, By: by, Beginning: engine.Beginning{Origin: t.Origin,
			Tools: r.caller.Changing(r.program)}, Adapters: r.caller,
	})
}

// write records events and applies them.
func (r *run) write(events []journal.Event) error {
	if err := r.store.append(r.about(), slices.Concat(r.engine.Unsaved(), events)); err != nil {
		return err
	}
	r.engine.Saved()
	r.engine.Take(events)
	return nil
}

// restart rolls a run back and begins it again, if an answer says so.
func (r *run) restart() error {
	if !r.engine.View().Standing().Restarts {
		return nil
	}
	if err := r.undo(); err != nil || r.carries {
		return err
	}
	return r.write(r.engine.Restart())
}

// undo finishes the rollback of a run.
func (r *run) undo() error {
	if err := r.save(); err != nil {
		return err
	}
	if err := r.drive(); err != nil || r.carries {
		return err
	}
	if left := r.engine.View().Standing().Left; left != nil {
		return left
	}
	if err := r.save(); err != nil {
		return err
	}
	r.engine.Undone()
	return nil
}

// past is what the journal says. The program is what it was when the run began.
func (r *run) past() *past.Past {
	events, err := r.store.events()
	if err != nil {
		panic(unread(err))
	}
	was, err := past.Read(r.id, events)
	if err != nil {
		panic(unread(err))
	}
	if r.program, err = r.program.Under(program.Rules(was.Begun.Rules)); err != nil {
		panic(unread(err))
	}
	return was
}

// unread says that this version cannot read the journal of a run. Another one can: the task waits for it.
func unread(err error) error { return fmt.Errorf("this version cannot read the journal: %w", err) }
