package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// LeftBehind is the message to the host's operator about an abandoned call.
const LeftBehind = "a call ignored its context and was left behind"

// attempt is one attempt of a call, in progress.
type attempt struct {
	*Caller
	call  *engine.Call
	ctx   context.Context
	tool  *boundTool       // of the call of a tool
	args  map[string]any   // of that, with secrets
	asks  *runtime.Request // of the call of a model, with its local files
	model runtime.Model    // that is asked
	found diagnostics.List // diagnostics about hooks
	emits trace.Emitter
	own   resume.CallContext // of the call of a tool
}

// response is what an adapter returned: the answer of a model, the value or JSON of a tool or of a retriever, or the
// reply of what only agents call.
type response struct {
	model *runtime.Response
	used  []runtime.Spent
	value any
	text  json.RawMessage
	reply *agents.Reply
	err   error
}

// Make makes one attempt of a call that was prepared. ctx tells it to stop. Make always returns, unless the adapter
// ends the goroutine: see Ended. An attempt that ignores its timeout is abandoned.
func (c *Caller) Make(ctx context.Context, call *engine.Call) (res engine.Result) {
	number := 0
	if call.Job != nil && call.Kind == program.ToolCall {
		number = call.Job.Call
	}
	a := &attempt{Caller: c, call: call}
	a.emits.Context, a.emits.To = c.Spans.Within(ctx, call.Path, number), a
	a.ctx = &a.emits
	defer func() {
		if p := recover(); p != nil {
			res = engine.Result{Err: c.panicked(call, p)}
		}
		res.Found, res.Told = a.found, a.emits.End()
	}()
	a.findable()
	switch {
	case call.Batch != nil:
		res = a.inBatch()
	case c.Day != nil:
		res = a.onItsDay()
	default:
		res = a.make()
	}
	res.Err, res.Bad = a.shownPause(res.Err), a.shownPause(res.Bad)
	return res
}

// make makes the attempt.
func (a *attempt) make() engine.Result {
	switch {
	case a.call.Looks:
		return a.look()
	case a.call.Kind == program.ModelCall:
		return a.askModel()
	case a.call.Kind == program.ToolCall:
		return a.callTool()
	case a.call.Job != nil:
		return a.callPort()
	}
	return a.visit()
}

// Emitted implements the other side of a [trace.Emitter].
func (a *attempt) Emitted(t trace.Told) trace.Told {
	t.Name = a.Redact.Text(t.Name)
	t.Data, _ = a.Redact.Value(t.Data).(map[string]any)
	if a.Live != nil && a.call.Job == nil { // an agent puts its events in order first
		a.Live(t.Event(a.call.Path))
	}
	return t
}

// shownPause redacts the secrets in a pause that an adapter or a hook asked for.
func (a *attempt) shownPause(err error) error {
	if s, ok := errors.AsType[*resume.Suspension](err); ok {
		return &resume.Suspension{Pause: engine.CleanPause(a.Redact, s.Pause)}
	}
	return err
}

// Ended is the result of an attempt that ended the goroutine of Make. The caller of Make must ask for it in a deferred
// function.
func (c *Caller) Ended(call *engine.Call) engine.Result {
	return engine.Result{Err: c.panicked(call, nil)}
}

// panicked returns the error for a recovered panic, with secrets redacted; nil means that the adapter ended its
// goroutine.
func (c *Caller) panicked(call *engine.Call, p any) error {
	text := named(call) + " ended its goroutine"
	if p != nil {
		text = fmt.Sprintf("panic in %s: %v", named(call), p)
	}
	return &engine.PanicError{Text: c.Redact.Text(text), Stack: stack()}
}

