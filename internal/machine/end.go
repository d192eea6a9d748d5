package machine

import (
	"errors"
	"fmt"

	"github.com/braise-run/braise/internal/value"
)

var errCancelled = errors.New("cancelled before it ended")

// failure is that of a task whose output breaks the rules; nil: it does not.
func (r *Rules) failure(t *Task, output any) *Failure {
	if r.Fits != nil {
		if err := r.Fits(output); err != nil {
			return &Failure{Category: "config", Code: "output.invalid", Err: err}
		}
	}
	if r.Checks == nil {
		return nil
	}
	if fault, err := t.Broken(output); fault != "" || err != nil {
		return CheckFailure(fault, err)
	}
	return nil
}

// end ends a running task. An item reports to its foreach; a step's failure goes through its on_error
// before its dependants see it. end reports whether output has become the task's output.
func (m *Machine) end(t *Task, output any, extent value.Extent, failure *Failure) (taken bool) {
	n := t.Node()
	m.disarm(t)
	whole := t.item < 0 && n.Foreach != nil // timeout and output are for each item
	switch {
	case t.timeout:
		failure = m.timedOut(t)
	case failure != nil && t.stopped:
		failure = &Failure{Category: "cancelled", Code: "step.cancelled", Err: failure.Err}
	}
	before := m.size
	if failure == nil {
		failure = m.weigh("output", output, extent) // before it is traversed
	}
	if failure == nil && n.Kind != Call && !whole {
		if failure = n.Rules.failure(t, output); failure != nil {
			m.size = before
		}
	}
	if failure == nil {
		if failure = m.answered(t, output); failure != nil {
			m.size = before
		}
	}
	taken = failure == nil
	if failure != nil && t.item < 0 {
		output, failure = m.handle(t, failure)
	}
	t.output, t.status = output, Succeeded
	if failure != nil {
		if failure.Path == "" {
			failure.Path = t.Path()
		}
		t.output, t.failure, t.status = nil, failure, Failed
		if failure.Category == "cancelled" {
			t.status = Cancelled
		}
	}
	m.emit(Ended, t)
	if t.item >= 0 {
		m.endItem(t)
		return taken
	}
	goesOn := t.handled || t.frame.of != nil // in a finally, steps that do not need this one
	if failure != nil && !goesOn && t.frame.failedAt == 0 {
		t.frame.failedAt = m.began
		m.abandon(&t.frame.self, errCancelled)
		m.grace(&t.frame.self)
	}
	m.settle(t)
	return taken
}

// handle does what a step's on_error says about its failure: it returns the output instead, or the failure.
func (m *Machine) handle(t *Task, failure *Failure) (output any, left *Failure) {
	on := &t.Node().OnError
	cancelled := failure.Category == "cancelled"
	t.handled = on.Continue
	if on.Set == nil || cancelled {
		return nil, failure
	}
	set, err := on.Set.Eval(t)
	if err != nil {
		return nil, exprFailure(fmt.Errorf("%w; on_error was for: %w", err, failure.Err))
	}
	return set, m.weigh("output", set, unknown)
}

// weigh refuses a value that is too large, or that makes everything the run keeps too large in total.
// Values share memory, so few bytes of memory can be very many bytes of JSON: for example a chain of
// steps that each give [x, x] of the previous step.
func (m *Machine) weigh(what string, v any, extent value.Extent) *Failure {
	size, failure := m.measure(what, v, extent, min(m.opts.MaxOutput, m.opts.MaxOutputs-m.size))
	if failure != nil {
		return failure
	}
	if most := m.opts.MaxMemory; most > 0 {
		if extent.Weight == 0 {
			extent.Weight = value.Weight(v, most-m.memory)
		}
		if m.memory += extent.Weight; m.memory > most {
			return &Failure{Category: "limit", Code: "outputs.tooLarge",
				Err: fmt.Errorf("the outputs of this run's steps take more than %d bytes of memory together", most)}
		}
	}
	m.size += size
	m.largest = max(m.largest, size)
	return nil
}

