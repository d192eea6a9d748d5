package workflow

import (
	"context"

	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/trace"
)

// group is a context for calls that nothing can stop one by one: calls of the recipe's own steps
// without a timeout, that began before the same failure.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// detailed is an event with content for the sinks that want it.
type detailed struct {
	trace.Event
	content any
}

// launch makes a call ready to be made, which it returns.
func (r *run) launch(in *invocation) *invocation {
	if in.agent == nil {
		ev := in.event()
		r.events.emit(in.task, ev.Kind, ev.Step, ev.Data, in.content())
		in.quick = in.isQuick()
	}
	in.task.Driver = in
	in.setContext(r.callContext(in.task))
	return in
}

// newInvocation returns a zero invocation.
func (r *run) newInvocation() *invocation {
	in := r.spare
	if r.spare = nil; in == nil {
		return new(invocation)
	}
	*in = invocation{}
	return in
}

// reuse leaves the memory of a quick call that is over to the next call. Nobody else has it: a quick call is made
// once, and only a timer that waits for one that was told to stop looks at it from outside.
func (r *run) reuse(in *invocation) {
	if in.quick && !in.stopped {
		r.spare = in
	}
}

// isQuick reports whether others may wait for the call: its tool takes values, and nothing else comes with it
// that takes time, as slots, hooks and further attempts do.
func (in *invocation) isQuick() bool {
	r := in.run
	return in.tool != nil && in.tool.values != nil && in.policy == nil &&
		r.slots == nil && !r.hooked() && !ownContext(in.task)
}

// underWay reports whether the run waits for the call: it has neither returned nor been left behind.
func (in *invocation) underWay() bool { return in.task.Driver == in }

// ownContext reports whether a call may be stopped by itself.
func ownContext(t *machine.Task) bool { return t.Nested() || t.Node().Timeout > 0 }

// callContext makes the context of a call.
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

// emit tells of something that happened in a call that is under way.
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
	r.turn.take()
	defer r.turn.give()
	if !r.over && in.underWay() {
		r.events.tick()
		r.events.emit(in.task, ev.Kind, ev.Step, ev.Data, content)
	}
}
