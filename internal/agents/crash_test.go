package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

// scene is a loop with tools of every effect, a delegate, a human, a sub-agent and approvals, whose
// model answers by what it sees: the same in every process.
type scene struct {
	loop  *agentloop.Loop
	host  *runtime.Runtime
	quiet bool
	in    input          // how it is driven
	trace []trace.Event  // of all executions
	world map[string]int // what was done to the world, by tool and idempotency key
}

func newScene(concurrency int) *scene {
	s := &scene{world: map[string]int{}, in: input{Pick: rand.IntN}}
	do := func(name string, effect runtime.Effect) *runtimetest.Tool {
		return &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: name, Effect: effect}, Func: func(ctx context.Context, _ json.RawMessage) (any, error) {
			s.world[name+" "+resume.IdempotencyKey(ctx)]++
			return name + " done", nil
		}}
	}
	script := map[string][][]string{
		"m": {{`t.read`, `t.send {"n":1}`, `t.put`, `delegate_dig {"task":"x"}`, `human.ask {"question":"?"}`},
			{`agent.spawn {"id":"kid"}`, `agent.send {"id":"kid","text":"go"}`, `t.gated`}, {`t.send {"n":2}`, `agent.close {"id":"kid"}`}},
		"c": {{`t.send`, `t.read`}},
	}
	answer := &runtimetest.Model{Func: func(_ context.Context, r *runtime.Request) (*runtime.Response, error) {
		rounds := 0
		for _, m := range r.Messages {
			if len(m.ToolCalls) > 0 {
				rounds++
			}
		}
		list := script[r.Model]
		if strings.Contains(r.Step, "kid") {
			list = script["c"]
		}
		resp := &runtime.Response{Text: fmt.Sprintf("%s after %d rounds", r.Model, rounds), Usage: runtime.Usage{InputTokens: 1, OutputTokens: 1}}
		if rounds < len(list) {
			resp.ToolCalls = says("", list[rounds]...).ToolCalls
		}
		return resp, nil
	}}
	s.loop = &agentloop.Loop{Name: "boss", Model: "m", ToolConcurrency: concurrency,
		Tools:     []string{"human.ask", "t.read", "t.send", "t.put", "t.gated"},
		Approval:  map[string]agentloop.Approval{"t.gated": agentloop.ApprovePause},
		Delegates: map[string]*agentloop.Loop{"dig": {Tools: agentloop.AllTools, Model: "c", MaxSubagents: -1}}}
	s.host = models(map[string]runtime.Model{"m": answer, "c": answer}, do("t.read", runtime.ReadOnly), do("t.send", ""), do("t.put", runtime.Idempotent), do("t.gated", runtime.External))
	return s
}

// drive runs the scene to its end, answering each pause with what really happened.
func (s *scene) drive(t *testing.T, events []agents.Event) (*agents.Ran, *journal) {
	var answers []agents.Answer
	for range 20 {
		j := after(t, events)
		j.quiet = s.quiet
		s.in.Journal, s.in.Answers = j, answers
		res, err := run(t, s.loop, s.in, s.host)
		if s.trace = append(s.trace, res.Trace...); err == nil {
			return res, j
		}
		p, ok := errors.AsType[*agents.PauseError](err)
		if !ok {
			t.Fatal(err)
		}
		events, answers = j.events, nil
		for _, p := range p.Pauses {
			v := object{"answer": "42"}
			switch p.For {
			case agents.ForApproval:
				v = object{"decision": "approve", "form": object{"scope": "session"}}
			case agents.Indeterminate:
				state, _ := agents.Fold(events)
				for _, name := range strings.Split(p.Frame, "/") {
					if name != "" {
						state = *state.Children[name]
					}
				}
				v = object{"decision": "retry"}
				if key := p.Tool + " " + resume.Key("run1", 1, p.Step, p.Call, ""); s.world[key] > 0 {
					v = object{"decision": "result", "form": p.Tool + " done"}
				}
			}
			answers = append(answers, agents.Answer{Pause: p.ID, Value: v})
		}
	}
	t.Fatal("it does not end")
	return nil, nil
}

// outcome is what must be the same however a run came to its end.
func outcome(t *testing.T, res *agents.Ran) []string {
	calls := res.Calls
	for i := range calls {
		calls[i].Pauses, calls[i].For, calls[i].Answer = 0, "", nil // how often somebody was asked
	}
	return []string{res.Text, canonical(t, calls), canonical(t, res.Messages), snapshot(t, res)}
}

// Equal runs are equal to the byte, whatever overlaps.
func TestSameRunAgain(t *testing.T) {
	var want []string
	for i := range 100 {
		s := newScene(1 + i%2*7)
		s.quiet = true
		res, _ := s.drive(t, nil)
		got := append(outcome(t, res), lines(s.trace)...)
		for _, e := range s.trace {
			if e.Kind == trace.LoopSnapshot {
				got = append(got, e.Step+canonical(t, e.Data))
			}
		}
		if want == nil {
			want = got
		}
		if same(t, fmt.Sprintf("run %d", i), got, want); t.Failed() {
			return
		}
	}
}

