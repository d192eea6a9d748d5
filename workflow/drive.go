package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/braise-run/braise/internal/machine"
)

// settleTime is how long a call that was told to stop, not by the run's caller, may take to
// return before it is left behind: enough to kill a process or close a connection.
const settleTime = 250 * time.Millisecond

// yieldAfter is how many commands are carried out before others that wait for the turn get it.
const yieldAfter = 64

// turn is the right to touch the state of a run. It is a channel of one, which testing/synctest sees
// goroutines wait for, other than a mutex.
type turn chan struct{}

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }

// supervise drives the run until it is over. Nobody owns it meanwhile: whoever finishes something takes
// the turn, tells the machine, carries out what it asks for, starts a goroutine for every call that is
// ready but one, gives the turn back, and makes that one itself.
//
//	call returns ┐                                    ┌ go work: other calls
//	timer fires  ├─▶ turn: tell ─▶ carry out ─▶ give ─┤
//	ctx ends     ┘                                    └ work: one call, and round again
func (r *run) supervise() {
	r.done = make(chan struct{})
	if r.ctx.Done() != nil {
		defer context.AfterFunc(r.ctx, func() { r.happened(func() {}) })()
	}
	r.begin()
	<-r.done
}

// begin gives the turn, which the caller has had since there is a run, to whoever needs it from here on.
func (r *run) begin() {
	defer r.turn.give()
	if next := r.drive(r.goOnLive); next != nil {
		go r.work(next)
	}
}

// work makes a call, and those that follow on it.
func (r *run) work(in *invocation) {
	defer func() {
		if in != nil { // the adapter has ended the goroutine
			go func() { r.work(r.took(in)) }()
		}
	}()
	for in != nil {
		in.reachedCall(beforeTool, beforeModel)
		in.do()
		in.reachedCall(afterTool, afterModel)
		in = r.took(in)
	}
}

// took takes what a call came to, and returns the next one to make; nil: there is none, or others make it.
func (r *run) took(in *invocation) *invocation {
	return r.inTurn(func() {
		if !in.underWay() {
			return
		}
		in.task.Driver = nil
		if ownContext(in.task) {
			in.cancel(nil)
		}
		r.finish(in)
		r.reuse(in)
	})
}

// happened takes anything else that has happened: a timer, the end of a context, events of an agent.
func (r *run) happened(tell func()) {
	if next := r.inTurn(tell); next != nil {
		go r.work(next)
	}
}

// inTurn waits for the turn, tells the run what happened and drives it on. It returns a call to make.
func (r *run) inTurn(tell func()) *invocation {
	r.turn.take()
	defer r.turn.give()
	if r.over {
		return nil
	}
	return r.drive(func() {
		r.checkContext() // first: a call that was cancelled is no failure
		tell()
	})
}

// drive tells the run what happened, and advances it. Whoever calls it has the turn. A panic is the engine's
// own fault, or of a port that is no call's, and ends the run.
func (r *run) drive(tell func()) (next *invocation) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r.fault = recover(); r.fault == nil {
			r.fault = errors.New("a port ended its goroutine")
		}
		r.finished()
	}()
	r.events.tick()
	tell()
	next = r.advance()
	returned = true
	return next
}

// finished ends the run's turns: what happens from here on changes nothing.
func (r *run) finished() {
	if !r.over {
		r.over = true
		close(r.done)
	}
}

// advance carries out what the machine asks for, until it waits for something to happen. It starts all
// calls that are ready but one, which it returns. One that is quick it returns at once: what else there
// is to do comes after it, or before, when something happens meanwhile.
func (r *run) advance() (mine *invocation) {
	for n := 1; !r.over; n++ {
		yield := n%yieldAfter == 0
		if mine != nil && (yield || len(r.blocked) > 0) { // it does not wait for much, nor for the store
			go r.work(mine)
			mine = nil
		}
		if yield {
			r.turn.give()
			r.turn.take()
			continue
		}
		r.checkContext() // each time: a step's expressions may take long
		in, waits := r.step()
		if waits {
			return mine
		}
		if in == nil {
			continue
		}
		if mine != nil {
			go r.work(mine)
		}
		if mine = in; in.quick {
			return mine
		}
	}
	return nil
}

// step executes one command of the machine. in is a call to make, nil for none; waits says that there is
// nothing to do.
func (r *run) step() (in *invocation, waits bool) {
	var c machine.Command
	if len(r.pending) > 0 {
		c, r.pending = r.pending[0], r.pending[1:]
	} else {
		c = r.m.Next()
	}
	switch {
	case c.Op == machine.Done, c.Op == machine.None && r.m.Result() != nil: // the latter: it was replayed to its end
		r.finished()
	case c.Op == machine.None && len(r.blocked) > 0:
		return r.unblock(), false
	case c.Op == machine.None:
		return nil, true
	case c.Op == machine.Start:
		return r.start(c), false
	default:
		r.carryOut(c)
	}
	return nil, false
}

// timerKey names a timer of the machine.
type timerKey struct {
	task  *machine.Task
	timer machine.Timer
}

func (r *run) arm(key timerKey, wait time.Duration) {
	if r.timers == nil {
		r.timers = map[timerKey]*time.Timer{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		r.happened(func() {
			if r.timers[key] == timer { // else it was disarmed in this very moment
				delete(r.timers, key)
				r.fired(key)
			}
		})
	})
	r.timers[key] = timer
}

func (r *run) disarm(key timerKey) {
	if timer := r.timers[key]; timer != nil {
		timer.Stop()
		delete(r.timers, key)
	}
}

// after lets something happen later, unless the run is over by then.
func (r *run) after(wait time.Duration, tell func()) *time.Timer {
	timer := time.AfterFunc(wait, func() { r.happened(tell) })
	r.sleepers = append(r.sleepers, timer)
	return timer
}

// stop tells a call to stop. Unless the whole run was cancelled, which has a longer grace period,
// the call is left behind if it does not return soon.
func (r *run) stop(c machine.Command) {
	in, ok := c.Task.Driver.(*invocation)
	if !ok {
		return // it has not begun yet
	}
	in.cancel(c.Err)
	in.stopped = true
	if !r.cancelled {
		time.AfterFunc(settleTime, func() {
			r.happened(func() {
				if in.underWay() {
					r.leave(in)
				}
			})
		})
	}
}

// checkContext cancels the run once its context has ended.
func (r *run) checkContext() {
	if !r.cancelled && r.ctx.Err() != nil {
		r.cancel()
	}
}

func (r *run) cancel() { r.stopAll(cancelCause(r.ctx)) }

// stopAll ends the run early, after the grace period at the latest.
func (r *run) stopAll(cause error) {
	r.cancelled, r.cancelledAt = true, r.m.Decided()
	r.events.tick()
	r.m.Cancel(cause)
	time.AfterFunc(r.limits.Grace, func() {
		r.happened(func() {
			for _, t := range r.m.Calls() {
				if in, ok := t.Driver.(*invocation); ok { // else it has not begun, and will not
					r.leave(in)
				}
			}
		})
	})
}

// fence stops a run that is not this process's any more.
func (r *run) fence(err error) {
	r.journal.err = errors.Join(r.journal.err, err)
	if !r.cancelled {
		r.stopAll(err)
	}
}

// release lets go of all that serves the calls. Where the run was never driven, it ends its turns.
func (r *run) release() {
	if !r.over {
		r.over = true
		r.turn.give()
	}
	for _, g := range r.groups {
		g.cancel(nil)
	}
	for _, t := range r.timers {
		t.Stop()
	}
	for _, t := range r.sleepers {
		t.Stop()
	}
}
