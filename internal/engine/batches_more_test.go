package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// throughBatches runs a recipe whose model m answers in batches that are over at once, until it ends. Every quarter of
// an hour it is swept.
func throughBatches(t *testing.T, text string, rt *runtime.Runtime) *workflow.Outcome {
	t.Helper()
	out, _ := runtest.Load(t, []byte("apiVersion: braise/v1\nname: x\n"+text)).Run(t.Context(), nil, rt)
	for i := 0; out.Status == workflow.StatusPaused && i < 20; i++ {
		out = later(t, rt, 15*time.Minute)
	}
	return out
}

// withDesk is a runtime whose model m answers in batches that are over at once.
func withDesk(d *desk) *runtime.Runtime {
	d.over = true
	return &runtime.Runtime{Models: map[string]runtime.Model{"m": d}, Store: &checkpoint.Memory{}}
}

// asksForTool is an answer that calls a tool.
func asksForTool(name, args string) runtime.BatchAnswer {
	return func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Finish: runtime.FinishCalls,
			ToolCalls: []runtime.ToolCall{{ID: "c1", Name: name, Arguments: json.RawMessage(args)}}}, nil
	}
}

// Each round of an agent is a request in a batch, with those of other agents, and of steps, that wait at the same time.
func TestAgentsInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(req *runtime.Request) runtime.BatchAnswer {
			if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
				return saysLater("so " + last.Text)
			} else if last.Text == "look" {
				return asksForTool("look.up", `{"word":"x"}`)
			} else {
				return saysLater("re: " + last.Text)
			}
		}}
		looked := 0
		rt := withDesk(d)
		rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "look.up"}, func(_ context.Context, in struct {
			Word string `json:"word"`
		}) (string, error) {
			looked++
			return in.Word + "!", nil
		})}
		out := throughBatches(t, `steps:
  a: {uses: agent, with: {agent: {model: m, tools: [look.up], approval: {"*": never}}, prompt: look}}
  b: {uses: agent, with: {agent: {model: m}, prompt: hi}}
  c: {uses: model, with: {model: m, prompt: ho}}
`, rt)
		if out.Status != workflow.StatusOK {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		texts := map[string]any{}
		for _, step := range []string{"a", "b", "c"} {
			texts[step] = out.Artefact[step].(map[string]any)["text"]
		}
		if diff := cmp.Diff(map[string]any{"a": "so x!", "b": "re: hi", "c": "re: ho"}, texts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{3, 1}, d.sizes()); diff != "" || looked != 1 {
			t.Errorf("%d calls of the tool; batches (-want +got):\n%s", looked, diff)
		}
		if out.Usage.Calls != 4 {
			t.Errorf("usage %+v", out.Usage)
		}
		d.asksTwice(t)
	})
}

// The round of an agent that expires is asked again, and an approval in between waits for a person.
func TestAgentInBatchesPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		d := &desk{answer: func(req *runtime.Request) runtime.BatchAnswer {
			if n++; n == 1 {
				return failure(retry.ServerError, 0, "expired")
			}
			if len(req.Messages) == 1 {
				return asksForTool("look.up", `{}`)
			}
			return saysLater("done")
		}}
		rt := withDesk(d)
		rt.Resume = resume.PassThrough{}
		rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "look.up"}, func(context.Context, struct{}) (string, error) { return "x", nil })}
		out, _ := runtest.Load(t, []byte(`apiVersion: braise/v1
name: x
steps:
  a:
    uses: agent
    with: {agent: {model: m, tools: [look.up], approval: {"*": pause}}, prompt: look}
    retry: {max_attempts: 2}
`)).Run(t.Context(), nil, rt)
		for out.Status == workflow.StatusPaused && out.Pauses[0].InBatch() {
			out = later(t, rt, time.Minute)
		}
		if out.Status != workflow.StatusPaused || out.Pauses[0].Token == "" {
			t.Fatalf("%s, %v, %+v", out.Status, out.Err, out.Pauses)
		}
		out, _ = workflow.Resume(t.Context(), out.Pauses[0].Token, map[string]any{"decision": "approve"}, rt, nil)
		for out.Status == workflow.StatusPaused {
			out = later(t, rt, time.Minute)
		}
		if out.Status != workflow.StatusOK || out.Artefact["a"].(map[string]any)["text"] != "done" {
			t.Errorf("%s, %v, %v", out.Status, out.Err, out.Artefact)
		}
		if diff := cmp.Diff([]int{1, 1, 1}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		d.asksTwice(t)
	})
}

// An answer that does not match its schema is repaired in the next batch, in the same conversation.
func TestRepairInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(req *runtime.Request) runtime.BatchAnswer {
			if len(req.Messages) == 1 {
				return saysLater("seven")
			}
			return saysLater(`{"n": 7}`)
		}}
		out := throughBatches(t, `steps:
  a:
    uses: model
    with: {model: m, prompt: how many}
    output: {schema: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}}
`, withDesk(d))
		if diff := cmp.Diff(map[string]any{"a": map[string]any{"n": int64(7)}}, out.Artefact); diff != "" {
			t.Errorf("%v (-want +got):\n%s", out.Err, diff)
		}
		if len(d.batches) != 2 || len(d.batches[1].Requests[0].Messages) != 3 {
			t.Errorf("batches %v", d.sizes())
		}
	})
}

