package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
)

// Loop runs a body repeatedly.
type Loop struct {
	Body
	Over     *expr.Template // there is a round for each item of this list; nil: no list
	First    *expr.Template // what last is in the first round; nil: null
	Until    *expr.Program  // after each round; nil: never true
	Next     *expr.Template // Given of the second and later rounds; nil: that of the first
	Wait     *expr.Template // how long to wait between two rounds, a duration as text; nil: not at all
	Between  *Graph         // does so: one node of kind Wait, see WaitInput; nil without Wait
	Max      int            // rounds, at least 1; 0: only Most or Over limits them
	Most     *expr.Template // makes Max; nil: it is known
	Continue bool           // a round that fails counts as one whose output is null
	FailAt   bool           // reaching the most rounds is a failure

	OverAt, MostAt, WaitAt string // file:line:column, for messages
}

// MaxRounds is the most rounds of any loop.
const MaxRounds = 1000

// Vars of a loop, in addition to those of a foreach: see Task.Var.
const (
	VarIteration = 2 + iota
	VarLast
	VarHistory
	VarElapsed
	VarCost
	VarItem
)

// WaitInput is the input of the body Between by that name: how long to wait.
const WaitInput = "wait"

// MaxWait is the longest wait between two rounds.
const MaxWait = 365 * 24 * time.Hour

// maxHistory is how many outputs of rounds expressions see.
const maxHistory = 100

