package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// resolve works out the retry policy of the call. It stays nil if no layer sets one.
func (o *Options) resolve(p *pending, said *program.Retry, own *retry.Metadata) {
	if said == nil && o.Retry == nil && o.Defaults == nil && own == nil {
		return
	}
	kind := retry.Kind(p.Kind)
	l := retry.Layers{Run: o.Retry[kind], Host: o.Defaults[kind], Adapter: own}
	if said != nil {
		l.Step, l.Recipe, p.when = said.Step, said.Recipe, said.When
	}
	policy := retry.Resolve(l)
	p.Stream = p.Stream && policy.Streams(own)
	if policy.Set {
		p.policy = &policy
	}
}

// attempted handles the result of an attempt.
func (p *pending) attempted(r *Run, res *Result) {
	if p.Looks {
		p.looked(r, res)
		return
	}
	err := res.Err
	p.open = leavesOpen(err, r.ending.cutOff(p))
	if _, panicked := errors.AsType[*PanicError](err); !panicked && !unmade(res.Bad) {
		r.budget.settle(p, res)
	}
	switch {
	case err == nil && lacksMoney(res.Bad) && r.o.Budget.Pause && r.o.Kept && p.mayPause(p):
		p.fail(r, &resume.Pause{Kind: resume.System, Reason: dayOver, RetryAt: nextDay(r.now),
			Prompt: res.Bad.Error() + "; it is called on the next day, or on an answer"}, res.Bad)
	case err == nil:
		p.Attempts = 0
		p.returned(r, p, *res)
	case !p.again(r, err) && !p.fallBack(r, err):
		p.fail(r, nil, err)
	}
}

// dayOver is the code of the error that a limit of a day does not leave enough for a call, and the reason of the pause.
const dayOver = "limit.day"

// unmade reports whether an attempt was not made because of its Bad: a hook, a file that it shows, or a limit of a day.
func unmade(bad error) bool {
	known, ok := errors.AsType[*runtime.Error](bad)
	return ok && slices.Contains([]string{"hook.denied", "file.changed", "file.unreadable", "file.type", "file.gone",
		string(diagnostics.CodeNoFiles), string(diagnostics.CodeModelOption), dayOver, "limit.tooLow"}, known.Code)
}

// lacksMoney reports whether a call was not made because a limit of a day leaves too little.
func lacksMoney(bad error) bool {
	known, ok := errors.AsType[*runtime.Error](bad)
	return ok && known.Code == dayOver
}

// nextDay is when the next day begins, in UTC.
func nextDay(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

// fail ends a call with an error: the call has failed, or waits. pause is what the engine has for it; nil: nothing.
func (p *pending) fail(r *Run, pause *resume.Pause, err error) {
	if asked, ok := errors.AsType[*resume.Suspension](err); ok {
		pause, p.Progress = &asked.Pause, journal.Progress{Replies: p.Progress.Replies}
	}
	p.ended(r, p, outcome{pause: pause}, err)
}

// leavesOpen reports whether an attempt with this error may have had its effect: it was cut off, or lost the
// connection, before the other side answered.
func leavesOpen(err error, cutOff bool) bool {
	if err == nil {
		return false
	}
	if _, suspended := errors.AsType[*resume.Suspension](err); suspended {
		return false
	}
	f := retry.FailureOf(err)
	return f.OutcomeUnknown() || cutOff && f.Sent && f.Status == 0
}

// again decides what follows a failed attempt. It returns false, and does nothing, if the call is over.
func (p *pending) again(r *Run, err error) bool {
	_, suspended := errors.AsType[*resume.Suspension](err)
	_, panicked := errors.AsType[*PanicError](err)
	over := !p.deadline.IsZero() && !r.now.Before(p.deadline)
	if suspended || panicked || over || p.once() || r.ending.cutOff(p) || r.ending.broken {
		return false
	}
	p.Attempts++
	policy := p.policy
	if policy == nil {
		policy = &retry.Resolved{}
	}
	f := retry.FailureOf(err)
	pauses := r.o.Kept && p.mayPause(p)
	d := policy.Decide(f, retry.Call{
		Attempt: p.Attempts, Repeatable: p.repeatable(), InlineWait: r.o.Limits.InlineWait, Unpausable: !pauses,
		Seed: retry.Seed{Run: r.o.ID, Step: p.Path, Call: p.Ordinal + len(p.Repairs)/2},
	})
	if d.Retry && p.when != nil {
		fault := faultOf(p, err, r.o.Redact, r.program.Errors, r.ending.cut != nil)
		switch yes, bad := p.when.Bool(p.task.Failing(fault)); {
		case bad != nil:
			p.fail(r, nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed",
				Err: fmt.Errorf("%w; retry was for: %w", bad, err)})
			return true
		case !yes:
			d = retry.Decision{Exhausted: true, Why: "its when is false"}
		}
	}
	if !d.Retry {
		if d.Exhausted {
			r.trace.tell(p, r.now, retryEvent(trace.RetriesOver, p, policy, f), nil)
			r.Report(exhausted(p, policy, d))
		}
		return false
	}
	r.trace.tell(p, r.now, retryEvent(trace.AdapterRetry, p, policy, f,
		trace.Attr{Key: "delayMs", Value: d.Delay.Milliseconds()}), nil)
	switch {
	case d.Pause || r.todo.drains && !p.repeatable() && pauses:
		p.fail(r, &resume.Pause{Kind: resume.System, Reason: "retry", RetryAt: r.now.Add(d.Delay),
			Prompt: fmt.Sprintf("%s failed (%s) in attempt %d of %d; the next one follows in time, or on an answer",
				p.named(), f.Reason, p.Attempts, policy.MaxAttempts)}, err)
	case p.outlives() && (r.ending.cut != nil || r.todo.drains && p.repeatable()): // a recovery continues
		p.ended(r, p, outcome{}, ErrGrace)
	default:
		if p.last = err; d.Delay > 0 {
			r.todo.retryAfter(p, r.now, d.Delay)
		} else {
			p.retry(r)
		}
	}
	return true
}

