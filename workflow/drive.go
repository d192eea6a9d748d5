package workflow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// settleTime is how long a call that was told to stop, not by the run's caller, may take to
// return before it is left behind: enough to kill a process or close a connection.
const settleTime = 250 * time.Millisecond

// patience is how long a call that should be quick may last, once or twice, before another
// goroutine drives on. A hand-over to a worker costs about as much as a few quick calls.
const patience = 50 * time.Microsecond

type timerKey struct {
	task  *machine.Task
	timer machine.Timer
}

// report is what workers and timers tell the driver.
type report struct {
	kind  reportKind
	call  *invocation // of returned, overdue and event
	event *detailed
	timer *timerKey     // of due
	task  *machine.Task // of waitOver
	pause *openPause    // of pauseDue
	err   error         // of fenced
	batch *agentBatch   // of agentEvents
}

// detailed is an event with content for the sinks that want it.
type detailed struct {
	trace.Event
	content any
}

type reportKind uint8

const (
	returned    reportKind = iota // a call has returned; its worker waits for the next one
	lost                          // a call has returned, and its worker has ended
	overdue                       // a call that was told to stop has had its time
	event                         // a call under way has something for the trace
	due                           // a timer of the machine
	graceOver                     // the grace period of a cancelled run is over
	late                          // records have waited for long enough
	fenced                        // the run's lease was lost
	waitOver                      // a short wait is over
	pauseDue                      // a pause has come to its time
	agentEvents                   // of an agent at work, for the journal
)

// supervise drives the run, on a goroutine of its own if the caller may have to take over from it.
func (r *run) supervise() {
	if r.ctx.Done() == nil {
		r.driveHere()
		return
	}
	r.done = make(chan struct{})
	go r.driveBeside()
	select {
	case <-r.done:
		return
	case <-r.ctx.Done():
	}
	grace := time.NewTimer(r.limits.Grace)
	defer grace.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-grace.C:
		}
		if turn := r.baton.Load(); turn != 0 && r.baton.CompareAndSwap(turn, 0) {
			r.cancel()
			r.leave(r.own)
			r.drive(new(*invocation)) // nothing starts any more
			return
		}
		// The driver is at work and counts the grace period itself, unless it was about to call.
		grace.Reset(settleTime)
	}
}

// driveHere drives the run on the caller's goroutine and waits for whoever took it over.
func (r *run) driveHere() {
	finished, inside := false, (*invocation)(nil)
	defer func() {
		if !finished && (inside == nil || !r.returned(inside)) { // else the goroutine ends, and nobody drives
			<-r.done
		}
	}()
	finished = r.drive(&inside)
}

// driveBeside drives the run on a goroutine of its own. When an adapter ends that goroutine, the
// run goes on on another one.
func (r *run) driveBeside() {
	growStack(0)
	var inside *invocation
	defer func() {
		if inside != nil {
			go func() {
				if r.returned(inside) {
					r.driveBeside()
				}
			}()
		}
	}()
	if r.drive(&inside) {
		close(r.done)
	}
}

// watchCall makes sure that the run goes on if the call that the baton names takes long.
func (r *run) watchCall() {
	if r.watch == nil {
		if r.done == nil {
			r.done = make(chan struct{})
		}
		r.watch = time.AfterFunc(time.Hour, r.look)
	}
	if r.watching.CompareAndSwap(false, true) {
		r.watch.Reset(patience)
	}
}

// look takes the run over if the driver is in the same quick call as the last time.
func (r *run) look() {
	switch turn := r.baton.Load(); {
	case turn <= 0:
		if r.watching.Store(false); r.baton.Load() > 0 { // a call began in this very moment
			r.watchCall()
		}
	case turn != r.seen || !r.baton.CompareAndSwap(turn, 0):
		r.seen = turn
		r.watch.Reset(patience)
	default:
		r.own.task.Driver = r.own
		r.own, r.slow = new(invocation), true
		r.driveBeside()
	}
}

// notDone is the failure of a call that was cancelled.
func notDone(why string) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryCancelled), Code: "step.cancelled", Err: errors.New(why)}
}

// leave gives up a call that did not return in time. Its result, if one comes, is dropped.
func (r *run) leave(in *invocation) {
	in.left = true
	r.warn("a call ignored its context and was left behind", slog.String("step", in.task.Path()))
	old := in // its worker's
	in = &invocation{run: r, task: old.task, path: old.path, call: old.call, tool: old.tool, args: old.args, size: machine.Unknown}
	in.ctx, in.open = old.ctx, true
	if old.call.Kind == program.AgentCall {
		r.leftOpen(old, context.Cause(old.ctx))
	}
	in.failure = notDone("the call ignored its context and was left behind")
	r.finish(in)
}

