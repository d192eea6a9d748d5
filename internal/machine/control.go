package machine

import (
	"errors"
	"fmt"
	"strings"

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
	// Around are the names of the inputs of the enclosing file that a file's body sees, too, unless it has its own.
	Around []string
}

// Fork runs bodies concurrently.
type Fork struct {
	Mode        Mode
	Branches    []Branch
	MaxParallel int // branches at once; 0: all
}

// Branch is a named body.
type Branch struct {
	Name string
	Body
	When *expr.Program // of a case; nil for the default and for branches of a fork
}

// Mode says what the end of one branch of a fork, or of one item of a foreach, means for the others.
type Mode uint8

// The modes.
const (
	All    Mode = iota // the first failure cancels the others
	Race               // the first success does
	Settle             // nothing does
)

// control is the state of a running composite: the frames of its bodies, in the order of opening
// for a loop, by branch for a fork (nil: not begun).
type control struct {
	frames  []*frame
	outputs []any      // by frame
	failed  []*Failure // by frame
	labels  []string   // by frame, of a call: see Enter

	rounds // of a loop

	// of a fork
	next   int // the branch to open next
	open   int // branches that are open
	winner int // of a race, -1: none yet
	over   bool
}

// openControl begins a composite.
func (m *Machine) openControl(t *Task, input any) {
	n := t.Node()
	t.ctl = &control{winner: -1}
	if n.Timeout > 0 {
		m.arm(t, Timeout, n.Timeout)
	}
	switch n.Kind {
	case Sub:
		m.openBranch(t, n.Body, "", 0, input)
	case Again:
		m.openLoop(t)
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
		failure = m.count(b.Graph.size())
	}
	if failure != nil {
		if failure.Path == "" {
			failure.Path = t.Path()
		}
		m.closeBranch(t, index, nil, failure)
		return
	}
	f := m.open(b.Graph, t, inputs)
	if f.label, f.index = label, index; b.Inputs == nil {
		f.run = t.frame.run
	}
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
	if failure := m.weigh("input", input, unknown); failure != nil { // before it is traversed
		return nil, failure
	}
	inputs, err := b.Inputs(input)
	if err != nil {
		return nil, &Failure{Category: "config", Code: "recipe.inputs", Err: err}
	}
	for _, name := range b.Around {
		if _, own := inputs[name]; !own {
			inputs[name] = t.frame.inputs[name]
		}
	}
	return inputs, nil
}

// closeBranch tells a composite that one of its bodies has ended.
func (m *Machine) closeBranch(t *Task, index int, output any, failure *Failure) {
	c := t.ctl
	c.outputs[index], c.failed[index] = output, failure
	switch t.Node().Kind {
	case Sub:
		m.end(t, output, unknown, failure)
	case Choice:
		if failure == nil {
			output = map[string]any{"case": caseName(t.Node(), index), "output": output}
		}
		m.end(t, output, unknown, failure)
	case Again:
		m.closeRound(t, output, failure)
	case Many:
		m.closeFork(t, index, failure)
	case Call:
		m.closeInside(t, index)
	}
}

// choose opens the first case whose condition holds.
func (m *Machine) choose(t *Task, input any) {
	cases := t.Node().Cases
	for i := range cases {
		if cases[i].When != nil {
			yes, err := cases[i].When.Bool(t)
			if err != nil {
				m.end(t, nil, unknown, exprFailure(err))
				return
			}
			if !yes {
				continue
			}
		}
		m.openBranch(t, &cases[i].Body, "/"+cases[i].Name, i, input)
		return
	}
	m.end(t, map[string]any{"case": nil}, unknown, nil)
}

func caseName(n *Node, index int) string { return n.Cases[index].Name }

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
		m.end(t, outputs, unknown, nil)
	case fork.Mode == Race && c.winner >= 0:
		m.end(t, map[string]any{"winner": fork.Branches[c.winner].Name, "output": c.outputs[c.winner]}, unknown, nil)
	case decided != nil:
		text := "branches failed: " + strings.Join(failed, "; ")
		if len(cancelled) > 0 {
			text += "; cancelled: " + strings.Join(cancelled, ", ")
		}
		if len(succeeded) > 0 {
			text += "; succeeded: " + strings.Join(succeeded, ", ")
		}
		m.end(t, nil, unknown, &Failure{Category: decided.Category, Code: decided.Code, Path: decided.Path,
			Err: &forkError{text, decided.Err}})
	case len(cancelled) > 0 || t.frame.cancelled:
		m.end(t, nil, unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
	case fork.Mode == Race: // there is no branch
		m.end(t, map[string]any{"winner": nil, "output": nil}, unknown, nil)
	default:
		m.end(t, outputs, unknown, nil)
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
