package machine

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
)

// Task is one execution of a node: a step, or one item of a foreach. It is also the environment
// in which the node's expressions are evaluated.
type Task struct {
	frame   *frame
	node    int32 // index in the frame's graph; -1 for the frame's own task
	item    int32 // index of the item; -1 for a step
	status  Status
	armed   uint8 // its armed timers, a bit each
	timeout bool  // its time ran out
	stopped bool  // its call was told to stop
	spared  bool  // see Spared
	handled bool  // its failure is: its body goes on
	waiting

	began int64 // the machine's count of begun tasks when it began

	value   any // of the item
	output  any
	failure *Failure

	ctl *control // of a composite that has begun

	each *each // of a foreach that runs

	messages *messages // nil: nobody reads them, or it has not begun

	// First, Last and Driver belong to the driver; the machine never reads them.
	First, Last int32
	Driver      any
}

// waiting is how a task waits or has waited.
type waiting struct {
	again     bool // its call was suspended and answered, and is to start again
	kept      bool // the driver ends its waiting soon
	unknown   bool // it waits for the outcome of its call
	insists   bool // also when nothing depends on that
	receiving bool // it is a Receive that had to wait
	opened    bool // the driver was told, because nothing else could continue
	broke     bool // it waits at a breakpoint, or has waited there
}

// each is the state of a foreach.
type each struct {
	items  []Task
	next   int   // the item to start next
	active int   // items that were started and have not ended
	done   int   // items that have ended
	overAt int64 // 0, or the count of begun tasks when the first item failed
}

// frame is the state of one execution of a body.
type frame struct {
	graph  *Graph
	parent *Task  // that owns the body; nil for the run's
	label  string // distinguishes the body from the owner's others: #2, /left
	index  int    // of the body among the owner's
	depth  int
	inputs map[string]any
	steps  []step
	left   int // steps that have not settled

	failedAt  int64 // 0, or the count of begun tasks at the first unhandled failure
	cancelled bool  // nothing starts any more
	between   bool  // it is the wait after a round of a loop

	channels []channel // of the file; frames of steps in place share them

	self Task // the environment of the body's output, and the owner of the run's timers
	m    *Machine

	finally
}

// step is the state of one node in a frame.
type step struct {
	Task
	waits int32 // needs that have not settled
	// needs that settled otherwise than succeeded, by how
	failed, skippedWhen, skippedUpstream int32
	failedUpstream                       int32 // those skipped because a step before them failed
	// cause is 1 + the node whose condition skipped those that were skipped; 0: none was, several: more than one did
	cause int32
}

const several = -1

// unreached reports whether a step before this one failed, so that it does not run.
func (s *step) unreached() bool { return s.failed+s.failedUpstream > 0 }

// behind notes that the condition of a node skipped a need.
func (s *step) behind(cause int32) {
	if s.cause == 0 || s.cause == cause {
		s.cause = cause
	} else {
		s.cause = several
	}
}

// Node returns the node that the task executes; nil for the run's own task.
func (t *Task) Node() *Node {
	if t.node < 0 {
		return nil
	}
	return &t.frame.graph.Nodes[t.node]
}

// Path returns the path of the task in the run: send, verify[2]/check.
func (t *Task) Path() string {
	if t.node < 0 {
		path := ""
		if t.frame.parent != nil {
			path = t.frame.parent.Path() + t.frame.label
		}
		if t.frame.of != nil {
			path += FinallyMark
		}
		return path
	}
	id := t.Node().ID
	if t.item < 0 && t.frame.parent == nil {
		return id
	}
	var b []byte
	if p := t.frame.parent; p != nil {
		b = append(append(append(b, p.Path()...), t.frame.label...), '/')
	}
	b = append(b, id...)
	if t.item >= 0 {
		b = append(strconv.AppendInt(append(b, '['), int64(t.item), 10), ']')
	}
	return string(b)
}