// drive executes the machine's commands until the run is over, or until it was taken over (false).
// inside is the call that the driver executes itself, while it does.
func (r *run) drive(inside **invocation) (finished bool) {
	defer func() {
		if p := recover(); p != nil { // the engine's own fault
			r.fault, finished = p, true
		}
	}()
	r.goOnLive()
	for len(r.pending) > 0 {
		c := r.pending[0]
		r.pending = r.pending[1:]
		if !r.carryOut(c, inside) {
			return false
		}
	}
	for work := 0; ; work++ {
		select {
		case <-r.ended: // each time: a step's expressions may take long
			r.cancel()
		default:
		}
		if work%64 == 63 {
			r.poll()
		}
		c := r.m.Next()
		switch {
		case c.Op == machine.None && r.m.Result() != nil: // it was replayed to its end
			return true
		case c.Op == machine.None && len(r.blocked) > 0:
			if !r.unblock(inside) {
				return false
			}
		case c.Op == machine.None:
			r.wait()
		case c.Op == machine.Done:
			return true
		case !r.carryOut(c, inside):
			return false
		}
	}
}

// carryOut executes a command of the machine. It returns false when the run was taken over
// meanwhile.
func (r *run) carryOut(c machine.Command, inside **invocation) bool {
	switch c.Op {
	case machine.Began:
		r.beginTime(c.Task)
		r.events.emit(c.Task, trace.StepStart, c.Task.Path(), nil, nil)
		if r.hooked() {
			r.tell(runtime.Moment{Point: runtime.StepBefore, Step: r.events.path(c.Task)})
		}
	case machine.Ended:
		if c.Task.Node().Kind != machine.Call { // what computes takes time too
			r.events.tick()
		}
		r.began(c.Task)
		r.events.emitEnd(c.Task)
		r.closePauses(c.Task)
		r.tellEnd(c.Task)
		if c.Task.Failure() != nil {
			r.shared = nil
		}
	case machine.Skipped:
		reason := skippedUpstream
		if c.Task.Status() == machine.SkippedWhen {
			reason = skippedWhen
		}
		r.events.emit(c.Task, trace.StepSkip, c.Task.Path(), reason, nil)
	case machine.Start:
		return r.start(c, inside)
	case machine.Open:
		r.openWait(c)
	case machine.Stop:
		r.stop(c)
	case machine.Arm:
		if n := c.Task.Node(); n != nil && n.Kind == machine.Receive {
			c.Task.Driver = r.events.now.Add(c.Wait) // see openReceive
		}
		if c.Task.Node() == nil && c.Timer == machine.Timeout { // the run's
			c.Wait -= r.clock.at(r.events.now)
		}
		r.arm(timerKey{c.Task, c.Timer}, c.Wait)
	case machine.Disarm:
		key := timerKey{c.Task, c.Timer}
		if timer := r.timers[key]; timer != nil { // else it came due in this very moment
			timer.Stop()
			delete(r.timers, key)
		}
	}
	return true
}

// goOnLive makes the state that the journal gave a live one, once.
func (r *run) goOnLive() {
	if r.leg == nil || r.live {
		return
	}
	r.live = true
	undone := r.wasUndone
	if undone { // then what is due begins the run again
		r.goOnDue()
	}
	r.m.Walk(func(t *machine.Task) {
		if t.Status() == machine.Running && t.First == 0 {
			r.events.emit(t, trace.StepStart, t.Path(), nil, nil)
		}
	}, func(*machine.Task) {})
	for i, a := range r.armed {
		r.armed[i].Wait -= r.timeOf(a.Task)
	}
	r.pending, r.armed = slices.Concat(r.armed, r.pending), nil
	for _, t := range r.halted { // calls that were told to stop are not made again
		if i := slices.IndexFunc(r.pending, func(c machine.Command) bool { return c.Op == machine.Start && c.Task == t }); i >= 0 {
			c := r.pending[i]
			r.pending = slices.Delete(r.pending, i, i+1)
			r.stoppedBefore(c)
		}
	}
	r.halted = nil
	if !undone {
		r.goOnDue()
	}
}

