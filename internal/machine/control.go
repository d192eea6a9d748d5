package machine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/expr"
)

// Body is what a composite runs: a file, which sees only its inputs, or steps in place.
type Body struct {
	Graph *Graph
	// Given makes the argument of Inputs; nil: it is the node's own input.
	Given *expr.Template
	// Inputs makes the inputs of a file's body from its argument; nil for steps in place, which
	// see the names of the enclosing file.
	Inputs func(given any) (map[string]any, error)
}

// Loop runs a body repeatedly.
type Loop struct {
	Body
	Until    *expr.Program  // after each round; nil: never true
	Next     *expr.Template // Given of the second and later rounds; nil: that of the first
	Max      int            // rounds, at least 1
	Continue bool           // a round that fails counts as one whose output is null
	FailAt   bool           // reaching Max is a failure
}

// Fork runs bodies concurrently.
type Fork struct {
	Mode        ForkMode
	Branches    []Branch
	MaxParallel int // branches at once; 0: all
}

// Branch is a named body.
type Branch struct {
	Name string
	Body
	When *expr.Program // of a case; nil for the default and for branches of a fork
}

// ForkMode says what the end of one branch means for the others.
type ForkMode uint8

// The modes.
const (
	All    ForkMode = iota // the first failure cancels the others
	Race                   // the first success does
	Settle                 // nothing does
)

// Vars of a loop, in addition to those of a foreach: see Task.Var.
const (
	VarIteration = 2 + iota
	VarLast
	VarHistory
	VarElapsed
	VarCost
)

// maxHistory is how many outputs of rounds expressions see.
const maxHistory = 100

// control is the state of a running composite: the frames of its bodies, in the order of opening
// for a loop, by branch for a fork (nil: not begun).
type control struct {
	frames  []*frame
	outputs []any      // by frame
	failed  []*Failure // by frame

	// of a loop
	round int // from 1
	done  int // rounds that have ended
	last  any
	given any // of the first round
	sizes int // of the outputs of all rounds so far
	began time.Time
	spent int64 // see Spend

	// of a fork
	next   int // the branch to open next
	open   int // branches that are open
	winner int // of a race, -1: none yet
	over   bool
}

// Spend tells the loops around a call what it cost, in millionths of a dollar; before Finish.
func (m *Machine) Spend(t *Task, micros int64) {
	for p := t.frame.parent; p != nil && micros != 0; p = p.frame.parent {
		p.ctl.spent += micros
	}
}

// Tell gives the machine the time of the next event. The machine uses it for the elapsed time of
// loops.
func (m *Machine) Tell(now time.Time) { m.now = now }

// openControl begins a composite.
func (m *Machine) openControl(t *Task, input any) {
	n := t.Node()
	t.ctl = &control{winner: -1, given: input, began: m.now}
	if n.Timeout > 0 {
		m.arm(t, Timeout, n.Timeout)
	}
	switch n.Kind {
	case Sub:
		m.openBranch(t, n.Body, "", 0, input)
	case Again:
		m.openRound(t)
	case Choice:
		m.choose(t, input)
	case Many:
		t.ctl.frames = make([]*frame, len(n.Fork.Branches))
		t.ctl.outputs = make([]any, len(n.Fork.Branches))
		t.ctl.failed = make([]*Failure, len(n.Fork.Branches))
		m.feedFork(t)
	}
}

// openBranch opens the index-th frame of a composite. A body that cannot begin counts as failed.
func (m *Machine) openBranch(t *Task, b *Body, label string, index int, input any) {
	c := t.ctl
	for len(c.frames) <= index {
		c.frames, c.outputs, c.failed = append(c.frames, nil), append(c.outputs, nil), append(c.failed, nil)
	}
	inputs, failure := m.bodyInputs(t, b, input)
	if failure == nil {
		failure = m.count(len(b.Graph.Nodes))
	}
	if failure != nil {
		if failure.Path == "" {
			failure.Path = t.Path()
		}
		m.closeBranch(t, index, nil, failure)
		return
	}
	f := m.open(b.Graph, t, inputs)
	f.label, f.index = label, index
	c.frames[index] = f
	if f.left == 0 {
		m.closeFrame(f)
	}
}

