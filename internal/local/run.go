package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// SinkTime is how long the end of a run waits for slow trace sinks, and a run for its reporter.
const SinkTime = time.Second

// Spec describes an execution of a run.
type Spec struct {
	Program   *program.Program
	Runtime   *runtime.Runtime
	About     trace.Data // of run.start
	Interrupt resume.Interrupt
	By        string // who executes the run; "": not known
	// Breakpoints of a new run, as of runtime.Runtime
	Breakpoints []string
}

// Run is one execution of a run, driven in this process. Only the goroutine that has the turn accesses it. Calls are
// made without the turn; see supervise.
type Run struct {
	ID     string
	Engine *engine.Run
	Caller *call.Caller
	Store  Journal
	Over   bool      // the run had ended before: nothing is driven
	Ended  time.Time // when that was

	spec    *Spec
	ctx     context.Context
	rt      *runtime.Runtime
	limits  runtime.Limits
	sinks   *trace.Fanout
	began   time.Time // in UTC, which has no monotonic clock
	noClock error     // why began is not by the clock of the store, which has one
	clock   time.Time // the same moment, by both clocks of this machine
	start   trace.Event
	driving

	signals signals
}

// driving is what a [Run] under way has.
type driving struct {
	turn   turn             // its holder may access all of this; a goroutine that makes a call does not hold it
	over   bool             // later events change nothing
	let    bool             // the turn was given back for good
	done   chan struct{}    // closed when the execution is over
	ended  bool             // its context has ended
	groups []*group         // the last one is of the calls that begin now
	lone   map[int64]*group // of one call each, by its ID
	timers map[int64]*time.Timer
	drops  sync.WaitGroup // batches that nobody waits for are dropped
	watch  *time.Timer    // for calls that take long; nil: no call has begun since it fired
	fault  any            // a panic of the engine itself
	traced bool           // the journal has the execution's span, or will never have it
}

// End is how an execution ended.
type End struct {
	engine.End
	Signalled bool // a signal came that another execution must take
	Refused   bool // the execution did not begin, so nothing was recorded
}

// Drive executes a run until it ends or pauses. begin names the run and binds it, starts it, and brings its engine to
// where the execution begins; its error says why the execution is refused. Drive closes the journal, and does not
// panic, even if tools or sinks do.
func Drive(ctx context.Context, spec *Spec, begin func(*Run) error) (end *End) {
	makeRoom()
	r := newRun(ctx, spec)
	if _, ok := spec.Runtime.Store.(checkpoint.Signals); ok {
		r.ctx, r.signals.cut = context.WithCancelCause(ctx)
		defer r.signals.cut(nil)
	}
	r.turn = make(turn, 1)
	r.turn.take()
	defer r.LetGo()
	defer r.release()
	defer func() {
		if p := recover(); p != nil { // the engine's own fault, or of a port without a step: still an end
			if r.Engine = nil; r.ID == "" {
				r.ID = NewID()
			}
			end = r.refused(panicked(p))
		} else if end == nil { // the caller's goroutine ends
			r.sinks.Close(SinkTime)
		}
	}()
	if err := begin(r); err != nil {
		return r.refused(err)
	}
	if !r.Over {
		r.tell(runtime.Moment{Point: runtime.RunInit})
		r.supervise()
	}
	r.release()
	if r.fault != nil {
		panic(r.fault)
	}
	return r.end()
}

// Record makes the checks of begin, and unless it is dry one write: the run is recorded, for others to execute. Sinks
// and hooks are told nothing. Record returns the id of the run, "" if it is dry, and does not panic.
func Record(ctx context.Context, spec *Spec, begin func(*Run) error, dry bool) (id string, err error) {
	defer func() {
		if p := recover(); p != nil {
			id, err = "", panicked(p)
		}
	}()
	r := newRun(ctx, spec)
	unseen := *r.rt
	unseen.Trace = nil
	r.rt = &unseen
	if err := begin(r); err != nil || dry {
		return "", err
	}
	if err := r.write(r.Engine.Unsaved()); err != nil {
		return "", ledger.Error(err)
	}
	return r.ID, nil
}

// Start shows that the execution begins, and makes the engine of the run, which is bound.
func (r *Run) Start() {
	r.begin()
	r.Engine = r.newEngine(r.began)
}

// panicked is the error of a run for a panic of the engine itself, or of a port without a step.
func panicked(p any) error {
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "engine.panic",
		Err: fmt.Errorf("engine: panic: %v", p)}
}

func newRun(ctx context.Context, spec *Spec) *Run {
	r := &Run{spec: spec, ctx: ctx, rt: spec.Runtime.Equipped(), Store: Journal{Ledger: &ledger.Ledger{}}}
	r.limits = r.rt.Limits.WithDefaults()
	r.began, r.noClock = clock.Of(ctx, spec.Runtime.Store)
	r.clock = time.Now()
	return r
}