func TestCrash(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		whole := newScene(concurrency)
		res, j := whole.drive(t, nil)
		want := outcome(t, res)
		if len(j.events) < 50 {
			t.Fatalf("%d events", len(j.events))
		}
		seen := map[string]int{}
		for _, e := range whole.trace {
			if e.Kind == trace.ToolStart || e.Kind == trace.ToolEnd {
				seen[fmt.Sprint(e.Step, e.Data.Get("call"), e.Kind)]++
			}
		}
		for what, n := range seen { // rule 7
			if n != 1 {
				t.Errorf("%s: %d times", what, n)
			}
		}
		same(t, "starts and ends", len(seen), 2*14)
		// The process dies after each event, before what the event announces is done, or after it; and
		// what the journal need not have kept by then is lost, or not.
		for n := range len(j.events) + 1 {
			kept := n
			for kept > 0 && !j.events[kept-1].Barrier() {
				kept--
			}
			for _, how := range []struct {
				done bool
				kept int
			}{{false, n}, {true, n}, {false, kept}, {true, kept}} {
				s := newScene(concurrency)
				s.quiet = true // the whole run has been looked at
				for key, times := range worldAfter(t, j.events[:n], how.done) {
					s.world[key] = times
				}
				res, _ := s.drive(t, j.events[:how.kept])
				name := fmt.Sprintf("concurrency %d, %d events, %+v", concurrency, n, how)
				same(t, name, outcome(t, res), want)
				for key, times := range s.world {
					if times > 1 && (strings.HasPrefix(key, "t.send") || strings.HasPrefix(key, "t.gated")) {
						t.Errorf("%s: %s was called %d times", name, key, times)
					}
					if whole.world[key] == 0 {
						t.Errorf("%s: %s is a new key", name, key)
					}
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// worldAfter is what has been done to the world when these events are recorded; done says whether what
// had begun last has happened.
func worldAfter(t *testing.T, events []agents.Event, done bool) map[string]int {
	world := map[string]int{}
	state, err := agents.Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s *agents.State)
	walk = func(path string, s *agents.State) {
		for i, c := range s.Calls {
			if strings.HasPrefix(c.Name, "t.") && (c.Done && c.Code == "" || c.Open && done) {
				world[c.Name+" "+resume.Key("run1", 1, path, i+1, "")]++
			}
		}
		for name, child := range s.Children {
			walk(path+"/"+name, child)
		}
	}
	walk("step", &state)
	return world
}

func TestRecovery(t *testing.T) {
	// begun returns the journal of a run that died over its first call.
	begun := func(t *testing.T, l *agentloop.Loop, in input, rt *runtime.Runtime, last agents.Kind) []agents.Event {
		t.Helper()
		j := after(t, nil)
		in.Journal = j
		_, _ = run(t, l, in, rt)
		for n, e := range j.events {
			if e.Kind == last {
				return j.events[:n+1]
			}
		}
		t.Fatalf("no %s in %v", last, j.kinds())
		return nil
	}
	t.Run("8 start", func(t *testing.T) {
		events := begun(t, simple(), input{}, host(model(says("done"))), agents.Started)
		res := must(t, simple(), input{Journal: after(t, events)}, host(model(says("done"))))
		same(t, "steps", res.Steps, 1)
	})
	t.Run("8 a model call that was begun", func(t *testing.T) {
		l := simple()
		l.MaxSteps = 1
		events := begun(t, l, input{}, host(model(says("done"))), agents.ModelBegan)
		for n := range 7 {
			j, m := after(t, events), &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
				return &runtime.Response{Text: "done", Usage: runtime.Usage{InputTokens: 5}}, nil
			}}
			res, err := run(t, l, input{Journal: j}, host(m))
			if n == 5 { // this would be the sixth
				failed(t, err, runtime.CategoryModel, "model.interrupted", "interrupted 6 times")
				same(t, "requests", len(m.Requests()), 0)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, "result", fmt.Sprint(res.Text, res.Steps, res.Usage.InputTokens), "done1 5")
			events = j.events[:len(events)+1]
			same(t, "last", events[len(events)-1].Kind, agents.ModelAgain)
		}
	})
	t.Run("8 permission granted", func(t *testing.T) {
		for _, d := range []runtime.ApprovalDecision{{Allow: true}, {Reason: "not today"}} {
			l, in, a := simple(), input{}, tool("t.a", "", "A")
			l.Approval = map[string]agentloop.Approval{"*": agentloop.ApproveAlways}
			in.Approver = approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) { return d, nil })
			events := begun(t, l, in, host(model(says("", "t.a"), says("done")), tool("t.a", "", 1)), agents.Permission)
			res := must(t, l, input{Journal: after(t, events)}, host(model(says("done")), a)) // nobody is asked again
			same(t, "results", results(res), []string{map[bool]string{true: "A", false: `error: tool "t.a" needs an approval: not today`}[d.Allow]})
		}
	})
	t.Run("8 a tool that was begun", func(t *testing.T) {
		for _, tt := range []struct {
			effect   runtime.Effect
			report   bool
			decision string
			want     string
			calls    int
		}{
			{effect: runtime.ReadOnly, want: "A", calls: 1},
			{effect: runtime.Idempotent, want: "A", calls: 1},
			{effect: runtime.External, report: true, want: `error: tool "t.a" was called, and it is not known whether the call had its effect. It was not made again.`},
			{effect: runtime.External, decision: "retry", want: "A", calls: 1},
			{effect: "", decision: "result", want: `{"said":1}`},
			{effect: "", decision: "fail"},
		} {
			l := simple()
			l.ReportIndeterminate = tt.report
			key := ""
			a := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "t.a", Effect: tt.effect}, Func: func(ctx context.Context, _ json.RawMessage) (any, error) {
				key = resume.IdempotencyKey(ctx)
				return "A", nil
			}}
			j := after(t, begun(t, l, input{}, host(model(says("", "t.a"), says("done")), a), agents.ToolBegan))
			first := key
			in, rt := input{Journal: j}, host(model(says("done")), a)
			if tt.decision != "" {
				p := paused(t, l, in, rt)
				same(t, "pause", []any{p[0].For, p[0].Reason, p[0].Decisions, string(p[0].Kind)}, []any{"indeterminate", "indeterminate", []string{"retry", "result", "fail"}, "system"})
				same(t, "calls", len(a.Calls()), 1)
				in.Journal, in.Answers = after(t, j.events), []agents.Answer{{Pause: p[0].ID, Value: object{"decision": tt.decision, "form": map[string]any{"result": object{"said": 1}}[tt.decision]}}}
			}
			res, err := run(t, l, in, rt)
			if tt.decision == "fail" {
				failed(t, err, runtime.CategoryTool, "tool.indeterminate", "")
			} else if err != nil {
				t.Fatal(err)
			} else {
				same(t, tt.decision, results(res), []string{tt.want})
			}
			if len(a.Calls()) != 1+tt.calls || key != first || first == "" {
				t.Errorf("%s %s: %d calls, keys %s and %s", tt.effect, tt.decision, len(a.Calls()), first, key)
			}
		}
	})
	t.Run("8 all results", func(t *testing.T) {
		a := tool("t.a", "", "A")
		events := begun(t, simple(), input{}, host(model(says("", "t.a"), says("done")), a), agents.ToolEnded)
		res := must(t, simple(), input{Journal: after(t, events)}, host(model(says("done")), a))
		same(t, "result", []any{res.Text, len(a.Calls())}, []any{"done", 1})
	})
	t.Run("8 the end", func(t *testing.T) {
		m, j := model(says("done")), after(t, nil)
		l := simple()
		must(t, l, input{Journal: j}, host(m))
		again := after(t, j.events)
		res := must(t, l, input{Journal: again}, host(m))
		same(t, "result", []any{res.Text, res.Steps, len(m.Requests()), len(again.events)}, []any{"done", 1, 1, len(j.events)})
	})
	t.Run("8 an unknown outcome of a live call", func(t *testing.T) {
		a := runtimetest.NewTool("t.a", func(context.Context, json.RawMessage) (any, error) { return nil, context.DeadlineExceeded })
		p := paused(t, simple(), input{}, host(model(says("", "t.a")), a))
		same(t, "pause", p[0].For, agents.Indeterminate)
	})
}

