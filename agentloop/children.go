package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// The parameters of the tools that start and talk to children.
var (
	delegateParameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["task"],"properties":{"task":{"type":"string"}}}`)
	spawnSpec          = runtime.ToolSpec{Name: "agent.spawn", Description: "Make a sub-agent. It does nothing until agent.send.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"},"name":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}}}}`)}
	sendSpec = runtime.ToolSpec{Name: "agent.send", Description: "Give a sub-agent a task and get its answer.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"},"text":{"type":"string"}}}`)}
	waitSpec = runtime.ToolSpec{Name: "agent.wait", Description: "Get the last answer of a sub-agent.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"}}}`)}
	closeSpec = runtime.ToolSpec{Name: "agent.close", Description: "Close a sub-agent.",
		Parameters: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"}}}`)}
)

// The error codes of sub-agent tools.
const (
	limitReached = "subagent_limit_reached"
	busy         = "subagent_busy"
	notFound     = "subagent_not_found"
	invalidInput = "subagent_invalid_input"
)

// addChildren offers delegates and sub-agents, unless the loop is as deep as loops may be.
func (f *frame) addChildren(add func(b *binding, listed bool)) {
	if f.depth >= f.maxDepth {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.loop.Delegates)) {
		child := f.loop.Delegates[name]
		text := "Give a task to " + name + "."
		if child.Description != "" {
			text += " " + child.Description
		}
		add(&binding{spec: runtime.ToolSpec{Name: delegatePrefix + name, Description: text, Parameters: delegateParameters}, child: child}, false)
	}
	if f.loop.MaxSubagents < 0 || f.loop.Tools != nil && len(normal(f.loop.Tools)) == 0 || f.state.Start.Subagent != "" {
		return
	}
	for _, spec := range []runtime.ToolSpec{spawnSpec, sendSpec, waitSpec, closeSpec} {
		add(&binding{spec: spec}, false)
	}
}

// makeOwn makes a call of one of the loop's own tools.
func (f *frame) makeOwn(ctx context.Context, n int, c Call, b *binding) error {
	v, _ := value.Decode(c.Arguments) // checked
	args, _ := v.(map[string]any)
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch {
	case b.child != nil:
		return f.delegate(ctx, n, c, b.child, text("task"))
	case c.Name == askHuman:
		err := f.pauseCall(c, humanPause(n, text("question")))
		if err == nil {
			f.emit(trace.HumanRequest, "call", n)
		}
		return err
	case c.Name == spawnSpec.Name:
		return f.spawn(n, text("id"), text("name"), args["tools"])
	}
	id := text("id")
	if id == "" {
		return f.refuseSubagent(n, invalidInput, "it takes an id")
	}
	sub, ok := f.subagent(id)
	closed := map[string]any{"id": id, "closed": true}
	if ok && sub.Closed && sub.Call == n { // by this call, before a crash
		return f.settleValue(n, closed)
	}
	if !ok || sub.Closed {
		return f.refuseSubagent(n, notFound, fmt.Sprintf("there is no sub-agent %q", id))
	}
	switch c.Name {
	case sendSpec.Name:
		return f.send(ctx, n, sub, text("text"))
	case waitSpec.Name:
		return f.settleValue(n, map[string]any{"id": id, "outcome": f.outcomeOf(sub.Last)})
	}
	if f.busy(n, id) {
		return f.refuseSubagent(n, busy, fmt.Sprintf("sub-agent %q has a task", id))
	}
	sub.Closed, sub.Call = true, n
	if err := f.record(Event{Kind: SubagentSet, Call: n, Subagent: &sub}); err != nil {
		return err
	}
	return f.settleValue(n, closed)
}

func (f *frame) settleValue(n int, v any) error {
	return f.settleCall(n, "", asText(v))
}

func (f *frame) refuseSubagent(n int, code, why string) error {
	return f.refuse(n, code, code+": "+why)
}

// child makes the frame of a call's child. The loop that it runs is def.
func (f *frame) child(name string, def *Loop) *frame {
	depth := f.depth + 1
	state := look(f, func(s *State) *State { return s.Children[name] })
	if state == nil {
		state = new(State) // until the first event is recorded
	}
	k := &frame{loop: def, in: f.in, rt: f.rt, offers: f.offers, limits: f.limits, log: f.log, state: state, crew: f.crew, trace: f.trace,
		name: strings.TrimPrefix(f.name+"/"+name, "/"), path: strings.TrimPrefix(f.path+"/"+name, "/"), depth: depth, maxDepth: f.maxDepth}
	if def.MaxDelegationDepth > 0 {
		k.maxDepth = min(k.maxDepth, def.MaxDelegationDepth)
	}
	return k
}

// delegate gives a task to another agent, on a frame of its own.
func (f *frame) delegate(ctx context.Context, n int, c Call, def *Loop, task string) error {
	name := strings.TrimPrefix(c.Name, delegatePrefix)
	k := f.child(fmt.Sprintf("%s#%d", name, n), def)
	data := []any{"agent", name, "depth", k.depth, "call", n}
	if k.state.Phase == "" {
		f.emit(trace.DelegateStart, data...)
	}
	err := f.runChild(ctx, k, Start{Definition: def.Digest(), Prompt: task})
	if k.state.Phase != Over || err != nil {
		return err
	}
	if k.state.Stop == StopError {
		f.emit(trace.AgentError, "what", "delegate", "call", n, "message", k.state.Failure)
	}
	f.emit(trace.DelegateEnd, data...)
	if k.state.Stop == StopError {
		return f.refuse(n, delegateFailed, fmt.Sprintf("%q failed: %s", name, k.state.Failure))
	}
	return f.settleCall(n, "", k.state.Text)
}

