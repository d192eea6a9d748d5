package call

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// callTool calls a tool, without secrets in the result, and fires the hooks. For a call of an agent the hooks before
// the first attempt have run already, when the agent asked its policy.
func (a *attempt) callTool() engine.Result {
	var err error
	if a.args, err = a.arguments(a.call); err != nil {
		return engine.Result{Bad: a.shown(err)}
	}
	a.tool = a.Caller.tool(a.call)
	var res engine.Result
	if a.Hooked() {
		res = a.hookedTool()
	} else {
		res = a.toolResult()
	}
	if a.call.Job != nil && a.Content != nil && res.Err == nil && res.Bad == nil {
		a.keepPictures(&res)
	}
	return res
}

// hookedTool is callTool if there are hooks.
func (a *attempt) hookedTool() engine.Result {
	m := &runtime.Moment{Point: runtime.ToolBefore, Name: a.call.Name}
	m.Args, _ = a.Redact.Value(a.args).(map[string]any)
	if a.call.Job == nil || a.call.Attempt > 1 {
		if err := a.allowed(m); err != nil {
			return engine.Result{Bad: err}
		}
	}
	res := a.toolResult()
	m.Point, m.Output, m.Err = runtime.ToolAfter, res.Output, cmp.Or(res.Err, res.Bad)
	_ = a.fire(*m)
	return res
}

// toolResult calls a tool, and reads its result, with secrets redacted.
func (a *attempt) toolResult() engine.Result {
	res := engine.Result{}
	resp := a.try()
	res.Spent = resp.used
	if resp.err == nil {
		if res.Text = a.textFor(&resp); res.Text == nil {
			res.Output, res.Extent, res.Bad = a.outputOf(&resp)
		}
	}
	res.Err, res.Bad = a.shown(resp.err), a.shown(res.Bad)
	return res
}

// textFor returns the output of a tool as it is, if it is for an agent, whose model reads text: an object or a list,
// canonical, within the limits, and nobody has to look into it.
func (a *attempt) textFor(resp *response) json.RawMessage {
	text := resp.text
	if a.call.Job == nil || a.Hooked() || a.Redact != nil || len(text) == 0 || text[0] != '{' && text[0] != '[' ||
		len(text) > a.most.output || value.WeightOfText(text) > a.most.memory || !value.IsCanonical(text) {
		return nil
	}
	return bytes.Clone(text)
}

// findable puts into the context which call it is, and for a tool its key and the answers that it got.
func (a *attempt) findable() {
	call := a.call
	own := &a.own
	*own = resume.CallContext{Context: a.ctx, RunID: a.RunID, Generation: call.Generation, Path: call.Path,
		Ordinal: call.Ordinal, Attempt: max(call.Attempt, 1), Recipe: call.Recipe, By: call.By}
	a.ctx = own
	key := call.Key
	if call.Job != nil {
		own.Ordinal, key = call.Job.Call, ""
	}
	switch {
	case call.Kind != program.ToolCall && call.Job != nil: // no call of a tool has the same key
		own.Detail = &resume.CallDetail{Own: string(call.Job.Op)}
	case call.Kind != program.ToolCall:
	case key != "" || call.Replies != nil || call.Job != nil:
		own.Detail = &resume.CallDetail{Own: key, Replies: call.Replies, Answered: call.Answered}
	}
	if j := call.Job; j != nil {
		own.Detail.Thread, own.Detail.Resource = j.Conversation.Thread, j.Conversation.Resource
		own.Detail.Depth = strings.Count(j.Frame, "#")
		own.Detail.Agent, own.Detail.Cwd = call.Agent.Name, call.Agent.Cwd
	}
}

