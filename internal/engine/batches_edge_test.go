package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// A process that drains sends nothing any more. The next one sends all of it together.
func TestDrainBeforeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		drain := make(chan struct{})
		rt.Drain = drain
		rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "test.slow", Effect: runtime.ReadOnly}, func(context.Context, struct{}) (string, error) {
			close(drain)
			<-time.After(time.Second)
			return "", nil
		})}
		out, _ := runtest.Load(t, []byte(askBoth+"  slow: {uses: test.slow}\n")).Run(t.Context(), nil, rt)
		if d.batches != nil {
			t.Errorf("%s, %v, batches %v", out.Status, out.Err, d.sizes())
		}
		rt.Drain, rt.Tools = nil, []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "test.slow", Effect: runtime.ReadOnly}, func(context.Context, struct{}) (string, error) { return "", nil })}
		out, _ = workflow.Recover(t.Context(), out.RunID, rt, nil)
		if out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		if out = later(t, rt, time.Minute); out.Status != workflow.StatusOK {
			t.Errorf("%s, %v", out.Status, out.Err)
		}
		if diff := cmp.Diff([]int{2}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// Somebody stops the process while it sends a batch. It was sent, or was not.
func TestStoppedWhileSending(t *testing.T) {
	for _, taken := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			d := &desk{submit: func(int) (bool, error) {
				stop()
				return taken, ctx.Err()
			}}
			rt := withDesk(d)
			out, _ := runtest.Load(t, []byte(askBoth)).Run(ctx, nil, rt)
			if out.Status != workflow.StatusCancelled {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
			d.submit = nil
			out, _ = workflow.Recover(t.Context(), out.RunID, rt, nil)
			if out.Status != workflow.StatusPaused || d.finds != 1 || len(d.batches) != 1 {
				t.Fatalf("%s, %v, %d finds, %d batches", out.Status, out.Err, d.finds, len(d.batches))
			}
			if out = later(t, rt, time.Minute); out.Status != workflow.StatusOK {
				t.Errorf("%s, %v", out.Status, out.Err)
			}
			d.asksTwice(t)
		})
	}
}

// Somebody stops the process while it looks at a batch: it is waited for, and not cancelled.
func TestStoppedWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		out, _ := runtest.Load(t, []byte(askBoth)).Run(t.Context(), nil, rt)
		ctx, stop := context.WithCancel(t.Context())
		d.poll = func(int) error {
			stop()
			return ctx.Err()
		}
		<-time.After(time.Minute)
		if out, _ = workflow.Recover(ctx, out.RunID, rt, nil); out.Status != workflow.StatusCancelled {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		d.poll = nil
		out, _ = workflow.Recover(t.Context(), out.RunID, rt, nil)
		if out.Status != workflow.StatusOK || d.cancelled != nil || len(d.batches) != 1 {
			t.Errorf("%s, %v, %d batches, cancelled %v", out.Status, out.Err, len(d.batches), d.cancelled)
		}
	})
}

// A model that no longer answers in batches is not asked again while one is open: that was paid.
func TestNoLongerInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		if out, _ := runtest.Load(t, []byte(askBoth)).Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, out.Err)
		}
		rt.Models["m"] = runtimetest.Texts()
		out := later(t, rt, time.Minute)
		if out.Status != workflow.StatusPaused || len(out.Pauses) != 2 || !strings.Contains(out.Pauses[0].Prompt, "no longer answers in batches") {
			t.Fatalf("%s, %v, %+v", out.Status, out.Err, out.Pauses)
		}
		rt.Models["m"] = d
		if out = later(t, rt, time.Minute); out.Status != workflow.StatusOK || len(d.batches) != 1 {
			t.Errorf("%s, %v, %d batches", out.Status, out.Err, len(d.batches))
		}
	})
}

// A request that is too long is sent again with a summary, in the next batches.
func TestTooLongInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		d.answer = func(req *runtime.Request) runtime.BatchAnswer {
			switch {
			case len(req.Tools) == 0:
				return saysLater("a summary")
			case len(d.batches) == 3:
				return func(context.Context, *runtime.Request) (*runtime.Response, error) {
					return nil, &retry.Failure{Status: 400, Sent: true, Err: &runtime.Error{Category: runtime.CategoryModel, Code: "model.tooLong", Err: errors.New("too long")}}
				}
			case len(d.batches) < 3:
				return asksForTool("look.up", "{}")
			}
			return saysLater("done")
		}
		rt := withDesk(d)
		rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "look.up"}, func(context.Context, struct{}) (string, error) { return "x", nil })}
		out := throughBatches(t, `steps:
  a: {uses: agent, with: {agent: {model: m, tools: [look.up], approval: {"*": never}, compact: {above: 100000, keep: 1}}, prompt: look}}
`, rt)
		if out.Status != workflow.StatusOK || out.Artefact["a"].(map[string]any)["text"] != "done" || len(d.batches) != 5 {
			t.Errorf("%s, %v, %v, batches %v", out.Status, out.Err, out.Artefact, d.sizes())
		}
		d.asksTwice(t)
	})
}

