package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// askM begins a step that may use 41 tokens.
const askM = `{uses: model, with: {model: m, prompt: hi, max_tokens: 40}`

func refusal(t *testing.T, out *workflow.Outcome, step, words string) {
	t.Helper()
	e := out.Failure()
	if e == nil || e.Category != runtime.CategoryLimit || e.Code != "limits.tokens" || e.Step != step || !strings.Contains(e.Error(), words) {
		t.Errorf("got %s, %v; want step %q refused with %q", out.Status, out.Err, step, words)
	}
}

// Of two calls at the same time only one is made when only one fits.
func TestBudgetIsReserved(t *testing.T) {
	release := make(chan struct{})
	model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		<-release
		return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: 5, OutputTokens: 5}}, nil
	}}
	rt := runtest.Budgeted(model)
	rt.Tools = []runtime.Tool{runtest.Tool("test.release", func(context.Context, map[string]any) (any, error) { close(release); return nil, nil })}
	for _, limits := range []struct{ run, step string }{{"limits: {tokens: 81}\n", ""}, {"", "    limits: {tokens: 81}\n"}} {
		release = make(chan struct{})
		before := len(model.Requests())
		wf := runtest.Load(t, []byte(runtest.Head+limits.run+`steps:
  body:
    uses: recipe
`+limits.step+`    with:
      steps:
        a: `+askM+`}
        b: `+askM+`, on_error: continue}
        then: {uses: test.release, needs: [b], trigger: all_done}
        c: `+askM+`, needs: [a], trigger: all_done}
      output: [ "${{ steps.b.error.code }}", "${{ steps.b.error.message }}" ]
output: ${{ steps.body.output }}
`))
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		scope := "the run"
		if limits.step != "" {
			scope = `step "body"`
		}
		want := []any{"limits.tokens", `model "m" is not called: it may use 41 tokens, and limits.tokens of ` + scope + ` is 81, of which 0 are used and 41 reserved`}
		if diff := cmp.Diff(want, out.Output); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if n := len(model.Requests()) - before; n != 2 {
			t.Errorf("%d calls of the model, want those of a and c", n)
		}
	}
}

// What calls count for, seen in the refusal of the next one.
func TestBudgetCounts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func() (*runtime.Response, error)
		used   string
	}{
		{"as reported", func() (*runtime.Response, error) {
			return &runtime.Response{Text: "12345678", Usage: runtime.Usage{InputTokens: 70, OutputTokens: 7}}, nil
		}, "77 are used"},
		{"nothing reported: prompt and answer", func() (*runtime.Response, error) { return &runtime.Response{Text: strings.Repeat("x", 397)}, nil }, "101 are used"},
		{"nonsense reported", func() (*runtime.Response, error) {
			return &runtime.Response{Text: strings.Repeat("x", 400), Usage: runtime.Usage{InputTokens: -5, OutputTokens: math.MinInt}}, nil
		}, "101 are used"},
		{"more than any number", func() (*runtime.Response, error) {
			return &runtime.Response{Usage: runtime.Usage{InputTokens: math.MaxInt, OutputTokens: math.MaxInt}}, nil
		}, "4503599627370496 are used"},
		{"refused by the endpoint", func() (*runtime.Response, error) {
			return nil, &retry.Failure{Status: 429, Err: errors.New("busy")}
		}, "0 are used"},
		{"trust 8.9: nothing sent", func() (*runtime.Response, error) {
			return nil, fmt.Errorf("here: %w", &retry.Failure{Reason: retry.Network, Err: errors.New("connection refused")})
		}, "0 are used"},
		{"no answer: the prompt", func() (*runtime.Response, error) { return nil, errors.New("gone") }, "1 are used"},
		{"a panic", func() (*runtime.Response, error) { panic("oh") }, "0 are used"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return tt.answer() }}
			out, _ := runtest.Load(t, []byte(runtest.Head+`limits: {tokens: 90}
steps:
  a: `+askM+`, on_error: continue}
  b: {uses: model, needs: [a], trigger: all_done, with: {model: m, prompt: hi}}
`)).Run(t.Context(), nil, runtest.Budgeted(model))
			refusal(t, out, "b", "it may use 1025 tokens, and limits.tokens of the run is 90, of which "+tt.used+" and 0 reserved")
		})
	}
}