// goOnDue ends the pauses that are due.
func (r *run) goOnDue() {
	for _, p := range slices.Clone(r.pauses) {
		r.goOn(p)
	}
}

// returned takes the result of a call of the driver's own. When the run was taken over (false), it
// reports the result like a worker.
func (r *run) returned(in *invocation) bool {
	if !r.baton.CompareAndSwap(in.turn, 0) {
		r.send(report{kind: lost, call: in})
		return false
	}
	r.events.tick()
	if r.ctx.Err() != nil && !r.cancelled {
		r.cancel() // before the result: a call that was cancelled is no failure
	}
	r.finish(in)
	return true
}

func (r *run) arm(key timerKey, wait time.Duration) {
	if r.timers == nil {
		r.timers = map[timerKey]*time.Timer{}
	}
	r.timers[key] = time.AfterFunc(wait, func() { r.send(report{kind: due, timer: &key}) })
}

// stop tells a call to stop. Unless the whole run was cancelled, which has a longer grace period,
// the call is left behind if it does not return soon.
func (r *run) stop(c machine.Command) {
	in, ok := c.Task.Driver.(*invocation)
	if !ok {
		return // the driver's own call, which the caller takes over from: its context has ended
	}
	in.cancel(c.Err)
	if !r.cancelled {
		time.AfterFunc(settleTime, func() { r.send(report{kind: overdue, call: in}) })
	}
}

// wait takes the next report.
func (r *run) wait() {
	select {
	case rep := <-r.reports:
		r.take(rep)
	case <-r.ended:
		r.cancel()
	}
}

// poll takes what has been reported, so that a long chain of pure steps notices it.
func (r *run) poll() {
	for {
		select {
		case rep := <-r.reports:
			r.take(rep)
		case <-r.ended:
			r.cancel()
		default:
			return
		}
	}
}

func (r *run) cancel() {
	r.ended = nil
	r.stopAll(cancelCause(r.ctx))
}

// stopAll ends the run early, after the grace period at the latest.
func (r *run) stopAll(cause error) {
	r.cancelled, r.cancelledAt = true, r.m.Decided()
	r.events.tick()
	r.m.Cancel(cause)
	time.AfterFunc(r.limits.Grace, func() { r.send(report{kind: graceOver}) })
}

func (r *run) take(rep report) {
	r.events.tick()
	if r.ctx.Err() != nil && !r.cancelled {
		r.cancel() // before what is reported: a call that was cancelled is no failure
	}
	in := rep.call
	if rep.kind == returned {
		r.idle++
	}
	switch {
	case rep.kind == agentEvents:
		r.takeEvents(in, rep.batch)
	case rep.kind == due:
		delete(r.timers, *rep.timer)
		if !r.cancelled {
			r.note(rep.timer.task.Path(), journal.TimerDue{Timer: rep.timer.timer})
		}
		r.m.Due(rep.timer.task, rep.timer.timer)
	case rep.kind == late:
		r.journal.armed = nil
		r.flush()
	case rep.kind == fenced:
		r.fence(rep.err)
	case rep.kind == waitOver:
		if rep.task.Status() == machine.Waiting && !r.cancelled {
			r.note(rep.task.Path(), journal.WaitOver{})
			r.m.Answer(rep.task, nil, nil)
		}
	case rep.kind == pauseDue:
		if !r.cancelled {
			r.goOn(rep.pause)
		}
	case rep.kind == graceOver:
		for _, t := range r.m.Calls() {
			if in, ok := t.Driver.(*invocation); ok { // else it is about to start, and will not
				r.leave(in)
			}
		}
	case in.left || in.task.Driver == nil: // left behind, or returned in time
	case rep.kind == event:
		ev := rep.event
		r.events.emit(in.task, ev.Kind, ev.Step, ev.Data, ev.content)
	case rep.kind == overdue:
		r.leave(in)
	default:
		in.task.Driver = nil
		if ownContext(in.task) {
			in.cancel(nil)
		}
		r.finish(in)
	}
}

// fence stops a run that is not this process's any more.
func (r *run) fence(err error) {
	r.journal.err = errors.Join(r.journal.err, err)
	if !r.cancelled {
		r.stopAll(err)
	}
}

// decided is what a record says that the machine had decided by then: what it decides while the run is
// being cancelled, whoever goes on decides anew.
func (r *run) decided() int64 {
	if r.cancelled {
		return r.cancelledAt
	}
	return r.m.Decided()
}
