package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// serve.md 15.1: what models may cost in a day counts over all runs of a store, also of its agents. One dollar a token.
func TestDay(t *testing.T) {
	agentsOfDay := "agents: {a: {model: m, tools: [], max_tokens: 40}}\n"
	for name, step := range map[string]string{
		"a model":  askM + "}",
		"an agent": "{uses: agent, with: {agent: a, prompt: hi}}",
	} {
		for _, pause := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { // it is midnight
				rt := runtest.Budgeted(runtest.Using(10))
				rt.Prices = map[string]runtime.Price{"m": {Input: 1e6, Output: 1e6}}
				rt.Budget = runtime.Budget{CostUSDPerDay: 1000, Pause: pause}
				if strings.Contains(step, "agent") {
					rt.Budget.CostUSDPerDay = 2000
				}
				wf := runtest.Load(t, []byte(runtest.Head+agentsOfDay+"steps:\n  ask: "+step+"\noutput: ok\n"))
				n := 0
				var out *workflow.Outcome
				for ; n < 300; n++ {
					if out, _ = wf.Run(t.Context(), nil, rt); out.Status != workflow.StatusOK {
						break
					}
				}
				if n < 90 || n == 300 { // of 10 tokens each; what a call may use is reserved before
					t.Fatalf("%s: %d runs, then %s, %v", name, n, out.Status, out.Err)
				}
				const why = "limits.cost_usd_per_day"
				if !pause {
					if e := out.Failure(); e == nil || e.Code != "limit.day" || e.Category != runtime.CategoryLimit || e.Step != "ask" || !strings.Contains(e.Error(), why) {
						t.Errorf("%s: %s, %v", name, out.Status, out.Err)
					}
					return
				}
				midnight := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
				p := out.Pauses[0]
				if out.Status != workflow.StatusPaused || p.Kind != resume.System || p.Reason != "limit.day" || !p.RetryAt.Equal(midnight) || !strings.Contains(p.Prompt, why) {
					t.Fatalf("%s: %s, %+v", name, out.Status, out.Pauses)
				}
				// An answer asks again, and nothing has changed.
				out, _ = workflow.Answer(t.Context(), out.RunID, p.ID, nil, rt, nil)
				if out.Status != workflow.StatusPaused || out.Pauses[0].Reason != "limit.day" {
					t.Fatalf("%s, answered: %s, %v", name, out.Status, out.Err)
				}
				time.Sleep(time.Until(midnight) - time.Second)
				if early, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(early) != 0 {
					t.Errorf("%s: before the day begins: %v, %v", name, early, err)
				}
				time.Sleep(time.Second)
				swept, _ := workflow.Sweep(t.Context(), rt, nil)
				if len(swept) != 1 || swept[0].Status != workflow.StatusOK {
					t.Errorf("%s, on the next day: %+v", name, swept)
				}
			})
		}
	}
}

// A limit of a label is for the runs with each value of it; a run goes on in another process with its labels.
func TestDayOfALabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := runtest.Budgeted(runtest.Using(10))
		rt.Prices = map[string]runtime.Price{"m": {Input: 1e6, Output: 1e6}}
		rt.Budget = runtime.Budget{PerLabel: map[string]float64{"tenant": 50}} // one call may use 41 tokens
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: "+askM+"}\n  more: "+askM+", needs: [ask], on_error: continue}\noutput: ${{ [steps.ask.status, steps.more.error?.message] }}\n"))
		run := func(labels map[string]string) *workflow.Outcome {
			id, err := wf.Enqueue(t.Context(), nil, rt, &workflow.EnqueueOptions{Labels: labels})
			if err != nil {
				t.Fatal(err)
			}
			out, _ := workflow.Recover(t.Context(), id, rt, nil)
			return out
		}
		first := run(map[string]string{"tenant": "acme"}) // 10 are used, 41 more would be 51
		if diff := cmp.Diff([]any{"succeeded", `model "m" is not called: it may cost $41, and limits.per_label.tenant is 50, of which ` +
			"10 are used or reserved on 2000-01-01 (UTC) by runs with the label tenant=acme"}, first.Output); diff != "" {
			t.Errorf("%v (-want +got)\n%s", first.Err, diff)
		}
		if out := run(map[string]string{"tenant": "acme"}); out.Failure() == nil || out.Failure().Code != "limit.day" {
			t.Errorf("again: %s, %v", out.Status, out.Err)
		}
		for _, labels := range []map[string]string{{"tenant": "other"}, {"team": "acme"}, nil} {
			if out := run(labels); out.Status != workflow.StatusOK {
				t.Errorf("%v: %s, %v", labels, out.Status, out.Err)
			}
		}
	})
}

// Limits of a day need a store, and each model a price.
func TestDayRefused(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: "+askM+"}\n"))
	for code, change := range map[string]func(*runtime.Runtime){
		"limit.noStore":   func(rt *runtime.Runtime) { rt.Store = nil },
		"price.missing":   func(rt *runtime.Runtime) { rt.Prices = nil },
		"runtime.invalid": func(rt *runtime.Runtime) { rt.Budget.PerLabel = map[string]float64{"a": 0} },
	} {
		rt := runtest.Budgeted(runtest.Using(10))
		rt.Prices, rt.Budget.CostUSDPerDay = map[string]runtime.Price{"m": {Input: 1, Output: 1}}, 5
		change(rt)
		if out, _ := wf.Run(t.Context(), nil, rt); out.Failure() == nil || out.Failure().Code != code {
			t.Errorf("%s: %s, %v", code, out.Status, out.Err)
		}
	}
	// What the store cannot count is not called.
	rt := runtest.Budgeted(runtest.Using(10))
	rt.Prices, rt.Budget.CostUSDPerDay = map[string]runtime.Price{"m": {Input: 1, Output: 1}}, 5
	store := rt.Store.(*checkpoint.Memory)
	for _, day := range []time.Duration{0, time.Minute} {
		if err := store.PutDocument(t.Context(), "cost/"+time.Now().UTC().Add(day).Format(time.DateOnly), checkpoint.Document{Name: "all", Text: "?"}); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := wf.Run(t.Context(), nil, rt); out.Status != workflow.StatusError || !strings.Contains(out.Err.Error(), "what models have cost on ") {
		t.Errorf("%s, %v", out.Status, out.Err)
	}
}
