package machine

import (
	"maps"
	"slices"
	"time"
)

// FinallyTime is how long the steps of a finally may take together.
const FinallyTime = 5 * time.Minute

// FinallyMark is at the end of the path of a finally: no step has it.
const FinallyMark = "!finally"

// finally is what a frame has to do with a finally: it is one, or has one at its end.
//
//	its steps ──▶ all have ended: its output and failure are fixed ──▶ final begins ──▶ final has ended ──▶ it is over
type finally struct {
	of      *frame         // the frame at whose end this one runs; nil: it is no finally
	final   *frame         // that runs, or ran, at the end of this one; nil: none did
	output  any            // what this one ends with, while final runs
	failure *Failure       // likewise; of a finally: why it failed
	run     map[string]any // what expressions see as run; nil: that of the machine
}

// last is what the run does at its end.
type last struct {
	finals  []*frame // whose finally has not ended; the first one's has begun
	result  *Result  // of the run
	status  string   // what expressions see as run.status
	failure any      // and as run.error
}

// size is how many steps one execution of a body has.
func (g *Graph) size() int {
	if g.Finally == nil {
		return len(g.Nodes)
	}
	return len(g.Nodes) + len(g.Finally.Nodes)
}

// HasFinally reports whether the run has something to do at its end: the finally of its file, or of a body that it has
// left behind.
func (m *Machine) HasFinally() bool { return len(m.root.unfinished(nil)) > 0 }

// Finally begins that. How the run ends is decided: status and failure are what expressions see of it. What has not
// ended counts as cancelled. Until all is done there is no Result, and then that of before.
func (m *Machine) Finally(status string, failure any) {
	if m.result == nil || m.result.Status == Waiting {
		m.result = &Result{Status: Cancelled, Failure: &Failure{Category: "cancelled", Code: "run.cancelled",
			Err: errCancelled}}
		m.quit()
	}
	m.last = last{finals: m.root.unfinished(nil), result: m.result, status: status, failure: failure}
	m.result, m.out, m.head = nil, m.out[:0], 0 // the driver needs no other command of before
	m.nextFinally()
}

// EndFinally ends what Finally has begun: a result is there again.
func (m *Machine) EndFinally() {
	if m.last.result != nil {
		m.quit()
		m.last.finals = nil
		m.nextFinally()
	}
}

// nextFinally begins the next finally at the end of the run. After the last one the run is over.
func (m *Machine) nextFinally() {
	l := &m.last
	if m.root.self.failure != nil { // the run was cancelled meanwhile
		l.finals, l.result = nil, &Result{Status: Cancelled, Failure: m.root.self.failure}
	}
	if len(l.finals) > 0 {
		m.openFinally(l.finals[0], l.status, l.failure)
		return
	}
	m.result, l.result = l.result, nil
	m.out = append(m.out, Command{Op: Done})
}

// openFinally begins the finally of a frame whose steps have ended.
func (m *Machine) openFinally(f *frame, status string, failure any) {
	run := maps.Clone(f.self.Run())
	if run == nil {
		run = map[string]any{}
	}
	run["status"], run["error"] = status, failure
	final := &frame{label: f.label, index: f.index, finally: finally{of: f, run: run}}
	f.final = final
	m.fill(final, f.graph.Finally, f.parent, f.inputs)
	m.arm(&final.self, Timeout, FinallyTime)
	if final.left == 0 {
		m.closeFrame(final)
	}
}

// closeFinally ends a finally, and what it is the end of.
func (m *Machine) closeFinally(final *frame) {
	if final.self.timeout {
		final.failure = &Failure{Category: "limit", Code: "finally.timeout", Path: final.self.Path(),
			Err: m.timeoutError(&final.self)}
	}
	f := final.of
	if l := &m.last; len(l.finals) > 0 && l.finals[0] == f {
		l.finals = l.finals[1:]
		m.nextFinally()
		return
	}
	m.leaveFrame(f, f.output, f.failure)
}