// bodyInputs makes the inputs of a body.
func (m *Machine) bodyInputs(t *Task, b *Body, input any) (map[string]any, *Failure) {
	if b.Given != nil {
		var err error
		if input, err = b.Given.Eval(t); err != nil {
			return nil, exprFailure(err)
		}
	}
	if b.Inputs == nil {
		return t.frame.inputs, nil
	}
	if failure := m.weigh("input", input, Unknown); failure != nil { // before it is traversed
		return nil, failure
	}
	inputs, err := b.Inputs(input)
	if err != nil {
		return nil, &Failure{Category: "config", Code: "recipe.inputs", Err: err}
	}
	return inputs, nil
}

// closeBranch tells a composite that one of its bodies has ended.
func (m *Machine) closeBranch(t *Task, index int, output any, failure *Failure) {
	c := t.ctl
	c.outputs[index], c.failed[index] = output, failure
	switch t.Node().Kind {
	case Sub:
		m.end(t, output, Unknown, failure)
	case Choice:
		if failure == nil {
			output = map[string]any{"case": caseName(t.Node(), index), "output": output}
		}
		m.end(t, output, Unknown, failure)
	case Again:
		m.closeRound(t, output, failure)
	case Many:
		m.closeFork(t, index, failure)
	}
}

// choose opens the first case whose condition holds.
func (m *Machine) choose(t *Task, input any) {
	cases := t.Node().Cases
	for i := range cases {
		if cases[i].When != nil {
			yes, err := cases[i].When.Bool(t)
			if err != nil {
				m.end(t, nil, Unknown, exprFailure(err))
				return
			}
			if !yes {
				continue
			}
		}
		m.openBranch(t, &cases[i].Body, "/"+cases[i].Name, i, input)
		return
	}
	m.end(t, map[string]any{"case": nil}, Unknown, nil)
}

func caseName(n *Node, index int) string { return n.Cases[index].Name }

// openRound begins the next round of a loop.
func (m *Machine) openRound(t *Task) {
	c, body := t.ctl, t.Node().Loop.Body
	if c.round++; c.round > 1 && t.Node().Loop.Next != nil {
		body.Given = t.Node().Loop.Next
	}
	m.openBranch(t, &body, fmt.Sprint("#", c.round), c.round-1, c.given)
}

// closeRound continues a loop after a round: the loop stops if until holds, at the limit, or at a
// failure; else the next round begins.
func (m *Machine) closeRound(t *Task, output any, failure *Failure) {
	c, l := t.ctl, t.Node().Loop
	stop := func(reason string) {
		m.end(t, map[string]any{"last": c.last, "iterations": int64(c.round), "reason": reason}, Unknown, nil)
	}
	if failure == nil { // before the next round can repeat it: [last, last] doubles
		before := m.size
		if failure = m.weigh("output of a round", output, Unknown); failure != nil {
			output, c.outputs[c.round-1] = nil, nil
		}
		c.sizes += len(",") + m.size - before
		m.largest = max(m.largest, len("[]")+c.sizes) // of history
	}
	over := c.over || t.frame.cancelled
	if failure == nil && over {
		failure = &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled}
	}
	if failure != nil && (!l.Continue || over || failure.Category == "cancelled") {
		m.end(t, nil, Unknown, failure)
		return
	}
	c.last, c.done = output, c.round
	if l.Until != nil {
		yes, err := l.Until.Bool(t)
		if err != nil {
			m.end(t, nil, Unknown, exprFailure(err))
			return
		}
		if yes {
			stop("until")
			return
		}
	}
	if c.round >= l.Max {
		if l.FailAt {
			m.end(t, nil, Unknown, &Failure{Category: "limit", Code: "loop.maxIterations",
				Err: fmt.Errorf("the loop came to its %d iterations without an end", l.Max)})
			return
		}
		stop("max_iterations")
		return
	}
	m.openRound(t)
}