// measure returns the size of a value, measured unless it is known, or fails if it exceeds limit. A limit lower than
// that of a single value is what is left of the total.
func (m *Machine) measure(what string, v any, extent value.Extent, limit int) (size int, failure *Failure) {
	var err error
	if size = extent.Bytes; size == 0 {
		size, err = value.Size(v, limit)
	}
	switch {
	case err != nil:
		return 0, &Failure{Category: "config", Code: "output.invalid",
			Err: fmt.Errorf("the %s is not JSON: %w", what, err)}
	case size <= limit:
		return size, nil
	case limit < m.opts.MaxOutput:
		return 0, &Failure{Category: "limit", Code: "outputs.tooLarge",
			Err: fmt.Errorf("the outputs of this run's steps have more than %d bytes together", m.opts.MaxOutputs)}
	}
	return 0, &Failure{Category: "limit", Code: "output.tooLarge",
		Err: fmt.Errorf("the %s has more than %d bytes", what, m.opts.MaxOutput)}
}

// count refuses a body or a foreach that would give the run too many steps.
func (m *Machine) count(n int) *Failure {
	if m.tasks+n > m.opts.MaxTasks {
		return &Failure{Category: "limit", Code: "steps.tooMany",
			Err: fmt.Errorf("the run has more than %d steps and items", m.opts.MaxTasks)}
	}
	m.tasks += n
	return nil
}

// grace limits the time of running tasks whose result a failure makes useless.
func (m *Machine) grace(t *Task) {
	if len(m.calls)+len(m.lent)+len(m.waiting)+len(m.ready) > 0 {
		m.arm(t, Grace, m.opts.Grace)
	}
}

func (m *Machine) skip(t *Task, status Status) {
	t.status = status
	m.emit(Skipped, t)
	m.settle(t)
}

// settle reports the end of a step to its dependants, and ends the body after its last step.
func (m *Machine) settle(t *Task) {
	f := t.frame
	for _, n := range f.graph.Succ[t.node] {
		s := &f.steps[n]
		switch {
		case t.status == Failed, t.status == Cancelled:
			s.failed++
		case t.status == SkippedWhen:
			s.skippedWhen++
			s.behind(t.node + 1)
		case t.status == SkippedUpstream:
			s.skippedUpstream++
			if f.steps[t.node].unreached() {
				s.failedUpstream++
			}
			s.behind(f.steps[t.node].cause)
		}
		if s.waits--; s.waits == 0 {
			m.ready.push(&s.Task)
		}
	}
	if f.left--; f.left == 0 {
		m.closeFrame(f)
	}
}

// closeFrame ends a body, whose steps have ended: a finally comes before its end. That of the run's own body begins
// when the driver says so, and a run that was cancelled has none.
func (m *Machine) closeFrame(f *frame) {
	output, failure := m.resultOf(f)
	m.disarm(&f.self)
	switch {
	case f.of != nil:
		m.closeFinally(f)
	case f.graph.Finally != nil && f.parent != nil && m.root.self.failure == nil:
		f.output, f.failure = output, failure
		m.openFinally(f, endStatus(failure), failure.ended())
	default:
		m.leaveFrame(f, output, failure)
	}
}

// resultOf is what a body ends with: its first failure in plan order, or its output.
func (m *Machine) resultOf(f *frame) (output any, failure *Failure) {
	var failures failures
	for _, n := range f.graph.Order {
		t := &f.steps[n].Task
		if t.status == Cancelled || t.status == Failed && !t.handled {
			failures.add(t)
		}
	}
	failure = failures.first()
	if failure == nil && f.graph.Output != nil {
		var err error
		if output, err = f.graph.Output.Eval(&f.self); err != nil {
			failure = exprFailure(err)
		} else if f.parent == nil {
			failure = m.weigh("output", output, unknown)
		}
	}
	return output, failure
}

// leaveFrame gives the end of a body to the step that owns it, or makes it the run's result.
func (m *Machine) leaveFrame(f *frame, output any, failure *Failure) {
	if f.between {
		m.waited(f.parent, failure)
		return
	}
	if f.parent != nil {
		m.closeBranch(f.parent, f.index, output, failure)
		return
	}
	result := &Result{Status: Succeeded, Output: output}
	switch {
	case f.self.failure != nil:
		result = &Result{Status: Cancelled, Failure: f.self.failure}
	case f.self.timeout:
		failure := &Failure{Category: "limit", Code: "limits.wall_time", Err: m.timeoutError(&f.self)}
		result = &Result{Status: Failed, Failure: failure}
	case failure != nil:
		result = &Result{Status: Failed, Failure: failure}
	}
	m.result = result
	m.out = append(m.out, Command{Op: Done})
}

func exprFailure(err error) *Failure {
	return &Failure{Category: "config", Code: "expr.failed", Err: err}
}
