package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// The tools that start and talk to children.
var (
	delegateParameters = object("task", `"task":{"type":"string"}`)

	spawnSpec = runtime.ToolSpec{Name: "agent.spawn",
		Description: "Make a sub-agent. It does nothing until agent.send.",
		Parameters: object("",
			`"id":{"type":"string"},"name":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}}`)}
	sendSpec = runtime.ToolSpec{Name: "agent.send", Description: "Give a sub-agent a task and get its answer.",
		Parameters: object("", `"id":{"type":"string"},"text":{"type":"string"}`)}
	waitSpec = runtime.ToolSpec{Name: "agent.wait", Description: "Get the last answer of a sub-agent.",
		Parameters: object("", `"id":{"type":"string"}`)}
	closeSpec = runtime.ToolSpec{Name: "agent.close", Description: "Close a sub-agent.",
		Parameters: object("", `"id":{"type":"string"}`)}
)

// object is the JSON Schema of an object with these properties; one may be required.
func object(required, properties string) json.RawMessage {
	if required != "" {
		required = `"required":["` + required + `"],`
	}
	const begin = `{"type":"object","additionalProperties":false,`
	return json.RawMessage(begin + required + `"properties":{` + properties + `}}`)
}

// The error codes of sub-agent tools.
const (
	limitReached = "subagent_limit_reached"
	busy         = "subagent_busy"
	notFound     = "subagent_not_found"
	invalidInput = "subagent_invalid_input"
)

// addOthers offers hand-offs, and unless the loop is as deep as loops may be, delegates and sub-agents.
func (f *frame) addOthers(add func(b *binding, listed bool)) {
	f.addHandoffs(add)
	if f.depth >= f.maxDepth {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.loop.Delegates)) {
		child := f.loop.Delegates[name]
		text := "Give a task to " + name + "."
		if child.Description != "" {
			text += " " + child.Description
		}
		spec := runtime.ToolSpec{Name: agentloop.DelegatePrefix + name, Description: text,
			Parameters: delegateParameters}
		add(&binding{ToolSpec: spec, child: child}, false)
	}
	none := f.loop.Tools != nil && len(value.Names(f.loop.Tools)) == 0
	if f.loop.MaxSubagents < 0 || none || f.state().Start.Subagent != "" {
		return
	}
	for _, spec := range []runtime.ToolSpec{spawnSpec, sendSpec, waitSpec, closeSpec} {
		add(&binding{ToolSpec: spec}, false)
	}
}

// makeOwn makes a call of one of the loop's own tools. What it has recorded before the result, it finds again.
func (t *thread) makeOwn(c agentloop.Call, b *binding) {
	v, _ := value.Decode(c.Arguments) // checked
	args, _ := v.(map[string]any)
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch {
	case b.child != nil:
		t.delegate(c, b.child, text("task"))
		return
	case c.Name == agentloop.AskHuman:
		t.pauseCall(c, t.expires(humanPause(t.n, text("question")),
			map[string]any{"answer": "error: nobody answered in time"}))
		t.emit(trace.HumanRequest, "call", t.n)
		return
	case strings.HasPrefix(c.Name, agentloop.HandoffPrefix):
		t.handOff(strings.TrimPrefix(c.Name, agentloop.HandoffPrefix))
		return
	case c.Name == spawnSpec.Name:
		t.spawn(text("id"), text("name"), args["tools"])
		return
	}
	id := text("id")
	if id == "" {
		t.refuseSubagent(invalidInput, "it takes an id")
		return
	}
	var sub Subagent
	s := t.state()
	i := s.subagent(id)
	if i >= 0 {
		sub = s.Subagents[i]
	}
	closed := sub.Closed && sub.Call == t.n // by this call
	switch {
	case (i < 0 || sub.Closed) && !closed:
		t.refuseSubagent(notFound, fmt.Sprintf("there is no sub-agent %q", id))
	case closed:
		t.value(map[string]any{"id": id, "closed": true})
	case c.Name == sendSpec.Name:
		t.send(sub, text("text"))
	case c.Name == waitSpec.Name:
		t.value(map[string]any{"id": id, "outcome": t.outcomeOf(sub.Last)})
	case t.busy(t.n, id):
		t.refuseSubagent(busy, fmt.Sprintf("sub-agent %q has a task", id))
	default:
		sub.Closed, sub.Call = true, t.n
		t.record(Event{Kind: SubagentSet, More: &More{Subagent: &sub}})
		if sub.Last == "" { // no turn has said so
			t.emit(trace.SubagentCompleted, "id", id)
		}
	}
}

