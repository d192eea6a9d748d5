package workflow

import (
	"context"
	"math"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// blocked is a call that begins once what is before it is in the journal.
type blocked struct {
	in    *invocation
	alone bool
}

// group is a context for calls that nothing can stop one by one: calls of the recipe's own steps
// without a timeout, that began before the same failure.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// start executes a call, unless the journal comes first. It returns false when the run was taken
// over meanwhile.
func (r *run) start(c machine.Command, inside **invocation) bool {
	in := r.own
	*in = invocation{}
	in.run, in.task, in.call, in.input, in.path, in.ctx = r, c.Task, c.Task.Node().Adapter.(*program.Call), c.Input, r.events.path(c.Task), r.ctx
	if r.ctx.Err() != nil {
		if !r.cancelled {
			r.cancel()
		}
		in.failure = in.fault(cancelCause(r.ctx))
		r.finish(in)
		return true
	}
	if err := in.prepare(); err != nil {
		in.size, in.failure = machine.Unknown, in.fault(err)
		r.finish(in)
		return true
	}
	in.identify(c.Again)
	if r.journal.durable() {
		if unsure, ok := r.unsure[c.Task]; ok && unsure == in.ordinal && !in.repeatable() || r.doubtful(pauseKey{step: in.path, kind: resume.System, reason: indeterminate}) > 0 {
			delete(r.unsure, c.Task)
			in.pause = in.askWhatHappened()
			r.finish(in)
			return true
		}
	}
	if in.req == nil && in.agent == nil && r.timed() { // models have asked before, and agents ask for each call
		in.accounts = r.accountsOf(in.task)
		if err := in.reserve(); err != nil {
			in.size, in.failure = machine.Unknown, in.fault(err)
			r.finish(in)
			return true
		}
	}
	if r.journal.durable() {
		if effect := in.hasEffect(); effect || r.journal.urgent {
			if effect {
				r.note(in.path, journal.CallBegun{Ordinal: in.ordinal})
			}
			r.own = new(invocation)
			r.blocked = append(r.blocked, blocked{in, c.Alone})
			return true
		}
	}
	return r.launch(in, c.Alone && (len(r.journal.entries) == 0 || !r.journal.durable()), inside)
}

// unblock writes the journal, and begins the calls that waited for it.
func (r *run) unblock(inside **invocation) bool {
	r.flush()
	for len(r.blocked) > 0 {
		b := r.blocked[0]
		r.blocked = r.blocked[1:]
		if r.journal.err != nil || r.cancelled {
			b.in.failure = notDone("the call did not begin")
			r.finish(b.in)
			continue
		}
		if !r.launch(b.in, b.alone && len(r.blocked) == 0, inside) {
			return false
		}
	}
	return true
}

// launch begins a call: a lone or quick one here, others on a goroutine each. It returns false when
// the run was taken over meanwhile.
func (r *run) launch(in *invocation, alone bool, inside **invocation) bool {
	if in.agent != nil {
		r.hand(in) // it tells of its calls itself, and needs a driver
		return true
	}
	ev := in.event()
	r.events.emit(in.task, ev.Kind, ev.Step, ev.Data, in.content())
	r.turns++
	r.policies = r.policies || in.policy != nil
	if r.slots != nil {
		alone = false
	}
	switch quick := r.slots == nil && !r.slow && in.tool != nil && in.tool.values != nil && !ownContext(in.task); {
	case alone:
		in.turn = -r.turns
		in.setContext(r.ctx, nil)
	case quick:
		in.turn = r.turns
		in.setContext(r.callContext(in.task))
	default:
		r.hand(in)
		return true
	}
	r.own = in
	*inside = in
	r.baton.Store(in.turn)
	if in.turn > 0 { // only now: the watch looks at the baton
		r.watchCall()
	}
	in.reachedCall(beforeTool, beforeModel)
	in.do()
	in.reachedCall(afterTool, afterModel)
	*inside = nil
	return r.returned(in)
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
	if in.unknown = in.unknown || in.cutOff(); in.unknown {
		r.callUnknown(in.path, in.call.Name, in.why())
	}
	cancelled := in.failure != nil && in.failure.Category == string(runtime.CategoryCancelled)
	if !cancelled || !r.cancelled { // what was cancelled from outside is done again when the run is recovered
		r.noteAfter(r.decided(), in.path, journal.CallEnded{Output: in.output, Failure: in.failure, Models: in.models(), Unknown: in.unknown})
		r.journal.urgent = r.journal.urgent || r.journal.durable() && in.hasEffect()
		r.m.Spend(in.task, in.used.Micros)
	}
	r.m.Finish(in.task, in.output, in.size, in.failure)
}

// hand gives a call to a worker.
func (r *run) hand(in *invocation) {
	if r.own == in {
		r.own = new(invocation)
	}
	in.task.Driver = in
	in.setContext(r.callContext(in.task))
	if r.idle > 0 {
		r.idle--
		r.calls <- in
		return
	}
	if r.calls == nil {
		r.calls = make(chan *invocation, 16)
	}
	go r.work(in)
}

// work executes calls on a goroutine of its own: one, then those that the driver sends.
func (r *run) work(in *invocation) {
	defer func() {
		if in != nil { // the adapter ended the goroutine
			r.send(report{kind: lost, call: in})
		}
	}()
	for in != nil {
		in.reachedCall(beforeTool, beforeModel)
		in.do()
		in.reachedCall(afterTool, afterModel)
		r.send(report{kind: returned, call: in})
		in = <-r.calls
	}
}

// ownContext reports whether a call may be stopped by itself.
func ownContext(t *machine.Task) bool { return t.Nested() || t.Node().Timeout > 0 }

// callContext makes the context of a call that runs beside others.
func (r *run) callContext(t *machine.Task) (context.Context, context.CancelCauseFunc) {
	if ownContext(t) {
		return context.WithCancelCause(r.ctx)
	}
	if r.shared == nil {
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.shared = &group{ctx, cancel}
		r.groups = append(r.groups, r.shared)
	}
	return r.shared.ctx, r.shared.cancel
}

// emit tells the driver of an event of a call that is under way.
func (in *invocation) emit(ev trace.Event, content any) {
	r := in.run
	if in.tell != nil { // it is inside an agent
		in.tell(ev)
		return
	}
	if in.told != nil { // it is a rollback's
		select {
		case in.told <- detailed{ev, content}:
		case <-in.ctx.Done():
		}
		return
	}
	if in.cancel != nil {
		r.send(report{kind: event, call: in, event: &detailed{ev, content}})
		return
	}
	if r.baton.CompareAndSwap(in.turn, 0) { // else the caller has taken over
		r.events.tick()
		r.events.emit(in.task, ev.Kind, ev.Step, ev.Data, content)
		r.baton.Store(in.turn)
	}
}

// send reports to the driver, or to nobody once the run is over.
func (r *run) send(rep report) {
	select {
	case r.reports <- rep:
		return
	default:
	}
	select {
	case r.reports <- rep:
	case <-r.over:
	}
}

// drawCall counts the calls of a model: each gets the least number, from 1, that no other has. So a
// call that a crash interrupted gets its number again.
func (r *run) drawCall(model string) int {
	r.drawMutex.Lock()
	defer r.drawMutex.Unlock()
	d := r.drawnOf(model)
	for d.free < len(d.made) && d.made[d.free] {
		d.free++
	}
	if d.free == len(d.made) {
		d.made = append(d.made, false)
	}
	d.made[d.free] = true
	return d.free + 1
}

// markDrawn notes a call of an earlier leg.
func (r *run) markDrawn(model string, n int) {
	if n < 1 || n > math.MaxInt32 {
		return
	}
	d := r.drawnOf(model)
	for len(d.made) < n {
		d.made = append(d.made, false)
	}
	d.made[n-1] = true
}

func (r *run) drawnOf(model string) *drawn {
	d := r.drawn[model]
	if d == nil {
		if d = new(drawn); r.drawn == nil {
			r.drawn = map[string]*drawn{}
		}
		r.drawn[model] = d
	}
	return d
}

// drawn are the calls of a model.
type drawn struct {
	made []bool // by number, from 1: that call was
	free int    // where in made the first may be that was not
}
