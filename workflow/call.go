package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// invocation is one execution of a call. The driver prepares it; then a worker, or the driver
// itself, has it until it has returned.
type invocation struct {
	run    *run
	task   *machine.Task
	call   *program.Call
	path   string
	input  any
	ctx    context.Context
	cancel context.CancelCauseFunc // nil for a lone call
	turn   int64                   // of a call that the driver executes itself: what the baton is meanwhile
	left   bool                    // left behind: the result is dropped

	tool  *boundTool // of a tool call
	args  map[string]any
	model runtime.Model // of a model call
	req   *runtime.Request

	policy    *retry.Resolved // nil: nobody says anything about trying again
	ordinal   int             // this is the step's n-th logical call, from 1
	key       string          // the recipe's part of the idempotency key
	known     runtime.Effect  // see effect; "": nobody has asked yet
	drawnFrom string          // the model that draws are of
	draws     []int           // calls of the model, in the run's count
	journal.Progress
	told  chan detailed                      // of a rollback: what it has for the trace; nil for the run's other calls
	tell  func(trace.Event)                  // of a call inside an agent: the same; nil for other calls
	port  func(context.Context) (any, error) // of a call of the memory or the retriever inside an agent
	agent *agentRun                          // of an agent step at work

	accounts []*account     // that calls of a model count in
	reserved journal.Amount // for the call under way
	used     journal.Amount // by the calls that are over

	output  any
	size    int // of the output, or machine.Unknown
	failure *machine.Failure
	pause   *resume.Pause // the call asks for a pause instead
	open    bool          // the last attempt may have had its effect
	unknown bool          // the run ended the call, and it may have had its effect
	fenced  error         // why it was not made, or not again: the run is not this process's any more
}

// prepare does what comes before the adapter is called; the run's owner does it.
func (in *invocation) prepare() error {
	if p, ok := in.run.progress[in.task]; ok { // what it paused for is over, and no matter of the adapter's
		in.Progress = p
		delete(in.run.progress, in.task)
		delete(in.run.answers, in.task)
	}
	switch in.call.Kind {
	case program.ModelCall:
		return in.prepareModel()
	case program.RetrieverCall:
		return in.prepareRetriever()
	case program.AgentCall:
		return in.prepareAgent()
	}
	return in.prepareTool()
}

// event is the trace's record that the adapter is called.
func (in *invocation) event() trace.Event {
	data := in.call.Event
	if in.call.Kind == program.ModelCall {
		data = in.modelData()
	}
	return trace.Event{Kind: trace.AdapterCall, Step: in.path, Data: data}
}

// draw counts a call of the model.
func (in *invocation) draw() {
	in.Calls++
	in.req.Call, in.req.StepCall = in.run.drawCall(in.req.Model), in.Calls
	in.drawnFrom, in.draws = in.req.Model, append(in.draws, in.req.Call)
}

// models is what the call asked of models.
func (in *invocation) models() journal.ModelUse {
	return journal.ModelUse{Model: in.drawnFrom, Draws: in.draws, Used: in.used}
}

// identify gives the call its number. again says that it was suspended, and is answered.
func (in *invocation) identify(again bool) {
	in.ordinal = 1
	if answer, ok := in.run.answers[in.task]; ok && again {
		in.Answer, in.AnswerTo, in.Answered = answer.value, answer.to, true
		delete(in.run.answers, in.task)
	}
}

// setContext lets the call run in ctx, where it finds its key and its answer.
func (in *invocation) setContext(ctx context.Context, cancel context.CancelCauseFunc) {
	in.cancel = cancel
	if in.ctx = ctx; in.call.Kind != program.ToolCall {
		return
	}
	r := in.run
	if len(r.contexts) == 0 {
		r.contexts = make([]resume.CallContext, min(16, len(r.wf.program.Graph.Nodes)))
	}
	c := &r.contexts[0]
	r.contexts = r.contexts[1:]
	c.Context, c.RunID, c.Generation, c.Path, c.Ordinal = ctx, r.id, r.generation, in.path, in.ordinal
	if in.key != "" || in.Answered {
		c.Detail = &resume.CallDetail{Own: in.key, Answer: in.Answer, AnswerTo: in.AnswerTo, Answered: in.Answered}
	}
	in.ctx = c
}