func humanPause(n int, question string) Pause {
	return Pause{For: ForHuman, Call: n, Tool: agentloop.AskHuman, Pause: resume.Pause{
		Kind: resume.Human, Prompt: question,
		Schema: map[string]any{"type": "object", "additionalProperties": false, "required": []any{"answer"},
			"properties": map[string]any{"answer": map[string]any{"type": "string"}}}}}
}

func (t *thread) value(v any) { t.result("", asText(v)) }

func (t *thread) refuseSubagent(code, why string) { t.refuse(code, code+": "+why) }

// delegate gives a task to another agent, on a frame of its own.
func (t *thread) delegate(c agentloop.Call, def *agentloop.Loop, task string) {
	name := strings.TrimPrefix(c.Name, agentloop.DelegatePrefix)
	plain := *def
	if plain.Memory = (runtime.Conversation{}); def.InheritMemory {
		plain.Memory = t.memory
	}
	k := t.childOf(fmt.Sprintf("%s#%d", name, t.n), &plain, Start{Definition: def.Digest(), Prompt: task})
	data := []any{"agent", name, "depth", k.depth, "call", t.n}
	if k.state().Phase == "" {
		t.emit(trace.DelegateStart, data...)
	}
	t.run(k, func() {
		s := k.state()
		if s.Stop == agentloop.StopError {
			t.emit(trace.AgentError, "what", "delegate", "call", t.n, "message", s.Failure)
		}
		if t.emit(trace.DelegateEnd, data...); s.Stop == agentloop.StopError {
			t.refuse(delegateFailed, fmt.Sprintf("%q failed: %s", name, s.Failure))
			return
		}
		t.result("", earlyText(s))
	})
}

// earlyText is what a delegate said; of one that stopped early it says so first.
func earlyText(s *State) string {
	switch s.Stop {
	case agentloop.StopMaxSteps, agentloop.StopRepetition, agentloop.StopRefused, agentloop.StopNoAction,
		agentloop.StopCut:
		return strings.TrimSpace(fmt.Sprintf("[stopped: %s]\n%s", s.Stop, s.Text))
	}
	return s.Text
}

// childOf makes the frame of a call's child.
func (t *thread) childOf(name string, def *agentloop.Loop, start Start) *frame {
	at := place{name: framePath(t.name, name), path: framePath(t.path, name), depth: t.depth + 1, maxDepth: t.maxDepth}
	k := &frame{place: at, execution: t.execution, parent: t.frame, loop: def, trace: t.trace, start: start,
		memory: def.Memory}
	if def.MaxDelegationDepth > 0 {
		k.maxDepth = min(k.maxDepth, def.MaxDelegationDepth)
	}
	return k
}

// run runs a child until it ends, pauses, or something fails that is not the child's. after is called when
// it has ended.
func (t *thread) run(k *frame, after func()) {
	if k.state().Phase == Over {
		after()
		return
	}
	if err := k.follow(); err != nil {
		t.end(err)
		return
	}
	if t.children == nil {
		t.children = map[string]*frame{}
	}
	name := lastOf(k.name)
	t.child, t.after, t.children[name] = k, after, k
}

// childEnded continues a call whose child has ended.
func (t *thread) childEnded() {
	k := t.child
	t.child = nil
	name := lastOf(k.name)
	delete(t.children, name)
	if _, failed := errors.AsType[*failure](k.err); k.err != nil && !failed {
		t.end(k.err)
		return
	}
	t.after()
}

// lastOf is the last part of a frame's name.
func lastOf(frame string) string { return frame[strings.LastIndexByte(frame, '/')+1:] }

// busy reports whether another call is waiting for a sub-agent.
func (f *frame) busy(n int, id string) bool {
	children := f.state().Children
	for _, name := range value.SortedKeys(children) {
		child := children[name]
		if child.Start.Subagent == id && child.Phase != Over && ordinalOf(name) != n {
			return true
		}
	}
	return false
}

