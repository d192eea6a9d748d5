package agentloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// The loop's own tools.
const (
	askHuman       = "human.ask"
	subagentPrefix = "agent."
	delegatePrefix = "delegate_"
)

// The codes of calls that gave the model an error result.
const (
	toolUnknown       = "tool.unknown"
	toolArguments     = "tool.arguments"
	toolDenied        = "tool.denied"
	toolFailed        = "tool.failed"
	toolPanicked      = "tool.panic"
	toolIndeterminate = "tool.indeterminate"
	delegateFailed    = "delegate.failed"
)

// toolset is what a loop may call in one leg.
type toolset struct {
	byName  map[string]*binding
	offered []runtime.ToolSpec // sorted by name
	unknown []string           // keys of Approval that match no tool
}

// binding is a tool that may be called.
type binding struct {
	spec   runtime.ToolSpec
	tool   runtime.Tool   // nil: one of the loop's own
	schema *schema.Schema // of the arguments; nil: any object
	child  *Loop          // of a delegate
}

// toolset returns the tools of this leg, made when they are asked for first.
func (f *frame) toolset() *toolset {
	if f.tools == nil {
		f.tools = f.bindTools()
	}
	return f.tools
}

func (f *frame) bindTools() *toolset {
	// 1. Look through the scopes: the first that has a name wins, within one the last of the name.
	found := map[string]runtime.Tool{}
	shadowed := map[string]string{}
	var env []runtime.Tool
	if f.rt.Env != nil {
		env = f.rt.Env.Tools()
	}
	for _, scope := range []struct {
		name  string
		tools []runtime.Tool
	}{{"the run", f.in.Tools}, {"the agent", f.loop.Own}, {"the host", f.offers.Tools}, {"a skill", f.skillTools}, {"the environment", env}} {
		last := map[string]runtime.Tool{}
		for _, t := range scope.tools {
			if t != nil {
				last[t.Spec().Name] = t
			}
		}
		for name, t := range last {
			if _, ok := found[name]; ok || Reserved(name) {
				shadowed[name] = scope.name
				continue
			}
			found[name] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shadowed)) {
		by := "another one"
		if Reserved(name) {
			by = "the loop's own: its name is reserved"
		}
		f.warn(diagnostics.CodeShadowedTool, "tool %q of %s is shadowed by %s", name, shadowed[name], by)
	}

	// 2. Keep what the lists allow.
	set := &toolset{byName: map[string]*binding{}}
	global, deny, own := normal(f.in.Allow), normal(slices.Concat(f.in.Deny, f.loop.Deny)), normal(f.loop.Tools)
	has := func(list []string, name string) bool { _, ok := slices.BinarySearch(list, name); return ok }
	add := func(b *binding, listed bool) {
		name := b.spec.Name
		effect := runtime.Effect("")
		if _, depends := b.tool.(runtime.EffectTool); b.tool != nil && !depends {
			effect = cmp.Or(b.spec.Effect, runtime.External)
		}
		if denies(deny, name, effect) || listed && len(global) > 0 && !has(global, name) || listed && f.loop.Tools != nil && !has(own, name) ||
			listed && f.narrow != nil && !slices.Contains(f.narrow, name) {
			return
		}
		if name == execTool {
			b.spec.Parameters = withoutEffect(b.spec.Parameters)
		}
		if b.spec.Parameters != nil {
			var err error
			if b.schema, err = schema.Compile(b.spec.Parameters); err != nil {
				f.warn(diagnostics.CodeArguments, "tool %q is not offered, its parameters are no schema: %v", name, err)
				return
			}
		}
		set.byName[name] = b
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		add(&binding{spec: found[name].Spec(), tool: found[name]}, true)
	}
	for _, name := range own {
		if _, ok := found[name]; !ok && !Reserved(name) {
			f.warn(diagnostics.CodeMissingTool, "agent %q lists tool %q, which is not there", f.loop.Name, name)
		}
	}
	if has(own, askHuman) && (f.narrow == nil || slices.Contains(f.narrow, askHuman)) {
		add(&binding{spec: humanSpec}, false)
	}
	f.addChildren(add)
	names := slices.Collect(maps.Keys(found))
	for name := range f.loop.Delegates {
		names = append(names, delegatePrefix+name)
	}
	set.unknown, _ = f.loop.Unmatched(slices.Concat(names, f.loop.Tools))
	for _, name := range slices.Sorted(maps.Keys(set.byName)) {
		set.offered = append(set.offered, set.byName[name].spec)
	}
	return set
}