// Each attempt counts, and the one that no longer fits is not made.
func TestBudgetOfRetries(t *testing.T) {
	model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return nil, &retry.Failure{Reason: retry.Network, Sent: true, Err: errors.New("gone")}
	}}
	out, _ := runtest.Load(t, []byte(runtest.Head+`limits: {tokens: 42}
steps:
  a: `+askM+`, retry: {max_attempts: 5, backoff: 1ms}}
`)).Run(t.Context(), nil, runtest.Budgeted(model))
	refusal(t, out, "a", "of which 2 are used")
	if n := len(model.Requests()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

// trust 8.9: a call whose request never left counts no tokens, calls and money, however often it is tried, in steps and in
// agents; and its own error stays the step's, even if the budget is gone meanwhile.
func TestNothingSentNothingCounted(t *testing.T) {
	unsent := &retry.Failure{Reason: retry.Network, Err: errors.New("connection refused")}
	for _, tt := range []struct {
		down  string
		calls int
	}{
		{askM + ", retry: {max_attempts: 5, backoff: 1h}}", 5},
		{"{uses: agent, with: {agent: {model: m, tools: []}, prompt: hi}, retry: {max_attempts: 5, backoff: 1h}}", 5},
	} {
		for _, other := range []bool{false, true} { // another step uses the budget up
			synctest.Test(t, func(t *testing.T) {
				down := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return nil, unsent }}
				rt := runtest.Budgeted(down)
				rt.Models["up"] = runtest.Using(1040)
				rt.Prices = map[string]runtime.Price{"m": {Input: 5, Output: 5}, "up": {Input: 1, Output: 1}}
				rt.Store = nil // it would pause
				text, calls, used := runtest.Head+"limits: {tokens: 2070}\nsteps:\n  a: "+tt.down+"\n", tt.calls, int64(0)
				if other {
					text += `  later: {uses: wait, with: {duration: 30m}}
  b: {uses: model, needs: [later], with: {model: up, prompt: hi}}
  c: {uses: model, needs: [b], with: {model: up, prompt: hi, max_tokens: 1020}}
`
					calls, used = 1, 2*1040
				}
				out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
				e := out.Failure()
				if e == nil || e.Step != "a" || !strings.Contains(e.Error(), "connection refused") || e.Code != "model.failed" {
					t.Errorf("%s, %v; want its own error", out.Status, out.Err)
				}
				if n := len(down.Requests()); n != calls {
					t.Errorf("%d calls, want %d", n, calls)
				}
				if u := out.Usage; u.InputTokens+u.OutputTokens != used || u.Calls != used/1040 || u.CostUSD != float64(used)/1e6 {
					t.Errorf("used %+v, want %d tokens", u, used)
				}
			})
		}
	}
}

// Whoever resumes a run continues with its account, and with the limits that were raised. A call that
// was interrupted counts for nothing.
func TestBudgetIsRecovered(t *testing.T) {
	const text = runtest.Head + `limits: {tokens: 101, on_exceeded: pause}
steps:
  one: ` + askM + `}
  two: ` + askM + `, needs: [one]}
  three: ` + askM + `, needs: [two]}
  ask: {uses: human, needs: [three], with: {prompt: Go}}
  four: ` + askM + `, needs: [ask]}
`
	wf := runtest.Load(t, []byte(text))
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	model := &runtimetest.Model{Func: func(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) {
		if calls++; calls == 2 {
			cancel()
			return nil, ctx.Err()
		}
		return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: 59, OutputTokens: 1}}, nil
	}}
	rt := runtest.Budgeted(model)
	out, _ := wf.Run(ctx, nil, rt)
	if out.Status != workflow.StatusCancelled {
		t.Fatal(out.Status, out.Err)
	}
	out, err := wf.Recover(t.Context(), out.RunID, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(out.Status, err)
	}
	p := out.Pauses[0]
	if p.Step != "three" || p.Reason != "limits.tokens" || !strings.Contains(p.Prompt, "101, of which 120 are used and 0 reserved") {
		t.Errorf("pause %+v", p)
	}
	for _, bad := range []any{
		map[string]any{"decision": "raise"},
		map[string]any{"decision": "raise", "form": map[string]any{"tokens": 160}},
		map[string]any{"decision": "raise", "form": map[string]any{"cost_usd": 1}},
		map[string]any{"decision": "retry"},
	} {
		if got, err := wf.Resume(t.Context(), out.Token, bad, rt); err == nil || got.Failure().Code != "answer.unfit" {
			t.Errorf("%v: %v", bad, err)
		}
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "raise", "form": map[string]any{"tokens": 221}}, rt)
	if err != nil || out.Status != workflow.StatusPaused || out.Pauses[0].Step != "ask" {
		t.Fatal(out.Status, err, out.Pauses)
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt)
	if err != nil || out.Status != workflow.StatusOK { // 180 used and 41 reserved are 221
		t.Fatal(out.Status, err, out.Pauses)
	}
	if calls != 5 {
		t.Errorf("%d calls, want 5", calls)
	}
}