// stack prints the frames of a panic between the recover and this package: functions and lines only, so that equal
// runs give equal traces.
func stack() string {
	var pcs [64]uintptr
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(4, pcs[:])])
	var b strings.Builder
	begun := false // deferred functions come first
	for {
		f, more := frames.Next()
		ours := strings.HasPrefix(f.Function, "github.com/braise-run/braise/internal/call.")
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			begun = true
		case begun && ours:
			return b.String()
		case begun:
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// try calls the adapter, within its timeout.
func (a *attempt) try() (r response) {
	if a.call.Timeout == 0 {
		return a.once()
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.call.Timeout)
	defer cancel()
	// If it is abandoned, it continues with its own copy.
	apart := &attempt{Caller: a.Caller, call: a.call, tool: a.tool, args: a.args, asks: a.asks, model: a.model,
		ctx: ctx}
	done := make(chan response, 1)
	go apart.onceApart(done)
	select {
	case r = <-done:
	case <-ctx.Done():
		if a.ctx.Err() != nil { // the run does not wait forever
			r = <-done
			break
		}
		settle := time.NewTimer(max(guard.SettleTime, a.call.Grace))
		defer settle.Stop()
		select {
		case r = <-done:
		case <-settle.C:
			if a.Warn != nil {
				a.Warn(LeftBehind, a.call.Path)
			}
			r.err = errors.New("the call ignored its context and was left behind")
		}
	}
	if r.err != nil && ctx.Err() != nil && a.ctx.Err() == nil {
		r.err = a.timedOut(r.err)
	}
	return r
}

// timedOut returns the error of an attempt that timed out.
func (a *attempt) timedOut(err error) error {
	f := retry.FailureOf(err)
	if _, panicked := errors.AsType[*engine.PanicError](err); panicked || f.Status != 0 {
		return err
	}
	f.Reason = retry.Timeout
	f.Err = fmt.Errorf("attempt %d timed out: its timeout is %v: %w", a.call.Attempt, a.call.Timeout, err)
	return f
}

// onceApart is once for a separate goroutine.
func (a *attempt) onceApart(done chan<- response) {
	var r response
	returned := false
	defer func() {
		if !returned {
			r.err = a.panicked(a.call, recover())
		}
		done <- r
	}()
	r = a.once()
	returned = true
}

// once calls the adapter.
func (a *attempt) once() (r response) {
	switch {
	case a.call.Kind == program.ModelCall:
		r.model, r.err = a.generate()
	case a.call.Kind == program.ToolCall && a.tool.values != nil:
		r.value, r.err = a.tool.values.CallValue(a.ctx, a.args)
	case a.call.Kind == program.ToolCall:
		r.text, r.used, r.err = a.callJSON()
	case a.call.Job != nil && a.call.Job.Op == agents.Retrieve:
		found, err := a.rt.Searcher(runtime.DefaultSearcher).Search(a.ctx,
			runtime.Query{Text: a.call.Job.Text, TopK: a.call.Job.Most})
		r = response{reply: &agents.Reply{Documents: found.Documents}, used: found.Used, err: err}
	case a.call.Job != nil:
		reply, err := a.port()
		r.reply, r.err = &reply, err
	default:
		r = a.visitOnce()
	}
	return r
}

// shown returns an error with its secrets redacted.
func (a *attempt) shown(err error) error {
	if err == nil {
		return nil
	}
	_ = err.Error() // if it panics, it does so here
	return a.Redact.Error(err)
}

// allowed calls the hooks before a call; an error denies it.
func (a *attempt) allowed(m *runtime.Moment) error {
	if !a.Hooked() {
		return nil
	}
	if err := a.fire(*m); err != nil {
		return a.shown(&runtime.Error{Category: runtime.CategoryConfirmation, Code: "hook.denied", Err: err})
	}
	return nil
}

// fire calls the hooks for a moment of the call.
func (a *attempt) fire(m runtime.Moment) error {
	m.Run, m.Step, m.Call, m.Attempt = a.RunID, a.call.Path, a.call.Ordinal, max(a.call.Attempt, 1)
	m.Agent = a.call.Agent.Name
	var found diagnostics.List
	err := a.Offers.Fire(a.ctx, m, func(d diagnostics.Diagnostic) { found = append(found, d) })
	a.found = append(a.found, found...)
	return err
}

// tooLarge refuses a result before it is decoded.
func (a *attempt) tooLarge(size int) error {
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "output.tooLarge",
		Err: fmt.Errorf("the output has %d bytes, the limit is %d", size, a.most.output)}
}

// tooHeavy is the error of an output of few bytes that takes much memory.
func (a *attempt) tooHeavy() error {
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "output.tooLarge",
		Err: fmt.Errorf("the output takes more than %d bytes of memory, an eighth of what the run may keep",
			a.most.memory)}
}