// once reports whether no retry policy applies to the call: what only agents call, except memory and retriever.
func (c *Call) once() bool { return c.Kind == "" }

// retry makes one more attempt, if the budget allows it.
func (p *pending) retry(r *Run) {
	if p.overdue(r.now) {
		p.ended(r, p, outcome{late: true}, p.lateError())
		return
	}
	if r.todo.drains && !p.outlives() { // the end of the execution stops it
		p.stage = delayed
		return
	}
	if pause, err := r.budget.reserve(p, r.clock.At(r.now)); err != nil {
		if pause == nil && p.last != nil && retry.FailureOf(p.last).Unsent() {
			err = p.last // what keeps it from being sent says more than what has been used meanwhile
		}
		p.fail(r, pause, err)
		return
	}
	next := *p.Call
	p.Call = &next
	if p.Request != nil {
		again := *p.Request // the model may have kept the request
		p.Request = &again
		r.drawn.draw(p)
	}
	r.trace.tell(p, r.now, r.o.callEvent(p, r.unsaved.durable), r.o.content(p))
	p.make(r)
}

// retryEvent is the event of a failed attempt; more are the attributes after "attempt".
func retryEvent(kind trace.Kind, p *pending, policy *retry.Resolved, f *retry.Failure, more ...trace.Attr) trace.Event {
	method := "call"
	switch {
	case p.hasEffect() && p.Kind == program.RetrieverCall:
		method = "index"
	case p.Kind == program.RetrieverCall:
		method = "retrieve"
	case p.Kind == program.ModelCall && p.Stream:
		method = "stream"
	case p.Kind == program.ModelCall:
		method = "generate"
	}
	data := append(trace.Data{{Key: "adapterKind", Value: string(p.Kind)},
		{Key: "attempt", Value: int64(p.Attempts)}}, more...)
	return trace.Event{Kind: kind, Step: p.Path, Data: append(data,
		trace.Attr{Key: "maxAttempts", Value: int64(policy.MaxAttempts)}, trace.Attr{Key: "method", Value: method},
		trace.Attr{Key: "reason", Value: string(f.Reason)})}
}

// exhausted says that a policy gives up.
func exhausted(p *pending, policy *retry.Resolved, d retry.Decision) diagnostics.Diagnostic {
	text := fmt.Sprintf("step %q: %s failed %d times, no attempt is left", p.Path, p.named(), p.Attempts)
	if p.Attempts < policy.MaxAttempts {
		text = fmt.Sprintf("step %q: %s failed and is not called again: %s", p.Path, p.named(), d.Why)
	}
	return diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindAdapter,
		Code: diagnostics.CodeRetryExhausted, Message: text, Step: p.Path}
}

// named returns the name of the adapter for messages.
func (p *pending) named() string {
	name := p.Name
	switch {
	case p.Kind == program.RetrieverCall, p.Kind == program.MemoryCall:
		return "the " + string(p.Kind)
	case p.Request != nil:
		name = p.Request.Model
	}
	return fmt.Sprintf("%s %q", p.Kind, name)
}

// faultOf converts an error of a call for the machine. reasons: expressions read why it failed. cut: the run's context
// has ended. Only the run itself can be cancelled: an adapter that returns a cancellation on its own has failed.
func faultOf(p *pending, err error, redact *value.Redactor, reasons, cut bool) *machine.Failure {
	if e, ok := err.(*runtime.Error); ok && e.Step != "" { // the reader of the failure adds the step
		without := *e
		without.Step = ""
		err = &without
	}
	err = redact.Error(err)
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		return &machine.Failure{Category: p.Kind.Category(), Code: "step.panic", Err: panicked}
	}
	f := &machine.Failure{Category: p.Kind.Category(), Code: string(p.Kind) + ".failed", Err: err}
	if reasons {
		f.Reason, f.Status = reasonOf(err)
	}
	var known *runtime.Error
	switch {
	case errors.As(err, &known) && known.Category != "" && known.Category != runtime.CategoryCancelled:
		f.Category, f.Code = string(known.Category), cmp.Or(known.Code, f.Code)
	case cut:
		f.Category, f.Code = string(runtime.CategoryCancelled), "step.cancelled"
	}
	return f
}

// reasonOf is what an error says of a call, as expressions see it. What is wrong before or after a call has no reason.
func reasonOf(err error) (reason string, status int) {
	if f, ok := errors.AsType[*retry.Failure](err); ok {
		return string(f.Reason), f.Status
	}
	if known, ok := errors.AsType[*runtime.Error](err); ok && known.Category == runtime.CategoryConfig {
		return "", 0
	}
	return string(retry.ReasonOf(err)), 0
}

// CancelCause is why a run's context ended; it is context.Canceled in any case.
func CancelCause(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("the run was cancelled: %w", cause)
	}
	return fmt.Errorf("the run was cancelled (%w): %w", cause, context.Canceled)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// overdue reports whether the time of a call is over.
func (p *pending) overdue(now time.Time) bool { return !p.deadline.IsZero() && now.After(p.deadline) }

// lateError is the error of a call that gets no further attempt because its time is over.
func (p *pending) lateError() error {
	nothing := &retry.Failure{Reason: retry.Timeout, Err: p.late} // was sent
	return cmp.Or[error](p.last, nothing)
}