// A loop that is cancelled goes on later as if nothing had happened.
func TestCancelAnywhere(t *testing.T) {
	whole := newScene(1)
	res, j := whole.drive(t, nil)
	want := outcome(t, res)
	for n := range j.events {
		for _, concurrency := range []int{1, 8} {
			s := newScene(concurrency)
			s.quiet = true
			ctx, cancel := context.WithCancel(t.Context())
			first := after(t, j.events[:0])
			first.fail = func(e agents.Event) error {
				if e.Seq == int64(n)+1 {
					cancel()
				}
				return nil
			}
			res, err := runIn(ctx, t, s.loop, input{Journal: first, Pick: rand.IntN}, s.host)
			cancel()
			if _, paused := errors.AsType[*agents.PauseError](err); !paused {
				failed(t, err, runtime.CategoryCancelled, "step.cancelled", "context canceled")
				same(t, "stop reason", res.StopReason, agentloop.StopCancelled)
			}
			res, _ = s.drive(t, first.events)
			same(t, fmt.Sprintf("cancelled at event %d, concurrency %d", n+1, concurrency), outcome(t, res), want)
			for key, times := range s.world {
				if times != 1 && !strings.HasPrefix(key, "t.read") && !strings.HasPrefix(key, "t.put") || whole.world[key] == 0 {
					t.Errorf("%s: %d times", key, times)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}
