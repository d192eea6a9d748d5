package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// leftOver is what a journal left in progress. It is cleared once the run is live.
type leftOver struct {
	there     bool // there is a journal
	told      bool // an event of it has been applied
	replaying bool
	owner     string                      // who drives the run now, or drove it at this event; "": not known
	known     map[string]*machine.Task    // tasks that have begun, by path
	pending   []machine.Command           // calls and waits
	armed     []machine.Command           // timers
	halted    []*machine.Task             // calls that were told to stop
	unsure    map[*machine.Task]begunCall // calls without a result
	begun     map[*machine.Task]int       // how often such a call has begun in a row
	again     []*machine.Task             // tasks that ended in an earlier execution, for the trace
	spans     map[*machine.Task]span      // nil: nobody wants them, see Options.Times
	denied    map[string]*machine.Failure // of steps that have not begun, by path
	stands    map[string]bool             // what a run has of another one, while it takes it; nil: it does not
}

// begunCall is a call that had begun.
type begunCall struct {
	journal.CallBegun
	made
}

// Resume brings a new Run to the state at the end of a journal. Its definition is the present one of the journal;
// inputs are the validated inputs of the run. ended says that the run is over, undo that only rollbacks are left.
func (r *Run) Resume(inputs map[string]any, was *past.Past, ended, undo bool) error {
	events, from := was.Events, was.Definition.From
	begun, own := r.now, r.o.Limits
	r.tools.recall(was.Tools)
	r.prepare(inputs)
	r.budget.recall(was.Before())
	r.past.there, r.past.replaying = true, true
	if r.o.Times {
		r.past.spans = map[*machine.Task]span{}
	}
	r.clock = past.Clock{Since: events[from].At}
	for i := range from { // a new definition comes after the execution that brings it
		r.recall(&events[i])
		r.clock.Read(&events[i])
	}
	for i := from; i < len(events); i++ {
		if err := r.Apply(&events[i]); err != nil {
			return fmt.Errorf("record %d: %w: %w", i+1, checkpoint.ErrCorrupt, err)
		}
	}
	if err := r.advance(0); err != nil { // decisions after the last event
		return err
	}
	r.clock = past.Clock{Used: r.clock.At(r.now), Since: begun}
	r.now = begun
	r.undo.atEnd = r.undo.atEnd || undo && r.ending.forGood == nil && r.ending.fixed == nil
	for (ended || r.undo.atEnd) && r.m.Result() == nil { // to its end, which has no record of its own
		c := r.m.Next()
		if c.Op == machine.None {
			break // it was cancelled
		}
		r.replayed(c)
	}
	r.m.SetMaxParallel(r.o.Parallel)
	r.o.setLimits(own, r.m)
	r.past.replaying, r.past.known = false, nil
	if !ended {
		r.noteExecution()
	}
	return nil
}

// Apply applies the next event of a journal. The error says that the event is illegal. Then nothing has changed, unless
// the machine had to decide something first: in that case the run cannot be used any more.
func (r *Run) Apply(e *journal.Event) error {
	if err := r.possible(e); err != nil {
		return err
	}
	if what, ok := e.What.(journal.Redefined); ok {
		r.calls.redefine(&what)
		r.before.Redefined(&what)
	}
	parallel := r.m.MaxParallel()
	if _, ok := e.What.(journal.Execution); ok { // it has handed out what was decided
		_ = r.advance(0)
	}
	r.recall(e)
	if e.Ordered() { // what it had decided by then, it decided at the time of the previous event
		if err := r.advance(e.After); err != nil {
			return err
		}
	}
	t, err := r.past.taskOf(e, r.m)
	if err != nil {
		r.m.SetMaxParallel(parallel)
		return err
	}
	r.past.told = true
	r.clock.Read(e)
	r.now = e.At
	r.m.Tell(e.At)
	if what, ok := e.What.(journal.TimerDue); ok {
		i := r.past.timer(e.Path, what.Timer)
		if i < 0 {
			return nil // it was disarmed at that moment
		}
		t = r.past.takeArmed(i)
	}
	return r.apply(t, e)
}

// advance lets the machine make n decisions in all.
func (r *Run) advance(n int64) error {
	for r.m.Decided() < n || r.m.Queued() {
		c := r.m.Next()
		if c.Op == machine.None && r.m.Decided() < n {
			return fmt.Errorf("the run never reached decision %d", n)
		}
		r.replayed(c)
	}
	return nil
}

