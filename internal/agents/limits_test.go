package agents_test

import (
	"context"
	"encoding/json"
	"errors"
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

// trust 8.14: three rounds with nothing but calls that a limit, a policy or their names refuse end the loop.
func TestRefusedRounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*agentloop.Loop)
		calls  [][]string // by round; then an answer
		want   agentloop.StopReason
		steps  int
	}{
		{name: "unknown", calls: [][]string{{"t.x"}, {"t.y", "t.z"}, {"t.w"}}, want: agentloop.StopRefused, steps: 3},
		{name: "limit", change: func(l *agentloop.Loop) { l.MaxCalls = 1 },
			calls: [][]string{{"t.a"}, {`t.a {"n":1}`}, {`t.a {"n":2}`}, {`t.a {"n":3}`}}, want: agentloop.StopRefused, steps: 4},
		{name: "refuse", change: func(l *agentloop.Loop) { l.Approval = map[string]agentloop.Approval{"t.a": agentloop.ApproveRefuse} },
			calls: [][]string{{"t.a"}, {"t.x"}, {`t.a {"n":2}`}}, want: agentloop.StopRefused, steps: 3},
		{name: "denied by effect", change: func(l *agentloop.Loop) { l.Deny = []string{"t.a"} },
			calls: [][]string{{"t.a"}, {`t.a {"n":1}`}, {`t.a {"n":2}`}}, want: agentloop.StopRefused, steps: 3},
		{name: "the same calls are a repetition", calls: [][]string{{"t.x"}, {"t.x"}, {"t.x"}}, want: agentloop.StopRepetition, steps: 3},
		{name: "whatever repetition may do", change: func(l *agentloop.Loop) { l.OnRepetition = agentloop.RepetitionGoOn },
			calls: [][]string{{"t.x"}, {"t.x"}, {"t.x"}}, want: agentloop.StopRefused, steps: 3},
		{name: "two rounds", calls: [][]string{{"t.x"}, {"t.y"}, {"t.a", "t.x"}, {"t.x"}, {"t.y"}}, want: agentloop.StopAnswer, steps: 6},
		{name: "a tool that fails", calls: [][]string{{"t.bad"}, {`t.bad {"n":1}`}, {`t.bad {"n":2}`}}, want: agentloop.StopAnswer, steps: 4},
		{name: "asked for, and not allowed", change: func(l *agentloop.Loop) { l.Approval = map[string]agentloop.Approval{"t.a": agentloop.ApproveAlways} },
			calls: [][]string{{"t.a"}, {`t.a {"n":1}`}, {`t.a {"n":2}`}}, want: agentloop.StopAnswer, steps: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var answers []runtimetest.Answer
			for _, calls := range tt.calls {
				answers = append(answers, says("", calls...))
			}
			for _, fails := range []bool{false, true} {
				l := simple()
				if l.FailAtLimit = fails; tt.change != nil {
					tt.change(l)
				}
				bad := tool("t.bad", runtime.ReadOnly, nil)
				bad.Func = func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("no") }
				rt := host(model(append(answers, says("done"))...), tool("t.a", runtime.ReadOnly, 1), bad)
				in := input{Journal: after(t, nil)}
				in.Approver = approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
					return runtime.ApprovalDecision{Reason: "not this one"}, nil
				})
				res, err := runIn(t.Context(), t, l, in, rt)
				same(t, "steps", res.Steps, tt.steps)
				switch {
				case !fails || tt.want == agentloop.StopAnswer:
					same(t, "error", err, nil)
					same(t, "stop reason", res.StopReason, tt.want)
				case tt.want == agentloop.StopRefused:
					failed(t, err, runtime.CategoryLimit, "agent.refused", `agent "simple" asked 3 times for nothing but calls that are refused`)
				default:
					failed(t, err, runtime.CategoryLimit, "agent.repetition", "3 times")
				}
			}
		})
	}
}

// trust 8.14: what somebody says to the loop counts as news, and its own end is legal in no other state.
func TestRefusedRoundsBegin(t *testing.T) {
	j := after(t, nil)
	must(t, simple(), input{Journal: j}, host(model(says("", "t.x"), says("", "t.y"), says("", "t.z"))))
	ends := slices.IndexFunc(j.events, func(e agents.Event) bool { return e.Kind == agents.Ended })
	for n := 1; n < ends; n++ {
		s, err := agents.Fold(j.events[:n])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agents.Reduce(s, agents.Event{Seq: s.Seq + 1, Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopRefused}}); err == nil {
			t.Errorf("after event %d (%s) the loop may end as refused", n, j.events[n-1].Kind)
		}
	}
	s, err := agents.Fold(j.events[:ends])
	if err != nil {
		t.Fatal(err)
	}
	s, err = agents.Reduce(s, agents.Event{Seq: s.Seq + 1, Kind: agents.Steered, More: &agents.More{Notes: []runtime.Note{{ID: "1", Text: "use t.a"}}}})
	same(t, "rounds after a note", []any{s.Refusals, err}, []any{0, nil})
}