// A run that begins again, or goes on under another definition, has used what it has used.
func TestBudgetOfOtherGenerations(t *testing.T) {
	const text = runtest.Head + `limits: {tokens: 100}
steps:
  one: ` + askM + `}
  ask: {uses: human, needs: [one], with: {prompt: Go}}
  two: ` + askM + `, needs: [ask]}
`
	yes := map[string]any{"decision": "approve"}
	t.Run("restart", func(t *testing.T) {
		rt := runtest.Budgeted(runtest.Using(40))
		rt.Interrupt = resume.Restart
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		out, _ = workflow.Resume(t.Context(), out.Token, yes, rt, nil)
		refusal(t, out, "two", "100, of which 80 are used")
	})
	t.Run("changed", func(t *testing.T) {
		rt := runtest.Budgeted(runtest.Using(60))
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		changed := runtest.Load(t, []byte(strings.Replace(text, "needs: [ask]}", "needs: [ask], priority: 2}", 1)))
		out, _ = workflow.Resume(t.Context(), out.Token, yes, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
		refusal(t, out, "two", "100, of which 60 are used")
		if n := len(rt.Models["m"].(*runtimetest.Model).Requests()); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

// The calls of a model that failed before another one answered count, too, after a changed definition.
func TestUsageOfFallbacksAfterAChange(t *testing.T) {
	text := runtest.Head + "steps:\n  a: " + askM + "}\n  ask: {uses: human, needs: [a], with: {prompt: Go}}\n  b: {uses: set, needs: [ask], with: 1}\n"
	rt := runtest.Budgeted(&runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return nil, &retry.Failure{Reason: retry.ServerError, Status: 503, Sent: true, Err: errors.New("busy")}
	}})
	rt.Models["good"], rt.Fallbacks = runtest.Using(40), map[string][]string{"m": {"good"}}
	rt.Retry = retry.Policies{"model": {MaxAttempts: 2}}
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	if err != nil || out.Usage.Calls != 3 {
		t.Fatalf("%d calls, want 3: two of m, one of good; %v", out.Usage.Calls, err)
	}
	changed := runtest.Load(t, []byte(strings.Replace(text, "with: 1", "with: 2", 1)))
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt,
		&workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
	if err != nil || out.Usage.Calls != 3 || out.Usage.InputTokens != 39 {
		t.Errorf("%+v, want 3 calls and 39 tokens; %v", out.Usage, err)
	}
}

// Of several pauses each answer lets its call go on; a lower limit does not undo a higher one.
func TestBudgetRaisedTwice(t *testing.T) {
	rt := runtest.Budgeted(runtest.Using(41))
	out, err := runtest.Load(t, []byte(runtest.Head+`limits: {tokens: 40, on_exceeded: pause}
steps:
  a: `+askM+`}
  b: `+askM+`}
`)).Run(t.Context(), nil, rt)
	for _, tokens := range []int{1000, 82} {
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatal(out.Status, err)
		}
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "raise", "form": map[string]any{"tokens": tokens}}, rt, nil)
	}
	if err != nil || out.Status != workflow.StatusOK {
		t.Error(out.Status, err, out.Pauses)
	}
}

