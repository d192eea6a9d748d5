package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// models is a Runtime with several models, and tools.
func models(m map[string]runtime.Model, tools ...runtime.Tool) *runtime.Runtime {
	return &runtime.Runtime{Models: m, Tools: tools}
}

func TestDelegates(t *testing.T) {
	t.Run("4.1 a child loop", func(t *testing.T) {
		child := &agentloop.Loop{Tools: agentloop.AllTools, Name: "digger", Model: "c", Instructions: "Dig.", Description: "Finds things.", MaxSubagents: -1, Memory: runtime.Conversation{Thread: "own"}}
		l := simple()
		l.Tools, l.Delegates, l.Memory.Thread = []string{"t.a"}, map[string]*agentloop.Loop{"dig": child}, "t"
		m, c := model(says("", `delegate_dig {"task": "find it"}`, "delegate_dig {}"), says("done")), model(says("", "t.a"), says("in the shed"))
		in, j := input{}, after(t, nil)
		mem := conversations{"t": {{Role: runtime.User, Text: "old"}}}
		in.Memory, in.Journal = mem, j
		res := must(t, l, in, models(map[string]runtime.Model{"m": m, "c": c}, tool("t.a", "", "A")))
		same(t, "results", results(res)[0], "in the shed")
		same(t, "arguments", res.Calls[1].Code, "tool.arguments")
		same(t, "a fresh conversation", talk(c.Requests()[0].Messages), []string{"system: Dig.", "user: find it"})
		same(t, "offered", m.Requests()[0].Tools[0].Description, "Give a task to dig. Finds things.")
		same(t, "path", c.Requests()[0].Step, "step/dig#1")
		same(t, "usage", res.Usage, runtime.Usage{InputTokens: 40, OutputTokens: 4})
		same(t, "memories", len(mem), 2)
		var seq []int64
		for i, e := range j.events {
			if seq = append(seq, e.Seq); e.Seq != int64(i)+1 {
				t.Errorf("sequence %v", seq)
			}
		}
		same(t, "journal", j.kinds()[4:16], []string{"tool.begin", "dig#1 start", "dig#1 model.begin", "dig#1 model.end", "dig#1 tool.begin", "dig#1 tool.end",
			"dig#1 model.begin", "dig#1 model.end", "dig#1 end", "tool.end", "tool.end", "model.begin"})
		var events []string
		for _, line := range lines(res.Trace) {
			if strings.HasPrefix(line, "delegate.") || strings.HasPrefix(line, "agent.start") || strings.HasPrefix(line, "agent.end") {
				events = append(events, line)
			}
		}
		same(t, "events", events, []string{"agent.start step agent=simple depth=0 model=m", "delegate.start step agent=dig call=1 depth=1",
			"agent.start step/dig#1 agent=digger depth=1 model=c", "agent.end step/dig#1 stopReason=answer", "delegate.end step agent=dig call=1 depth=1", "agent.end step stopReason=answer"})
	})
	t.Run("4.1 inherited memory", func(t *testing.T) {
		l := simple()
		l.Delegates, l.Memory.Thread = map[string]*agentloop.Loop{"dig": {Tools: agentloop.AllTools, Model: "c", InheritMemory: true}}, "t"
		c := model(says("found"))
		in, mem := input{}, conversations{"t": {{Role: runtime.User, Text: "old"}}}
		in.Memory = mem
		must(t, l, in, models(map[string]runtime.Model{"m": model(says("", `delegate_dig {"task":"x"}`), says("done")), "c": c}))
		same(t, "view", talk(c.Requests()[0].Messages), []string{"user: old", "user: x"})
		same(t, "saved", talk(mem["t run1/step/dig#1"]), []string{"user: x", "assistant: found"})
	})
	t.Run("4.1 depth", func(t *testing.T) {
		for _, limit := range []int{0, 1, 2} {
			deepest := ""
			m := &runtimetest.Model{Func: func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
				if len(r.Tools) == 0 || len(r.Messages) > 1 {
					deepest = max(deepest, r.Step)
					return &runtime.Response{Text: "done"}, nil
				}
				return &runtime.Response{ToolCalls: says("", fmt.Sprintf(`%s {"task":"x"}`, r.Tools[0].Name)).ToolCalls}, nil
			}}
			l, other := simple(), simple()
			l.MaxDelegationDepth = limit
			other.Model, other.MaxDelegationDepth = "other", 9 // the lower one counts
			l.Delegates, other.Delegates = map[string]*agentloop.Loop{"you": other}, map[string]*agentloop.Loop{"me": l}
			must(t, l, input{}, models(map[string]runtime.Model{"m": m, "other": m}))
			want := map[int]string{0: "step/you#1/me#1/you#1", 1: "step/you#1", 2: "step/you#1/me#1"}[limit]
			same(t, fmt.Sprint("limit ", limit), deepest, want)
		}
	})
	t.Run("4.1 a failing child is a failed call", func(t *testing.T) {
		l := simple()
		l.Delegates = map[string]*agentloop.Loop{"dig": {Tools: agentloop.AllTools, Model: "c"}}
		m := model(says("", `delegate_dig {"task":"x"}`), says("done"))
		res := must(t, l, input{}, models(map[string]runtime.Model{"m": m, "c": model(runtimetest.Answer{Err: errors.New("tired")})}))
		same(t, "call", []string{res.Calls[0].Code, res.Calls[0].Result}, []string{"delegate.failed", `error: "dig" failed: tired`})
	})
	t.Run("4.1 a pause inside", func(t *testing.T) {
		for _, concurrency := range []int{1, 8} {
			asker := &agentloop.Loop{Name: "asker", Model: "a", Tools: []string{"human.ask"}}
			digger := &agentloop.Loop{Tools: agentloop.AllTools, Name: "digger", Model: "c", Delegates: map[string]*agentloop.Loop{"ask": asker}}
			l := simple()
			l.ToolConcurrency, l.Delegates = concurrency, map[string]*agentloop.Loop{"dig": digger}
			m := model(says("", "t.a", `delegate_dig {"task":"x"}`, `delegate_dig {"task":"y"}`), says("done"))
			ask := func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
				if last := r.Messages[len(r.Messages)-1]; last.Role != runtime.User {
					return &runtime.Response{Text: "got " + last.Text}, nil
				}
				return &runtime.Response{ToolCalls: says("", map[bool]string{true: `human.ask {"question":"?"}`, false: `delegate_ask {"task":"z"}`}[r.Model == "a"]).ToolCalls}, nil
			}
			a := tool("t.a", "", "A")
			rt := models(map[string]runtime.Model{"m": m, "c": &runtimetest.Model{Func: ask}, "a": &runtimetest.Model{Func: ask}}, a)
			j := after(t, nil)
			p := paused(t, l, input{Journal: j}, rt)
			same(t, "pauses", []string{p[0].ID, p[0].Step, p[0].Frame, p[1].ID}, []string{"step/dig#2/ask#1:call1", "step/dig#2/ask#1", "dig#2/ask#1", "step/dig#3/ask#1:call1"})
			j = after(t, j.events)
			p = paused(t, l, input{Journal: j, Answers: []agents.Answer{{Pause: p[1].ID, Value: object{"answer": "two"}}}}, rt)
			same(t, "requests", len(m.Requests()), 1)
			res := must(t, l, input{Journal: after(t, j.events), Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"answer": "one"}}}}, rt)
			same(t, "results", results(res), []string{"A", "got got one", "got got two"})
			same(t, "calls", len(a.Calls()), 1)
		}
	})
}