// feedFork opens the next branches of a fork, up to its limit, and ends the fork after the last.
func (m *Machine) feedFork(t *Task) {
	c, fork := t.ctl, t.Node().Fork
	for !c.over && c.next < len(fork.Branches) && (fork.MaxParallel == 0 || c.open < fork.MaxParallel) {
		i := c.next
		c.next++
		c.open++
		m.openBranch(t, &fork.Branches[i].Body, "/"+fork.Branches[i].Name, i, nil)
	}
	if c.open == 0 && (c.over || c.next == len(fork.Branches)) && t.status == Running {
		m.endFork(t)
	}
}

// closeFork handles the end of a branch.
func (m *Machine) closeFork(t *Task, index int, failure *Failure) {
	c, fork := t.ctl, t.Node().Fork
	c.open--
	won := failure == nil && fork.Mode == Race && c.winner < 0
	if won {
		c.winner = index
	}
	if !c.over && (won || failure != nil && fork.Mode == All) {
		cause := errDecided
		if won {
			cause = errLost
		}
		m.cancelBodies(t)
		m.stop(t, cause)
	}
	m.feedFork(t)
}

// Why the other branches of a fork end: one has failed, or has won the race.
var (
	errDecided = errors.New("cancelled: another branch has decided the fork")
	errLost    = fmt.Errorf("%w", errDecided)
)

// endFork ends a fork: all its branches have ended, or will not begin.
func (m *Machine) endFork(t *Task) {
	c, fork := t.ctl, t.Node().Fork
	outputs := make(map[string]any, len(fork.Branches))
	var decided *Failure
	var failed, cancelled, succeeded []string
	for i := range fork.Branches {
		name, failure := fork.Branches[i].Name, c.failed[i]
		switch begun := c.frames[i] != nil || failure != nil; {
		case fork.Mode == Settle && failure != nil:
			outputs[name] = map[string]any{"status": settled(failure), "error": failure.Value()}
		case fork.Mode == Settle:
			outputs[name] = map[string]any{"status": "succeeded", "output": c.outputs[i]}
		case failure == nil && begun:
			outputs[name] = c.outputs[i]
			succeeded = append(succeeded, name)
		case !begun || failure.Category == "cancelled":
			cancelled = append(cancelled, name)
		default:
			failed = append(failed, fmt.Sprintf("%s: %v", name, failure.Err))
			if decided == nil {
				decided = failure
			}
		}
	}
	switch {
	case fork.Mode == Settle && !t.frame.cancelled:
		m.end(t, outputs, Unknown, nil)
	case fork.Mode == Race && c.winner >= 0:
		m.end(t, map[string]any{"winner": fork.Branches[c.winner].Name, "output": c.outputs[c.winner]}, Unknown, nil)
	case decided != nil:
		text := "branches failed: " + strings.Join(failed, "; ")
		if len(cancelled) > 0 {
			text += "; cancelled: " + strings.Join(cancelled, ", ")
		}
		if len(succeeded) > 0 {
			text += "; succeeded: " + strings.Join(succeeded, ", ")
		}
		m.end(t, nil, Unknown, &Failure{Category: decided.Category, Code: decided.Code, Path: decided.Path,
			Err: &forkError{text, decided.Err}})
	case len(cancelled) > 0 || t.frame.cancelled:
		m.end(t, nil, Unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
	case fork.Mode == Race: // there is no branch
		m.end(t, map[string]any{"winner": nil, "output": nil}, Unknown, nil)
	default:
		m.end(t, outputs, Unknown, nil)
	}
}

func settled(f *Failure) string {
	if f.Category == "cancelled" {
		return Cancelled.String()
	}
	return Failed.String()
}

// forkError is the failure of a branch, with how the others ended.
type forkError struct {
	text  string
	cause error
}

func (e *forkError) Error() string { return e.text }
func (e *forkError) Unwrap() error { return e.cause }
