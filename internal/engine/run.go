package engine

import (
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Options are what a run must know beside its program.
type Options struct {
	ID        string
	Owner     string           // who drives the run, as leases name it; "": not known
	Now       time.Time        // when the execution begins
	Start     trace.Event      // the first event of the trace
	Interrupt resume.Interrupt // what pausing does to the run
	Limits    runtime.Limits   // with defaults
	Parallel  int              // how many calls there may be at once; at least 1
	Budget    runtime.Budget   // the host's bound of the run
	Prices    map[string]runtime.Price
	Retry     retry.Policies    // over the steps' own
	Defaults  retry.Policies    // under them
	Durable   bool              // what happens is written down before it counts
	Kept      bool              // runs outlive the process
	Redact    *value.Redactor   // of what the engine words itself; nil: the run has no secrets here
	Hooked    bool              // plugins have hooks
	Wants     trace.Detail      // of those who are shown events
	Shown     bool              // somebody is shown them
	By        string            // who executes the run; "": nobody said
	Origin    map[string]string // of a run that begins, see runtime.Runtime
	Adapters  Adapters
}

// Run is a run as the fold of its events. It decides and does nothing: whoever drives it carries out the commands
// that Next returns, and reports what happens. It has no goroutine, clock or I/O, so that the same events always come
// to the same state. It is for one goroutine at a time.
//
//	Begin ────────────────────────────┐
//	Resume: Apply, Apply … ──▶ GoLive ─┴─▶ Next ──▶ a command, carried out ──▶ Returned, Fired, Saved … ──▶ Next
//
// What is kept of it are the events that Unsaved returns, in the order in which they were applied.
type Run struct {
	program *program.Program
	o       Options
	inputs  map[string]any
	m       *machine.Machine

	now    time.Time // of the last thing that took time
	clock  Clock
	trace  events
	found  diagnostics.List // findings of the run
	ledger ledger
	todo   todo
	ending ending

	past   past   // what the journal left under way
	calls  calls  // under way
	timers timers // that are armed
	waits  waits  // of tasks
	agents map[*machine.Task]*agent
	budget budget
	drawn  map[string]*drawn // by model
	undo   undoing

	generations
}

// generations are the beginnings of a run.
type generations struct {
	generation int      // how many there were so far
	before     Answers  // of earlier ones
	sent       []sent   // from outside, there from the start of later ones
	grants     []string // approvals for the run, sorted; later ones have them, too
}

// ledger is what is to be written down.
type ledger struct {
	events  []journal.Event
	urgent  bool // an event must be in the store before any further call
	resumed bool // the next event is the first one after a resume
}

// todo is what Next has to hand out before it asks the machine.
type todo struct {
	commands []Command
	at       int               // the next of them
	held     machine.Command   // waits for the time
	ticking  bool              // held is there
	over     bool              // the execution is over
	hold     bool              // no more calls begin
	kept     []machine.Command // calls that did not begin because of that
}

// ending is why a run ends early.
type ending struct {
	cancelled   bool    // nothing starts any more
	cancelledAt int64   // what the machine had decided then
	cut         error   // the error of the run's context, which has ended; nil: it has not
	cause       error   // why it has
	broken      bool    // the store takes nothing any more
	forGood     *string // why the run was cancelled for good; nil: it was not
}

// New makes a run. It is nowhere yet: Begin or Resume comes next.
func New(p *program.Program, o Options) *Run {
	r := &Run{program: p, o: o, now: o.Now, clock: Clock{Since: o.Now}}
	r.generation, r.budget.host = 1, hostLimits(o.Budget)
	return r
}

// Begin begins a new run; one that is a fork, with the doubts that it shares. Nobody may change the inputs any more.
func (r *Run) Begin(inputs map[string]any, doubts []journal.Doubt) {
	r.prepare(inputs)
	r.past.owner = r.o.Owner
	r.ledger.events = append(r.ledger.events, journal.Event{At: r.now, By: r.o.By, Owner: r.o.Owner,
		What: journal.Begun{Inputs: inputs, Interrupt: r.o.Interrupt, Parallel: r.o.Parallel, Origin: r.o.Origin,
			Doubts: doubts}})
	r.before.Doubts(doubts)
}

// prepare makes the machine of the first generation.
func (r *Run) prepare(inputs map[string]any) {
	r.inputs = inputs
	r.m = r.newMachine(r.o.Parallel)
	r.m.Tell(r.now)
	r.trace.reserve(r.o.Start, len(r.program.Graph.Nodes))
	if !r.o.Durable {
		r.ledger.events = make([]journal.Event, 0, len(r.program.Calls)+2)
	}
}

// newMachine makes the machine of a generation.
func (r *Run) newMachine(parallel int) *machine.Machine {
	wall, name := r.wallTime()
	return machine.New(r.program.Graph, r.inputs, machine.Options{
		MaxParallel: parallel, MaxItems: r.o.Limits.MaxItems, WallTime: wall, WallTimeName: name,
		Grace:    r.o.Limits.Grace,
		MaxTasks: r.o.Limits.MaxSteps, MaxOutput: r.o.Limits.MaxOutputBytes, MaxOutputs: r.o.Limits.MaxRunBytes,
		Run: func() map[string]any {
			return map[string]any{"id": r.o.ID, "recipe": r.program.Recipe.Name, "version": r.program.Recipe.Version}
		},
		Models: r.aboutModels,
	})
}

// Tick tells the run the time. Whoever drives it does so before anything else that it reports.
func (r *Run) Tick(now time.Time) { r.now = now }

// Unsaved returns what a store does not have yet. The slice is the run's: it may be read until the next event.
func (r *Run) Unsaved() []journal.Event { return r.ledger.events }

// Saved says that what Unsaved returned is in the store.
func (r *Run) Saved() {
	clear(r.ledger.events)
	r.ledger.events, r.ledger.urgent = r.ledger.events[:0], false
	r.resumeAgents(nil)
}

// Flying returns the calls that the driver makes.
func (r *Run) Flying() []*Call {
	list := make([]*Call, len(r.calls.flying))
	for i, p := range r.calls.flying {
		list[i] = p.Call
	}
	return list
}

// Note keeps something that the driver did: a token that it minted, the end of the execution.
func (r *Run) Note(path string, what journal.What) { r.noteAfter(r.m.Decided(), path, what) }

// noteAfter keeps an event that happened now, when the machine had decided so much.
func (r *Run) noteAfter(n int64, path string, what journal.What) {
	r.noteEvent(journal.Event{At: r.now, Path: path, After: n, What: what})
}

// noteEvent keeps an event.
func (r *Run) noteEvent(e journal.Event) {
	r.m.Tell(e.At) // as whoever replays the journal will
	r.stamp(&e)
	r.ledger.events = append(r.ledger.events, e)
}

// stamp puts the clock, the owner, and how many calls there may be at once, into the first event after a resume.
func (r *Run) stamp(e *journal.Event) {
	if r.ledger.resumed {
		r.ledger.resumed = false
		e.Resumed, e.Worked, e.Parallel, e.Owner = true, r.clock.At(e.At), r.o.Parallel, r.o.Owner
	}
}

// decided is what a record says that the machine had decided by then: what it decides while the run is
// being cancelled, whoever goes on decides anew.
func (r *Run) decided() int64 {
	if r.ending.cancelled {
		return r.ending.cancelledAt
	}
	return r.m.Decided()
}

// durable reports whether what happens is written down before it counts.
func (r *Run) durable() bool { return r.o.Durable && !r.ending.broken }

// Report adds a finding.
func (r *Run) Report(found ...diagnostics.Diagnostic) { r.found = append(r.found, found...) }

// Cancel says that the run's context has ended: err is its error, cause why.
func (r *Run) Cancel(err, cause error) {
	r.ending.cut, r.ending.cause = err, cause
	if !r.ending.cancelled {
		r.stopAll(CancelCause(cause))
	}
	r.stopAgents(err, cause)
	r.stopUndo()
}

// Break says that the store takes nothing any more, or that the run is somebody else's: it stops.
func (r *Run) Break(err error) {
	r.ending.broken = true
	if !r.ending.cancelled {
		r.stopAll(err)
	}
	r.resumeAgents(err)
	r.stopUndo()
}

// Cancelled reports whether the run was told to stop.
func (r *Run) Cancelled() bool { return r.ending.cancelled }

// stopAll ends the run early.
func (r *Run) stopAll(cause error) {
	r.ending.cancelled, r.ending.cancelledAt = true, r.m.Decided()
	r.m.Cancel(cause)
}
