package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// resolve works out the call's policy. It stays nil when nobody says anything.
func (in *invocation) resolve(adapter runtime.Described) {
	rt := in.run.rt
	var own *retry.Metadata
	if adapter != nil {
		own = adapter.Metadata().Retry
	}
	if in.call.Retry == nil && rt.Retry == nil && rt.RetryDefaults == nil && own == nil {
		return
	}
	kind := retry.Kind(in.call.Kind)
	l := retry.Layers{Run: rt.Retry[kind], Host: rt.RetryDefaults[kind], Adapter: own}
	if in.call.Retry != nil {
		l.Step, l.Recipe = in.call.Retry.Step, in.call.Retry.Recipe
	}
	p := retry.Resolve(l)
	if in.streams() {
		p = retry.ResolveStream(l)
	}
	if p.Set {
		in.policy = &p
	}
}

// keep keeps the progress of a call that pauses.
func (r *run) keep(t *machine.Task, p journal.Progress) {
	delete(r.progress, t)
	if p.Any() {
		if r.progress == nil {
			r.progress = map[*machine.Task]journal.Progress{}
		}
		r.progress[t] = p
	}
}

// response is what an adapter returned: a model its answer, a retriever documents, a tool a value or JSON.
type response struct {
	model *runtime.Response
	found []runtime.Document
	value any
	text  json.RawMessage
}

// try calls the adapter as often as the call's policy says.
func (in *invocation) try() (response, error) {
	for {
		resp, err := in.attempt()
		in.open = in.leavesOpen(err)
		in.settle(resp.model, err)
		if err == nil {
			in.Attempts = 0
			return resp, nil
		}
		if !in.again(err) {
			return response{}, err
		}
		if err := in.next(); err != nil {
			return response{}, err
		}
	}
}

// attempt calls the adapter once, for as long as the policy gives it.
func (in *invocation) attempt() (response, error) {
	if in.policy == nil || in.policy.Timeout == 0 {
		return in.once()
	}
	return in.attemptInTime()
}

// attemptInTime is attempt with a timeout.
func (in *invocation) attemptInTime() (response, error) {
	ctx, cancel := context.WithTimeout(in.ctx, in.policy.Timeout)
	defer cancel()
	// If it is left behind it goes on with what is its own.
	apart := invocation{run: in.run, call: in.call, path: in.path, ctx: ctx, tool: in.tool,
		args: in.args, model: in.model, req: in.req, port: in.port}
	done := make(chan attempted, 1)
	go apart.onceApart(done)
	var a attempted
	select {
	case a = <-done:
	case <-ctx.Done():
		if in.ctx.Err() != nil { // the run does not wait for ever
			a = <-done
			break
		}
		settle := time.NewTimer(settleTime)
		defer settle.Stop()
		select {
		case a = <-done:
		case <-settle.C:
			in.run.warn("a call ignored its context and was left behind", slog.String("step", in.path))
			a.err = errors.New("the call ignored its context and was left behind")
		}
	}
	if a.err != nil && ctx.Err() != nil && in.ctx.Err() == nil {
		a.err = in.timedOut(a.err)
	}
	return a.response, a.err
}

// timedOut words the error of an attempt whose time was over.
func (in *invocation) timedOut(err error) error {
	f := retry.FailureOf(err)
	if _, panicked := errors.AsType[*panicError](err); panicked || f.Status != 0 {
		return err
	}
	f.Reason = retry.Timeout
	f.Err = fmt.Errorf("attempt %d timed out: its timeout is %v: %w", in.Attempts+1, in.policy.Timeout, err)
	return f
}

// attempted is how an attempt ended.
type attempted struct {
	response
	err error
}

// onceApart is once for a goroutine of its own.
func (in *invocation) onceApart(done chan<- attempted) {
	var a attempted
	returned := false
	defer func() {
		if !returned {
			a.err = in.panicked(recover())
		}
		done <- a
	}()
	a.response, a.err = in.once()
	returned = true
}

// once calls the adapter.
func (in *invocation) once() (resp response, err error) {
	switch {
	case in.port != nil:
		resp.value, err = in.port(in.ctx)
	case in.call.Kind == program.ModelCall:
		resp.model, err = in.answer()
	case in.call.Kind == program.RetrieverCall:
		resp.found, err = in.search()
	case in.tool.values != nil:
		resp.value, err = in.tool.values.CallValue(in.ctx, in.args)
	default:
		var args json.RawMessage
		if args, err = value.JSON(in.args); err != nil {
			return resp, &retry.Failure{Err: fmt.Errorf("arguments of %q: %w", in.call.Name, err)}
		}
		resp.text, err = in.tool.tool.Call(in.ctx, args)
	}
	return resp, err
}