// effect is what a second call would do to the world.
func (in *invocation) effect() runtime.Effect {
	if in.call.Kind != program.ToolCall {
		return runtime.ReadOnly
	}
	if in.known == "" {
		effect := in.tool.effect
		if t, ok := in.tool.tool.(runtime.EffectTool); ok {
			if text, err := value.JSON(in.args); err == nil {
				effect = cmp.Or(t.EffectOf(text), effect)
			}
		}
		in.known = cmp.Or(effect, runtime.External)
	}
	return in.known
}

// hasEffect reports whether the call may do something to the world.
func (in *invocation) hasEffect() bool { return in.tool != nil && in.effect() != runtime.ReadOnly }

// repeatable reports whether a second call does no harm.
func (in *invocation) repeatable() bool { return in.effect() != runtime.External }

// askWhatHappened is the pause of a call of which nobody knows whether it had its effect.
func (in *invocation) askWhatHappened() *resume.Pause {
	return &resume.Pause{Kind: resume.System, Reason: indeterminate, Decisions: []string{"retry", "result", "fail"},
		Prompt: fmt.Sprintf("%s %q was called, and it is not known whether it had its effect: call it again, give its result, or let the step fail?", in.call.Kind, in.call.Name)}
}

// modelData is the payload of a model's adapter.call, with what the model says about itself.
func (in *invocation) modelData() trace.Data {
	described, ok := in.model.(runtime.Described)
	if !ok && in.call.Name != "" {
		return in.call.Event
	}
	data := program.CallData(program.ModelCall, in.req.Model)
	if ok {
		about := described.Metadata()
		if about.Model != "" {
			data = slices.Insert(data, 1, trace.Attr{Key: "model", Value: about.Model})
		}
		if about.Provider != "" {
			data = append(data, trace.Attr{Key: "provider", Value: about.Provider})
		}
	}
	return data
}

// do executes the call and keeps how it ended. It always returns, however the adapter ends.
func (in *invocation) do() {
	returned := false
	defer func() {
		if returned {
			return
		}
		in.output, in.pause, in.failure = nil, nil, in.fault(in.panicked(recover()))
	}()
	in.size = machine.Unknown
	if err := in.result(); err != nil {
		in.fail(err)
	}
	returned = true
}

// result waits for its turn, and calls.
func (in *invocation) result() error {
	leave, err := in.enter()
	defer leave()
	switch {
	case err != nil:
	case in.call.Kind == program.ModelCall:
		in.output, err = in.askModel()
	case in.call.Kind == program.RetrieverCall:
		in.output, err = in.retrieve()
	case in.call.Kind == program.AgentCall:
		in.output, err = in.runAgent()
	default:
		in.output, err = in.callTool()
	}
	return err
}

// fail keeps what an error of the call says: that it waits, or has failed.
func (in *invocation) fail(err error) {
	if pause, ok := errors.AsType[*resume.Suspension](err); ok {
		in.output, in.pause, in.Progress = nil, in.shownPause(pause.Pause), journal.Progress{}
	} else if in.pause == nil {
		in.output, in.failure = nil, in.fault(err)
	}
}

// enter waits for a slot, where the calls of agents may overlap with others. An agent has none itself.
func (in *invocation) enter() (leave func(), err error) {
	slots := in.run.slots
	if slots == nil || in.call.Kind == program.AgentCall {
		return func() {}, nil
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, in.owned()
	case <-in.ctx.Done():
		return func() {}, context.Cause(in.ctx)
	}
}

// panicError is a panic of an adapter. The stack is for the trace, not for the message.
type panicError struct {
	text  string
	stack string
}

func (e *panicError) Error() string { return e.text }

// panicked words what a deferred function of the call has recovered; nil means that the adapter ended
// its goroutine.
func (in *invocation) panicked(p any) error {
	text := in.named() + " ended its goroutine"
	if p != nil {
		text = fmt.Sprintf("panic in %s: %v", in.named(), p)
	}
	return &panicError{text: in.run.prepared.redact.Text(text), stack: stack()}
}

// stack prints the frames of a panic between the recover and the engine's own: functions and
// lines only, so that equal runs give equal traces.
func stack() string {
	var pcs [64]uintptr
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(4, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/braise-run/braise/workflow.(*invocation)") {
			break
		}
		if !strings.HasPrefix(f.Function, "runtime.") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			break
		}
	}
	return b.String()
}