// recall reads who executes the run from an event on. The machine gets the breakpoints, as many slots as the run had
// from then on, and the limits, because its decisions depend on them. Journals of earlier versions do not have them;
// then they must be unchanged.
func (r *Run) recall(e *journal.Event) {
	r.serve(e)
	if what, ok := e.What.(journal.Breakpoints); ok {
		r.breakpoints = what.Steps
	}
	n := 0
	if begun, ok := e.What.(journal.Begun); ok {
		n, r.began = begun.Parallel, e.At
	}
	if x := e.Execution(); x != nil {
		n, r.past.owner = cmp.Or(x.Parallel, n), cmp.Or(x.Owner, r.past.owner)
		if was := x.Limits; was != nil {
			l := r.o.Limits
			l.MaxItems, l.MaxSteps = was.Items, was.Steps
			l.MaxOutputBytes, l.MaxRunBytes = was.OutputBytes, was.RunBytes
			r.o.setLimits(l.WithDefaults(), r.m)
		}
	}
	if n > 0 {
		r.m.SetMaxParallel(n)
	}
}

// setLimits changes the limits of a run. The machine has those of its sizes.
func (o *Options) setLimits(l runtime.Limits, m *machine.Machine) {
	o.Limits = l
	m.SetLimits(l.MaxItems, l.MaxSteps, l.MaxOutputBytes, l.MaxRunBytes)
}

// replayed is carryOut for a command that was executed earlier.
func (r *Run) replayed(c machine.Command) {
	p := &r.past
	p.note(c, r.now)
	switch c.Op {
	case machine.Began:
		p.knows(c.Task)
		r.budget.begin(c.Task, r.clock.At(r.now))
	case machine.Skipped:
		r.closePauses(c.Task)
		r.past.settled(c.Task) // it may have waited at a breakpoint, and never have opened a pause
	case machine.Ended:
		r.closePauses(c.Task)
		if k := c.Task.Node().Kind; k == machine.Wait || k == machine.Receive { // it may never have opened a pause
			r.past.settled(c.Task)
		}
		p.again = append(p.again, c.Task)
	case machine.Start, machine.Open:
		if c.Again { // it had not ended: steps inside had
			p.pending = slices.DeleteFunc(p.pending, func(was machine.Command) bool { return was.Task == c.Task })
		}
		p.knows(c.Task)
		p.pending = append(p.pending, c)
	case machine.Stop:
		p.halted = append(p.halted, c.Task)
	case machine.Arm:
		c.Wait += timeOf(c.Task, r.clock.At(r.now), r.now.Sub(r.o.Now))
		p.armed = append(p.armed, c)
	case machine.Disarm:
		p.armed = slices.DeleteFunc(p.armed,
			func(a machine.Command) bool { return a.Task == c.Task && a.Timer == c.Timer })
	}
}

// knows notes a task that events may be about.
func (p *leftOver) knows(t *machine.Task) {
	if p.known == nil {
		p.known = map[string]*machine.Task{}
	}
	p.known[t.Path()] = t
}

// timeOf is the time from which the timers of a task count when the run is resumed. A step that waits for a value
// also waits while the run is not executed. A repeated call has its whole time again. The run's own time is
// subtracted when its timer starts. worked is the run's clock, resumed how long this execution is.
func timeOf(t *machine.Task, worked, resumed time.Duration) time.Duration {
	switch n := t.Node(); {
	case t.IsFinally():
	case n == nil || n.Kind == machine.Call:
		return 0
	case n.Kind == machine.Receive:
		return resumed
	}
	return worked
}

// TellReplayed emits the events of steps that are not repeated.
func (r *Run) TellReplayed() {
	for _, t := range r.past.again {
		r.trace.emit(t, r.now, trace.StepReplayed, t.Path(), nil, nil)
	}
	r.past.again = nil
}

// settled notes that a task is no longer in progress.
func (p *leftOver) settled(t *machine.Task) {
	p.pending = slices.DeleteFunc(p.pending, func(c machine.Command) bool { return c.Task == t })
	delete(p.unsure, t)
	delete(p.begun, t)
}