// A batch is of the calls that are left when nothing else is to be done: it does not wait for people, but for calls.
func TestBatchesGather(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		sizes       []int
	}{
		{"after a call", "  slow: {uses: test.slow}\n  a: {uses: model, with: {model: m, prompt: a}}\n  b: {uses: model, needs: [slow], with: {model: m, prompt: b}}\n", []int{2}},
		{"not after a person", "  h: {uses: human, with: {prompt: ok, expires: 10m, on_expire: {set: {decision: approve}}}}\n  a: {uses: model, with: {model: m, prompt: a}}\n", []int{1}},
		{"bodies", "  each:\n    foreach: {in: [1, 2, 3]}\n    uses: recipe\n    with: {steps: {a: {uses: model, with: {model: m, prompt: \"a ${{ item }}\"}}}}\n", []int{3}},
		{"bodies, two at a time", "  each:\n    foreach: {in: [1, 2, 3], max_parallel: 2}\n    uses: recipe\n    with: {steps: {a: {uses: model, with: {model: m, prompt: \"a ${{ item }}\"}}}}\n", []int{2, 1}},
		{"two models", "  a: {uses: model, with: {model: m, prompt: a}}\n  b: {uses: model, with: {model: n, prompt: b}}\n  c: {uses: model, with: {model: m, prompt: c}}\n", []int{2, 1}},
		{"a round after the other", "  l: {uses: loop, with: {over: [1, 2], steps: {a: {uses: model, with: {model: m, prompt: a}}}}}\n", []int{1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{}
				rt := withDesk(d)
				rt.Models["n"] = d
				rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "test.slow", Effect: runtime.ReadOnly}, func(context.Context, struct{}) (string, error) {
					<-time.After(2 * time.Hour)
					return "", nil
				})}
				out := throughBatches(t, "steps:\n"+tt.steps, rt)
				sizes := d.sizes()
				slices.SortFunc(sizes, func(a, b int) int { return b - a }) // those of two models are sent at once
				if diff := cmp.Diff(tt.sizes, sizes); diff != "" || out.Status != workflow.StatusOK {
					t.Errorf("%s, %v; batches (-want +got):\n%s", out.Status, out.Err, diff)
				}
			})
		})
	}
}

// A model that answers in batches may be the fallback of another one, and have one.
func TestBatchesFallBack(t *testing.T) {
	down := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return nil, refusedWith(503) }}
	up := runtimetest.Texts("at once", "at once")
	for _, tt := range []struct {
		name string
		n    runtime.Model
		to   map[string][]string
		uses string
		fail bool
		want string
	}{
		{"to a batch", down, map[string][]string{"n": {"m"}}, "n", false, "re: hi"},
		{"from a batch", up, map[string][]string{"m": {"n"}}, "m", true, "at once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{}
				if tt.fail {
					d.answer = func(*runtime.Request) runtime.BatchAnswer { return failure(retry.ServerError, 500, "no") }
				}
				rt := withDesk(d)
				rt.Models["n"], rt.Fallbacks = tt.n, tt.to
				for kind, step := range map[string]string{"model": "model, with: {model: " + tt.uses, "agent": "agent, with: {agent: {model: " + tt.uses + "}"} {
					d.batches, rt.Store = nil, &checkpoint.Memory{}
					out := throughBatches(t, "steps:\n  a: {uses: "+step+", prompt: hi}}\n", rt)
					if out.Status != workflow.StatusOK || out.Artefact["a"].(map[string]any)["text"] != tt.want || len(d.batches) != 1 {
						t.Errorf("%s: %s, %v, %v, %d batches", kind, out.Status, out.Err, out.Artefact, len(d.batches))
					}
				}
			})
		})
	}
}

// Whoever cannot wait is told so.
func TestNoBatch(t *testing.T) {
	for name, rt := range map[string]*runtime.Runtime{
		"a store":     {},
		"begin again": {Store: &checkpoint.Memory{}, Interrupt: resume.Restart, Resume: resume.PassThrough{}},
	} {
		d := &desk{}
		rt.Models = map[string]runtime.Model{"m": d}
		out, _ := runtest.Load(t, []byte(askBoth)).Run(t.Context(), nil, rt)
		if runtest.ErrorCode(out) != "model.noBatch" || !strings.Contains(out.Err.Error(), name) || d.batches != nil {
			t.Errorf("%s: %s, %v", name, out.Status, out.Err)
		}
	}
}