func TestSubagents(t *testing.T) {
	t.Run("4.2 offered unless", func(t *testing.T) {
		for _, tt := range []struct {
			max   int
			tools []string
			want  string
		}{
			{0, agentloop.AllTools, "agent.close agent.send agent.spawn agent.wait t.a"},
			{0, nil, "agent.close agent.send agent.spawn agent.wait"}, // trust 8.4
			{0, []string{"t.a"}, "agent.close agent.send agent.spawn agent.wait t.a"},
			{0, []string{}, ""},
			{-1, agentloop.AllTools, "t.a"},
			{-1, nil, ""},
		} {
			m := model(says("done"))
			must(t, &agentloop.Loop{Model: "m", MaxSubagents: tt.max, Tools: tt.tools}, input{}, host(m, tool("t.a", "", 1)))
			same(t, "offered", offered(m.Requests()[0]), tt.want)
		}
	})
	t.Run("4.2 outcomes", func(t *testing.T) {
		for _, concurrency := range []int{1, 8} {
			var seen []string
			m := &runtimetest.Model{Func: func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
				last := r.Messages[len(r.Messages)-1]
				switch {
				case r.Step != "step" && last.Text == "fail":
					return nil, errors.New("tired")
				case r.Step != "step":
					return &runtime.Response{Text: fmt.Sprintf("%s, %d messages, tools: %s", last.Text, len(r.Messages), offered(*r))}, nil
				case r.StepCall > 1:
					return &runtime.Response{Text: "done"}, nil
				}
				return &runtime.Response{ToolCalls: says("",
					`agent.send {"id":"x","text":"hi"}`,            // 1 not there
					`agent.spawn {"id":"x","tools":["t.a"]}`,       // 2
					`agent.spawn {"id":"x"}`,                       // 3 exists
					`agent.wait {"id":"x"}`,                        // 4 nothing yet
					`agent.send {"id":"x","text":"hi"}`,            // 5
					`agent.send {"id":"x","text":"again"}`,         // 6 one conversation
					`agent.wait {"id":"x"}`,                        // 7
					`agent.spawn {}`,                               // 8
					`agent.spawn {"id":"z"}`,                       // 9 too many
					`agent.send {"id":"subagent.1","text":"fail"}`, // 10
					`agent.send {"id":"x"}`,                        // 11
					`agent.wait {}`,                                // 12
					`agent.spawn {"name":"nobody"}`,                // 13
					`agent.close {"id":"x"}`,                       // 14
					`agent.send {"id":"x","text":"hi"}`,            // 15
					`agent.spawn {"id":"x"}`,                       // 16 again
					`agent.send {"id":"x","text":"new"}`,           // 17
				).ToolCalls}, nil
			}}
			l, j := &agentloop.Loop{Tools: agentloop.AllTools, Name: "boss", Model: "m", MaxSubagents: 2, ToolConcurrency: concurrency}, after(t, nil)
			res := must(t, l, input{Journal: j}, host(m, tool("t.a", "", 1), tool("t.b", "", 1)))
			ok := func(text string, steps int) string {
				return fmt.Sprintf(`{"id":"x","outcome":{"status":"ok","steps":%d,"stopReason":"answer","text":%q}}`, steps, text)
			}
			same(t, "results", results(res), []string{
				`error: subagent_not_found: there is no sub-agent "x"`,
				`{"id":"x","status":"started"}`,
				`{"id":"x","status":"exists"}`,
				`{"id":"x","outcome":null}`,
				ok("hi, 1 messages, tools: t.a", 1),
				ok("again, 3 messages, tools: t.a", 1),
				ok("again, 3 messages, tools: t.a", 1),
				`{"id":"subagent.1","status":"started"}`,
				`error: subagent_limit_reached: the limit is 2`,
				`{"id":"subagent.1","outcome":{"error":"tired","status":"error"}}`,
				`error: subagent_invalid_input: it takes a text`,
				`error: subagent_invalid_input: it takes an id`,
				`error: subagent_invalid_input: there is no agent "nobody"`,
				`{"closed":true,"id":"x"}`,
				`error: subagent_not_found: there is no sub-agent "x"`,
				`{"id":"x","status":"started"}`,
				ok("new, 1 messages, tools: t.a t.b", 1),
			})
			for _, line := range lines(res.Trace) {
				if strings.HasPrefix(line, "subagent.") {
					seen = append(seen, line)
				}
			}
			same(t, "events", seen, []string{"subagent.started step id=x", "subagent.completed step id=x", "subagent.completed step id=x",
				"subagent.started step id=subagent.1", "subagent.failed step id=subagent.1", "subagent.started step id=x", "subagent.completed step id=x"})
			if !slices.IsSortedFunc(j.events, func(a, b agents.Event) int { return int(a.Seq - b.Seq) }) {
				t.Error("the sequence does not increase")
			}
		}
	})
	t.Run("4.2 closed without a turn", func(t *testing.T) {
		var events []string
		m := model(says("", `agent.spawn {"id":"x"}`, `agent.close {"id":"x"}`, `agent.close {"id":"x"}`), says("done"))
		res := must(t, &agentloop.Loop{Tools: agentloop.AllTools, Model: "m"}, input{}, host(m))
		for _, line := range lines(res.Trace) {
			if strings.HasPrefix(line, "subagent.") {
				events = append(events, line)
			}
		}
		same(t, "events", events, []string{"subagent.started step id=x", "subagent.completed step id=x"})
	})
	t.Run("4.2 busy", func(t *testing.T) {
		m := &runtimetest.Model{Func: func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
			switch last := r.Messages[len(r.Messages)-1]; {
			case r.Step == "step" && r.StepCall == 1:
				return &runtime.Response{ToolCalls: says("", `agent.spawn {"id":"x"}`, `agent.send {"id":"x","text":"ask"}`, `agent.send {"id":"x","text":"hi"}`).ToolCalls}, nil
			case last.Text == "ask":
				return &runtime.Response{ToolCalls: says("", `human.ask {"question":"?"}`).ToolCalls}, nil
			}
			return &runtime.Response{Text: "done"}, nil
		}}
		l, j := &agentloop.Loop{Model: "m", Tools: []string{"human.ask"}}, after(t, nil)
		p := paused(t, l, input{Journal: j}, host(m))
		same(t, "pause", p[0].ID, "step/agent.x#2:call1")
		res := must(t, l, input{Journal: after(t, j.events), Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"answer": "yes"}}}}, host(m))
		same(t, "results", results(res)[1:], []string{`{"id":"x","outcome":{"status":"ok","steps":2,"stopReason":"answer","text":"done"}}`, `error: subagent_busy: sub-agent "x" has a task`})
	})
	t.Run("4.2 a turn with an unknown outcome", func(t *testing.T) { // 8: what comes after it is the same with and without a crash
		m := &runtimetest.Model{Func: func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
			switch last := r.Messages[len(r.Messages)-1]; {
			case r.Step == "step" && r.StepCall == 1:
				return &runtime.Response{ToolCalls: says("", `agent.spawn {"id":"x"}`, `agent.send {"id":"x","text":"go"}`, `agent.wait {"id":"x"}`, `agent.close {"id":"x"}`).ToolCalls}, nil
			case last.Text == "go":
				return &runtime.Response{ToolCalls: says("", `t.a`).ToolCalls}, nil
			}
			return &runtime.Response{Text: "done"}, nil
		}}
		for _, concurrency := range []int{1, 4} {
			l, j := &agentloop.Loop{Tools: agentloop.AllTools, Model: "m", ToolConcurrency: concurrency}, after(t, nil)
			a := runtimetest.NewTool("t.a", func(context.Context, json.RawMessage) (any, error) { return nil, context.DeadlineExceeded })
			p := paused(t, l, input{Journal: j}, host(m, a))
			same(t, "pause", p[0].For, agents.Indeterminate)
			answer := agents.Answer{Pause: p[0].ID, Value: object{"decision": "result", "form": "A"}}
			res := must(t, l, input{Journal: after(t, j.events), Answers: []agents.Answer{answer}}, host(m, a))
			ok := `{"id":"x","outcome":{"status":"ok","steps":2,"stopReason":"answer","text":"done"}}`
			same(t, "results", results(res)[1:], []string{ok, ok, `{"closed":true,"id":"x"}`})
		}
	})
}