// callJSON calls a tool that takes JSON.
func (a *attempt) callJSON() (json.RawMessage, []runtime.Spent, error) {
	args, err := a.argsText()
	if err != nil {
		return nil, nil, &retry.Failure{Err: fmt.Errorf("arguments of %q: %w", a.call.Name, err)}
	}
	if t, ok := a.tool.tool.(interface {
		CallSpending(context.Context, json.RawMessage) (json.RawMessage, []runtime.Spent, error)
	}); ok { // a tool of a port
		return t.CallSpending(a.ctx, args)
	}
	call := func(ctx context.Context) (json.RawMessage, error) { return a.tool.tool.Call(ctx, args) }
	if _, ok := a.tool.tool.(interface{ StoreTool() }); ok {
		text, err := guard.Store(a.ctx, call)
		return text, nil, err
	}
	text, err := call(a.ctx)
	return text, nil, err
}

// argsText encodes the arguments. Those of an agent are text already, and have no secrets.
func (a *attempt) argsText() (json.RawMessage, error) {
	if j := a.call.Job; j != nil && value.IsCanonical(j.Arguments) {
		return bytes.Clone(j.Arguments), nil
	}
	return value.JSON(a.args)
}

// outputOf returns the output of a tool, with secrets redacted, and its size.
func (a *attempt) outputOf(resp *response) (output any, extent value.Extent, err error) {
	switch {
	case a.tool.values != nil:
		output, extent, err = value.Take(resp.value, a.most.output)
	case len(resp.text) > a.most.output:
		return nil, extent, a.tooLarge(len(resp.text))
	case value.WeightOfText(resp.text) > a.most.memory:
		return nil, extent, a.tooHeavy()
	case len(resp.text) > 0:
		output, err = value.Decode(resp.text)
	}
	if err != nil {
		return nil, value.Extent{}, fmt.Errorf("tool %q returned what is not JSON: %w", a.call.Name, err)
	}
	if a.Redact != nil {
		output, extent = a.Redact.Value(output), value.Extent{}
	}
	return output, extent, nil
}

// askModel calls a model and its hooks, and redacts secrets in the answer.
func (a *attempt) askModel() engine.Result {
	if bad := a.mayAsk(); bad != nil {
		return engine.Result{Bad: bad}
	}
	var resp response
	if resp.err = a.turn(); errors.Is(resp.err, engine.ErrDrained) {
		return engine.Result{Yield: true}
	}
	if resp.err == nil {
		resp = a.try()
	}
	return a.answered(resp)
}

// mayAsk prepares the request of a model, and calls the hooks before it. The error says why it is not asked.
func (a *attempt) mayAsk() (bad error) {
	if n := len(a.call.Replies); a.call.Answered && a.call.Job != nil {
		a.ctx = resume.WithAnswer(a.ctx, a.call.Replies[n-1].Answer)
	}
	if a.asks, bad = a.withFiles(); bad != nil {
		return bad
	}
	req := a.call.Request
	return a.allowed(&runtime.Moment{Point: runtime.ModelBefore, Name: req.Model, Request: req})
}

// answered redacts secrets in what a model answered, and calls the hooks after it.
func (a *attempt) answered(resp response) (res engine.Result) {
	req := a.call.Request
	m := runtime.Moment{Point: runtime.ModelAfter, Name: req.Model, Request: req}
	res.Err, res.Response = a.shown(resp.err), a.shownResponse(resp.model)
	switch {
	case resp.err != nil:
	case resp.model == nil:
		res.Bad = a.shown(fmt.Errorf("model %q returned neither an answer nor an error", req.Model))
	case bytesOf(resp.model) > a.most.output:
		res.Bad = a.tooLarge(bytesOf(resp.model))
	default:
		m.Response = res.Response
	}
	if a.Hooked() {
		m.Err = cmp.Or(res.Err, res.Bad)
		_ = a.fire(m)
	}
	return res
}

