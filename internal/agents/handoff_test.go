package agents_test

import (
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
)

// front hands off to a clerk, which has another model, and tools that need an approval.
func front() (l, clerk *agentloop.Loop) {
	l, clerk = simple(), simple()
	l.Tools, l.Handoffs = []string{}, map[string]*agentloop.Loop{"clerk": clerk}
	clerk.Name, clerk.Model, clerk.Approval = "clerk", "c", map[string]agentloop.Approval{"t.a": agentloop.ApprovePause}
	return l, clerk
}

// A later execution continues with the agent that has the conversation, or says that there is no such agent any more.
func TestHandoffGoesOn(t *testing.T) {
	l, _ := front()
	j := after(t, nil)
	a := tool("t.a", runtime.External, "A")
	rt := models(map[string]runtime.Model{"m": model(says("", "handoff_clerk")), "c": model(says("", "t.a"), says("done"))}, a)
	p := paused(t, l, input{Journal: j}, rt)
	same(t, "pause", p[0].Prompt, `agent "clerk" wants to call tool "t.a"`)

	other, _ := front()
	other.Handoffs = nil
	_, err := run(t, other, input{Journal: after(t, j.events)}, rt)
	failed(t, err, runtime.CategoryConfig, "resume.definitionChanged", `has handed off to "clerk", and does not any more`)

	j = after(t, j.events)
	res := must(t, l, input{Journal: j, Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"decision": "approve"}}}}, rt)
	same(t, "agent", res.Agent, "clerk")
	same(t, "results", results(res), []string{"clerk takes over the conversation.", "A"})

	past := must(t, l, input{Journal: after(t, j.events)}, rt)
	same(t, "agent of a loop that has ended", past.Agent, "clerk")
}

// The schema of the answer is that of the loop that began, the depth the lowest on the way.
func TestHandoffKeeps(t *testing.T) {
	l, clerk := front()
	l.Schema, clerk.Schema = []byte(`{"type":"integer"}`), []byte(`{"type":"string"}`)
	clerk.Approval, clerk.MaxDelegationDepth, clerk.Delegates = nil, 1, map[string]*agentloop.Loop{"dig": {Tools: agentloop.AllTools, Model: "m", MaxSubagents: -1, Delegates: map[string]*agentloop.Loop{"clerk": clerk}}}
	m := model(says("", "handoff_clerk"), says("", `delegate_clerk {"task":"x"}`), says("dug"))
	c := model(says("", `delegate_dig {"task":"x"}`), says("words"), says("7"))
	res := must(t, l, input{}, models(map[string]runtime.Model{"m": m, "c": c}))
	same(t, "data", res.Data, any(int64(7)))
	same(t, "repaired", talk(c.Requests()[2].Messages)[len(c.Requests()[2].Messages)-2], "assistant: words")
	same(t, "inside", talk(m.Requests()[2].Messages)[2], `tool: error: there is no tool "delegate_clerk".`)
}
