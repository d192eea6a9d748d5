package engine

import (
	"cmp"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Options are the options of a run.
type Options struct {
	ID        string
	Owner     string           // who drives the run, as leases name it; "": not known
	Now       time.Time        // when the execution begins
	Start     trace.Event      // the first event of the trace
	Interrupt resume.Interrupt // what pausing does to the run
	Limits    runtime.Limits   // with defaults
	Parallel  int              // maximum number of concurrent calls; at least 1
	Budget    runtime.Budget   // the host's limit of the run
	Prices    map[string]runtime.Price
	Retry     retry.Policies  // over the steps' own
	Defaults  retry.Policies  // under them
	Durable   bool            // events are recorded before they take effect
	Kept      bool            // runs outlive the process
	Redact    *value.Redactor // for the engine's own messages; nil: the run has no secrets here
	By        string          // who executes the run; "": not known
	// Before asks the hooks of plugins about a step that is about to begin; the error denies it. nil: there are none.
	Before func(runtime.Moment) error
	Beginning
	Looks
	Adapters Adapters
}

// Looks says who looks at a run.
type Looks struct {
	Shown bool         // live sinks
	Wants trace.Detail // the detail that they want
	Times bool         // a View, which wants to know when steps began and ended
}

// Beginning is what a new run records of its host, see runtime.Runtime.
type Beginning struct {
	Origin map[string]string
	Tools  map[string]runtime.ToolSpec // that may change, by name; each execution records those that are new
	// Breakpoints are the paths of the steps before which the run pauses, see atBreakpoint.
	Breakpoints []string
}

// Run is the state of a run: the fold of its events. It makes decisions but performs no actions: a driver carries out
// the commands that Next returns, and reports what happens. A Run has no goroutine, clock or I/O, so the same events
// always lead to the same state. Only one goroutine may use it at a time.
//
//	Begin ────────────────────────────┐
//	Resume: Apply, Apply … ──▶ GoLive ─┴─▶ Next ──▶ a command, carried out ──▶ Returned, Fired, Saved … ──▶ Next
//
// Its record is the events that Unsaved returns, in the order in which they were applied.
type Run struct {
	program *program.Program
	o       Options
	inputs  map[string]any
	m       *machine.Machine

	now     time.Time // the time as last reported by Tick
	clock   past.Clock
	trace   events
	found   diagnostics.List // of the run
	unsaved unsaved
	todo    todo
	ending  ending

	past    leftOver // what the journal left in progress
	calls   calls    // in progress
	waits   waits    // of tasks
	agents  agentsOf
	batches batches
	budget  budget
	drawn   draws
	undo    undoing

	generations
}

// generations are the starts of a run from its first step.
type generations struct {
	began time.Time // the first one
	people
	before Answers // of earlier generations
	sent   []sent  // values from outside that later generations have from the start
	grants grants  // later generations keep them

	breakpoints breakpoints // see Beginning
	tools       tools
}

// unsaved is what must be recorded.
type unsaved struct {
	events  []journal.Event
	durable bool     // events are recorded before they take effect
	urgent  bool     // an event must be in the store before any further call
	actor            // who acts from now on
	notes   notes    // that agents are to record
	spoken  []spoken // what is shown when it is in the store
}

// ending is why a run ends early.
type ending struct {
	cancelled   bool                  // nothing starts any more
	cancelledAt int64                 // the machine's count of decisions at that time
	cut         error                 // the error of the run's context, which has ended; nil: it has not
	cause       error                 // why the context has ended
	broken      bool                  // the store accepts no more writes
	forGood     *string               // why the run was cancelled for good; nil: it was not
	fixed       *journal.FinallyBegun // how the run ends, of one that only runs its finally; nil: it does more
}

// stopAll ends the run early, once.
func (e *ending) stopAll(m *machine.Machine, cause error) {
	if !e.cancelled {
		e.cancelled, e.cancelledAt = true, m.Decided()
		m.Cancel(cause)
	}
}

// decided is a machine's count of decisions for a record. Decisions while the run is being cancelled do not count: the
// execution that resumes the run makes them again.
func (e *ending) decided(m *machine.Machine) int64 {
	if e.cancelled {
		return e.cancelledAt
	}
	return m.Decided()
}

// people are whom the run serves.
type people struct {
	by string // see By
}

// serve notes whom the run serves from an event on.
func (s *people) serve(e *journal.Event) {
	switch what := e.What.(type) {
	case journal.Begun:
		s.by = e.By
	case journal.PauseAnswered:
		if what.Next == resume.Answered {
			s.by = cmp.Or(e.By, s.by)
		}
	}
}

// actor is who acts on a run.
type actor struct {
	by     string // as the host names them; "": not known
	signal string // by which they said so; "": none
}

// New makes a run without state: call Begin or Resume next.
func New(p *program.Program, o Options) *Run {
	r := &Run{program: p, o: o, now: o.Now, clock: past.Clock{Since: o.Now}}
	r.calls.generation, r.budget, r.unsaved.by = 1, newBudget(p, &r.o), o.By
	r.calls.quick = !p.Overlaps && o.Before == nil
	r.trace.live, r.unsaved.durable, r.tools.now = o.Shown, o.Durable, o.Tools
	return r
}

// Begin starts a new run. unknown are the calls with unknown outcome that a fork shares. The inputs must not be
// modified afterwards.
func (r *Run) Begin(inputs map[string]any, unknown []journal.UnknownCall) {
	r.Record(inputs, unknown)
	r.noteExecution()
}

// Record is Begin of a run that is not executed yet: Resume continues with its events.
func (r *Run) Record(inputs map[string]any, unknown []journal.UnknownCall) {
	r.prepare(inputs)
	r.began, r.by = r.now, r.o.By
	if r.breakpoints = r.o.Breakpoints; len(r.breakpoints) > 0 {
		r.unsaved.events = append(r.unsaved.events, journal.Event{At: r.now,
			What: journal.Breakpoints{Steps: r.breakpoints}})
	}
	r.unsaved.events = append(r.unsaved.events, journal.Event{At: r.now, By: r.o.By,
		What: journal.Begun{Inputs: inputs, Interrupt: r.o.Interrupt, Parallel: r.o.Parallel, Origin: r.o.Origin,
			Unknown: unknown, Rules: journal.Rules(r.program.Rules())}})
	r.before.ReadUnknown(unknown)
}

// noteExecution records that this process begins to execute the run. Nothing else that it does is recorded before.
func (r *Run) noteExecution() {
	r.past.owner = r.o.Owner
	seen := r.tools.see()
	r.noteEvent(journal.Event{At: r.now, By: r.unsaved.by, Signal: r.unsaved.signal,
		What: journal.Execution{Owner: r.o.Owner, Worked: r.clock.At(r.now), Parallel: r.o.Parallel,
			Limits: limitsOf(r.o.Limits), Tools: seen}})
}

// limitsOf are the limits that a journal has.
func limitsOf(l runtime.Limits) *journal.Limits {
	own := func(n, usual int) int {
		if n == usual {
			return 0
		}
		return n
	}
	return &journal.Limits{Items: own(l.MaxItems, runtime.DefaultMaxItems),
		Steps:       own(l.MaxSteps, runtime.DefaultMaxSteps),
		OutputBytes: own(l.MaxOutputBytes, runtime.DefaultMaxOutputBytes),
		RunBytes:    own(l.MaxRunBytes, runtime.DefaultMaxRunBytes)}
}

// prepare makes the machine of the first generation.
func (r *Run) prepare(inputs map[string]any) {
	r.inputs = inputs
	r.m = r.newMachine(r.o.Parallel)
	r.m.Tell(r.now)
	r.trace.reserve(r.o.Start, len(r.program.Graph.Nodes))
	if !r.o.Durable {
		r.unsaved.events = make([]journal.Event, 0, len(r.program.Calls)+3)
	}
}

// newMachine makes the machine of a generation.
func (r *Run) newMachine(parallel int) *machine.Machine {
	wall, name := r.budget.wallTime()
	return machine.New(r.program.Graph, r.inputs, machine.Options{
		MaxParallel: parallel, MaxItems: r.o.Limits.MaxItems, WallTime: wall, WallTimeName: name,
		Grace:    r.o.Limits.Grace,
		MaxTasks: r.o.Limits.MaxSteps, MaxOutput: r.o.Limits.MaxOutputBytes, MaxOutputs: r.o.Limits.MaxRunBytes,
		MaxMemory: r.o.Limits.MaxRunBytes, Errors: r.program.Rules().Errors,
		Skips: r.program.Rules().Skips,
		Run: func() map[string]any {
			return map[string]any{"id": r.o.ID, "recipe": r.program.Recipe.Name, "version": r.program.Recipe.Version,
				"started_at": r.began.UTC().Format(time.RFC3339)}
		},
		Told: func(t *machine.Task, what string) any { return r.budget.told(t, what, r.agents) }, Denies: r.denies,
		Breaks: func(t *machine.Task) bool { return r.breakpoints.before(t) },
	})
}

// Tick tells the run the time. The driver calls it before it reports anything else.
func (r *Run) Tick(now time.Time) { r.now = now }

// Unsaved returns what a store does not have yet. The slice is the run's: it may be read until the next event.
func (r *Run) Unsaved() []journal.Event { return r.unsaved.events }

// Saved says that what Unsaved returned is in the store.
func (r *Run) Saved() {
	r.unsaved.saved()
	r.trace.said(r.unsaved.takeSpoken(), r.now)
	r.resumeAgents(nil)
}

// Note records something that the driver did: a token that it minted, or the end of the execution.
func (r *Run) Note(path string, what journal.What) {
	r.noteEvent(journal.Event{At: r.now, Path: path, After: r.m.Decided(), What: what})
}

// noteEvent records an event.
func (r *Run) noteEvent(e journal.Event) {
	r.m.Tell(e.At) // as a replay of the journal will
	r.unsaved.events = append(r.unsaved.events, e)
}

// Report adds a diagnostic.
func (r *Run) Report(found ...diagnostics.Diagnostic) { r.found = append(r.found, found...) }

// Cancel says that the run's context has ended: err is its error, cause why.
func (r *Run) Cancel(err, cause error) {
	r.ending.cut, r.ending.cause = err, cause
	r.ending.stopAll(r.m, CancelCause(cause))
	for _, a := range r.agents.working() {
		a.stop(r, err, cause)
	}
	r.undo.stop(r)
}

// Break says that the store accepts no more writes, or that another process holds the run: the run stops.
func (r *Run) Break(err error) {
	r.ending.broken, r.unsaved.durable = true, false
	r.ending.stopAll(r.m, err)
	r.resumeAgents(err)
	r.undo.stop(r)
}

// saved forgets what is in the store by now.
func (s *unsaved) saved() {
	clear(s.events)
	s.events, s.urgent = s.events[:0], false
}
