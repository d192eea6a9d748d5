package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// sinkTime is how long the end of a run waits for slow trace sinks.
const sinkTime = time.Second

// run is one execution of a workflow. One goroutine at a time touches it: the one that has the turn. Calls
// are made without it; see supervise. What calls need meanwhile has a lock of its own, or does not change.
type run struct {
	wf       *Workflow
	rt       *runtime.Runtime
	limits   runtime.Limits
	ctx      context.Context
	id       string
	prepared *prepared
	events   events
	clock    engine.Clock
	host     recipe.Limits // the host's bound of the run

	m           *machine.Machine
	turn        turn          // whoever has it may touch all of this; nobody has it while a call is made
	over        bool          // what happens changes nothing any more
	done        chan struct{} // closed when the run is over
	slots       chan struct{} // of calls under way, one each; nil: the machine starts no more than there may be
	shared      *group        // of the calls that begin now
	groups      []*group
	timers      map[timerKey]*time.Timer
	cancelled   bool  // ctx has ended, or the journal cannot be written any more
	cancelledAt int64 // what the machine had decided then
	fault       any   // a panic of the engine itself

	found found // findings of the run under way

	journal   recorder
	leg       *leg // that the run goes on with; nil: it begins
	let       bool // the lease was given back
	live      bool // goOnLive is done
	replaying bool
	stamped   bool                  // see stamp
	pending   []machine.Command     // calls and waits that an earlier leg left under way
	armed     []machine.Command     // its timers
	halted    []*machine.Task       // calls that it told to stop
	unsure    map[*machine.Task]int // calls that had begun and have no result, by their ordinal
	spare     *invocation           // memory of a quick call that is over; nil: none
	blocked   []*invocation         // calls that wait for the journal
	pauses    []*openPause
	opened    map[string]int // pauses so far, by path
	answers   map[*machine.Task]reply
	progress  map[*machine.Task]journal.Progress // of calls that paused and are not finished
	agents    map[*machine.Task]*agentLog
	sleepers  []*time.Timer
	waits     []resume.Pause // of a run that ends its leg paused, with tokens

	interrupt  resume.Interrupt  // what pausing does to the run
	generation int               // beginnings of the run so far
	before     engine.Answers    // of earlier generations
	sent       []sent            // from outside, there from the start of later generations
	rolled     map[string]rolled // by path of the rollback
	wasUndone  bool              // this generation paused, and was rolled back
	atEnd      bool              // nothing is left to do but to roll back
	forGood    *string           // why the run was cancelled for good; nil: it was not
	again      []*machine.Task   // that ended in an earlier leg, for the trace

	budget    budget
	drawMutex sync.Mutex
	drawn     map[string]*drawn // by model
}

// reply is the answer to the pause that a call asked for.
type reply struct {
	value any
	to    string // the reason of the pause
}

// Run executes the workflow. input is a map (or a struct) of the recipe's inputs, nil for none;
// rt may be nil, which is the zero Runtime. The Outcome is never nil, and the error is its Err:
// nil when the run is ok. Run does not panic, whatever tools and sinks do.
//
//  1. refuse what can be refused: a faulty Runtime, wrong inputs, in strict mode any finding
//  2. drive the machine
//  3. put the trace in plan order
func (wf *Workflow) Run(ctx context.Context, input any, rt *runtime.Runtime) (*Outcome, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	r := newRun(ctx, wf, rt)
	out := r.execute(func() (map[string]any, error) { return r.open(input) }, r.beginJournal)
	return out, out.Err
}

// newRun makes a run. Its caller has the turn until the run is driven.
func newRun(ctx context.Context, wf *Workflow, rt *runtime.Runtime) *run {
	r := &run{wf: wf, rt: rt, ctx: ctx, turn: make(turn, 1), limits: rt.Limits.WithDefaults(),
		host:       hostLimits(rt.Budget),
		generation: 1, interrupt: rt.Interrupt}
	r.turn.take()
	r.events.begin()
	r.clock.Since = r.events.began
	return r
}

// execute makes one leg of a run: open says what its inputs are, or refuses it; ready does what is
// left to do once there is a machine.
func (r *run) execute(open func() (map[string]any, error), ready func() error) (out *Outcome) {
	var start trace.Event
	defer r.release()
	defer func() {
		if p := recover(); p != nil { // the engine's own fault, or of a port without a step: still an outcome
			if start.Kind == "" {
				start = r.events.runEvent(trace.RunStart, r.about()...)
			}
			r.m, r.id = nil, cmp.Or(r.id, newRunID())
			out = r.outcome(start, nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "engine.panic",
				Err: fmt.Errorf("engine: panic: %v", p)})
		} else if out == nil { // the caller's goroutine ends
			r.events.sinks.Close(sinkTime)
		}
	}()
	r.prepared = &prepared{list: slices.Clone(r.wf.Diagnostics)}
	inputs, err := open()
	start = r.events.runEvent(trace.RunStart, r.about()...)
	if err != nil {
		return r.outcome(start, nil, err)
	}
	r.journal.inputs = inputs
	r.m = r.newMachine(r.maxParallel())
	r.m.Tell(r.events.now)
	steps := len(r.wf.program.Graph.Nodes)
	r.events.reserve(start, steps)
	if r.rt.Store == nil {
		r.journal.entries = make([]journal.Event, 0, len(r.wf.program.Calls)+1)
	}
	if r.wf.program.Overlaps {
		r.slots = make(chan struct{}, r.maxParallel())
	}
	if err := ready(); err != nil {
		r.m = nil
		return r.outcome(start, nil, storeError(err))
	}
	if r.leg == nil || !r.leg.ended {
		r.tell(runtime.Moment{Point: runtime.RunInit})
		if !r.atEnd {
			r.supervise()
		}
	}
	r.release()
	if r.fault != nil {
		panic(r.fault)
	}
	return r.end(start)
}

