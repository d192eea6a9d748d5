package workflow

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// carryOut executes a command of the machine, other than to start a call.
func (r *run) carryOut(c machine.Command) {
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
	case machine.Open:
		r.openWait(c)
	case machine.Stop:
		r.stop(c)
	case machine.Arm:
		if n := c.Task.Node(); n != nil && n.Kind == machine.Receive {
			c.Task.Driver = r.events.now.Add(c.Wait) // see openReceive
		}
		if c.Task.Node() == nil && c.Timer == machine.Timeout { // the run's
			c.Wait -= r.clock.At(r.events.now)
		}
		r.arm(timerKey{c.Task, c.Timer}, c.Wait)
	case machine.Disarm:
		r.disarm(timerKey{c.Task, c.Timer})
	}
}

// fired tells the machine that a timer has come due.
func (r *run) fired(key timerKey) {
	if r.cancelled {
		r.m.Due(key.task, key.timer)
		return
	}
	r.record(key.task, key.task.Path(), journal.TimerDue{Timer: key.timer})
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
		starts := func(c machine.Command) bool { return c.Op == machine.Start && c.Task == t }
		if i := slices.IndexFunc(r.pending, starts); i >= 0 {
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

// start prepares a call, and returns it when it can be made at once: not if it has ended already, or if the
// journal comes first.
func (r *run) start(c machine.Command) *invocation {
	in := r.newInvocation()
	in.run, in.task, in.call, in.input = r, c.Task, c.Task.Node().Adapter.(*program.Call), c.Input
	in.path, in.ctx = r.events.path(c.Task), r.ctx
	if r.ctx.Err() != nil {
		if !r.cancelled {
			r.cancel()
		}
		in.failure = in.fault(cancelCause(r.ctx))
		r.finish(in)
		return nil
	}
	if err := in.prepare(); err != nil {
		in.size, in.failure = machine.Unknown, in.fault(err)
		r.finish(in)
		return nil
	}
	in.identify(c.Again)
	if r.journal.durable() {
		unsure, ok := r.unsure[c.Task]
		asks := engine.PauseKey{Step: in.path, Kind: resume.System, Reason: journal.Indeterminate}
		if ok && unsure == in.ordinal && !in.repeatable() || r.before.Doubtful(asks) > 0 {
			delete(r.unsure, c.Task)
			in.pause = in.askWhatHappened()
			r.finish(in)
			return nil
		}
	}
	if in.req == nil && in.agent == nil && r.timed() { // models have asked before, and agents ask for each call
		in.accounts = r.accountsOf(in.task)
		if err := in.reserve(); err != nil {
			in.size, in.failure = machine.Unknown, in.fault(err)
			r.finish(in)
			return nil
		}
	}
	if r.journal.durable() {
		if effect := in.hasEffect(); effect || r.journal.urgent {
			if effect {
				r.note(in.path, journal.CallBegun{Ordinal: in.ordinal})
			}
			r.blocked = append(r.blocked, in)
			return nil
		}
	}
	return r.launch(in)
}

// unblock writes the journal, and returns the next call that waited for it. nil: there is none, or it does not
// begin any more.
func (r *run) unblock() *invocation {
	r.flush()
	in := r.blocked[0]
	r.blocked = r.blocked[1:]
	if r.journal.err != nil || r.cancelled {
		in.failure = notDone("the call did not begin")
		r.finish(in)
		return nil
	}
	return r.launch(in)
}

// finish tells the journal and the machine how a call ended.
func (r *run) finish(in *invocation) {
	in.release(journal.Amount{}) // of a call that was not made, or panicked
	if in.fenced != nil {
		r.fence(in.fenced)
		in.pause, in.failure = nil, notDone("the run is not this process's any more")
	}
	if a := in.agent; a != nil {
		if r.closeAgent(in); a.pauses != nil && in.failure == nil {
			r.suspendAgent(in, a.pauses)
			return
		}
	}
	if in.pause != nil {
		r.suspend(in)
		return
	}
	in.unknown = in.unknown || in.cutOff()
	what := journal.CallEnded{Output: in.output, Size: in.size + 1, Failure: in.failure,
		Models: in.models(), Unknown: in.unknown}
	if in.unknown {
		what.Why = in.why()
	}
	if in.failure != nil && in.failure.Category == string(runtime.CategoryCancelled) && r.cancelled {
		r.applyEnded(in.task, in.path, &what) // what was cancelled from outside is done again when the run is recovered
		return
	}
	r.journal.urgent = r.journal.urgent || r.journal.durable() && in.hasEffect()
	r.record(in.task, in.path, what)
}

// leave gives up a call that did not return in time. Its result, if one comes, is dropped.
func (r *run) leave(in *invocation) {
	in.task.Driver = nil
	r.warn("a call ignored its context and was left behind", slog.String("step", in.task.Path()))
	old := in // is of the goroutine that makes it
	in = &invocation{run: r, task: old.task, path: old.path, call: old.call, tool: old.tool, args: old.args}
	in.ctx, in.size, in.open = old.ctx, machine.Unknown, true
	if old.call.Kind == program.AgentCall {
		r.leftOpen(old, old.why())
	}
	in.failure = notDone("the call ignored its context and was left behind")
	r.finish(in)
}

// notDone is the failure of a call that was cancelled.
func notDone(why string) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryCancelled), Code: "step.cancelled", Err: errors.New(why)}
}

// decided is what a record says that the machine had decided by then: what it decides while the run is
// being cancelled, whoever goes on decides anew.
func (r *run) decided() int64 {
	if r.cancelled {
		return r.cancelledAt
	}
	return r.m.Decided()
}