// A batch for which nobody waits any more is cancelled; one that others wait for is not.
func TestBatchIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		d.over = false
		wf := runtest.Load(t, []byte(askBoth))
		out, _ := wf.Run(t.Context(), nil, rt)
		if out, _ = workflow.Cancel(t.Context(), out.RunID, "enough", rt, nil); out.Status != workflow.StatusCancelled {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		if diff := cmp.Diff([]string{"batch_1"}, d.cancelled); diff != "" {
			t.Errorf("cancelled (-want +got):\n%s", diff)
		}

		rt.Resume = resume.PassThrough{}
		out, _ = runtest.Load(t, []byte(`apiVersion: braise/v1
name: x
steps:
  f:
    uses: fork
    with:
      mode: race
      branches:
        slow: {steps: {a: {uses: model, with: {model: m, prompt: a}}}}
        fast: {steps: {h: {uses: human, with: {prompt: ok}}}}
  b: {uses: model, with: {model: m, prompt: b}}
`)).Run(t.Context(), nil, rt)
		i := 0
		for out.Pauses[i].Kind != resume.Human {
			i++
		}
		out, _ = workflow.Resume(t.Context(), out.Pauses[i].Token, map[string]any{"decision": "approve"}, rt, nil)
		if out.Status != workflow.StatusPaused || len(out.Pauses) != 1 || len(d.cancelled) != 1 {
			t.Errorf("%s, %v, %+v, cancelled %v", out.Status, out.Err, out.Pauses, d.cancelled)
		}
		d.over = true
		if out = later(t, rt, time.Hour); out.Status != workflow.StatusOK || len(d.cancelled) != 1 {
			t.Errorf("%s, %v, %+v, cancelled %v", out.Status, out.Err, out.Pauses, d.cancelled)
		}
	})
}

// What a call that waits may use is reserved: the next one is refused. What it has used counts when it is over.
func TestBatchesAndBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		rt.Prices = map[string]runtime.Price{"m": {Input: 1, Output: 2}}
		text := `limits: {tokens: 1500}
steps:
  a: {uses: model, with: {model: m, prompt: a, max_tokens: 1000}}
  h: {uses: human, with: {prompt: ok}}
  b: {uses: model, needs: [h], with: {model: m, prompt: b, max_tokens: 1000}}
`
		rt.Resume = resume.PassThrough{}
		wf := runtest.Load(t, []byte("apiVersion: braise/v1\nname: x\n"+text))
		run := func() *workflow.Outcome {
			out, _ := wf.Run(t.Context(), nil, rt)
			if out.Status != workflow.StatusPaused {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
			return out
		}
		answer := func(out *workflow.Outcome) *workflow.Outcome {
			out, _ = workflow.Answer(t.Context(), out.RunID, "h", map[string]any{"decision": "approve"}, rt, nil)
			return out
		}
		if out := answer(run()); runtest.ErrorCode(out) != "limits.tokens" || len(d.cancelled) != 1 {
			t.Errorf("%s, %v, cancelled %v", out.Status, out.Err, d.cancelled)
		}
		run()
		out := later(t, rt, time.Minute) // a is answered: it has used 15 tokens
		if out = answer(out); out.Status != workflow.StatusPaused || len(d.batches) != 3 {
			t.Fatalf("%s, %v, %d batches", out.Status, out.Err, len(d.batches))
		}
		if out = later(t, rt, time.Minute); out.Status != workflow.StatusOK || out.Usage.CostUSD != 4e-5 {
			t.Errorf("%s, %v, %+v", out.Status, out.Err, out.Usage)
		}
	})
}

// Whoever answers the pause of a call that waits has its batch looked at earlier.
func TestLookNow(t *testing.T) {
	d := &desk{}
	rt := withDesk(d)
	rt.Resume = resume.PassThrough{}
	out, _ := runtest.Load(t, []byte(manyOf(3))).Run(t.Context(), nil, rt)
	d.over = false
	out, _ = workflow.Answer(t.Context(), out.RunID, out.Pauses[2].ID, nil, rt, nil)
	if out.Status != workflow.StatusPaused || len(out.Pauses) != 3 || d.polls != 1 {
		t.Fatalf("%s with %d pauses, %v", out.Status, len(out.Pauses), out.Err)
	}
	d.over = true
	out, _ = workflow.Answer(t.Context(), out.RunID, out.Pauses[1].ID, nil, rt, nil)
	if out.Status != workflow.StatusOK || len(d.batches) != 1 {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
}

// A hook may keep one request back. The others are sent.
func TestHooksOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		var told []string
		rt.Plugins = []runtime.Plugin{{Key: "p", Hooks: runtime.Hooks{
			runtime.ModelBefore: func(_ context.Context, m runtime.Moment) error {
				if m.Step == "b" {
					return fmt.Errorf("not %s", m.Step)
				}
				return nil
			},
			runtime.ModelAfter: func(_ context.Context, m runtime.Moment) error {
				told = append(told, m.Step+" "+m.Response.Text)
				return nil
			},
		}}}
		text := strings.Replace(askBoth, "  b: {", "  b: {on_error: {set: kept}, ", 1)
		out := throughBatches(t, strings.SplitN(text, "name: both\n", 2)[1], rt)
		if out.Status != workflow.StatusOK || out.Artefact["b"] != "kept" {
			t.Errorf("%s, %v, %v", out.Status, out.Err, out.Artefact)
		}
		if diff := cmp.Diff([]string{"a re: first"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}