// about is the payload of run.start.
func (r *run) about() trace.Data {
	switch about := r.wf.program.About; {
	case r.leg == nil:
		return about
	case r.leg.recover:
		return slices.Insert(slices.Clone(about), 1, trace.Attr{Key: "recover", Value: true})
	default:
		return slices.Insert(slices.Clone(about), 2, trace.Attr{Key: "resume", Value: true})
	}
}

// maxParallel is the lowest bound that recipe and host set, else the default.
func (r *run) maxParallel() int {
	inRecipe, inHost := r.wf.program.Recipe.Limits.MaxParallel, r.rt.Limits.MaxParallel
	if inRecipe > 0 && (inHost == 0 || inRecipe < inHost) {
		return inRecipe
	}
	return r.limits.MaxParallel
}

// open does what comes before the first step: the run's id, what it needs, its inputs.
func (r *run) open(input any) (map[string]any, error) {
	if err := r.rt.Validate(); err != nil {
		r.id = newRunID()
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	newID := r.rt.NewRunID
	if newID == nil {
		newID = newRunID
	}
	r.id = newID()
	r.events.sinks = trace.NewFanout(r.rt.Trace, r.id)
	if err := r.prepare(); err != nil {
		return nil, err
	}
	given, err := inputMap(input)
	if err != nil {
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	inputs, err := r.wf.program.Inputs.Check(given)
	if err != nil {
		for _, f := range r.wf.program.Inputs.Faults(given, &program.Suggester{}, func(string) bool { return true }) {
			r.prepared.list = append(r.prepared.list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel,
				Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeInput, Message: f.Message, Hint: f.Hint})
		}
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	return inputs, r.strict()
}

// prepare finds out what the runtime offers.
func (r *run) prepare() error {
	p, err := r.wf.prepare(r.ctx, r.rt)
	r.prepared = p
	r.ctx = value.WithRedactor(r.ctx, p.redact)
	if cancelled := r.ctxError(); cancelled != nil {
		return cancelled
	}
	if err == nil && r.leg == nil {
		err = r.wf.unknownTools(p.offers, r.rt)
	}
	if err == nil && (r.leg == nil || !r.leg.ended) {
		err = r.unpriced()
	}
	return err
}

// strict refuses a run with findings, if that is asked for.
func (r *run) strict() error {
	p := r.prepared
	p.list = r.rt.Diagnostics.Apply(p.list)
	if r.rt.Diagnostics == diagnostics.Strict && p.list.HasErrors() {
		return program.ConfigError(diagnostics.CodeStrict, "strict diagnostics failure: %w", p.list.Err())
	}
	return r.ctxError()
}

// beginJournal gives a new run its journal. Where the host has chosen the run's id it is begun at once, so
// that nothing runs under an id that is taken.
func (r *run) beginJournal() error {
	j := &r.journal
	j.run = checkpoint.Run{ID: r.id, Recipe: r.wf.program.Recipe.Name, Digest: r.wf.program.Digest,
		StartedAt: r.events.now}
	if j.store = r.rt.Store; j.store == nil {
		return nil
	}
	var err error
	if j.run.Definition, err = r.wf.program.Definition(); err != nil {
		return err
	}
	if r.rt.NewRunID != nil {
		r.flush()
	}
	return j.err
}

// ctxError refuses a run whose context has ended before it began.
func (r *run) ctxError() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled", Err: cancelCause(r.ctx)}
}

// cancelCause is why ctx ended; it is context.Canceled in any case.
func cancelCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("the run was cancelled: %w", cause)
	}
	return fmt.Errorf("the run was cancelled (%w): %w", cause, context.Canceled)
}

// inputMap makes a map of what Run was given, which the caller may change afterwards.
func inputMap(input any) (map[string]any, error) {
	v, err := value.Normalise(input)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return value.Clone(v).(map[string]any), nil
	}
	return nil, fmt.Errorf("the input must be a map from input names to values, not %s", value.TypeName(v))
}

// newRunID returns a UUIDv7 (RFC 9562, 5.7). The ids of a process sort in the order in which it made them.
func newRunID() string { return uuid.Must(uuid.NewV7()).String() }