// GoLive turns the state from a journal into a live one: what was in progress is done again.
func (r *Run) GoLive() {
	if !r.past.there {
		return
	}
	r.past.there = false
	undone := r.undo.wasUndone
	goOnDue := func() { // ends the pauses that are due
		for _, p := range slices.Clone(r.waits.pauses) {
			r.goOn(p)
		}
	}
	if undone { // then what is due restarts the run
		goOnDue()
	}
	r.m.Walk(func(t *machine.Task) {
		if t.Status() == machine.Running && t.First == 0 {
			r.trace.emit(t, r.now, trace.StepStart, t.Path(), nil, t.Size())
		}
	}, func(*machine.Task) {})
	p := &r.past
	p.pending = slices.DeleteFunc(p.pending, // a task that waits for a slot starts again, as steps inside it have ended
		func(c machine.Command) bool { return c.Op == machine.Start && c.Task.Queued() })
	for i, a := range p.armed {
		p.armed[i].Wait -= timeOf(a.Task, r.clock.At(r.now), r.now.Sub(r.o.Now))
	}
	p.pending, p.armed = slices.Concat(p.armed, p.pending), nil
	for _, t := range p.halted { // calls that were told to stop are not repeated
		starts := func(c machine.Command) bool { return c.Op == machine.Start && c.Task == t }
		if i := slices.IndexFunc(p.pending, starts); i >= 0 {
			c := p.pending[i]
			p.pending = slices.Delete(p.pending, i, i+1)
			step{}.stoppedBefore(r, c)
		}
	}
	p.halted = nil
	if !undone {
		goOnDue()
	}
}

// stoppedBefore is the end of a call that was told to stop by a process that died.
func (s step) stoppedBefore(r *Run, c machine.Command) {
	p, unknown := r.interrupted(c)
	s.finish(r, p, outcome{unknown: unknown,
		failure: notDone("the call was told to stop before the process died")})
}

// interrupted returns a call that was in progress when its process died, and whether its outcome is unknown.
func (r *Run) interrupted(c machine.Command) (p *pending, unknown bool) {
	t := c.Task
	p = r.calls.newCall(step{}, t, t.Node().Adapter.(*program.Call), r.trace.path(t), r.now)
	p.Input = c.Input
	switch was, begun := r.past.unsure[t]; {
	case p.Kind == program.AgentCall:
		found, err := r.agents.prepare(p, &r.o, &r.budget, &r.before, r.program.Earlier())
		r.Report(found...)
		unknown = err == nil && p.agent.leftOpen(p, &r.o, r.calls.generation)
	case begun && p.Kind == program.ToolCall:
		unknown = r.o.prepareTool(p, &r.tools) != nil || !p.begunAs(was.Effect).repeatable()
		p.made = was.made
	}
	return p, unknown
}

// begin notes that a call has begun.
func (p *leftOver) begin(t *machine.Task, call begunCall) {
	if p.unsure == nil {
		p.unsure = map[*machine.Task]begunCall{}
	}
	if p.begun == nil {
		p.begun = map[*machine.Task]int{}
	}
	if p.unsure[t].Ordinal != call.Ordinal {
		p.begun[t] = 0
	}
	p.begun[t]++
	p.unsure[t] = call
}

// maxDeaths is how often in a row a call may have begun in a process that died before it ended.
const maxDeaths = 5

// poisonous is the error of a call that is not repeated because it may be what ends the process; nil: it is made.
func (p *leftOver) poisonous(c *pending) error {
	if p.begun[c.task] < maxDeaths || p.unsure[c.task].Ordinal != c.Ordinal {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryTool, Code: "step.poison",
		Err: fmt.Errorf("%s: tool %q was called %d times, and each time the process ended before it did",
			c.site.Pos, c.Name, maxDeaths)}
}

// timer finds the timer of a task in armed; -1: it is not armed.
func (p *leftOver) timer(path string, timer machine.Timer) int {
	return slices.IndexFunc(p.armed,
		func(a machine.Command) bool { return a.Task.Path() == path && a.Timer == timer })
}

// takeArmed removes a timer from armed, and returns its task.
func (p *leftOver) takeArmed(i int) *machine.Task {
	t := p.armed[i].Task
	p.armed = slices.Delete(p.armed, i, i+1)
	return t
}
