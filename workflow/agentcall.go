package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// inner is the invocation of one call inside the agent. emit tells of what happens in it.
func (a *agentRun) inner(ctx context.Context, c *program.Call, path string, emit func(trace.Event)) *invocation {
	c.Step, c.Pos = a.in.call.Step, a.in.call.Pos
	return &invocation{run: a.in.run, task: a.in.task, call: c, path: path, ctx: ctx,
		tell: emit, accounts: a.in.accounts}
}

// ask calls a model for the loop, as often as policies say, within the budgets.
func (a *agentRun) ask(ctx context.Context, c *agentloop.ModelCall) (*runtime.Response, error) {
	path := c.Request.Step
	in := a.inner(ctx, &program.Call{Kind: program.ModelCall, Name: c.Request.Model,
		Retry: a.in.call.Retry}, path, c.Emit)
	req := *c.Request
	in.model, in.req, in.ordinal = c.Model, &req, c.Request.Call
	about, _ := c.Model.(runtime.Described)
	in.resolve(about)
	a.mu.Lock()
	in.Calls, in.Attempts = a.log.calls[path], a.log.tries[placeOf(path, 0)]
	a.mu.Unlock()
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	in.reachedCall(beforeTool, beforeModel)
	defer func() { // also of a call that panics
		in.release(journal.Amount{})
		in.reachedCall(afterTool, afterModel)
		a.keep(in)
	}()
	if err == nil {
		err = in.reserve()
	}
	var resp *runtime.Response
	if err == nil {
		in.draw()
		resp, err = in.respond()
	}
	return resp, a.paused(in, placeOf(path, 0), err)
}

// keep keeps what a call of a model used, for the next event of its path.
func (a *agentRun) keep(in *invocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[in.path]
	if p == nil {
		p = &pending{}
		a.pending[in.path] = p
	}
	for _, n := range in.draws {
		p.calls = append(p.calls, journal.Drawn{Model: in.drawnFrom, N: n, Step: in.path})
	}
	p.used = p.used.Plus(in.used)
	a.log.calls[in.path] = in.Calls
}

// panicking takes the secrets out of what an adapter panics with, before the loop catches it.
func (in *invocation) panicking() {
	if p := recover(); p != nil {
		panic(in.run.prepared.redact.Text(fmt.Sprint(p)))
	}
}

// paused keeps how often a call has failed that pauses, and makes the pause that it asks for the error.
func (a *agentRun) paused(in *invocation, place string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.log.tries, place)
	if in.pause == nil || err == nil {
		return err
	}
	if in.Attempts > 0 {
		a.log.tries[place] = in.Attempts
	}
	return resume.Suspend(*in.pause)
}

// call calls a tool for the loop, as often as policies say.
func (a *agentRun) call(ctx context.Context, c *agentloop.ToolCall) (json.RawMessage, error) {
	spec := c.Tool.Spec()
	in := a.inner(ctx, &program.Call{Kind: program.ToolCall, Name: spec.Name,
		Retry: a.in.call.Agents.Retries[program.ToolCall]}, c.Path, c.Emit)
	args, err := value.Decode(c.Arguments)
	if err != nil {
		return nil, err // the loop has checked it
	}
	in.args, _ = args.(map[string]any)
	in.tool, in.ordinal = &boundTool{tool: c.Tool, effect: spec.Effect}, c.Number
	in.tool.values, _ = c.Tool.(runtime.ValueTool)
	in.tool.about, _ = c.Tool.(runtime.Described)
	in.resolve(in.tool.about)
	if a.doubtful(in) { // the loop asks
		return nil, &retry.Failure{Reason: retry.Timeout, Sent: true,
			Err: errors.New("the run has begun again, and it is not known what became of the call before")}
	}
	place := placeOf(c.Path, c.Number)
	a.mu.Lock()
	in.Attempts = a.log.tries[place]
	a.mu.Unlock()
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	in.reachedCall(beforeTool, beforeModel)
	var output any
	if err == nil {
		err = in.reserve() // time, of a tool
	}
	if err == nil {
		output, err = in.toolResult(&runtime.Moment{Point: runtime.ToolBefore, Name: spec.Name})
	}
	in.reachedCall(afterTool, afterModel)
	if in.open && ctx.Err() != nil && !in.repeatable() {
		a.in.run.callUnknown(in.path, spec.Name, a.in.run.whyStopped(ctx))
	}
	if err = a.paused(in, place, err); err != nil || output == nil {
		return nil, err
	}
	return value.JSON(output)
}

// doubtful reports, once for each time, that it is first to be asked what became of a call in an earlier
// generation.
func (a *agentRun) doubtful(in *invocation) bool {
	if len(a.doubts) == 0 || in.repeatable() {
		return false
	}
	shown := in.run.prepared.redact.Value(map[string]any{"tool": in.call.Name, "arguments": in.args})
	key := engine.PauseKey{Step: in.path, Kind: resume.System, Reason: journal.Indeterminate,
		About: engine.AboutOf(&resume.Pause{Reason: journal.Indeterminate, Show: shown})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubts[key]--
	return a.doubts[key] >= 0
}

// port calls the memory or the retriever for the loop, as often as policies say.
func (a *agentRun) port(ctx context.Context, c *agentloop.PortCall) (any, error) {
	kind := program.CallKind(c.Kind)
	in := a.inner(ctx, &program.Call{Kind: kind, Retry: a.in.call.Agents.Retries[kind]}, c.Path, c.Emit)
	in.port, in.ordinal = c.Call, 1
	var about runtime.Described
	if kind == program.MemoryCall {
		about, _ = in.run.rt.Memory.(runtime.Described)
	} else {
		about, _ = in.run.rt.Retriever.(runtime.Described)
	}
	in.resolve(about)
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	if err == nil {
		err = in.reserve()
	}
	if err != nil {
		return nil, err
	}
	resp, err := in.try()
	redact := in.run.prepared.redact
	if err != nil || redact == nil {
		return resp.value, redact.Error(err)
	}
	switch v := resp.value.(type) {
	case []runtime.Message:
		return withoutSecrets(redact, v)
	case []runtime.Document:
		return withoutSecrets(redact, v)
	}
	return resp.value, nil
}

// withoutSecrets returns plain data with the secrets out.
func withoutSecrets[T any](redact *value.Redactor, v T) (clean T, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return clean, err
	}
	data, err := value.Decode(text)
	if err == nil {
		text, err = value.JSON(redact.Value(data))
	}
	if err == nil {
		err = json.Unmarshal(text, &clean)
	}
	return clean, err
}

// permit asks the hooks before a tool is called.
func (a *agentRun) permit(ctx context.Context, tool string, args json.RawMessage) error {
	r := a.in.run
	m := runtime.Moment{Point: runtime.ToolBefore, Name: tool, Run: r.id, Step: a.in.path}
	v, _ := value.Decode(args)
	m.Args, _ = v.(map[string]any)
	return r.prepared.offers.Fire(ctx, m, r.found.add)
}
