package trace

import (
	"context"
	"time"
)

// Spans is an optional interface of a Sink, or of what ForRun returns, that makes a span of each call.
type Spans interface {
	// Within returns ctx, or a context made of it, with the span of the call that the step or agent at a path is about
	// to make; call is its number, of a tool that an agent calls, else 0. It is called like Emit, after the event that
	// says that the call begins. A sink that propagates the span to other systems also calls WithTraceparent.
	Within(ctx context.Context, step string, call int) context.Context
}

// spanTime is how long a call waits for the span that a sink makes of it. If a sink takes longer, the call has no span,
// and neither have the calls that begin before the sink has caught up: they do not wait.
const spanTime = time.Second

// Within returns ctx with the spans that sinks make of a call, see Spans; ctx itself if none does.
func (f *Fanout) Within(ctx context.Context, step string, call int) context.Context {
	if f == nil {
		return ctx
	}
	for _, o := range f.outlets {
		if s, ok := o.sink.(Spans); ok && o.broken == nil {
			ctx = o.within(ctx, func(ctx context.Context) context.Context { return s.Within(ctx, step, call) })
		}
	}
	return ctx
}

// within asks the sink behind the events that are queued.
func (o *outlet) within(ctx context.Context, ask func(context.Context) context.Context) context.Context {
	answer := make(chan context.Context, 1)
	o.put(queued{ask: func() {
		answer <- ask(ctx)
		o.late.Store(false)
	}})
	if o.late.Load() {
		return ctx
	}
	timeout := time.NewTimer(spanTime)
	defer timeout.Stop()
	select {
	case inner := <-answer:
		return inner
	case <-o.done:
	case <-timeout.C:
		o.late.Store(true)
	case <-ctx.Done():
	}
	return ctx
}

// traceparentKey is the key of what WithTraceparent adds.
type traceparentKey struct{}

// WithTraceparent returns a context whose requests are of a span, as a W3C traceparent names it.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the header traceparent for requests to other systems: the span of the call that ctx is of, by
// the last sink that makes spans. It is "" if there is no such sink: then nothing is sent.
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceparentKey{}).(string)
	return text
}