// fault words an error of the call for the machine, secrets out. Only the run itself can be
// cancelled: an adapter that says so of its own is one that failed.
func (in *invocation) fault(err error) *machine.Failure {
	_ = err.Error() // one that panics does so here, inside the call
	if p, ok := errors.AsType[*panicError](err); ok {
		return &machine.Failure{Category: in.call.Kind.Category(), Code: "step.panic", Err: p}
	}
	f := &machine.Failure{Category: in.call.Kind.Category(), Code: string(in.call.Kind) + ".failed", Err: in.run.prepared.redact.Error(err)}
	var known *runtime.Error
	switch {
	case errors.As(err, &known) && known.Category != "" && known.Category != runtime.CategoryCancelled:
		f.Category, f.Code = string(known.Category), cmp.Or(known.Code, f.Code)
	case in.run.ctx.Err() != nil:
		f.Category, f.Code = string(runtime.CategoryCancelled), "step.cancelled"
	}
	return f
}

// prepareTool finds the tool, puts the secrets into its arguments and checks them.
func (in *invocation) prepareTool() error {
	in.tool = &in.run.prepared.tools[in.call.Index]
	if in.tool.tool == nil {
		return program.ConfigError(diagnostics.CodeMissingTool, "%s: tool %q is not there", in.call.Pos, in.call.Name)
	}
	in.resolve(in.tool.about)
	if in.call.Key != nil {
		v, err := in.call.Key.Eval(in.task)
		if err != nil {
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed", Err: err}
		}
		if in.key, err = value.Text(v); err != nil || in.key == "" {
			return program.ConfigError(diagnostics.CodeArguments, "%s: idempotency_key of %q must not be empty", in.call.Pos, in.call.Name)
		}
	}
	input, err := in.openSecrets()
	if err != nil {
		return err
	}
	var ok bool
	if in.args, ok = input.(map[string]any); !ok && input != nil { // of an expression
		return program.ConfigError(diagnostics.CodeArguments, "%s: the arguments of %q must be an object, not %s", in.call.Pos, in.call.Name, value.TypeName(input))
	}
	if in.args == nil {
		in.args = map[string]any{}
	}
	if in.tool.schema != nil {
		if problems := in.tool.schema.Check(in.args); problems != nil {
			return program.ConfigError(diagnostics.CodeArguments, "%s: arguments of %q: %s", in.call.Pos, in.call.Name, schema.Describe(problems))
		}
	}
	return nil
}

func (in *invocation) openSecrets() (any, error) {
	if !in.call.Secrets {
		return in.input, nil
	}
	return expr.Open(in.input, func(name string) (string, error) {
		if s, ok := in.run.prepared.secrets[name]; ok {
			return s, nil
		}
		return "", program.ConfigError(diagnostics.CodeMissingSecret, "%s: secret %q is not there", in.call.Pos, name)
	})
}

// callTool calls the tool and checks what it returns, secrets out.
func (in *invocation) callTool() (any, error) {
	var m *runtime.Moment
	if in.run.hooked() {
		m = &runtime.Moment{Point: runtime.ToolBefore, Name: in.call.Name}
		m.Args, _ = in.run.prepared.redact.Value(in.args).(map[string]any)
		if err := in.ask(*m); err != nil {
			return nil, err
		}
	}
	output, err := in.toolResult(m)
	if err != nil {
		return nil, err
	}
	if err := in.checkOutput(output, in.call.Answer); err != nil {
		return nil, err
	}
	return output, nil
}

// toolResult calls the tool, secrets out, and tells the hooks that have had the moment before; nil: there are
// none.
func (in *invocation) toolResult(m *runtime.Moment) (any, error) {
	output, err := in.toolOutput()
	if err == nil && in.run.prepared.redact != nil {
		output, in.size = in.run.prepared.redact.Value(output), machine.Unknown
	}
	err = in.run.prepared.redact.Error(err)
	if m != nil {
		m.Point, m.Output, m.Err = runtime.ToolAfter, output, err
		_ = in.fire(*m)
	}
	return output, err
}

func (in *invocation) checkOutput(output any, want *schema.Schema) error {
	if err := program.CheckOutput(output, want, in.call.MaxBytes, in.call.Pos); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "output.invalid", Err: err}
	}
	return nil
}

// toolOutput calls the tool, and takes what it returned.
func (in *invocation) toolOutput() (any, error) {
	resp, err := in.try()
	if err != nil {
		return nil, err
	}
	if in.tool.values != nil {
		output, size, err := value.Take(resp.value, in.run.limits.MaxOutputBytes)
		if in.size = size; err != nil {
			return nil, fmt.Errorf("tool %q returned what is not JSON: %w", in.call.Name, err)
		}
		return output, nil
	}
	switch {
	case len(resp.text) == 0:
		return nil, nil
	case len(resp.text) > in.run.limits.MaxOutputBytes:
		return nil, in.tooLarge(len(resp.text))
	}
	output, err := value.Decode(resp.text)
	if err != nil {
		return nil, fmt.Errorf("tool %q returned what is not JSON: %w", in.call.Name, err)
	}
	return output, nil
}

