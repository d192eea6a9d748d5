package agents

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// record records an event about the call.
func (t *thread) record(e Event) {
	if e.Kind != Paused { // which names it itself
		e.Call = t.n
	}
	t.execution.record(t, t.name, e)
}

// want asks for a call; then takes its result.
func (t *thread) want(j *Job, then func(Reply)) {
	j.Call, t.job = t.n, j
	t.execution.want(t.frame, j, t.trace, func(r Reply) {
		t.job = nil
		then(r)
	})
}

// open does what comes before a call is made: it passes the gates, in order (exists, arguments, policy,
// approval, record), or gets its result at once.
func (t *thread) open(c agentloop.Call) {
	if !touched(c) && !t.started {
		if t.waitsForUnknown(t.n, c) {
			t.end(nil)
			return
		}
		t.emitAbout(trace.ToolStart, func() any { return Decoded(c.Arguments) }, "call", t.n, "tool", c.Name)
	}
	t.started = true
	b := t.tools.byName[c.Name]
	switch {
	case c.Begun:
		t.reopen(c, b)
		return
	case t.tooMany(c):
		return
	case b == nil:
		hint := diagnostics.DidYouMean(c.Name, slices.Sorted(maps.Keys(t.tools.byName)))
		t.refuse(toolUnknown, strings.TrimSpace(fmt.Sprintf("there is no tool %q. %s", c.Name, hint)))
		return
	}
	if what := t.execution.Changed[c.Name]; what != "" && !b.own() {
		t.refuse(toolChanged, Changed(c.Name, what))
		return
	}
	args, fault := b.fault(c.Arguments)
	if t.args = args; fault != "" {
		t.refuse(toolArguments, fmt.Sprintf("arguments of %q: %s", c.Name, fault))
		return
	}
	if t.execution.offer.Policy && !t.permitted {
		t.want(&Job{Op: AskPolicy, Name: c.Name, Arguments: slices.Clone(c.Arguments)}, func(r Reply) {
			switch t.permitted = true; {
			case r.Err != nil && t.execution.cut != nil:
				t.end(r.Err)
			case r.Err != nil:
				t.told = true
				t.refuse(toolDenied, r.Err.Error())
			}
		})
		return
	}
	if t.approved(c, b) {
		t.due = true
		if b.nested {
			t.record(Event{Kind: ToolBegan, More: &More{Tool: c.Name, Arguments: slices.Clone(c.Arguments)}})
			return
		}
		t.record(Event{Kind: ToolBegan, Effect: b.effect(c.Arguments)})
	}
}

// tooMany refuses a new call if the number of calls has reached its limit.
func (t *thread) tooMany(c agentloop.Call) bool {
	if touched(c) {
		return false
	}
	if most := cmp.Or(t.loop.MaxCallsPerAnswer, agentloop.DefaultMaxCallsPerAnswer); t.n-t.state().Round > most {
		t.refuse(toolLimit, fmt.Sprintf("one answer may have %d calls at most; further calls are not made", most))
		return true
	}
	for f := t.frame; f != nil; f = f.parent {
		most := cmp.Or(f.loop.MaxCalls, agentloop.DefaultMaxCalls)
		if own := t.execution.offer.Agents.MaxCalls; own > 0 {
			most = min(most, own)
		}
		if f.state().made() >= most {
			t.refuse(toolLimit, fmt.Sprintf(
				"agent %q may make %d calls at most, including its children's, and has made them all",
				f.loop.Name, most))
			return true
		}
	}
	return false
}

// reopen continues a call that has begun: it was answered, or an earlier execution died during it.
func (t *thread) reopen(c agentloop.Call, b *binding) {
	switch {
	case b == nil:
		t.end(t.outside(runtime.CategoryConfig, string(diagnostics.CodeMissingTool),
			fmt.Errorf("tool %q has been called and is no longer configured", c.Name)))
		return
	case b.own() && c.Open: // a child continues where it stood, and the loop's other own tools may be repeated
		t.due = true
		return
	case c.Open && c.Effect == runtime.External, c.For == Indeterminate && !c.Open && c.Answer == nil:
		t.unknownOutcome(c)
		return
	case c.For == ForHuman && c.Answer != nil:
		m, _ := (*c.Answer).(map[string]any)
		t.emit(trace.HumanResponse, "call", t.n)
		t.result("", asText(m["answer"]))
		return
	case c.For == Indeterminate && !c.Open:
		m, _ := (*c.Answer).(map[string]any)
		switch m["decision"] {
		case "result":
			t.result("", asText(m["form"]))
			return
		case "fail":
			t.end(fail(runtime.CategoryTool, toolIndeterminate,
				fmt.Errorf("the outcome of the call of tool %q is unknown", c.Name)))
			return
		}
	}
	t.due = true
	t.record(Event{Kind: ToolAgain, Effect: c.Effect})
}