// Delegates that work at the same time wait in one batch, and so does the summary of an agent.
func TestDelegatesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		rt.Models["n"] = &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
			if req.Messages[len(req.Messages)-1].Role == runtime.ToolRole {
				var said []string
				for _, m := range req.Messages {
					if m.Role == runtime.ToolRole {
						said = append(said, m.Text)
					}
				}
				return &runtime.Response{Text: strings.Join(said, "; ")}, nil
			}
			return &runtime.Response{Finish: runtime.FinishCalls, ToolCalls: []runtime.ToolCall{
				{ID: "1", Name: req.Tools[0].Name, Arguments: []byte(`{"task":"one"}`)}, {ID: "2", Name: req.Tools[0].Name, Arguments: []byte(`{"task":"two"}`)}}}, nil
		}}
		out := throughBatches(t, `steps:
  a: {uses: agent, with: {agent: boss, prompt: go}}
agents:
  boss: {model: n, delegates: [help], tools: [], tool_concurrency: 2}
  help: {model: m, description: helps}
`, rt)
		if out.Status != workflow.StatusOK || out.Artefact["a"].(map[string]any)["text"] != "re: one; re: two" {
			t.Errorf("%s, %v, %v", out.Status, out.Err, out.Artefact)
		}
		if diff := cmp.Diff([]int{2}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		d.asksTwice(t)
	})
}

// An agent whose conversation grows too long asks for a summary, in a batch of its own, before it goes on.
func TestSummaryInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, summaries := 0, 0
		d := &desk{answer: func(req *runtime.Request) runtime.BatchAnswer {
			if len(req.Tools) == 0 {
				summaries++
				return saysLater("a summary")
			}
			if n++; n < 3 {
				return asksForTool("look.up", "{}")
			}
			return saysLater("done")
		}}
		rt := withDesk(d)
		rt.Tools = []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "look.up"}, func(context.Context, struct{}) (string, error) {
			return strings.Repeat("long ", 2000), nil
		})}
		out := throughBatches(t, `steps:
  a: {uses: agent, with: {agent: {model: m, tools: [look.up], approval: {"*": never}, compact: {above: 500, keep: 1}}, prompt: look}}
`, rt)
		if out.Status != workflow.StatusOK || out.Artefact["a"].(map[string]any)["text"] != "done" || summaries != 1 {
			t.Errorf("%s, %v, %v, %d summaries", out.Status, out.Err, out.Artefact, summaries)
		}
		if diff := cmp.Diff([]int{1, 1, 1, 1}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		d.asksTwice(t)
	})
}

// What batches may cost on a day is reserved when they are sent, and settled when they are over.
func TestBatchesOnTheirDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		rt.Prices = map[string]runtime.Price{"m": {Input: 1, Output: 1_000_000}} // an answer of 5 tokens costs $5
		rt.Budget = runtime.Budget{CostUSDPerDay: 25}
		text := `steps:
  a: {uses: model, with: {model: m, prompt: a, max_tokens: 10}}
  b: {uses: model, on_error: {set: none}, with: {model: m, prompt: b, max_tokens: 10}}
  c: {uses: model, on_error: {set: none}, with: {model: m, prompt: c, max_tokens: 10}}
`
		out := throughBatches(t, text, rt)
		if out.Status != workflow.StatusOK || out.Artefact["c"] != "none" || out.Usage.Calls != 2 {
			t.Errorf("%s, %v, %v, %+v", out.Status, out.Err, out.Artefact, out.Usage)
		}
		out = throughBatches(t, text, rt) // $15 are left: one of them fits
		if out.Status != workflow.StatusOK || out.Artefact["b"] != "none" || out.Usage.Calls != 1 {
			t.Errorf("%s, %v, %v, %+v", out.Status, out.Err, out.Artefact, out.Usage)
		}
		if diff := cmp.Diff([]int{2, 1}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// A finally may wait for a batch, too.
func TestFinallyInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		out := throughBatches(t, `steps:
  a: {uses: model, with: {model: m, prompt: a}}
finally:
  z: {uses: model, with: {model: m, prompt: z}}
`, withDesk(d))
		if out.Status != workflow.StatusOK || len(out.Diagnostics) > 0 {
			t.Errorf("%s, %v, %v", out.Status, out.Err, out.Diagnostics)
		}
		if diff := cmp.Diff([]int{1, 1}, d.sizes()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// A run that fails while a call waits has its batch cancelled.
func TestBatchOfFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		rt := withDesk(d)
		d.over = false
		out, _ := runtest.Load(t, []byte("apiVersion: braise/v1\nname: x\nsteps:\n"+
			"  h: {uses: human, with: {prompt: ok, expires: 10m, on_expire: fail}}\n  a: {uses: model, with: {model: m, prompt: a}}\n")).Run(t.Context(), nil, rt)
		for out.Status == workflow.StatusPaused {
			out = later(t, rt, 15*time.Minute)
		}
		if runtest.ErrorCode(out) != "pause.expired" || fmt.Sprint(d.cancelled) != "[batch_1]" {
			t.Errorf("%s, %v, cancelled %v", out.Status, out.Err, d.cancelled)
		}
	})
}

// What is more than fits into one batch is sent as several.
func TestLargeBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("it has 12,000 calls")
	}
	d := &desk{over: true}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": d}, Store: &checkpoint.Memory{}}
	step := `    foreach: {in: "${{ 1..6000 }}"}
    uses: model
    with: {model: m, prompt: "q ${{ item }}"}
`
	out, _ := runtest.Load(t, []byte("apiVersion: braise/v1\nname: x\nsteps:\n  a:\n"+step+"  b:\n"+step)).Run(t.Context(), nil, rt)
	sizes := d.sizes() // they are sent at once
	slices.Sort(sizes)
	if diff := cmp.Diff([]int{2_000, 10_000}, sizes); diff != "" || out.Status != workflow.StatusPaused {
		t.Errorf("%s, %v; batches (-want +got):\n%s", out.Status, out.Err, diff)
	}
	d.asksTwice(t)
}
