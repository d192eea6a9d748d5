package machine

import "slices"

// Enter opens a body inside a call that is under way: an agent calls a tool of its recipe. label distinguishes the body
// from others of the call. The call has no slot while such a body is open: it starts again when the last one has ended.
func (m *Machine) Enter(t *Task, b *Body, label string, input any) {
	if t.ctl == nil {
		t.ctl = &control{winner: -1}
	}
	c, index := t.ctl, len(t.ctl.labels)
	c.open++
	c.labels = append(c.labels, label)
	if m.leaves(t) {
		m.lent = append(m.lent, t)
	}
	if t.stopped || t.timeout || t.frame.cancelled {
		c.frames, c.outputs, c.failed = append(c.frames, nil), append(c.outputs, nil), append(c.failed, nil)
		m.closeBranch(t, index, nil, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
		return
	}
	m.openBranch(t, b, label, index, input)
}

// closeInside tells a call that a body inside it has ended.
func (m *Machine) closeInside(t *Task, index int) {
	c := t.ctl
	if c.failed[index] == nil {
		if c.failed[index] = m.weigh("output", c.outputs[index], unknown); c.failed[index] != nil {
			c.outputs[index] = nil
		}
	}
	c.open--
	switch i := slices.Index(m.lent, t); {
	case c.open == 0 && i >= 0:
		m.lent = slices.Delete(m.lent, i, i+1)
		t.again = true
		m.waiting.push(t)
	case t.status == Waiting:
		m.Again(t)
	default:
		m.emit(Closed, t)
	}
}

// Inside returns how a body ended that was opened inside a call; over is false while it is open. there says that it
// was opened.
func (t *Task) Inside(label string) (output any, failure *Failure, over, there bool) {
	if t.ctl == nil {
		return nil, nil, false, false
	}
	i := slices.Index(t.ctl.labels, label)
	if i < 0 {
		return nil, nil, false, false
	}
	f := t.ctl.frames[i]
	return t.ctl.outputs[i], t.ctl.failed[i], f == nil || f.left == 0, true
}

// Entered reports whether something was opened inside the call of t.
func (t *Task) Entered() bool { return t.ctl != nil && len(t.ctl.labels) > 0 }

// Queued reports whether the call of t is to start again, and has not.
func (t *Task) Queued() bool { return t.again }

// Stopped reports whether the call of t was told to stop.
func (t *Task) Stopped() bool { return t.stopped }

// lends reports whether something is open inside a call, so that it has no slot.
func (t *Task) lends() bool { return t.ctl != nil && t.ctl.open > 0 }

// leaves takes t from the calls under way; false: it is none.
func (m *Machine) leaves(t *Task) bool {
	for _, list := range []*[]*Task{&m.calls, &m.lent} {
		if i := slices.Index(*list, t); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}