// rounds is the state of a loop that runs.
type rounds struct {
	items []any // of its list
	most  int   // rounds
	first any   // what last is before any round has ended

	waits []*frame // between rounds, so far
	round int      // that runs, from 1
	done  int      // rounds that have ended
	last  any
	sizes int // of the outputs of all rounds so far
	began time.Time
	spent int64 // see Spend
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

// openLoop works out how often a loop may run, and begins its first round.
func (m *Machine) openLoop(t *Task) {
	l, c := t.Node().Loop, t.ctl
	c.began, c.most = m.now, MaxRounds
	if l.Max > 0 {
		c.most = l.Max
	}
	failure := m.loopItems(t, l, c)
	if failure == nil && l.First != nil {
		var err error
		if c.first, err = l.First.Eval(t); err != nil {
			failure = exprFailure(err)
		} else {
			failure = m.weigh("first of the loop", c.first, unknown)
		}
		c.last = c.first
	}
	if failure == nil && l.Most != nil {
		c.most, failure = setting(t, l.Most, l.MostAt, Rounds, Failure{Category: "config", Code: "loop.badMax"})
	}
	if failure != nil {
		m.end(t, nil, unknown, failure)
		return
	}
	m.nextRound(t)
}

// loopItems makes the list of a loop.
func (m *Machine) loopItems(t *Task, l *Loop, c *control) *Failure {
	if l.Over == nil {
		return nil
	}
	in, err := l.Over.Eval(t)
	if err != nil {
		return exprFailure(err)
	}
	items, ok := in.([]any)
	switch {
	case !ok:
		return &Failure{Category: "config", Code: "loop.notList",
			Err: fmt.Errorf("%s: over needs a list, not %s", l.OverAt, value.TypeName(in))}
	case len(items) > MaxRounds:
		return &Failure{Category: "limit", Code: "loop.maxItems",
			Err: fmt.Errorf("%s: a loop over %d items, the limit is %d", l.OverAt, len(items), MaxRounds)}
	}
	c.items = items
	return m.weigh("list of items", in, unknown)
}

// setting evaluates a setting of a loop that stands at a place, and reads what it gave. bad, which has no Err yet, is
// for a value that cannot be read.
func setting[T any](
	t *Task, v *expr.Template, at string, read func(v any) (T, error), bad Failure,
) (as T, failure *Failure) {
	given, err := v.Eval(t)
	if err != nil {
		return as, exprFailure(err)
	}
	if as, err = read(given); err != nil {
		bad.Err = fmt.Errorf("%s: %w", at, err)
		return as, &bad
	}
	return as, nil
}

// Rounds reads the most rounds of a loop, as an expression gave them.
func Rounds(v any) (int, error) {
	digits, big := v.(json.Number)
	n, ok := v.(int64)
	if f, float := v.(float64); float && f >= 0 && f <= MaxRounds && f == float64(int64(f)) {
		n, ok = int64(f), true
	}
	switch {
	case big:
		return 0, fmt.Errorf("max_iterations is %.40s, it must be between 0 and %d", digits, MaxRounds)
	case !ok:
		return 0, fmt.Errorf("max_iterations must be an integer, not %s", value.TypeName(v))
	case n < 0 || n > MaxRounds:
		return 0, fmt.Errorf("max_iterations is %d, it must be between 0 and %d", n, MaxRounds)
	}
	return int(n), nil
}

// nextRound begins the next round of a loop, after the wait before it, or ends the loop: its list or its rounds are
// used up.
func (m *Machine) nextRound(t *Task) {
	l, c := t.Node().Loop, t.ctl
	switch {
	case l.Over != nil && c.done >= len(c.items):
		m.endLoop(t, "over")
	case c.done >= c.most && l.FailAt:
		m.end(t, nil, unknown, &Failure{Category: "limit", Code: "loop.maxIterations",
			Err: fmt.Errorf("the loop came to its %d iterations without an end", c.most)})
	case c.done >= c.most:
		m.endLoop(t, "max_iterations")
	case l.Wait != nil && c.done > 0:
		m.between(t)
	default:
		m.beginRound(t)
	}
}

// beginRound begins the next round of a loop.
func (m *Machine) beginRound(t *Task) {
	l, c := t.Node().Loop, t.ctl
	c.round++
	body := l.Body
	if c.round > 1 && l.Next != nil {
		body.Given = l.Next
	}
	m.openBranch(t, &body, fmt.Sprint("#", c.round), c.round-1, nil)
}

// endLoop ends a loop well.
func (m *Machine) endLoop(t *Task, reason string) {
	c := t.ctl
	m.end(t, map[string]any{"last": c.last, "iterations": int64(c.done), "reason": reason}, unknown, nil)
}

// closeRound continues a loop after a round: the loop stops if until holds or at a failure; else the next round begins,
// if there is one.
func (m *Machine) closeRound(t *Task, output any, failure *Failure) {
	c, l := t.ctl, t.Node().Loop
	if failure == nil { // before the next round can repeat it: [last, last] doubles
		before := m.size
		if failure = m.weigh("output of a round", output, unknown); failure != nil {
			output, c.outputs[c.round-1] = nil, nil
		}
		c.sizes += len(",") + m.size - before
		m.largest = max(m.largest, len("[]")+c.sizes) // of history
	}
	failure = t.cutShort(failure)
	if failure != nil && (!l.Continue || t.endsEarly() || failure.Category == "cancelled") {
		m.end(t, nil, unknown, failure)
		return
	}
	c.last, c.done = output, c.round
	if l.Until != nil {
		yes, err := l.Until.Bool(t)
		if err != nil {
			m.end(t, nil, unknown, exprFailure(err))
			return
		}
		if yes {
			m.endLoop(t, "until")
			return
		}
	}
	m.nextRound(t)
}

// between waits before the next round of a loop.
func (m *Machine) between(t *Task) {
	l, c := t.Node().Loop, t.ctl
	wait, failure := setting(t, l.Wait, l.WaitAt, WaitOf, Failure{Category: "config", Code: "loop.wait"})
	if failure == nil {
		failure = m.count(1)
	}
	if failure != nil {
		m.end(t, nil, unknown, failure)
		return
	}
	f := m.open(l.Between, t, map[string]any{WaitInput: max(wait, 1).String()}) // 0s is recorded, too
	f.label, f.index, f.run, f.between = fmt.Sprint("#", c.round), c.round-1, t.frame.run, true
	c.waits = append(c.waits, f)
}

// WaitOf reads how long to wait between two rounds, as an expression gave it.
func WaitOf(v any) (time.Duration, error) {
	text, ok := v.(string)
	wait, err := value.Duration(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("wait must be a duration like 90s, not %s", value.TypeName(v))
	case err != nil:
		return 0, fmt.Errorf("wait is %.100q, not a duration like 90s", text)
	case wait < 0 || wait > MaxWait:
		return 0, fmt.Errorf("wait is %.100s, it must be between 0s and 365d", text)
	}
	return wait, nil
}

// waited continues a loop after the wait between two rounds.
func (m *Machine) waited(t *Task, failure *Failure) {
	if failure = t.cutShort(failure); failure != nil {
		m.end(t, nil, unknown, failure)
		return
	}
	m.beginRound(t)
}

// endsEarly reports whether a composite was told to end.
func (t *Task) endsEarly() bool { return t.ctl.over || t.frame.cancelled }

// cutShort is the failure of a part of a composite: its own, or that the composite ends early; nil: neither.
func (t *Task) cutShort(failure *Failure) *Failure {
	if failure == nil && t.endsEarly() {
		return &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled}
	}
	return failure
}

// variable returns a variable of a loop: as the round of inside sees it, which may be rolled back after later rounds
// have ended, or, if inside is nil, as the loop itself sees it. It is nil before the first round.
func (c *control) variable(index int, m *Machine, inside *frame) any {
	if c == nil {
		return nil
	}
	round, done := c.round, c.done
	if inside != nil {
		round, done = inside.index+1, inside.index
	}
	switch {
	case index == VarIteration:
		return int64(round)
	case index == VarLast && done > 0:
		return c.outputs[done-1]
	case index == VarLast:
		return c.first
	case index == VarItem && round > 0:
		return c.items[round-1]
	case index == VarHistory:
		return append([]any{}, c.outputs[max(0, done-maxHistory):done]...)
	case index == VarElapsed:
		return m.now.Sub(c.began).Seconds()
	case index == VarCost:
		return float64(c.spent) / 1e6
	}
	return nil
}