// Nested reports whether the task is an item of a foreach or in a body.
func (t *Task) Nested() bool { return t.item >= 0 || t.frame.parent != nil }

// Status returns the status of the task.
func (t *Task) Status() Status { return t.status }

// Output returns the output of the task; nil unless it succeeded.
func (t *Task) Output() any { return t.output }

// Failure returns why the task failed; nil unless it did.
func (t *Task) Failure() *Failure { return t.failure }

// Inputs, Consts, Run, Step, Told and Var make a Task the expr.Env of its node.
var _ expr.Env = (*Task)(nil)

// Inputs returns the inputs of the node's file.
func (t *Task) Inputs() map[string]any { return t.frame.inputs }

// Consts returns the constants of the node's file.
func (t *Task) Consts() map[string]any { return t.frame.graph.Consts }

// Run returns what expressions see as run.
func (t *Task) Run() map[string]any {
	m := t.frame.m
	if run := t.frame.run; run != nil {
		return run
	}
	if m.run == nil && m.opts.Run != nil {
		m.run = m.opts.Run()
	}
	return m.run
}

// visible returns a visible step.
func (t *Task) visible(ref expr.StepRef) *Task {
	f := t.frame
	for range ref.Up {
		f = f.around()
	}
	return &f.steps[ref.Index].Task
}

// Told returns the finish, usage, calls or messages of a visible step.
func (t *Task) Told(ref expr.StepRef, what string) any { return t.visible(ref).told(what) }

func (t *Task) told(what string) any {
	if what == "messages" {
		return t.said()
	}
	if of := t.frame.m.opts.Told; of != nil {
		return of(t, what)
	}
	return nil
}

// Step returns the state of a visible step.
func (t *Task) Step(ref expr.StepRef) (status string, output, err any) {
	s := t.visible(ref)
	return s.status.String(), s.output, s.failed()
}

// Var returns the item (index 0) or its number (index 1) of the foreach that is up bodies
// outwards.
func (t *Task) Var(up, index int) any {
	var inside *frame
	for range up {
		inside, t = t.frame, t.frame.outside()
	}
	switch index {
	case 0:
		return t.value
	case 1:
		return int64(t.item)
	}
	return t.ctl.variable(index, t.frame.m, inside)
}

// bodies returns the bodies of a composite that have begun.
func (t *Task) bodies() []*frame {
	if t.ctl == nil {
		return nil
	}
	bodies := slices.DeleteFunc(slices.Clone(t.ctl.frames), func(f *frame) bool { return f == nil })
	if waits := t.ctl.waits; waits != nil { // each comes after its round
		bodies = append(bodies, waits...)
		slices.SortStableFunc(bodies, func(a, b *frame) int { return cmp.Compare(a.index, b.index) })
	}
	return bodies
}

// cancelled reports whether a composite is already ending early.
func (t *Task) cancelled() bool { return t.ctl != nil && t.ctl.over }

// Ended returns the environment for what comes after the task. Its own step is the task itself there,
// also for an item.
func (t *Task) Ended() expr.Env { return ended{t} }

type ended struct{ *Task }

func (e ended) Step(ref expr.StepRef) (status string, output, err any) {
	if ref.Up > 0 || ref.Index != int(e.node) {
		return e.Task.Step(ref)
	}
	return e.status.String(), e.output, e.failed()
}

func (e ended) Told(ref expr.StepRef, what string) any {
	if ref.Up > 0 || ref.Index != int(e.node) {
		return e.Task.Told(ref, what)
	}
	return e.told(what)
}

// VarError is the variable of conditions about a failure.
const VarError = 101

// about is the environment of a task with such a variable.
type about struct {
	*Task
	variable int
	value    any
}

func (a about) Var(up, index int) any {
	if index == a.variable {
		return a.value
	}
	return a.Task.Var(up, index)
}

// VarOutput is the variable of checks of an output.
const VarOutput = 102