// unknownOutcome is for a call whose outcome is unknown.
func (t *thread) unknownOutcome(c agentloop.Call) {
	if t.loop.ReportIndeterminate {
		t.refuse(toolIndeterminate, fmt.Sprintf("tool %q was called, and it is not known whether the call had its "+
			"effect. It was not made again.", c.Name))
		return
	}
	t.pauseCall(c, Pause{For: Indeterminate, Call: t.n, Tool: c.Name, Pause: resume.Pause{
		Kind: resume.System, Reason: Indeterminate, Decisions: []string{"retry", "result", "fail"},
		Show: map[string]any{"tool": c.Name, "arguments": Decoded(c.Arguments)},
		Prompt: fmt.Sprintf("tool %q was called, and it is not known whether it had its effect: "+
			"call it again, give its result, or let the step fail?", c.Name)}})
}

// pauseCall opens a pause of the call.
func (t *thread) pauseCall(c agentloop.Call, p Pause) {
	id := fmt.Sprintf("%s:call%d", t.path, p.Call)
	if c.Pauses > 0 {
		id = fmt.Sprintf("%s.%d", id, c.Pauses+1)
	}
	t.pause(t, p, id)
}

// pause records an open pause under its id, which every replay gives it again.
func (f *frame) pause(by owner, p Pause, id string) {
	p.ID, p.Step, p.Frame, p.CreatedAt, p.Token = id, f.path, f.name, f.execution.Now, ""
	if p.OnExpire.Answered {
		p.Expiry = &p.OnExpire
	}
	f.execution.record(by, f.name, Event{Kind: Paused, More: &More{Pause: &p}})
}

// approvalNeeded says which approval the call needs.
func (t *thread) approvalNeeded(g *gated, b *binding) agentloop.Approval {
	need := g.approval(t.loop.Approval)
	if need == "" && b.scope != "" && t.tools.vague { // it began before names were checked
		need = agentloop.ApprovePause
	}
	need = stricter(need, g.approval(t.execution.offer.Approval))
	return stricter(stricter(need, b.innerApproval(t.execution.offer)), agentloop.Approval(b.Approval))
}

// approved reports whether the call has what it needs. If not, it starts what is needed.
func (t *thread) approved(c agentloop.Call, b *binding) bool {
	effect := runtime.Effect("")
	if b.scope != "" {
		effect = b.effect(c.Arguments)
	}
	g := gatedCall(c.Name, effect, c.Arguments)
	if g.denied(t.tools.denied) {
		t.refuse(toolDenied, fmt.Sprintf("tool %q may not be called so: it is denied", c.Name))
		return false
	}
	need := t.approvalNeeded(&g, b)
	switch need {
	case "", agentloop.ApproveNever:
		return true
	case agentloop.ApproveRefuse:
		t.refuse(toolDenied, fmt.Sprintf("tool %q is refused", c.Name))
		return false
	}
	keys := g.keys(t.execution.offer.Agents.PlainPrograms)
	switch {
	case c.Decided && c.Allowed:
		return true
	case c.Decided:
		t.refuse(toolDenied, fmt.Sprintf("tool %q needs an approval: %s",
			c.Name, cmp.Or(c.Why, "the call was refused")))
	case c.For == ForApproval && c.Answer != nil:
		t.decide(keys, runtime.DecisionOf(*c.Answer))
	case grantable(keys) &&
		Covered(scoped(keys, t.loop.ApprovalTo), union(t.execution.Grants, t.execution.state.granted())):
		return true
	default:
		t.emit(trace.PermissionRequest, "call", t.n, "tool", c.Name)
		switch {
		case t.execution.offer.Approver:
			t.askApprover(c, t.wish(c, b, keys, need == agentloop.ApprovePause))
		case need == agentloop.ApprovePause:
			t.pauseCall(c, t.approvalPause(c, t.wish(c, b, keys, true)))
		default:
			t.decide(keys, runtime.ApprovalDecision{Reason: runtime.ErrNoDecision.Error()})
		}
	}
	return false
}

// decide records a decision about the call. One with edited arguments is for this call only; with them the call
// passes all gates again.
func (t *thread) decide(keys []string, d runtime.ApprovalDecision) {
	c := t.call(t.n)
	edited := d.Allow && d.Arguments != nil
	if edited {
		if _, fault := t.tools.byName[c.Name].fault(d.Arguments); fault != "" {
			d, edited = runtime.ApprovalDecision{Reason: "the arguments that were approved: " + fault}, false
		}
	}
	scope := runtime.ApproveOnce
	if forRun(d.Scope) && !edited && grantable(keys) {
		scope = runtime.ApproveRun
	}
	e := Event{Kind: Permission, Text: valid(d.Reason),
		More: &More{Allow: d.Allow, Scope: scope, Keys: scoped(keys, t.loop.ApprovalTo)}}
	data := []any{"call", t.n, "tool", c.Name, "allow", d.Allow, "scope", string(scope)}
	var content func() any
	if edited {
		v := Decoded(d.Arguments)
		e.More.Arguments, _ = value.JSON(v) // it was JSON
		t.permitted, content = false, func() any { return v }
		data = append(data, "edited", true)
	}
	t.record(e)
	t.emitAbout(trace.PermissionResponse, content, data...)
}