// turn finds the model, and waits until it may be asked. The error is [engine.ErrDrained] if the run drains before.
func (a *attempt) turn() (err error) {
	a.model = a.Offers.Models[a.call.Request.Model]
	limited, ok := a.model.(runtime.LimitedModel)
	if !ok {
		return nil
	}
	ctx, stop := context.WithCancelCause(a.ctx)
	defer stop(nil)
	if drain := a.rt.Drain; drain != nil {
		go func() {
			select {
			case <-drain:
				stop(engine.ErrDrained)
			case <-ctx.Done():
			}
		}()
	}
	if a.model, err = limited.Turn(ctx, a.asks); err != nil && a.ctx.Err() == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// shownResponse is the answer of a model, with secrets redacted.
func (a *attempt) shownResponse(resp *runtime.Response) *runtime.Response {
	if resp == nil || a.Redact == nil {
		return resp
	}
	shown := *resp
	shown.Text, shown.ToolCalls = a.Redact.Text(resp.Text), slices.Clone(resp.ToolCalls)
	shown.Parts = a.shownParts(resp.Parts)
	for i, c := range shown.ToolCalls {
		shown.ToolCalls[i].Parts = a.shownParts(c.Parts)
		shown.ToolCalls[i].Name = a.Redact.Text(c.Name)
		shown.ToolCalls[i].Arguments = json.RawMessage(a.Redact.Text(string(c.Arguments)))
	}
	return &shown
}

// shownParts are the parts of an answer, with secrets redacted. A part that is not JSON is omitted.
func (a *attempt) shownParts(parts []runtime.Part) (shown []runtime.Part) {
	for _, p := range parts {
		v, err := value.Decode(p.Data)
		if err != nil {
			continue
		}
		if p.Data, err = value.JSON(a.Redact.Value(v)); err == nil {
			shown = append(shown, p)
		}
	}
	return shown
}

// bytesOf counts the bytes of an answer that have no other limit.
func bytesOf(resp *runtime.Response) int {
	n := len(resp.Text)
	add := func(parts []runtime.Part) {
		for _, p := range parts {
			n += len(p.Data)
		}
	}
	add(resp.Parts)
	for _, c := range resp.ToolCalls {
		add(c.Parts)
	}
	return n
}

// generate calls the model, piece by piece if the pieces are wanted.
func (a *attempt) generate() (*runtime.Response, error) {
	streaming, ok := a.model.(runtime.StreamingModel)
	if !ok || !a.call.Stream {
		return a.model.Generate(a.ctx, a.asks)
	}
	shows := pieces{a: &attempt{Caller: a.Caller, call: a.call, ctx: a.ctx}, text: a.Redact.Stream()}
	resp, err := streaming.Stream(a.ctx, a.asks, shows.add)
	shows.endThought()
	a.delta("text", shows.text.Rest())
	return resp, err
}

// pieces shows an answer while it comes, without secrets. A thought is over when something else comes. One after that
// begins with an empty line, or else the two could hold a half of a secret each.
type pieces struct {
	a             *attempt
	text, thought *value.Stream // thought is nil before and after one
	thoughts      int
}

func (p *pieces) add(d runtime.Delta) {
	if d.Kind != runtime.DeltaThinking {
		p.endThought()
	}
	switch d.Kind {
	case runtime.DeltaText:
		p.a.delta("text", p.text.Next(d.Text))
	case runtime.DeltaToolCall:
		p.a.delta("tool", p.a.Redact.Text(d.Text))
	case runtime.DeltaThinking:
		if p.thought == nil {
			if p.thought = p.a.Redact.Stream(); p.thoughts > 0 {
				p.a.delta("thinking", "\n\n")
			}
			p.thoughts++
		}
		p.a.delta("thinking", p.thought.Next(d.Text))
	}
}

func (p *pieces) endThought() {
	if p.thought != nil {
		p.a.delta("thinking", p.thought.Rest())
		p.thought = nil
	}
}

// delta sends a piece of an answer to the live sinks; it is not part of the outcome's trace.
func (a *attempt) delta(key, text string) {
	if text != "" && a.Delta != nil && a.ctx.Err() == nil {
		a.Delta(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: a.call.Path,
			Data: trace.Data{{Key: key, Value: text}}})
	}
}