// Broken returns what is wrong with an output by the checks of the step; "" is good.
func (t *Task) Broken(output any) (string, error) {
	var faults []string
	env := about{t, VarOutput, output}
	for _, c := range t.Node().Rules.Checks {
		good, err := c.That.Bool(env)
		if err != nil {
			return "", err
		}
		if good {
			continue
		}
		said, err := c.Else.Eval(env)
		if err != nil {
			return "", err
		}
		text, err := value.Text(said)
		if err != nil {
			return "", err
		}
		faults = append(faults, text)
	}
	return strings.Join(faults, "; "), nil
}

// CheckFailure is the failure of a step whose output breaks a rule.
func CheckFailure(fault string, err error) *Failure {
	if err != nil {
		return &Failure{Category: "config", Code: "expr.failed", Err: err}
	}
	return &Failure{Category: "config", Code: "output.check", Err: errors.New("the output breaks a rule: " + fault)}
}

// Failing returns the environment for what is said about a failure of the task.
func (t *Task) Failing(f *Failure) expr.Env {
	return about{t, VarError, f.all(t)}
}

// failed is the error of the task as expressions see it that read the step; nil: it has not failed.
func (t *Task) failed() any {
	if t.failure == nil || !t.frame.m.opts.Errors {
		return t.failure.Value()
	}
	return t.failure.all(t)
}

// Owner returns the task whose body t is in; nil for a step of the recipe's own.
func (t *Task) Owner() *Task { return t.frame.parent }

// Whole returns the foreach step of an item; for other tasks, t.
func (t *Task) Whole() *Task {
	if t.item < 0 {
		return t
	}
	return t.whole()
}

// whole returns the foreach step of an item.
func (t *Task) whole() *Task { return &t.frame.steps[t.node].Task }

// Items returns the items of a foreach that has begun; nil for other tasks.
func (t *Task) Items() []Task {
	if t.each == nil {
		return nil
	}
	return t.each.items
}

// Size is how many items a foreach that runs has, as content of its trace.StepStart: {items}; nil for other tasks.
func (t *Task) Size() any {
	if n := len(t.Items()); n > 0 {
		return map[string]any{"items": int64(n)}
	}
	return nil
}

// within reports whether t is owner, an item of it, or part of its body.
func (t *Task) within(owner *Task) bool {
	for t != nil {
		if t == owner || owner.node < 0 && owner.frame == t.frame || t.item >= 0 && t.whole() == owner {
			return true
		}
		if t.frame.of != nil { // what comes at the end of a body does not end with the body
			return false
		}
		t = t.frame.parent
	}
	return false
}

// diverge returns where the paths of two tasks part: the tasks around them that are of one frame, or whose frames are
// bodies of one task.
func diverge(a, b *Task) (*Task, *Task) {
	for a.frame != b.frame {
		p := a.frame.parent
		if p != nil && p == b.frame.parent && a.frame.of == nil && b.frame.of == nil {
			break
		}
		if a.frame.depth >= b.frame.depth {
			a = a.frame.outside()
		} else {
			b = b.frame.outside()
		}
	}
	return a, b
}

// before orders tasks that compete to start: where their paths diverge, by priority, declaration,
// item and branch, so that bodies run in place and depth first.
func before(a, b *Task) bool {
	a, b = diverge(a, b)
	if a.frame != b.frame {
		return a.frame.index < b.frame.index
	}
	if a.node < 0 || b.node < 0 { // one is part of a finally
		return b.node < 0
	}
	rank := a.frame.graph.Rank
	return cmp.Or(cmp.Compare(rank[a.node], rank[b.node]), cmp.Compare(a.item, b.item)) < 0
}

// queue is a binary heap of tasks, least by before first.
type queue []*Task

func (q *queue) push(t *Task) {
	h := append(*q, t)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !before(t, h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = t
	*q = h
}

func (q *queue) pop() *Task {
	h := *q
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = nil
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && before(h[child+1], h[child]) {
			child++
		}
		if !before(h[child], last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