// askApprover asks the Approver. Any failure is a refusal.
func (t *thread) askApprover(c agentloop.Call, wish *runtime.ApprovalRequest) {
	keys := slices.Clone(wish.Keys)
	t.want(&Job{Op: AskApprover, Approval: wish}, func(r Reply) {
		switch d := r.Decision; {
		case r.Err == nil:
			t.decide(keys, d)
		case t.execution.cut != nil:
			t.end(r.Err)
		case wish.Pauses && errors.Is(r.Err, runtime.ErrNoDecision):
			t.pauseCall(c, t.approvalPause(c, wish))
		default:
			t.decide(keys, runtime.ApprovalDecision{Reason: r.Err.Error()})
		}
	})
}

// make makes the call.
func (t *thread) make(c agentloop.Call) {
	b := t.tools.byName[c.Name]
	switch {
	case b.nested:
		t.nest(c)
		return
	case b.scope == "":
		t.makeOwn(c, b)
		return
	}
	args := t.args
	t.told, t.args = true, nil // they are the call's from now on
	t.want(&Job{Op: CallTool, Name: c.Name, Scope: b.scope, Arguments: slices.Clone(c.Arguments),
		Timeout: t.loop.ToolTimeout, Replies: c.Replies, Args: args}, func(r Reply) { t.made(b, r) })
}

// made records the result of a call of a tool.
func (t *thread) made(b *binding, r Reply) {
	c, err := t.call(t.n), r.Err
	t.cost = Reply{Took: r.Took, Attempts: r.Attempts}
	if err == nil {
		var text string
		if text, err = t.forModel(c.Name, r.Output); err == nil {
			t.resultWith(text, r.Files)
			return
		}
	}
	if p := suspension(err); p != nil {
		t.pauseCall(c, Pause{Pause: *p, For: ForTool, Call: t.n, Tool: c.Name})
		return
	}
	if t.execution.cut != nil {
		t.end(err)
		return
	}
	if b.effect(c.Arguments) == runtime.External && retry.FailureOf(err).OutcomeUnknown() {
		t.emit(trace.AgentError, "what", "tool", "call", t.n, "tool", c.Name, "message", err.Error())
		t.unknownOutcome(c)
		return
	}
	code := toolFailed
	of, known := errors.AsType[*runtime.Error](err)
	if _, ok := errors.AsType[*PanicError](err); ok {
		code = toolPanicked
	} else if known && of.Code == "limits.tool_calls" {
		code = toolLimit
	} else if known && of.Code == toolChanged {
		code = of.Code
	}
	t.refuse(code, err.Error())
}

// Changed is the error of a call of a tool that is not the one that its run first saw. what says how it differs.
func Changed(tool, what string) string {
	return fmt.Sprintf("tool %q is not called, as it has changed since the run first saw it: %s", tool, what)
}

// refuse gives the model an error result.
func (t *thread) refuse(code, why string) { t.result(code, "error: "+why) }

// noOutput is what the model is told of a call that gave nothing: some endpoints refuse an empty message.
const noOutput = "(no output)"

// result records the result of the call, for the model; with a code it says why there is none.
func (t *thread) result(code, text string) { t.ended(Event{Kind: ToolEnded, Code: code}, text) }

// resultWith records a result with pictures, unless those of all results that the model sees would be too many.
func (t *thread) resultWith(text string, files []runtime.File) {
	e, s := Event{Kind: ToolEnded}, t.state()
	left := int64(runtime.MaxFileBytes)
	for _, m := range s.Messages[s.From:] {
		if m.Role == runtime.ToolRole {
			left -= sizeOfFiles(m.Files)
		}
	}
	for _, c := range s.Calls[s.Round:] {
		left -= sizeOfFiles(c.Files)
	}
	switch {
	case left < sizeOfFiles(files):
		text += fmt.Sprintf("\n[not shown: the pictures of all results would have more than %s]",
			sizeText(runtime.MaxFileBytes))
	case len(files) > 0:
		e.More = &More{Files: files}
	}
	t.ended(e, text)
}

func sizeOfFiles(files []runtime.File) (n int64) {
	for _, f := range files {
		n += f.Bytes
	}
	return n
}

// ended records the end of the call.
func (t *thread) ended(e Event, text string) {
	shown, code := cmp.Or(t.cut(text), noOutput), e.Code
	c := t.call(t.n)
	e.Text = shown
	e.measure(&t.cost)
	t.record(e)
	if t.execution.offer.Policy && !t.told && (t.permitted || c.Begun && t.tools.byName[c.Name].own()) {
		t.want(&Job{Op: TellPolicy, Name: c.Name, Arguments: slices.Clone(c.Arguments), Text: shown, Code: code},
			func(Reply) {})
	}
	name, seen := c.Name, func() any { return shown }
	if code == "" {
		t.emitAbout(trace.ToolEnd, seen, "call", t.n, "tool", name)
		return
	}
	t.emit(trace.AgentError, "what", "tool", "call", t.n, "tool", name, "message", strings.TrimPrefix(shown, "error: "))
	t.emitAbout(trace.ToolEnd, seen, "call", t.n, "tool", name, "error", code)
}
