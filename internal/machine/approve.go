package machine

// ask lets a task wait for a yes, if it needs one; false: it does not.
func (m *Machine) ask(t *Task) bool {
	a := t.Node().Approve
	yes, err := true, error(nil)
	if a.When != nil {
		yes, err = a.When.Bool(t)
	}
	var input any
	if err == nil && yes {
		input, err = a.Ask.Eval(t)
	}
	switch {
	case err != nil:
		m.start(t)
		m.end(t, nil, Unknown, exprFailure(err))
	case yes:
		m.began++ // so that a failure before does not end the wait
		t.began, t.asks = m.began, true
		m.out = append(m.out, Command{Op: Open, Task: t, Input: input})
		m.wait(t)
	}
	return err != nil || yes
}

// Asks reports whether a task waits for a yes: it has not begun. [Machine.Approve] ends that.
func (t *Task) Asks() bool { return t.asks && t.status == Waiting }

// Approve ends the waiting of a task that asks. Without a yes it is skipped. A failure ends it because nobody could be
// asked.
func (m *Machine) Approve(t *Task, yes bool, failure *Failure) {
	if !t.Asks() || !m.resume(t) {
		return
	}
	t.asks, t.approved, t.status = false, true, Pending
	switch {
	case failure != nil:
		m.start(t)
		m.end(t, nil, Unknown, failure)
	case yes:
		m.ready.push(t)
	case t.item < 0:
		m.skip(t, SkippedWhen)
	default:
		t.status = SkippedWhen
		m.emit(Skipped, t)
		m.endItem(t)
	}
}