// runChild runs a child until it ends, pauses, or something fails that is not the child's.
func (f *frame) runChild(ctx context.Context, k *frame, start Start) error {
	if k.state.Phase == Over {
		return nil
	}
	if k.state.Phase != "" && !k.in.Vouched && k.state.Start.Definition != start.Definition {
		return k.outside(runtime.CategoryConfig, "resume.definitionChanged", fmt.Errorf("agent %q is not the one that began", k.loop.Name))
	}
	def := *k.loop
	if def.Memory = (runtime.Conversation{}); def.InheritMemory {
		def.Memory = f.memory
	}
	k.loop = &def
	err := k.execute(ctx, start)
	if _, ok := errors.AsType[*failure](err); ok {
		return nil // the call's
	}
	return err
}

func (f *frame) subagent(id string) (sub Subagent, ok bool) {
	return sub, look(f, func(s *State) bool {
		i := s.subagent(id)
		if i >= 0 {
			sub = s.Subagents[i]
		}
		return i >= 0
	})
}

// busy reports whether another call is waiting for a sub-agent.
func (f *frame) busy(n int, id string) bool {
	return look(f, func(s *State) bool {
		for name, child := range s.Children {
			if child.Start.Subagent == id && child.Phase != Over && ordinalOf(name) != n {
				return true
			}
		}
		return false
	})
}

// doubtful reports whether a call that deals with sub-agents has to wait: in an earlier one of the round
// something was called of which nobody knows what became, and what this one finds must not depend on that.
func (f *frame) doubtful(n int, c Call) bool {
	if !strings.HasPrefix(c.Name, subagentPrefix) {
		return false
	}
	id, alone := c.subagent()
	return look(f, func(s *State) bool {
		for name, child := range s.Children {
			before := ordinalOf(name) > s.Round && ordinalOf(name) < n && (alone && child.Start.Subagent != "" || child.Start.Subagent == id)
			if before && slices.ContainsFunc(child.openPauses(), func(p Pause) bool { return p.For == Indeterminate }) {
				return true
			}
		}
		return false
	})
}

// spawn makes a sub-agent.
func (f *frame) spawn(n int, id, name string, tools any) error {
	if _, ok := f.loop.Delegates[name]; name != "" && !ok {
		return f.refuseSubagent(n, invalidInput, fmt.Sprintf("there is no agent %q", name))
	}
	if id != "" && !delegateName.MatchString(id) {
		return f.refuseSubagent(n, invalidInput, fmt.Sprintf("%.60q is no id", id))
	}
	sub := Subagent{ID: id, Agent: name}
	if list, ok := tools.([]any); ok {
		sub.Tools = []string{}
		for _, t := range list {
			s, _ := t.(string)
			sub.Tools = append(sub.Tools, s)
		}
		sub.Tools = normal(sub.Tools)
	}
	most := f.loop.MaxSubagents
	if most == 0 {
		most = DefaultMaxSubagents
	}
	active := 0
	status := look(f, func(s *State) string {
		for _, a := range s.Subagents {
			if a.Call == n { // by this call, before a crash
				sub = a
				return "started"
			}
		}
		for i := 1; sub.ID == ""; i++ {
			if next := fmt.Sprintf("subagent.%d", i); s.subagent(next) < 0 {
				sub.ID = next
			}
		}
		for _, a := range s.Subagents {
			if a.ID == sub.ID && !a.Closed {
				return "exists"
			}
			if !a.Closed {
				active++
			}
		}
		return "new"
	})
	if status == "new" {
		status, sub.Call = "started", n
		if active >= most {
			return f.refuseSubagent(n, limitReached, fmt.Sprintf("%d are the most", most))
		}
		if err := f.record(Event{Kind: SubagentSet, Call: n, Subagent: &sub}); err != nil {
			return err
		}
		f.emit(trace.SubagentStarted, "id", sub.ID)
	}
	return f.settleValue(n, map[string]any{"id": sub.ID, "status": status})
}

// send gives a sub-agent a task and settles the call with what came of it.
func (f *frame) send(ctx context.Context, n int, sub Subagent, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return f.refuseSubagent(n, invalidInput, "it takes a text")
	case f.busy(n, sub.ID):
		return f.refuseSubagent(n, busy, fmt.Sprintf("sub-agent %q has a task", sub.ID))
	}
	def := f.loop
	if sub.Agent != "" {
		def = f.loop.Delegates[sub.Agent]
	}
	name := fmt.Sprintf("agent.%s#%d", sub.ID, n)
	k := f.child(name, def)
	k.narrow = sub.Tools
	start := Start{Definition: def.Digest(), Prompt: text, Subagent: sub.ID}
	if sub.Last != name { // it is, of a turn that goes on
		start.Continues = sub.Last
	}
	plain := *def // a sub-agent has no memory of its own, and answers in words
	plain.InheritMemory, plain.Schema = false, nil
	k.loop = &plain
	if err := f.runChild(ctx, k, start); err != nil || k.state.Phase != Over {
		return err
	}
	kind := trace.SubagentCompleted
	if k.state.Stop == StopError {
		kind = trace.SubagentFailed
	}
	f.emit(kind, "id", sub.ID)
	return f.settleValue(n, map[string]any{"id": sub.ID, "outcome": f.outcomeOf(name)})
}

// outcomeOf words how a sub-agent's turn ended; nil if it had none.
func (f *frame) outcomeOf(name string) any {
	return look(f, func(s *State) any {
		k := s.Children[name]
		switch {
		case k == nil:
			return nil
		case k.Phase != Over:
			return map[string]any{"status": "paused"}
		case k.Stop == StopError:
			return map[string]any{"status": "error", "error": k.Failure}
		}
		return map[string]any{"status": "ok", "text": k.Text, "stopReason": string(k.Stop), "steps": k.Steps}
	})
}