// tooLarge refuses a result before it is looked at.
func (in *invocation) tooLarge(size int) error {
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "output.tooLarge",
		Err: fmt.Errorf("the output has %d bytes, the most is %d", size, in.run.limits.MaxOutputBytes)}
}

// maxRepairs is how many turns a model gets to mend an answer that does not match its schema
// (agent-loop.md 2.5).
const maxRepairs = 2

// askModel asks the model, and again while its structured answer does not match.
func (in *invocation) askModel() (any, error) {
	for again := false; ; again = true {
		text, err := in.generate(again)
		if err != nil {
			return nil, err
		}
		if in.call.Answer == nil {
			output := map[string]any{"text": text}
			return output, in.checkOutput(output, nil)
		}
		answer, fault := in.call.Answer.Answer(text)
		if fault == "" {
			return answer, in.checkOutput(answer, nil)
		}
		turn := 1 + len(in.Repairs)/2
		if turn > maxRepairs {
			return nil, &runtime.Error{Category: runtime.CategoryModel, Code: "answer.invalid",
				Err: fmt.Errorf("%s: model %q gave no valid answer in %d turns: %s", in.call.Pos, in.req.Model, turn, fault)}
		}
		repair := []string{text, "That answer cannot be used: " + fault +
			"\nAnswer again, with nothing but JSON that matches this schema:\n" + string(in.call.AnswerJSON)}
		in.Repairs = append(in.Repairs, repair...)
		more := *in.req // the model may have kept the request
		more.Messages = withRepairs(in.req.Messages, repair)
		in.req = &more
	}
}

// withRepairs adds texts to a conversation: an answer, what is wrong with it, and so on.
func withRepairs(messages []runtime.Message, texts []string) []runtime.Message {
	messages = slices.Clip(messages)
	for i, text := range texts {
		messages = append(messages, runtime.Message{Role: [...]runtime.Role{runtime.Assistant, runtime.User}[i%2], Text: text})
	}
	return messages
}

// generate asks the model once, or once more, and returns its text, secrets out.
func (in *invocation) generate(again bool) (string, error) {
	if again {
		if err := in.next(); err != nil {
			return "", err
		}
	}
	resp, err := in.respond()
	if err != nil {
		return "", err
	}
	var data trace.Data
	for _, a := range []trace.Attr{{Key: "finish", Value: resp.Finish}, {Key: "model", Value: resp.Model}} {
		if a.Value != "" {
			data = append(data, a)
		}
	}
	data = append(data, trace.Attr{Key: "usage", Value: map[string]any{
		"input_tokens": int64(resp.Usage.InputTokens), "output_tokens": int64(resp.Usage.OutputTokens)}})
	in.emit(trace.Event{Kind: trace.ModelEnd, Step: in.path, Data: data}, map[string]any{"text": resp.Text})
	return resp.Text, nil
}