// A limit of cost needs prices: of models that the recipe names before the first step, of others when
// they are called.
func TestBudgetNeedsPrices(t *testing.T) {
	for _, tt := range []struct{ text, step string }{
		{runtest.Head + "limits: {cost_usd: 1}\nsteps:\n  a: {uses: model, with: {model: m, prompt: hi}}\n", ""},
		{runtest.Head + "steps:\n  a: {uses: model, limits: {cost_usd: 1}, with: {model: m, prompt: hi}}\n", ""},
		{runtest.Head + "limits: {cost_usd: 1}\nsteps:\n  a: {uses: model, with: {model: \"${{ 'm' }}\", prompt: hi}}\n", "a"},
	} {
		rt := runtest.Budgeted(runtest.Using(1))
		rt.Prices = map[string]runtime.Price{"other": {Input: 1, Output: 1}}
		wf := runtest.Load(t, []byte(tt.text))
		out, _ := wf.Run(t.Context(), nil, rt)
		if e := out.Failure(); e == nil || e.Category != runtime.CategoryConfig || e.Code != string(diagnostics.CodeMissingPrice) || e.Step != tt.step {
			t.Errorf("%s: %v", tt.text, out.Err)
		}
		rt.Prices["m"] = runtime.Price{} // it costs nothing
		if _, err := wf.Run(t.Context(), nil, rt); err != nil {
			t.Error(err)
		}
		rt.Prices["m"] = runtime.Price{Input: math.MaxFloat64}
		out, _ = wf.Run(t.Context(), nil, rt)
		if e := out.Failure(); e == nil || e.Code != "limits.cost_usd" {
			t.Errorf("the dearest model: %v", out.Err)
		}
	}
}

// The host's limit holds beside the recipe's, and is that of whoever works on the run.
func TestHostBudget(t *testing.T) {
	const text = runtest.Head + `limits: {tokens: 150}
steps:
  one: ` + askM + `}
  ask: {uses: human, needs: [one], with: {prompt: Go}}
  two: ` + askM + `, needs: [ask]}
`
	for _, tt := range []struct {
		budget runtime.Budget // of the second execution
		words  string         // "": it is let through
	}{
		{runtime.Budget{}, ""},
		{runtime.Budget{Tokens: 101}, ""},
		{runtime.Budget{Tokens: 100}, "limits.tokens of the host is 100, of which 60 are used"},
		{runtime.Budget{Tokens: 1, Pause: true}, "paused"},
	} {
		rt := runtest.Budgeted(runtest.Using(60))
		rt.Budget.Tokens = 60
		wf := runtest.Load(t, []byte(text))
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		rt.Budget = tt.budget
		switch out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt); {
		case tt.words == "" && err == nil:
		case tt.words == "paused" && out.Status == workflow.StatusPaused:
			form := map[string]any{"tokens": 101}
			if out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "raise", "form": form}, rt); out.Status != workflow.StatusOK {
				t.Error(out.Status, err)
			}
		default:
			refusal(t, out, "two", tt.words)
		}
	}
}

// What a run used under an earlier definition counts for the host too, and a limit of its cost needs prices.
func TestHostBudgetOfChangedRun(t *testing.T) {
	const text = runtest.Head + `steps:
  one: ` + askM + `}
  ask: {uses: human, needs: [one], with: {prompt: Go}}
  two: ` + askM + `, needs: [ask]}
`
	rt := runtest.Budgeted(runtest.Using(60))
	rt.Budget.Tokens = 100
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	changed := runtest.Load(t, []byte(strings.Replace(text, "needs: [ask]}", "needs: [ask], priority: 2}", 1)))
	out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
	refusal(t, out, "two", "limits.tokens of the host is 100, of which 60 are used")

	rt.Budget = runtime.Budget{CostUSD: 1}
	out, _ = changed.Run(t.Context(), nil, rt)
	if e := out.Failure(); e == nil || e.Code != string(diagnostics.CodeMissingPrice) || e.Step != "" {
		t.Error(out.Err)
	}
}
