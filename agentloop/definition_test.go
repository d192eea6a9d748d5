package agentloop_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestValidate(t *testing.T) {
	bad := &agentloop.Loop{Name: "bad", MaxSteps: -1, ToolConcurrency: -1, TopK: -1, ToolTimeout: -1, Own: []runtime.Tool{nil, runtimetest.NewTool("agent.x", nil)},
		Layers:   []agentloop.Layer{{ID: "a", Scope: "global", Budget: -1}, {ID: "a", Scope: "thread"}, {ID: "b", Scope: "town"}},
		Approval: map[string]agentloop.Approval{"t.a": "maybe"}, Schema: json.RawMessage(`{"type": 1}`),
		Delegates: map[string]*agentloop.Loop{"a/b": {Model: "m"}, "gone": nil, "child": {}},
		Handoffs:  map[string]*agentloop.Loop{"x y": {Model: "m"}, "none": nil, "next": {}}, MaxHandoffs: -1}
	bad.Handoffs["me"] = bad
	want := []string{`agent "bad": it names no model`, "max_steps is -1", "tool_concurrency is negative", "max_handoffs is negative", "top_k is negative", "the timeout of tools is negative",
		`unknown approval "maybe" of "t.a"` + "\n  hint: it is \"never\", \"always\", \"pause\" or \"refuse\"", "tool 0 is nil", `the name of tool "agent.x" is reserved`, "schema of the answer: ",
		`layer "a": its budget is negative`, `layer "a" has no id of its own`, `layer "b": unknown scope "town"`,
		`"a/b" is not a name for a delegate`, `agent "bad": delegate "child": it names no model`, `delegate "gone" is nil`,
		`agent "bad": hand-off "next": it names no model`, `hand-off "none" is nil`, `"x y" is not a name for a hand-off`, `hand-off "me" is the agent itself`}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	at := 0
	for _, w := range want {
		i := strings.Index(err.Error()[at:], w)
		if i < 0 {
			t.Fatalf("no %q, or in another place, in\n%v", w, err)
		}
		at += i
	}
}

// The digest of a definition is in the journals of runs, so it stays.
func TestDigest(t *testing.T) {
	warm := 0.5
	l := &agentloop.Loop{Name: "clerk", Model: "fast", Tools: []string{"b.<&>", " a.x", "a.x", ""}, Deny: []string{"exec.run"},
		Own:      []runtime.Tool{runtimetest.NewTool("own.it", nil)},
		Approval: map[string]agentloop.Approval{"*": agentloop.ApprovePause}, ToolTimeout: time.Second, Temperature: &warm,
		Delegates:  map[string]*agentloop.Loop{"help": {Model: "slow", Tools: agentloop.AllTools, MaxSteps: 3}},
		Layers:     []agentloop.Layer{{ID: "notes", Scope: "global"}},
		Compaction: &agentloop.Compaction{Model: "slow"}}
	l.Delegates["self"] = l
	const want = "4bf0fb3b776f444b68041ff9adf1224b6460841944127ae2f090c4e9e45326d1"
	if got := l.Digest(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	l.Tools = []string{"a.x", "b.<&>"}
	if l.Digest() != want {
		t.Error("the order of tools counts")
	}
	digests := map[string]bool{want: true} // trust 8.4: none, none and no sub-agents, all
	for _, tools := range [][]string{nil, {}, agentloop.AllTools} {
		if l.Tools = tools; digests[l.Digest()] {
			t.Errorf("the tools %q do not count", tools)
		}
		digests[l.Digest()] = true
	}
	l.Tools, l.Handoffs = []string{"a.x", "b.<&>"}, map[string]*agentloop.Loop{"next": {Model: "third"}}
	if l.Digest() == want {
		t.Error("the hand-offs do not count")
	}
	if got := l.Models(); !slices.Equal(got, []string{"fast", "slow", "third"}) {
		t.Errorf("models %q", got)
	}
}