// again decides what follows on a failed attempt. It returns true when the next one has its turn. If
// not, the call has failed, unless in.pause says what it waits for.
func (in *invocation) again(err error) bool {
	_, suspended := errors.AsType[*resume.Suspension](err)
	_, panicked := errors.AsType[*panicError](err)
	if suspended || panicked || in.ctx.Err() != nil {
		return false
	}
	in.Attempts++
	p := in.policy
	if p == nil {
		p = &retry.Resolved{}
	}
	f := retry.FailureOf(err)
	d := p.Decide(f, retry.Call{
		Attempt: in.Attempts, Repeatable: in.repeatable(), InlineWait: in.run.limits.InlineWait,
		Seed: retry.Seed{Run: in.run.id, Step: in.path, Call: in.ordinal + len(in.Repairs)/2},
	})
	// a rollback does not pause, nor does what an agent gathers
	durable := in.run.rt.Store != nil && in.told == nil && in.port == nil
	switch {
	case !d.Retry:
		if d.Exhausted {
			in.exhausted(p, f, d)
		}
		if d.Indeterminate && durable && in.tell == nil { // an agent finds out by the error
			in.pause, in.Attempts = in.askWhatHappened(), 0
		}
		return false
	case d.Pause && durable:
		in.emitRetry(trace.AdapterRetry, p, f, trace.Attr{Key: "delayMs", Value: d.Delay.Milliseconds()})
		in.pause = &resume.Pause{Kind: resume.System, Reason: "retry", RetryAt: time.Now().UTC().Add(d.Delay),
			Prompt: fmt.Sprintf("%s failed (%s) in attempt %d of %d; the next one follows in time, or on an answer",
				in.named(), f.Reason, in.Attempts, p.MaxAttempts)}
		return false
	}
	in.emitRetry(trace.AdapterRetry, p, f, trace.Attr{Key: "delayMs", Value: d.Delay.Milliseconds()})
	if d.Delay > 0 {
		timer := time.NewTimer(d.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-in.ctx.Done():
			return false
		}
	}
	return true
}

// next begins one more call of the adapter, if the run is still this process's and the budget allows it.
func (in *invocation) next() error {
	if err := in.owned(); err != nil {
		return err
	}
	if err := in.reserve(); err != nil {
		return err
	}
	if in.req != nil {
		again := *in.req // the model may have kept the request
		in.req = &again
		in.draw()
	}
	if in.tell == nil { // an agent tells of its calls itself
		in.emit(in.event(), in.content())
	}
	return nil
}

// owned makes sure that a call may be made although time has passed since the run's journal was last written:
// if not, the run stops.
func (in *invocation) owned() error {
	err := in.run.owned()
	if err == nil {
		return nil
	}
	if in.fenced = err; in.tell != nil { // before anything that the agent makes of it
		in.run.happened(func() { in.run.fence(err) })
	}
	return err
}

// emitRetry tells of a failed attempt; more are the attributes that come after "attempt".
func (in *invocation) emitRetry(kind trace.Kind, p *retry.Resolved, f *retry.Failure, more ...trace.Attr) {
	method := "call"
	switch {
	case in.call.Kind == program.RetrieverCall:
		method = "retrieve"
	case in.call.Kind == program.ModelCall && in.streams():
		method = "stream"
	case in.call.Kind == program.ModelCall:
		method = "generate"
	}
	data := append(trace.Data{{Key: "adapterKind", Value: string(in.call.Kind)},
		{Key: "attempt", Value: int64(in.Attempts)}}, more...)
	in.emit(trace.Event{Kind: kind, Step: in.path, Data: append(data,
		trace.Attr{Key: "maxAttempts", Value: int64(p.MaxAttempts)}, trace.Attr{Key: "method", Value: method},
		trace.Attr{Key: "reason", Value: string(f.Reason)})}, nil)
}

// exhausted tells that a policy gives up.
func (in *invocation) exhausted(p *retry.Resolved, f *retry.Failure, d retry.Decision) {
	in.emitRetry(trace.RetriesOver, p, f)
	text := fmt.Sprintf("step %q: %s failed %d times, no attempt is left", in.path, in.named(), in.Attempts)
	if in.Attempts < p.MaxAttempts {
		text = fmt.Sprintf("step %q: %s failed and is not called again: %s", in.path, in.named(), d.Why)
	}
	in.run.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindAdapter,
		Code: diagnostics.CodeRetryExhausted, Message: text, Step: in.path})
}

// named names the adapter in a message.
func (in *invocation) named() string {
	name := in.call.Name
	switch {
	case in.call.Kind == program.RetrieverCall, in.call.Kind == program.MemoryCall:
		return "the " + string(in.call.Kind)
	case in.agent != nil:
		name = in.agent.loop.Name
	case in.req != nil:
		name = in.req.Model
	}
	return fmt.Sprintf("%s %q", in.call.Kind, name)
}
