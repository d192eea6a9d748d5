package machine

import (
	"errors"
	"fmt"
)

// Cancel ends the run early because of cause: nothing starts any more, calls are told to stop.
func (m *Machine) Cancel(cause error) {
	self := &m.root.self
	if m.result != nil && m.result.Status != Waiting || self.failure != nil {
		return
	}
	self.failure = &Failure{Category: "cancelled", Code: "run.cancelled", Err: cause}
	for _, t := range m.paused { // a later execution asks again
		t.unknown = false
	}
	m.cancelFrame(m.root)
	m.stop(self, cause)
	m.cancelFinally(cause)
}

// cancelFrame prevents new tasks in a body and in the bodies inside.
func (m *Machine) cancelFrame(f *frame) {
	f.cancelled = true
	for i := range f.steps {
		m.cancelBodies(&f.steps[i].Task)
	}
}

func (m *Machine) cancelBodies(t *Task) {
	if t.status == Running || t.status == Waiting {
		for _, body := range t.bodies() {
			m.cancelFrame(body)
		}
		if t.ctl != nil {
			t.ctl.over = true
		}
	}
	items := t.Items()
	for i := range items {
		m.cancelBodies(&items[i])
	}
}

// stop tells the calls that belong to owner to stop.
func (m *Machine) stop(owner *Task, cause error) {
	spared := owner.spares(cause)
	for _, c := range m.Calls() { // what is inside a call before the call
		if !c.stopped && c.within(owner) {
			c.stopped, c.spared = true, spared
			m.out = append(m.out, Command{Op: Stop, Task: c, Err: cause})
		}
	}
	for _, c := range m.waiting { // what has been answered does not start again
		if c.stopped || !c.again || !c.within(owner) {
			continue
		}
		if c.stopped = true; c.ctl != nil { // its agent may be at work
			c.spared = spared
			m.out = append(m.out, Command{Op: Stop, Task: c, Err: cause})
		}
	}
	m.abandon(owner, cause)
}

// spares reports whether what is in t ends because a race is decided, or the time of the run is over.
func (t *Task) spares(cause error) bool {
	return cause == errLost || t.timeout && (t.node < 0 || t.Node().WallTime)
}

// stopOlder stops the tasks that began before the failure in t's body, or in t's foreach: their grace is over. Steps
// that run in spite of the failure continue.
func (m *Machine) stopOlder(t *Task) {
	if t.node >= 0 {
		m.cancelBodies(t)
		m.stop(t, errGrace)
		return
	}
	f := t.frame
	for i := range f.steps {
		if s := &f.steps[i].Task; s.status == Running && s.began <= f.failedAt {
			m.cancelBodies(s)
			m.stop(s, errGrace)
		}
	}
}

var errGrace = errors.New("cancelled: another step failed and the grace period is over")

// timedOut is the failure of a task whose time is over.
func (m *Machine) timedOut(t *Task) *Failure {
	if n := t.Node(); n != nil && n.WallTime {
		return &Failure{Category: "limit", Code: "limits.wall_time", Err: m.timeoutError(t)}
	}
	return &Failure{Category: "infra", Code: "step.timeout", Err: m.timeoutError(t)}
}

func (m *Machine) timeoutError(t *Task) error {
	if t.node < 0 && t.frame.of != nil {
		return fmt.Errorf("it timed out: it may take %v", FinallyTime)
	}
	if t.node < 0 {
		return fmt.Errorf("the run timed out: %s is %v", m.opts.WallTimeName, m.opts.WallTime)
	}
	what := "timeout"
	if t.Node().WallTime {
		what = "limits.wall_time"
	}
	return fmt.Errorf("step %q timed out: its %s is %v", t.Path(), what, t.Node().Timeout)
}
