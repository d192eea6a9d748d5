package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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

// invocation is one execution of a call. Who has the run's turn prepares it; then the goroutine that makes
// the call has it, without the turn, until the call has returned.
type invocation struct {
	run     *run
	task    *machine.Task
	call    *program.Call
	path    string
	input   any
	ctx     context.Context
	cancel  context.CancelCauseFunc
	quick   bool // others may wait for it; see isQuick
	stopped bool // it was told to stop

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

// prepare does what comes before the adapter is called; whoever has the turn does it.
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
	c := &resume.CallContext{Context: ctx, RunID: r.id, Generation: r.generation, Path: in.path, Ordinal: in.ordinal}
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
	return &resume.Pause{Kind: resume.System, Reason: journal.Indeterminate,
		Decisions: []string{"retry", "result", "fail"},
		Prompt: fmt.Sprintf("%s %q was called, and it is not known whether it had its effect: "+
			"call it again, give its result, or let the step fail?", in.call.Kind, in.call.Name)}
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
			return program.ConfigError(diagnostics.CodeArguments, "%s: idempotency_key of %q must not be empty",
				in.call.Pos, in.call.Name)
		}
	}
	input, err := in.openSecrets()
	if err != nil {
		return err
	}
	var ok bool
	if in.args, ok = input.(map[string]any); !ok && input != nil { // of an expression
		return program.ConfigError(diagnostics.CodeArguments, "%s: the arguments of %q must be an object, not %s",
			in.call.Pos, in.call.Name, value.TypeName(input))
	}
	if in.args == nil {
		in.args = map[string]any{}
	}
	if in.tool.schema != nil {
		if problems := in.tool.schema.Check(in.args); problems != nil {
			return program.ConfigError(diagnostics.CodeArguments, "%s: arguments of %q: %s",
				in.call.Pos, in.call.Name, schema.Describe(problems))
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
