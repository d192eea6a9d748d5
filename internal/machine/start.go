package machine

import (
	"errors"
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// open makes the frame of one execution of g and finds its first steps.
func (m *Machine) open(g *Graph, parent *Task, inputs map[string]any) *frame {
	f := new(frame)
	m.fill(f, g, parent, inputs)
	return f
}

// fill is open for a frame that has only room for steps.
func (m *Machine) fill(f *frame, g *Graph, parent *Task, inputs map[string]any) {
	f.graph, f.parent, f.inputs, f.m, f.left = g, parent, inputs, m, len(g.Nodes)
	f.self = Task{frame: f, node: -1, item: -1}
	if f.outside() != nil {
		f.depth = f.around().depth + 1
	}
	f.openChannels()
	if len(f.steps) != len(g.Nodes) {
		f.steps = make([]step, len(g.Nodes))
	}
	for i := range f.steps {
		s := &f.steps[i]
		s.frame, s.node, s.item, s.waits = f, int32(i), -1, g.Preds[i]
		if s.waits == 0 {
			m.ready.push(&s.Task)
		}
	}
}

// decide decides what a ready task does, in the order that the recipe format defines: trigger, when,
// foreach, run. Items come here when it is their turn.
func (m *Machine) decide(t *Task) {
	n := t.Node()
	if t.item < 0 && !t.frame.cancelled && !t.frame.steps[t.node].holds(n.Trigger) {
		m.skip(t, SkippedUpstream)
		return
	}
	if t.barred() {
		m.drop(t)
		return
	}
	if t.item < 0 {
		if n.When != nil {
			yes, err := n.When.Bool(t)
			if err != nil {
				if m.admit(t) {
					m.end(t, nil, unknown, exprFailure(err))
				}
				return
			}
			if !yes {
				m.skip(t, SkippedWhen)
				return
			}
		}
	}
	if m.opts.Breaks != nil && !t.broke && m.opts.Breaks(t) {
		t.broke = true
		m.out = append(m.out, Command{Op: Open, Task: t})
		m.wait(t)
		return
	}
	if t.item < 0 && n.Foreach != nil {
		m.openForeach(t)
		return
	}
	if n.Kind == Call {
		m.waiting.push(t)
		return
	}
	m.begin(t)
}

// barred reports whether a task that has not begun must not begin: its body was cancelled; a step
// of the body failed, and this one does not run all the same; or an item of its foreach failed.
func (t *Task) barred() bool {
	f := t.frame
	if f.cancelled {
		return true
	}
	if t.item < 0 {
		return f.failedAt > 0 && t.Node().Trigger != AllDone
	}
	whole := t.whole()
	return whole.each.overAt > 0 || f.failedAt > 0 && whole.began <= f.failedAt
}

// useless reports whether something that contains the task was cancelled, or failed after the task had begun.
func (t *Task) useless() bool {
	for ; t != nil; t = t.frame.parent {
		s, f := t, t.frame
		if t.item >= 0 {
			s = t.whole()
		}
		if f.cancelled || f.failedAt > 0 && s.began <= f.failedAt || s != t && s.each.overAt > 0 {
			return true
		}
		if f.of != nil {
			return false
		}
	}
	return false
}

// drop ends a barred task.
func (m *Machine) drop(t *Task) {
	t.status = Cancelled
	if t.item < 0 {
		m.settle(t)
		return
	}
	m.endItem(t)
}

// holds reports whether a trigger lets a step run, once all its needs have settled.
func (s *step) holds(trigger Trigger) bool {
	needs := s.frame.graph.Preds[s.node]
	switch trigger {
	case AllDone:
		return true
	case NoneFailed:
		return !s.unreached() && (s.skippedUpstream == 0 || s.frame.m.opts.Skips && !s.ofBranch())
	case AnySuccess:
		return needs == 0 || s.failed+s.skippedWhen+s.skippedUpstream < needs
	}
	return s.failed+s.skippedWhen+s.skippedUpstream == 0
}

// ofBranch reports whether the needs that are listed have a step that its condition skipped, and another one that was
// skipped because of it alone.
func (s *step) ofBranch() bool {
	listed := s.frame.graph.Listed[s.node]
	return slices.ContainsFunc(listed, func(n int32) bool {
		need := &s.frame.steps[n]
		if need.status != SkippedUpstream {
			return false
		}
		_, both := slices.BinarySearch(listed, need.cause-1)
		return both
	})
}

// admit marks a task as running; false: it was denied, and has ended.
func (m *Machine) admit(t *Task) bool {
	m.start(t)
	if m.opts.Denies == nil {
		return true
	}
	failure := m.opts.Denies(t)
	if failure != nil {
		m.end(t, nil, unknown, failure)
	}
	return failure == nil
}

// start marks a task as running.
func (m *Machine) start(t *Task) {
	m.began++
	t.began, t.status = m.began, Running
	m.emit(Began, t)
}

// begin runs a task that may run now.
func (m *Machine) begin(t *Task) {
	n, again := t.Node(), t.again
	switch {
	case again && (t.stopped || t.frame.cancelled) && t.ctl == nil:
		m.end(t, nil, unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
		return
	case again:
		t.again = false
	case t.barred():
		m.drop(t)
		return
	case !m.admit(t):
		return
	}
	var input any
	if n.With != nil {
		var err error
		if input, err = n.With.Eval(t); err != nil {
			m.end(t, nil, unknown, exprFailure(err))
			return
		}
	}
	if n.talks() {
		t.messages = &messages{input: input}
	}
	switch n.Kind {
	case Set:
		m.end(t, input, unknown, nil)
	case Fail:
		failure := m.weigh("message", input, unknown)
		if failure == nil {
			failure = failOnPurpose(input)
		}
		m.end(t, nil, unknown, failure)
	case Sub, Again, Choice, Many:
		m.openControl(t, input)
	case Send:
		m.send(t, input)
	case Receive:
		m.receive(t)
	case Call, Wait:
		if n.bound.paths < 0 || n.bound.fixed+2*n.bound.paths*m.largest > m.opts.MaxOutput {
			if _, failure := m.measure("input", input, unknown, m.opts.MaxOutput); failure != nil {
				m.end(t, nil, unknown, failure)
				return
			}
		}
		if n.Kind == Wait {
			m.out = append(m.out, Command{Op: Open, Task: t, Input: input})
			m.wait(t)
			return
		}
		if t.lends() {
			m.lent = append(m.lent, t)
		} else {
			m.calls = append(m.calls, t)
		}
		if n.Timeout > 0 && t.armed&(1<<Timeout) == 0 {
			m.arm(t, Timeout, n.Timeout)
		}
		m.out = append(m.out, Command{Op: Start, Task: t, Input: input, Again: again})
	}
}

// failOnPurpose is the failure of a Fail node, whose input is {message, code, data}. Its category is that
// of tools, which keeps the code, the author's own, apart from those of the engine.
func failOnPurpose(input any) *Failure {
	fields, _ := input.(map[string]any)
	message, err := value.Text(fields["message"])
	code, _ := fields["code"].(string)
	if err != nil || message == "" {
		message = "the recipe failed on purpose"
	}
	if code == "" {
		code = "fail"
	}
	return &Failure{Category: "tool", Code: code, Err: errors.New(message)}
}