// Bind finds out what the runtime offers.
func (r *Run) Bind() error {
	c, err := call.Bind(r.ctx, r.spec.Program, r.spec.Runtime)
	c.RunID, c.Warn = r.ID, r.warnOf
	c.Content = call.NewContent(r.spec.Runtime.Store, r.ID)
	if r.sinks != nil {
		c.Live, c.Spans = func(e trace.Event) { r.sinks.Emit(e, nil) }, r.sinks
	}
	if r.sinks.Wants().Deltas {
		c.Delta = c.Live
	}
	r.Caller, r.ctx = c, value.WithRedactor(r.ctx, c.Redact)
	if cancelled := Cancelled(r.ctx); cancelled != nil {
		return cancelled
	}
	return err
}

// Strict refuses a run with diagnostics, if the runtime is strict.
func (r *Run) Strict() error {
	if err := r.Caller.Strict(r.rt.Diagnostics); err != nil {
		return err
	}
	return Cancelled(r.ctx)
}

// Name gives the run its id.
func (r *Run) Name(id string) {
	r.ID = id
	r.sinks = trace.NewFanout(r.rt.Trace, id)
}

// Cancelled is the error of a run whose context ended before it began; nil: it has not ended.
func Cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryCancelled, Code: "run.cancelled",
		Err: engine.CancelCause(context.Cause(ctx))}
}

// NewID returns a UUIDv7 (RFC 9562, 5.7). The ids of a process sort in the order in which it made them.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Began is when the execution began.
func (r *Run) Began() time.Time { return r.began }

// begin emits the first event, unless it was emitted.
func (r *Run) begin() {
	if r.start.Kind != "" {
		return
	}
	r.start = r.runEvent(r.began, trace.RunStart, r.spec.About...)
}

// runEvent makes and shows an event of the run itself.
func (r *Run) runEvent(at time.Time, kind trace.Kind, attrs ...trace.Attr) trace.Event {
	ev := trace.Event{At: at, Kind: kind, Data: attrs}
	r.sinks.Emit(ev, nil)
	return ev
}

// now reads the clock. Times in events follow the monotonic clock: a step never ends before it began, even if the
// system time changes meanwhile.
func (r *Run) now() time.Time { return r.began.Add(time.Since(r.clock)) }

// newEngine makes an engine of the run.
func (r *Run) newEngine(now time.Time) *engine.Run {
	o := engine.Options{
		ID: r.ID, Owner: ledger.Owner(), Now: now, Start: r.start, Interrupt: r.spec.Interrupt, Limits: r.limits,
		Parallel: r.spec.Program.Parallel(r.rt.Limits), Budget: r.rt.Budget, Prices: r.rt.Prices,
		Retry: r.rt.Retry, Defaults: r.rt.RetryDefaults, Durable: r.rt.Store != nil || r.Store.Store != nil,
		Kept: r.rt.Store != nil, Redact: r.Caller.Redact,
		Looks: engine.Looks{Wants: r.sinks.Wants(), Shown: len(r.rt.Trace) > 0}, By: r.spec.By,
		Beginning: engine.Beginning{Origin: r.rt.Origin, Tools: r.Caller.Changing(r.spec.Program),
			Breakpoints: r.spec.Breakpoints},
		Adapters: r.Caller,
	}
	if r.Caller.Hooked() {
		o.Before = r.tellHooks
	}
	return engine.New(r.spec.Program, o)
}

// refused returns the End of an execution that did not begin.
func (r *Run) refused(err error) *End {
	r.begin()
	end := &End{Refused: true, End: engine.End{RunID: r.ID, Recipe: r.spec.Program.Recipe.Name, Err: err,
		Trace: []trace.Event{r.start}}}
	if r.Caller != nil {
		end.Diagnostics = r.Caller.Diagnostics
	} else {
		end.Diagnostics = slices.Clone(r.spec.Program.Found)
	}
	return r.close(end)
}

// Refuse ends an execution that has no program yet: end has the run and the reason. about is the data of run.start.
// The sinks receive the events if the runtime is valid.
func Refuse(ctx context.Context, rt *runtime.Runtime, about trace.Data, end *End) *End {
	r := newRun(ctx, &Spec{Runtime: rt, About: about})
	if e, _ := errors.AsType[*runtime.Error](end.Err); e == nil || e.Code != "runtime.invalid" {
		r.Name(end.RunID)
	}
	r.begin()
	end.Trace = []trace.Event{r.start}
	end = r.close(end)
	end.StartedAt, end.EndedAt, end.Refused = time.Time{}, time.Time{}, true
	return end
}

var errPort = errors.New("a port ended its goroutine")
