package engine

import (
	"maps"
	"slices"
	"time"

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
		switch {
		case t.at < len(t.commands):
			c := t.commands[t.at]
			if t.at++; t.at == len(t.commands) {
				clear(t.commands)
				t.commands, t.at = t.commands[:0], 0
			}
			if c.Op == Make && !r.begins(c.of) {
				continue
			}
			return c
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
			if r.undoNext() {
				continue
			}
			return Command{}
		}
		c := r.machineNext()
		if c.Op == machine.None || c.Op == machine.Done {
			next, again, ok := r.batchNext()
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
			case len(r.unsaved.events) > 0 && r.durable():
				return Command{Op: Save}
			default:
				r.unblock()
			}
		case machine.Done:
			if !r.rest() {
				r.wrapUp()
			}
		case machine.Start:
			switch {
			case t.hold && !r.ending.cancelled:
				t.kept = append(t.kept, c)
			case r.timed():
				r.askTime(c)
			default:
				r.start(c)
			}
		default:
			r.carryOut(c)
		}
	}
}

// machineNext returns what the journal left to do, then the commands of the machine.
func (r *Run) machineNext() machine.Command {
	for len(r.past.pending) > 0 {
		c := r.past.pending[0]
		r.past.pending = r.past.pending[1:]
		if !r.deniedNow(c) {
			return c
		}
	}
	return r.m.Next()
}

// ask has the driver do something.
func (r *Run) ask(c Command) { r.todo.commands = append(r.todo.commands, c) }

// askTime has the driver say what time it is before a command of the machine is carried out.
func (r *Run) askTime(c machine.Command) {
	r.todo.held, r.todo.ticking = c, true
	r.ask(Command{Op: Time})
}

// carryOut executes a command of the machine, except the start of a call.
func (r *Run) carryOut(c machine.Command) {
	t := c.Task
	switch c.Op {
	case machine.Began:
		r.beginTime(t)
		r.emit(t, trace.StepStart, t.Path(), nil, t.Size())
	case machine.Ended:
		if t.Node().Kind != machine.Call { // computing takes time too
			r.askTime(c)
			return
		}
		r.ended(t)
	case machine.Skipped:
		r.closePauses(t)
		if t.Status() == machine.Cancelled {
			r.emitEnd(t)
			return
		}
		reason := skippedUpstream
		if t.Status() == machine.SkippedWhen {
			reason = skippedWhen
		}
		r.emit(t, trace.StepSkip, t.Path(), reason, nil)
	case machine.Open:
		r.openWait(c)
	case machine.Closed:
		r.deliver(t)
	case machine.Stop:
		if p, ok := t.Driver.(*pending); ok {
			r.stop(p, c.Err)
		} else {
			r.stopKept(t)
		}
	case machine.Arm:
		if n := t.Node(); n != nil && n.Kind == machine.Receive {
			t.Driver = r.now.Add(c.Wait) // see openReceive
		}
		if t.Node() == nil && !t.IsFinally() && c.Timer == machine.Timeout { // the run's
			c.Wait -= r.clock.At(r.now)
		}
		key := timerKey{t, c.Timer}
		r.timers.named(key, r.arm(c.Wait, func() { r.fired(key) }))
	case machine.Disarm:
		r.disarm(r.timers.take(timerKey{t, c.Timer}))
	}
}

// ended emits the events of the end of a task.
func (r *Run) ended(t *machine.Task) {
	if t.Node().Kind == machine.Receive { // it may have waited for a value in an earlier execution
		r.begun(t)
	}
	r.emitEnd(t)
	r.closePauses(t)
	if r.o.Before != nil {
		m := &runtime.Moment{Point: runtime.StepAfter, Step: r.path(t), Output: t.Output(), Status: t.Status().String()}
		if f := t.Failure(); f != nil {
			m.Err = f.Err
		}
		r.ask(Command{Op: Hook, Detail: &Detail{Moment: m}})
	}
	if t.Failure() != nil {
		r.calls.group++
	}
}

// timers are what is due later. They have numbers; those of the machine also have names.
type timers struct {
	last  int64
	due   map[int64]func()
	names map[timerKey]int64
}

// timerKey names a timer of the machine.
type timerKey struct {
	task  *machine.Task
	timer machine.Timer
}

// named gives a timer its name.
func (s *timers) named(key timerKey, id int64) {
	if s.names == nil {
		s.names = map[timerKey]int64{}
	}
	s.names[key] = id
}

// take removes and returns the timer of a name; 0: there is none.
func (s *timers) take(key timerKey) int64 {
	id := s.names[key]
	delete(s.names, key)
	return id
}

// arm lets something happen later.
func (r *Run) arm(wait time.Duration, then func()) int64 {
	s := &r.timers
	if s.due == nil {
		s.due = map[int64]func(){}
	}
	s.last++
	s.due[s.last] = then
	r.ask(Command{Op: Arm, Timer: s.last, Wait: wait})
	return s.last
}

// disarm forgets a timer; 0 is none.
func (r *Run) disarm(id int64) {
	if _, armed := r.timers.due[id]; armed {
		delete(r.timers.due, id)
		r.ask(Command{Op: Disarm, Timer: id})
	}
}

// disarmAll forgets all timers.
func (r *Run) disarmAll() {
	for _, id := range slices.Sorted(maps.Keys(r.timers.due)) {
		r.disarm(id)
	}
	clear(r.timers.names)
}

// Fired says that a timer is due. One that was disarmed meanwhile is ignored.
func (r *Run) Fired(id int64) {
	if then := r.timers.due[id]; then != nil {
		delete(r.timers.due, id)
		then()
	}
}

// fired tells the machine that a timer has come due.
func (r *Run) fired(key timerKey) {
	r.timers.take(key)
	if r.ending.cancelled {
		r.m.Due(key.task, key.timer)
		return
	}
	r.record(key.task, key.task.Path(), journal.TimerDue{Timer: key.timer})
}