// endStatus is the status of a body that has ended, in the words of outcomes.
func endStatus(failure *Failure) string {
	switch {
	case failure == nil:
		return "ok"
	case failure.Category == "cancelled":
		return "cancelled"
	}
	return "error"
}

// ended is the failure as run.error has it.
func (f *Failure) ended() any {
	if f == nil {
		return nil
	}
	v := f.Value().(map[string]any)
	v["step"] = f.Path
	return v
}

// FailedFinally returns what has failed in each finally: steps that no on_error handles, and why it was cut off.
func (m *Machine) FailedFinally() (list []*Failure) {
	m.root.each(func(f *frame) {
		if f.of == nil {
			return
		}
		for _, n := range f.graph.Order {
			if t := &f.steps[n].Task; t.status == Failed && !t.handled {
				list = append(list, t.failure)
			}
		}
		if f.failure != nil {
			list = append(list, f.failure)
		}
	})
	return list
}

// each visits the frames in f, those that ended first before others, and f.
func (f *frame) each(visit func(*frame)) {
	for _, n := range f.graph.Order {
		t := &f.steps[n].Task
		items := t.Items()
		for i := range items {
			for _, body := range items[i].bodies() {
				body.each(visit)
			}
		}
		for _, body := range t.bodies() {
			body.each(visit)
		}
	}
	if f.final != nil {
		f.final.each(visit)
	}
	visit(f)
}

// unfinished adds the frames in f, and f, that have not come to their finally.
func (f *frame) unfinished(list []*frame) []*frame {
	f.each(func(f *frame) {
		if f.graph.Finally != nil && f.final == nil && !f.self.InFinally() {
			list = append(list, f)
		}
	})
	return list
}

// IsFinally reports whether the task is that of a whole finally, which has the timer of its time.
func (t *Task) IsFinally() bool { return t.node < 0 && t.frame.of != nil }

// InFinally reports whether a task is part of a finally.
func (t *Task) InFinally() bool {
	for ; t != nil; t = t.frame.parent {
		if t.frame.of != nil {
			return true
		}
	}
	return false
}

// cancelFinally stops every finally that runs.
func (m *Machine) cancelFinally(cause error) {
	m.root.each(func(f *frame) {
		if f.of != nil && f.left > 0 {
			m.cancelFrame(f)
			m.stop(&f.self, cause)
		}
	})
}

// quit ends everything that has not ended, without a command to the driver but about timers. Nothing is under way.
func (m *Machine) quit() {
	m.ready, m.waiting, m.calls, m.lent, m.paused, m.kept = nil, nil, nil, nil, nil, 0
	m.root.each(func(f *frame) {
		m.disarm(&f.self)
		if f.of != nil && f.left > 0 {
			f.failure = &Failure{Category: "cancelled", Code: "step.cancelled", Path: f.self.Path(), Err: errCancelled}
		}
		for i := range f.channels {
			f.channels[i].receivers = nil
		}
		for i := range f.steps {
			t := &f.steps[i].Task
			m.quitTask(t)
			items := t.Items()
			for i := range items {
				m.quitTask(&items[i])
			}
		}
	})
}

func (m *Machine) quitTask(t *Task) {
	m.disarm(t)
	switch t.status {
	case Running, Waiting:
		t.failure = &Failure{Category: "cancelled", Code: "step.cancelled", Path: t.Path(), Err: errCancelled}
		t.status = Cancelled
	case Pending:
		t.status = Cancelled
	}
}

// around returns the frame whose steps those of f see: the one whose steps have the body, or at whose end it runs.
func (f *frame) around() *frame {
	if f.of != nil {
		return f.of
	}
	return f.parent.frame
}

// outside returns the task that f is part of.
func (f *frame) outside() *Task {
	if f.of != nil {
		return &f.of.self
	}
	return f.parent
}

// rootFrames are the frames of the run's own steps.
func (m *Machine) rootFrames() []*frame {
	if m.root.final == nil {
		return []*frame{m.root}
	}
	return slices.Clip([]*frame{m.root, m.root.final})
}