// respond asks the model, as often as the policy says, hooks told and secrets out.
func (in *invocation) respond() (*runtime.Response, error) {
	m := runtime.Moment{Point: runtime.ModelBefore, Name: in.req.Model, Request: in.req}
	if err := in.ask(m); err != nil {
		return nil, err
	}
	got, err := in.try()
	resp := got.model
	if err == nil {
		switch {
		case resp == nil:
			err = fmt.Errorf("model %q returned neither an answer nor an error", in.req.Model)
		case len(resp.Text) > in.run.limits.MaxOutputBytes:
			err = in.tooLarge(len(resp.Text))
		default:
			shown := *resp
			shown.Text = in.run.prepared.redact.Text(resp.Text)
			if in.run.prepared.redact != nil {
				shown.ToolCalls = slices.Clone(resp.ToolCalls)
				for i, c := range shown.ToolCalls {
					shown.ToolCalls[i].Name = in.run.prepared.redact.Text(c.Name)
					shown.ToolCalls[i].Arguments = json.RawMessage(in.run.prepared.redact.Text(string(c.Arguments)))
				}
			}
			resp = &shown
		}
	}
	err = in.run.prepared.redact.Error(err)
	if in.run.hooked() {
		m.Request = in.req // of the last attempt
		if m.Point, m.Err = runtime.ModelAfter, err; err == nil {
			m.Response = resp
		}
		_ = in.fire(m)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// answer calls the model, piece by piece if a sink wants the pieces.
func (in *invocation) answer() (*runtime.Response, error) {
	if !in.streams() {
		return in.model.Generate(in.ctx, in.req)
	}
	text := in.run.prepared.redact.Stream()
	resp, err := in.model.(runtime.StreamingModel).Stream(in.ctx, in.req, func(d runtime.Delta) { in.delta(text.Next(d.Text)) })
	in.delta(text.Rest())
	return resp, err
}

// streams reports whether the call is of a model that answers piece by piece.
func (in *invocation) streams() bool {
	_, ok := in.model.(runtime.StreamingModel)
	return ok && in.run.events.sinks.Wants().Deltas
}

// delta shows a piece of an answer to the sinks; it is no part of the outcome's trace.
func (in *invocation) delta(text string) {
	if text != "" && in.ctx.Err() == nil {
		in.run.events.sinks.Emit(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: in.path,
			Data: trace.Data{{Key: "text", Value: text}}}, nil)
	}
}

// content is what goes into the call, secrets out, for sinks that want it; else nil.
func (in *invocation) content() any {
	if !in.run.events.sinks.Wants().Content {
		return nil
	}
	if in.call.Kind != program.ModelCall {
		return in.run.prepared.redact.Value(in.args)
	}
	messages := make([]any, len(in.req.Messages))
	for i, m := range in.req.Messages {
		messages[i] = map[string]any{"role": string(m.Role), "text": m.Text}
	}
	return in.run.prepared.redact.Value(map[string]any{"messages": messages})
}

// prepareModel makes the request of a model step of its input, and finds the model.
func (in *invocation) prepareModel() error {
	fields, _ := in.input.(map[string]any)
	req := &runtime.Request{Run: in.run.id, Step: in.path, Model: in.call.Name, Schema: in.call.AnswerJSON}
	if name, ok := fields["model"].(string); ok {
		req.Model = name
	}
	var err error
	if req.Messages, err = in.messages(fields); err != nil {
		return err
	}
	switch t := fields["temperature"].(type) {
	case nil:
	case int64:
		f := float64(t)
		req.Temperature = &f
	case float64:
		req.Temperature = &t
	default:
		return in.badField("temperature", "a number", t)
	}
	switch n := fields["max_tokens"].(type) {
	case nil:
	case int64:
		req.MaxTokens = int(n)
	default:
		return in.badField("max_tokens", "an integer", n)
	}
	if in.model = in.run.prepared.offers.Models[req.Model]; in.model == nil {
		return program.ConfigError(diagnostics.CodeMissingModel, "%s: model %q is not there", in.call.Pos, req.Model)
	}
	req.Messages = withRepairs(req.Messages, in.Repairs)
	about, _ := in.model.(runtime.Described)
	in.resolve(about)
	in.req = req
	if in.accounts, err = in.run.pricedAccounts(in.task, in.call.Pos, req.Model); err != nil {
		return err
	}
	if err := in.reserve(); err != nil {
		return err
	}
	in.draw()
	return nil
}

func (in *invocation) badField(name, want string, got any) error {
	return program.ConfigError("model.arguments", "%s: %s of a model step must be %s, not %s", in.call.Pos, name, want, value.TypeName(got))
}

// messages makes the conversation of system, prompt and messages.
func (in *invocation) messages(fields map[string]any) ([]runtime.Message, error) {
	var list []runtime.Message
	for _, f := range []struct {
		name string
		role runtime.Role
	}{{"system", runtime.System}, {"prompt", runtime.User}} {
		if v := fields[f.name]; v != nil {
			text, err := value.Text(v)
			if err != nil {
				return nil, in.badField(f.name, "text", v)
			}
			list = append(list, runtime.Message{Role: f.role, Text: text})
		}
	}
	given, ok := fields["messages"].([]any)
	if !ok && fields["messages"] != nil {
		return nil, in.badField("messages", "a list", fields["messages"])
	}
	for _, e := range given {
		m, _ := e.(map[string]any)
		role, _ := m["role"].(string)
		text, isText := m["text"].(string)
		switch runtime.Role(role) {
		case runtime.System, runtime.User, runtime.Assistant:
		default:
			isText = false
		}
		if !isText {
			return nil, in.badField("messages", "a list of {role: system, user or assistant; text: a string}", e)
		}
		list = append(list, runtime.Message{Role: runtime.Role(role), Text: text})
	}
	return list, nil
}
