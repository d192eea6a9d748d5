package agents_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// many is n calls of a tool, and an answer after it.
func many(n int) *runtimetest.Model {
	return model(says("", slices.Repeat([]string{"t.a"}, n)...), says("done"))
}

func countLimited(res *agents.Ran) (limited, made int) {
	for _, c := range res.Calls {
		switch c.Code {
		case "tool.limit":
			limited++
		case "":
			made++
		}
	}
	return limited, made
}

// trust 1.7: the limits of calls, where nobody gives others, one after the other and side by side.
func TestBoundsOfCalls(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		a := tool("t.a", runtime.ReadOnly, 1)
		l := simple()
		l.ToolConcurrency = concurrency
		limited, made := countLimited(must(t, l, input{}, host(many(70), a)))
		same(t, "calls of an answer that are not made, and made", []int{limited, made, len(a.Calls())}, []int{6, 64, 64})

		a = tool("t.a", runtime.ReadOnly, 1)
		l.MaxCallsPerAnswer = 2000
		limited, made = countLimited(must(t, l, input{Journal: &journal{t: t, quiet: true}}, host(many(1010), a)))
		same(t, "calls of an agent that are not made, and made", []int{limited, made, len(a.Calls())}, []int{10, 1000, 1000})
	}
}

// trust 1.7: the limit of an agent counts its sub-agents' calls, and those that wait for an approval.
func TestMaxCalls(t *testing.T) {
	a := tool("t.a", runtime.ReadOnly, 1)
	l := simple()
	l.MaxCalls, l.MaxSubagents = 4, 1
	res := must(t, l, input{}, host(model(says("", `agent.spawn {"id":"s"}`), says("", `agent.send {"id":"s","text":"go"}`),
		says("", "t.a", "t.a", "t.a"), says("two of three"), says("", "t.a"), says("done")), a))
	same(t, "calls", len(a.Calls()), 2)
	same(t, "the last call", res.Calls[2].Code, "tool.limit")

	l = simple()
	l.MaxCalls, l.Approval = 1, map[string]agentloop.Approval{"*": agentloop.ApprovePause}
	pauses := paused(t, l, input{}, host(model(says("", "t.a", "t.a")), a))
	same(t, "pauses", len(pauses), 1)
}

// trust 3.5: parts of an answer go back to the model, in the same form in every execution, and into no memory.
func TestParts(t *testing.T) {
	thought := []runtime.Part{{Of: "m", Name: "thought", Data: json.RawMessage(`{"b": 1, "a": "<"}`)}, {Of: "m", Name: "half", Data: json.RawMessage(`{`)}}
	calls := says("", "t.a").ToolCalls
	calls[0].Parts = thought
	var back runtime.Message
	m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if n := len(req.Messages); n > 2 {
			back = req.Messages[n-2]
			return &runtime.Response{Text: "done"}, nil
		}
		return &runtime.Response{Text: "look", ToolCalls: calls, Parts: thought}, nil
	}}
	l, c := simple(), conversations{}
	l.Memory.Thread = "t1"
	in := input{}
	in.Memory = c
	res := must(t, l, in, host(m, tool("t.a", runtime.ReadOnly, 1)))
	want := []runtime.Part{{Of: "m", Name: "thought", Data: json.RawMessage(`{"a":"<","b":1}`)}}
	same(t, "parts of the message", back.Parts, want)
	same(t, "parts of the call", back.ToolCalls[0].Parts, want)
	if text := canonical(t, c); strings.Contains(text, "thought") || !strings.Contains(text, "look") {
		t.Errorf("the memory has %s", text)
	}
	same(t, "parts in the result", res.Messages[1].Parts, want)
}