// withoutEffect leaves out the parameter by which the author of a step says what a command does to the
// world: a model's word on that must not make a lost call be made again.
func withoutEffect(parameters json.RawMessage) json.RawMessage {
	v, err := value.Decode(parameters)
	m, _ := v.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	if delete(properties, "effect"); err != nil {
		return parameters // bad for other reasons, too
	}
	without, err := value.JSON(v)
	if err != nil {
		return parameters
	}
	return without
}

var humanSpec = runtime.ToolSpec{Name: askHuman, Description: "Ask a person, and wait for the answer.",
	Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["question"],"properties":{"question":{"type":"string"}}}`)}

// settle brings the calls of a round to results: those that nobody has to be waited for. Results are
// recorded as they come; traces are kept in the order of the calls.
func (f *frame) settle(ctx context.Context) error {
	first, last := f.state.Round+1, len(f.state.Calls)
	f.toolset()
	if !slices.ContainsFunc(f.state.Calls[first-1:], Call.touched) {
		names := make([]any, 0, last-first+1)
		for _, c := range f.state.Calls[first-1:] {
			names = append(names, c.Name)
		}
		f.emit(trace.ToolCallsBegin, "tools", names)
	}
	errs := make([]error, last-first+1)
	failed := func(err error) bool { return err != nil && !errors.Is(err, errPaused) }
	if f.loop.ToolConcurrency > 1 && len(errs) > 1 {
		f.settleTogether(ctx, first, errs)
	} else {
		for i := range errs {
			if errs[i] = f.settleOne(ctx, first+i); failed(errs[i]) || ctx.Err() != nil {
				f.cutShort(ctx, first+i)
				break
			}
		}
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	if i := slices.IndexFunc(errs, failed); i >= 0 {
		return errs[i]
	}
	if f.state.Phase == Calling {
		return errPaused
	}
	return nil
}

// settleOne opens a call and makes it.
func (f *frame) settleOne(ctx context.Context, n int) error {
	job, err := f.open(ctx, n)
	if err != nil || job == nil {
		return err
	}
	return job()
}

// cutShort closes the trace of a call that has no result because the loop is being cancelled.
func (f *frame) cutShort(ctx context.Context, n int) {
	if c := f.call(n); ctx.Err() != nil && !c.Done && !c.Waits {
		f.emit(trace.ToolEnd, "call", n, "tool", c.Name, "error", "step.cancelled")
	}
}

// settleTogether is settleOne for several calls that may overlap. They are opened in their order.
func (f *frame) settleTogether(ctx context.Context, first int, errs []error) {
	ctx, cancel := context.WithCancel(ctx) // so that guard keeps adapters out of the goroutines here
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, f.loop.ToolConcurrency)
	branches := make([]*frame, 0, len(errs)) // of their own, so that traces do not mix
	sent := map[string]bool{}                // sub-agents that may be at work
	for i := range errs {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		id, alone := f.call(first + i).subagent()
		if alone || sent[id] {
			wg.Wait() // so that it does not depend on who is faster
			clear(sent)
		}
		sent[id] = id != "" && !alone
		at := *f
		at.trace = &tracer{live: f.trace.live}
		branches = append(branches, &at)
		job, err := at.open(ctx, first+i)
		if err != nil || job == nil || alone {
			if errs[i] = err; job != nil {
				errs[i] = job()
			}
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = job()
		})
	}
	wg.Wait()
	for i, at := range branches {
		at.cutShort(ctx, first+i)
		f.trace.list, f.trace.found = append(f.trace.list, at.trace.list...), append(f.trace.found, at.trace.found...)
	}
}

// call returns a copy of a call.
func (f *frame) call(n int) Call { return look(f, func(s *State) Call { return s.Calls[n-1] }) }

// touched reports whether anything has been done about the call.
func (c Call) touched() bool { return c.Begun || c.Decided || c.Pauses > 0 || c.Done }

// subagent returns the sub-agent that a call gives a task to. Calls that deal with sub-agents otherwise
// are made alone.
func (c Call) subagent() (id string, alone bool) {
	if !strings.HasPrefix(c.Name, subagentPrefix) {
		return "", false
	}
	m, _ := decoded(c.Arguments).(map[string]any)
	id, _ = m["id"].(string)
	return id, c.Name != sendSpec.Name
}

// open does what comes before a call is made: it passes the gates, in order (exists, arguments, policy,
// approval, record), or gets its result at once. The job makes the call; nil: there is nothing to make.
func (f *frame) open(ctx context.Context, n int) (job func() error, err error) {
	c := f.call(n)
	if c.Done || c.Waits || !c.touched() && f.doubtful(n, c) {
		return nil, nil
	}
	if !c.touched() {
		f.emitAbout(trace.ToolStart, func() any { return decoded(c.Arguments) }, "call", n, "tool", c.Name)
	}
	b := f.tools.byName[c.Name]
	if c.Begun {
		return f.reopen(ctx, n, c, b)
	}
	if b == nil {
		hint := diagnostics.DidYouMean(c.Name, slices.Sorted(maps.Keys(f.tools.byName)))
		return nil, f.refuse(n, toolUnknown, strings.TrimSpace(fmt.Sprintf("there is no tool %q. %s", c.Name, hint)))
	}
	if fault := b.fault(c.Arguments); fault != "" {
		return nil, f.refuse(n, toolArguments, fmt.Sprintf("arguments of %q: %s", c.Name, fault))
	}
	if f.in.Permit != nil {
		name, args := c.Name, slices.Clone(c.Arguments)
		_, err := guard(ctx, f, 0, "the policy", "", func(ctx context.Context) (any, error) { return nil, f.in.Permit(ctx, name, args) })
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			return nil, f.refuse(n, toolDenied, err.Error())
		}
	}
	if ok, err := f.approve(ctx, n, c, b); !ok || err != nil {
		return nil, err
	}
	if err := f.record(Event{Kind: ToolBegan, Call: n, Effect: b.effect(c.Arguments)}); err != nil {
		return nil, err
	}
	return func() error { return f.make(ctx, n, b) }, nil
}

// reopen goes on with a call that has begun: it was answered, or an earlier leg died over it.
func (f *frame) reopen(ctx context.Context, n int, c Call, b *binding) (func() error, error) {
	if b == nil {
		return nil, f.outside(runtime.CategoryConfig, string(diagnostics.CodeMissingTool), fmt.Errorf("tool %q has been called and is not there any more", c.Name))
	}
	again := func() (func() error, error) {
		if err := f.record(Event{Kind: ToolAgain, Call: n, Effect: c.Effect}); err != nil {
			return nil, err
		}
		return func() error { return f.make(ctx, n, b) }, nil
	}
	switch {
	case b.tool == nil && c.Open: // a child goes on where it stood, and what else is the loop's own may be done again
		return func() error { return f.make(ctx, n, b) }, nil
	case c.Open && c.Effect == runtime.External:
		return nil, f.unknownOutcome(n, c)
	case c.For == ForHuman && c.Answer != nil:
		m, _ := (*c.Answer).(map[string]any)
		f.emit(trace.HumanResponse, "call", n)
		return nil, f.settleCall(n, "", asText(m["answer"]))
	case c.For == Indeterminate && !c.Open && c.Answer == nil:
		return nil, f.unknownOutcome(n, c)
	case c.For == Indeterminate && !c.Open:
		m, _ := (*c.Answer).(map[string]any)
		switch m["decision"] {
		case "result":
			return nil, f.settleCall(n, "", asText(m["form"]))
		case "fail":
			return nil, fail(runtime.CategoryTool, toolIndeterminate, fmt.Errorf("nobody knows whether the call of tool %q had its effect", c.Name))
		}
	}
	return again()
}

// unknownOutcome is for a call of which nobody knows whether it had its effect.
func (f *frame) unknownOutcome(n int, c Call) error {
	if f.loop.ReportIndeterminate {
		return f.refuse(n, toolIndeterminate, fmt.Sprintf("tool %q was called, and it is not known whether the call had its effect. It was not made again.", c.Name))
	}
	p := Pause{For: Indeterminate, Call: n, Tool: c.Name, Pause: resume.Pause{Kind: resume.System, Reason: Indeterminate,
		Decisions: []string{"retry", "result", "fail"}, Show: map[string]any{"tool": c.Name, "arguments": decoded(c.Arguments)},
		Prompt: fmt.Sprintf("tool %q was called, and it is not known whether it had its effect: call it again, give its result, or let the step fail?", c.Name)}}
	return f.pauseCall(c, p)
}

// pauseCall opens a pause of a call. The error is nil when it is open.
func (f *frame) pauseCall(c Call, p Pause) error {
	id := fmt.Sprintf("%s:call%d", f.path, p.Call)
	if c.Pauses > 0 {
		id = fmt.Sprintf("%s.%d", id, c.Pauses+1)
	}
	return f.pause(p, id)
}

// pause records an open pause under its id, which every replay gives it again.
func (f *frame) pause(p Pause, id string) error {
	p.ID, p.Step, p.Frame, p.CreatedAt, p.Token = id, f.path, f.name, time.Now().UTC(), ""
	if p.OnExpire.Answered {
		p.Expiry = &p.OnExpire
	}
	return f.record(Event{Kind: Paused, Pause: &p})
}

// approve asks for what the call needs. It is false when the call has its result, or waits.
func (f *frame) approve(ctx context.Context, n int, c Call, b *binding) (bool, error) {
	effect := runtime.Effect("")
	if b.tool != nil {
		effect = b.effect(c.Arguments)
	}
	if deniesCall(normal(slices.Concat(f.in.Deny, f.loop.Deny)), c.Name, effect, c.Arguments) {
		return false, f.refuse(n, toolDenied, fmt.Sprintf("tool %q may not be called so: it is denied", c.Name))
	}
	need := f.loop.approvalFor(c.Name, effect, c.Arguments)
	if need == "" && b.tool != nil && len(f.tools.unknown) > 0 { // it began before names were checked
		need = ApprovePause
	}
	if t, ok := b.tool.(runtime.ApprovalTool); ok {
		need = stricter(need, Approval(t.Approval()))
	}
	switch need {
	case "", ApproveNever:
		return true, nil
	case ApproveRefuse:
		return false, f.refuse(n, toolDenied, fmt.Sprintf("tool %q is refused", c.Name))
	}
	d, keys := runtime.ApprovalDecision{Allow: c.Allowed, Reason: c.Why}, approvalKeys(c.Name, c.Arguments)
	switch {
	case c.Decided:
	case c.For == ForApproval && c.Answer != nil:
		m, _ := (*c.Answer).(map[string]any)
		form, _ := m["form"].(map[string]any)
		scope, _ := form["scope"].(string)
		d = runtime.ApprovalDecision{Allow: m["decision"] == "approve", Scope: runtime.ApprovalScope(scope)}
	case covered(keys, look(f, func(*State) []string { return f.log.root.granted() })):
		return true, nil
	default:
		f.emit(trace.PermissionRequest, "call", n, "tool", c.Name)
		if f.rt.Approver == nil && need == ApprovePause {
			return false, f.pauseCall(c, f.approvalPause(n, c, keys))
		}
		var err error
		if d, err = f.askApprover(ctx, c, keys); err != nil {
			return false, err
		}
	}
	if !c.Decided {
		if d.Scope != runtime.ApproveSession {
			d.Scope = runtime.ApproveOnce
		}
		if err := f.record(Event{Kind: Permission, Call: n, Allow: d.Allow, Scope: d.Scope, Keys: keys, Text: valid(d.Reason)}); err != nil {
			return false, err
		}
		f.emit(trace.PermissionResponse, "call", n, "tool", c.Name, "allow", d.Allow, "scope", string(d.Scope))
	}
	if !d.Allow {
		return false, f.refuse(n, toolDenied, fmt.Sprintf("tool %q needs an approval: %s", c.Name, cmp.Or(d.Reason, "the call was refused")))
	}
	return true, nil
}

func (f *frame) approvalPause(n int, c Call, keys []string) Pause {
	return Pause{For: ForApproval, Call: n, Tool: c.Name, Pause: resume.Pause{Kind: resume.Human,
		Prompt: fmt.Sprintf("agent %q wants to call tool %q", f.loop.Name, c.Name), Decisions: []string{"approve", "reject"},
		Show: map[string]any{"tool": c.Name, "arguments": decoded(c.Arguments), "keys": toAny(keys)},
		Schema: map[string]any{"type": "object", "additionalProperties": false,
			"properties": map[string]any{"scope": map[string]any{"enum": []any{string(runtime.ApproveOnce), string(runtime.ApproveSession)}}}}}}
}

// askApprover asks the Approver, if there is one. Whatever goes wrong is a no.
func (f *frame) askApprover(ctx context.Context, c Call, keys []string) (runtime.ApprovalDecision, error) {
	if f.rt.Approver == nil {
		return runtime.ApprovalDecision{Reason: "nobody is there to give it"}, nil
	}
	wish := runtime.ApprovalRequest{Run: f.in.RunID, Step: f.path, Agent: f.loop.Name, Tool: c.Name, Arguments: slices.Clone(c.Arguments), Keys: slices.Clone(keys)}
	d, err := guard(ctx, f, 0, "the approver", "", func(ctx context.Context) (runtime.ApprovalDecision, error) { return f.rt.Approver.Approve(ctx, wish) })
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return runtime.ApprovalDecision{}, err
	}
	return runtime.ApprovalDecision{Reason: err.Error()}, nil
}

// make makes the call and records what came of it.
func (f *frame) make(ctx context.Context, n int, b *binding) error {
	c := f.call(n)
	if b.tool == nil {
		return f.makeOwn(ctx, n, c, b)
	}
	cctx := &resume.CallContext{Context: ctx, RunID: f.in.RunID, Generation: f.in.Generation, Path: f.path, Ordinal: n}
	if c.Reply != nil {
		cctx.Detail = &resume.CallDetail{Answer: *c.Reply, AnswerTo: c.ReplyTo, Answered: true}
	}
	told := f.trace.outlet()
	call := &ToolCall{Tool: b.tool, Arguments: slices.Clone(c.Arguments), Path: f.path, Number: n, Emit: told.emit}
	out, err := guard(cctx, f, f.loop.ToolTimeout, "tool", c.Name, func(ctx context.Context) (json.RawMessage, error) {
		if f.in.Call != nil {
			return f.in.Call(ctx, call)
		}
		return b.tool.Call(ctx, call.Arguments)
	})
	told.close()
	if err == nil {
		var text string
		if text, err = f.forModel(c.Name, out); err == nil {
			return f.settleCall(n, "", text)
		}
	}
	if p := suspension(err); p != nil {
		return f.pauseCall(f.call(n), Pause{Pause: *p, For: ForTool, Call: n, Tool: c.Name})
	}
	if ctx.Err() != nil {
		return err
	}
	if effect := b.effect(c.Arguments); effect == runtime.External && retry.FailureOf(err).OutcomeUnknown() {
		f.emit(trace.AgentError, "what", "tool", "call", n, "tool", c.Name, "message", err.Error())
		return f.unknownOutcome(n, f.call(n))
	}
	code := toolFailed
	if _, ok := errors.AsType[*panicError](err); ok {
		code = toolPanicked
	}
	return f.refuse(n, code, err.Error())
}

// refuse gives the model an error result.
func (f *frame) refuse(n int, code, why string) error {
	return f.settleCall(n, code, why)
}

// settleCall records the result of a call: text, or with a code the reason why there is none.
func (f *frame) settleCall(n int, code, text string) error {
	shown := text
	if code != "" {
		shown = "error: " + text
	}
	shown = f.cut(shown)
	if err := f.record(Event{Kind: ToolEnded, Call: n, Code: code, Text: shown}); err != nil {
		return err
	}
	name, seen := f.call(n).Name, func() any { return shown }
	if code == "" {
		f.emitAbout(trace.ToolEnd, seen, "call", n, "tool", name)
		return nil
	}
	f.emit(trace.AgentError, "what", "tool", "call", n, "tool", name, "message", strings.TrimPrefix(shown, "error: "))
	f.emitAbout(trace.ToolEnd, seen, "call", n, "tool", name, "error", code)
	return nil
}

// cut returns what the model sees of a result that is too long: its beginning, and that it is cut.
func (f *frame) cut(text string) string {
	text = valid(text)
	most := cmp.Or(f.loop.MaxResultBytes, DefaultMaxResultBytes)
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s\n[cut: the first %d of %d bytes]", runes(text, most), len(runes(text, most)), len(text))
}

// runes returns the beginning of a text, of at most so many bytes, without half a rune.
func runes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// forModel words what a tool returned: nothing as nothing, a string as it is, the rest as JSON.
func (f *frame) forModel(tool string, out json.RawMessage) (string, error) {
	switch {
	case len(out) == 0:
		return "", nil
	case len(out) > f.limits.MaxOutputBytes:
		return "", fmt.Errorf("tool %q returned %d bytes, the most is %d", tool, len(out), f.limits.MaxOutputBytes)
	case (out[0] == '{' || out[0] == '[') && value.IsCanonical(out):
		return string(out), nil
	}
	v, err := value.Decode(out)
	if err != nil {
		return "", fmt.Errorf("tool %q returned what is not JSON: %w", tool, err)
	}
	return asText(v), nil
}

// asText words decoded JSON for the model.
func asText(v any) string {
	text, err := value.Text(v)
	if err != nil {
		return err.Error()
	}
	return text
}

// decoded returns arguments for people to look at.
func decoded(args json.RawMessage) any {
	v, err := value.Decode(args)
	if err != nil {
		return string(args)
	}
	return v
}

// effect is what a second call would do to the world, the worst if the tool panics over it. What is the
// loop's own, does nothing itself.
func (b *binding) effect(args json.RawMessage) (effect runtime.Effect) {
	if b.tool == nil {
		return runtime.ReadOnly
	}
	defer func() {
		if recover() != nil {
			effect = runtime.External
		}
	}()
	effect = b.spec.Effect
	if t, ok := b.tool.(runtime.EffectTool); ok {
		effect = cmp.Or(t.EffectOf(args), effect)
	}
	return cmp.Or(effect, runtime.External)
}

// fault says what is wrong with arguments; "" if they are fit.
func (b *binding) fault(args json.RawMessage) string {
	v, err := value.Decode(args)
	if text, ok := v.(string); ok { // so normalCalls keeps what is not JSON
		_, err = value.Decode([]byte(text))
	}
	if err != nil {
		return "they are not JSON: " + err.Error()
	}
	if _, ok := v.(map[string]any); !ok {
		return "they must be a JSON object, not " + value.TypeName(v)
	}
	if b.schema != nil {
		if problems := b.schema.Check(v); problems != nil {
			return schema.Describe(problems)
		}
	}
	return ""
}
