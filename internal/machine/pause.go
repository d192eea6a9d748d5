package machine

import "slices"

// WithoutSlot returns the call of a path that waits for a slot; nil: none does.
func (m *Machine) WithoutSlot(path string) *Task {
	if i := slices.IndexFunc(m.waiting, func(t *Task) bool { return t.Path() == path && !t.again }); i >= 0 {
		return m.waiting[i]
	}
	return nil
}

// Barred returns a call that waits for a slot and will not begin, since what it belongs to has failed or was cancelled;
// nil: there is none.
func (m *Machine) Barred() *Task {
	if i := slices.IndexFunc(m.waiting, func(t *Task) bool { return !t.again && t.barred() }); i >= 0 {
		return m.waiting[i]
	}
	return nil
}

// Give ends a call that waits for a slot, with an output or a failure that is known already. With a failure, one that
// will not begin is over without one.
func (m *Machine) Give(t *Task, output any, failure *Failure) {
	waiting := m.waiting
	m.waiting = nil
	for _, other := range waiting {
		if other != t {
			m.waiting.push(other)
		}
	}
	if failure != nil && t.barred() {
		m.drop(t)
		return
	}
	m.start(t)
	if n := t.Node(); n.talks() {
		input, _ := n.With.Eval(t) // of the call that gave the output
		t.messages = &messages{input: input}
	}
	m.end(t, output, unknown, failure)
}

// Suspend reports that the call of t waits for an answer.
func (m *Machine) Suspend(t *Task) {
	if m.leaves(t) {
		if t.stopped || t.timeout { // no answer will come
			m.end(t, nil, unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
			return
		}
		m.disarm(t)
		m.wait(t)
	}
}

// Unknown reports that the outcome of the call of t is unknown. The task waits for an answer, whatever else ends
// meanwhile: its body ends after it. If the answer can decide the call, the task's own timeout no longer counts. A
// decided race and the end of the run's time end the wait, unless the task insists.
func (m *Machine) Unknown(t *Task, decided, insists bool) {
	if !m.leaves(t) {
		return
	}
	m.disarm(t)
	t.unknown, t.insists = true, insists
	if decided {
		t.timeout = false
		t.stopped = t.stopped && t.useless()
	}
	m.wait(t)
}

// Settle ends a wait for which Unknown was called without an answer.
func (m *Machine) Settle(t *Task) {
	if t.unknown {
		t.unknown = false
		m.abandonIf(func(other *Task) bool { return other == t }, errCancelled)
	}
}

// Useful reports whether the result of the call of t can still be of use: nothing that contains the task ends early.
func (t *Task) Useful() bool { return !t.useless() }

// Doomed reports whether the run only comes to its end: it has failed, was cancelled, or a step has ended it.
func (m *Machine) Doomed() bool { return m.root.failedAt > 0 || m.root.cancelled }

// Spared reports whether the call of t was told to stop because a race was decided, a step ended its body well, or the
// run's time was over.
func (t *Task) Spared() bool { return t.spared }

// CanWait reports whether an answer could still be of use to t, whose call is under way.
func (m *Machine) CanWait(t *Task) bool { return !t.stopped && !t.timeout && !t.useless() }

// wait adds t to the tasks that wait.
func (m *Machine) wait(t *Task) {
	t.status = Waiting
	m.paused = append(m.paused, t)
	if t.item >= 0 { // another item may have its place
		t.whole().each.active--
		m.feed(t.whole())
	}
	if t.useless() && !t.unknown {
		m.abandon(t, errCancelled)
	}
}

// Keep says that the driver will answer t soon by itself: the run continues until then, also if it had been waiting
// before.
func (m *Machine) Keep(t *Task) {
	if t.status == Waiting && !t.kept {
		t.kept = true
		m.kept++
		m.goOn()
	}
}

// goOn makes a waiting run continue.
func (m *Machine) goOn() {
	if m.result != nil && m.result.Status == Waiting {
		m.result = nil
	}
}

// Answer ends the waiting of t: with an output of any size, or a failure.
func (m *Machine) Answer(t *Task, output any, failure *Failure) {
	if m.resume(t) {
		m.end(t, output, unknown, failure)
	}
}

// Again ends the waiting of t by calling its adapter once more.
func (m *Machine) Again(t *Task) {
	if m.resume(t) {
		t.again = true
		m.waiting.push(t)
	}
}

// AtBreakpoint reports whether t waits before it begins.
func (t *Task) AtBreakpoint() bool { return t.status == Waiting && t.began == 0 }

// Continue ends the waiting of t at a breakpoint: now it may begin.
func (m *Machine) Continue(t *Task) {
	if m.resume(t) {
		t.status = Pending
		m.ready.push(t)
	}
}

// resume takes t from those that wait; it is false for any other task.
func (m *Machine) resume(t *Task) bool {
	i := slices.Index(m.paused, t)
	if i < 0 {
		return false
	}
	m.paused = slices.Delete(m.paused, i, i+1)
	if t.item >= 0 {
		t.whole().each.active++
	}
	m.goOn()
	if t.kept {
		t.kept = false
		m.kept--
	}
	if t.receiving {
		t.channel().leave(t)
	}
	t.unknown, t.status = false, Running
	return true
}

// abandon cancels the waiting tasks in owner: no answer will come.
func (m *Machine) abandon(owner *Task, cause error) {
	spares := owner.spares(cause)
	m.abandonIf(func(t *Task) bool {
		if t.within(owner) && spares && !t.insists {
			t.spared, t.unknown = true, false
		}
		return t.within(owner)
	}, cause)
}

func (m *Machine) abandonIf(inside func(*Task) bool, cause error) {
	for _, t := range slices.Clone(m.paused) {
		switch {
		case !inside(t):
		case t.AtBreakpoint():
			_ = m.resume(t)
			m.emit(Skipped, t)
			m.drop(t)
		case t.unknown:
			t.stopped = true
		case t.lends(): // it ends after what is inside
			_ = m.resume(t)
			t.stopped = true
			m.lent = append(m.lent, t)
		case m.resume(t):
			m.end(t, nil, unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: cause})
		}
	}
}

// Paused returns the tasks that wait, in the order in which they began to.
func (m *Machine) Paused() []*Task { return slices.Clone(m.paused) }
