package engine

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Next returns the next command; None if there is nothing to do until something happens. In this order:
//
//  1. commands of earlier work
//  2. commands of the machine
//  3. calls that wait for the store
//  4. at the end, rollbacks
func (r *Run) Next() Command {
	for {
		t := &r.todo
		if c, there := t.next(); there {
			if c.Op == Make && !c.of.begins(r) {
				continue
			}
			return c
		}
		switch {
		case t.over:
			return Command{Op: Done}
		case t.ticking:
			if t.ticking = false; t.held.Op == machine.Start {
				r.start(t.held)
			} else {
				r.ended(t.held.Task)
			}
			continue
		case r.ending.forGood != nil && !r.undo.atEnd: // a question is pending
			t.over = true
			continue
		case r.undo.atEnd:
			if r.undo.next(r) {
				continue
			}
			return Command{}
		}
		c := r.machineNext()
		if c.Op == machine.None || c.Op == machine.Done {
			next, again, ok := r.batches.next(r)
			if ok {
				return next
			}
			if again {
				continue
			}
		}
		switch c.Op {
		case machine.None:
			switch {
			case r.m.Result() != nil: // it was replayed to its end
				if r.rest() {
					return Command{}
				}
				r.wrapUp()
			case len(r.calls.blocked) == 0:
				if !r.endDrain() {
					return Command{}
				}
			case len(r.unsaved.events) > 0 && r.unsaved.durable:
				return Command{Op: Save}
			default:
				p := r.calls.unblock()
				if r.ending.cancelled || p.stopped {
					step{}.finish(r, p, outcome{failure: notDone("the call did not begin")})
				} else {
					p.launch(r)
				}
			}
		case machine.Done:
			if !r.rest() {
				r.wrapUp()
			}
		case machine.Start:
			switch {
			case t.hold && !r.ending.cancelled:
				t.kept = append(t.kept, c)
			case r.budget.timed():
				r.todo.askTime(c)
			default:
				r.start(c)
			}
		default:
			r.carryOut(c)
		}
	}
}

// machineNext returns what the journal left to do, then the commands of the machine. Steps that hooks deny end.
func (r *Run) machineNext() machine.Command {
	for len(r.past.pending) > 0 {
		c := r.past.pending[0]
		r.past.pending = r.past.pending[1:]
		if !r.past.asksNow(c, r.agents) {
			return c
		}
		f := r.ending.askHooks(r.o.Before, c.Task.Path())
		if f == nil {
			return c
		}
		r.record(c.Task, c.Task.Path(), journal.StepDenied{Failure: f})
	}
	return r.m.Next()
}

// carryOut executes a command of the machine, except the start of a call.
func (r *Run) carryOut(c machine.Command) {
	t := c.Task
	switch c.Op {
	case machine.Began:
		r.budget.begin(t, r.clock.At(r.now))
		r.trace.emit(t, r.now, trace.StepStart, t.Path(), nil, t.Size())
	case machine.Ended:
		if t.Node().Kind != machine.Call { // computing takes time too
			r.todo.askTime(c)
			return
		}
		r.ended(t)
	case machine.Skipped:
		r.closePauses(t)
		if t.Status() == machine.Cancelled {
			r.trace.end(t, r.now)
			return
		}
		reason := skippedUpstream
		if t.Status() == machine.SkippedWhen {
			reason = skippedWhen
		}
		r.trace.emit(t, r.now, trace.StepSkip, t.Path(), reason, nil)
	case machine.Open:
		r.openWait(c)
	case machine.Closed:
		r.agents[t].deliver(r)
	case machine.Stop:
		if p, ok := t.Driver.(*pending); ok {
			p.stop(r, c.Err)
		} else if c, kept := r.todo.unkeep(t); kept {
			step{}.stoppedBefore(r, c)
		}
	case machine.Arm:
		if n := t.Node(); n != nil && n.Kind == machine.Receive {
			t.Driver = r.now.Add(c.Wait) // see pauseToReceive
		}
		if t.Node() == nil && !t.IsFinally() && c.Timer == machine.Timeout { // the run's
			c.Wait -= r.clock.At(r.now)
		}
		r.todo.armNamed(c.Wait, timerKey{t, c.Timer})
	case machine.Disarm:
		r.todo.disarm(r.todo.take(timerKey{t, c.Timer}))
	}
}

// ended emits the events of the end of a task.
func (r *Run) ended(t *machine.Task) {
	if t.Node().Kind == machine.Receive { // it may have waited for a value in an earlier execution
		r.trace.begun(t, r.now)
	}
	r.trace.end(t, r.now)
	r.closePauses(t)
	if r.o.Before != nil {
		m := &runtime.Moment{Point: runtime.StepAfter, Step: r.trace.path(t), Output: t.Output(),
			Status: t.Status().String()}
		if f := t.Failure(); f != nil {
			m.Err = f.Err
		}
		r.todo.ask(Command{Op: Hook, Detail: &Detail{Moment: m}})
	}
	if t.Failure() != nil {
		r.calls.group++
	}
}

// Fired says that a timer is due. One that was disarmed meanwhile is ignored.
func (r *Run) Fired(id int64) {
	d, armed := r.todo.fired(id)
	switch {
	case !armed:
	case d.late:
		d.call.ended(r, d.call, outcome{late: true}, d.call.lateError())
	case d.call != nil:
		d.call.retry(r)
	case d.pause != nil:
		if !r.ending.cancelled {
			r.goOn(d.pause)
		}
	case d.wait != nil: // a short one, without a pause
		if d.wait.Status() == machine.Waiting && !r.ending.cancelled {
			r.record(d.wait, d.wait.Path(), journal.WaitOver{})
		}
	default:
		r.todo.take(d.key)
		if r.ending.cancelled {
			r.m.Due(d.key.task, d.key.timer)
			return
		}
		r.record(d.key.task, d.key.task.Path(), journal.TimerDue{Timer: d.key.timer})
	}
}