// waitsForUnknown reports whether a call that hands off, or deals with sub-agents, has to wait: in an earlier one of
// the round something was called whose outcome is unknown, and the result of this one must not depend on that.
func (f *frame) waitsForUnknown(n int, c agentloop.Call) bool {
	if strings.HasPrefix(c.Name, agentloop.HandoffPrefix) {
		return f.handoffWaits(n)
	}
	if !strings.HasPrefix(c.Name, agentloop.SubagentPrefix) {
		return false
	}
	id, alone := subagentOf(c)
	s := f.state()
	for _, name := range value.SortedKeys(s.Children) {
		child := s.Children[name]
		before := ordinalOf(name) > s.Round && ordinalOf(name) < n
		concerns := alone && child.Start.Subagent != "" || child.Start.Subagent == id
		asks := func(p Pause) bool { return p.For == Indeterminate }
		if before && concerns && slices.ContainsFunc(child.openPauses(), asks) {
			return true
		}
	}
	return false
}

// spawn makes a sub-agent.
func (t *thread) spawn(id, name string, tools any) {
	if _, ok := t.loop.Delegates[name]; name != "" && !ok {
		t.refuseSubagent(invalidInput, fmt.Sprintf("there is no agent %q", name))
		return
	}
	if id != "" && !agentloop.ValidName(id) {
		t.refuseSubagent(invalidInput, fmt.Sprintf("%.60q is not a valid id", id))
		return
	}
	s := t.state()
	for i := 1; id == ""; i++ {
		if next := fmt.Sprintf("subagent.%d", i); s.subagent(next) < 0 {
			id = next
		}
	}
	active := 0
	for _, a := range s.Subagents {
		switch {
		case a.Call == t.n: // by this call
			t.value(map[string]any{"id": a.ID, "status": "started"})
			return
		case a.ID == id && !a.Closed:
			t.value(map[string]any{"id": id, "status": "exists"})
			return
		case !a.Closed:
			active++
		}
	}
	if most := cmp.Or(t.loop.MaxSubagents, agentloop.DefaultMaxSubagents); active >= most {
		t.refuseSubagent(limitReached, fmt.Sprintf("the limit is %d", most))
		return
	}
	t.record(Event{Kind: SubagentSet,
		More: &More{Subagent: &Subagent{ID: id, Agent: name, Tools: narrowed(tools), Call: t.n}}})
	t.emit(trace.SubagentStarted, "id", id)
}

// narrowed returns the names of tools that a sub-agent is offered; nil: as its definition says.
func narrowed(tools any) []string {
	list, ok := tools.([]any)
	if !ok {
		return nil
	}
	names := []string{}
	for _, v := range list {
		s, _ := v.(string)
		names = append(names, s)
	}
	return value.Names(names)
}

// send gives a sub-agent a task, and the call its result.
func (t *thread) send(sub Subagent, text string) {
	switch {
	case strings.TrimSpace(text) == "":
		t.refuseSubagent(invalidInput, "it takes a text")
		return
	case t.busy(t.n, sub.ID):
		t.refuseSubagent(busy, fmt.Sprintf("sub-agent %q has a task", sub.ID))
		return
	}
	def := t.loop
	if sub.Agent != "" {
		def = t.loop.Delegates[sub.Agent]
	}
	name := fmt.Sprintf("agent.%s#%d", sub.ID, t.n)
	start := Start{Definition: def.Digest(), Prompt: text, Subagent: sub.ID}
	if sub.Last != name { // it is, of a turn that continues
		start.Continues = sub.Last
	}
	plain := *def // a sub-agent has no memory of its own, and answers in words
	plain.Memory, plain.InheritMemory, plain.Schema = runtime.Conversation{}, false, nil
	k := t.childOf(name, &plain, start)
	k.narrow = sub.Tools
	t.run(k, func() {
		kind := trace.SubagentCompleted
		if k.state().Stop == agentloop.StopError {
			kind = trace.SubagentFailed
		}
		t.emit(kind, "id", sub.ID)
		t.value(map[string]any{"id": sub.ID, "outcome": t.outcomeOf(name)})
	})
}

// outcomeOf words how a sub-agent's turn ended; nil if it had none.
func (f *frame) outcomeOf(name string) any {
	k := f.state().Children[name]
	switch {
	case k == nil:
		return nil
	case k.Phase != Over:
		return map[string]any{"status": "paused"}
	case k.Stop == agentloop.StopError:
		return map[string]any{"status": "error", "error": k.Failure}
	}
	return map[string]any{"status": "ok", "text": k.Text, "stopReason": string(k.Stop), "steps": k.Steps}
}
