package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// A call of an agent's waits for its next attempt, is made again and then asks what became of it: the answer counts.
func TestAnswerAboutAnAgentsCallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		send := runtimetest.NewTool("t.send", func(context.Context, json.RawMessage) (any, error) {
			if calls++; calls == 1 {
				return nil, &retry.Failure{Status: 503, Reason: retry.ServerError, Err: errors.New("busy")}
			}
			return nil, &retry.Failure{Reason: retry.Timeout, Sent: true, Err: errors.New("lost")}
		})
		m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
				return &runtime.Response{Text: last.Text}, nil
			}
			return &runtime.Response{ToolCalls: []runtime.ToolCall{runtest.Wants("t.send", `{}`)}}, nil
		}}
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": m},
			Tools: []runtime.Tool{send}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
		out, _ := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: agent
    retry: {max_attempts: 3, backoff: 1h, mode: pause, retry_on: [5xx]}
    with: {agent: {model: m, tools: [t.send]}, prompt: go}
output: ${{ steps.a.output.text }}
`)).Run(t.Context(), nil, rt)
		runtest.OnlyPause(t, out, "a", "retry")
		time.Sleep(time.Hour + time.Second)
		out, _ = workflow.Recover(t.Context(), out.RunID, rt, nil)
		runtest.OnlyPause(t, out, "a", "indeterminate")
		answer := map[string]any{"decision": "result", "form": "it was sent"}
		out, err := workflow.Resume(t.Context(), out.Token, answer, rt, nil)
		if err != nil || out.Status != workflow.StatusOK || out.Output != "it was sent" || calls != 2 {
			t.Errorf("%s, %v, output %v, %d calls", out.Status, err, out.Output, calls)
		}
	})
}

// Also a run without a store asks about an external call of which it does not know what became.
func TestUnknownCallIsAskedAboutWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		act := runtest.Tool("test.act", func(ctx context.Context, _ map[string]any) (any, error) {
			calls.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Gate, act}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
		out, _ := runtest.Load(t, []byte(runtest.Head+`steps:
  ask: {uses: test.gate, with: {n: 2}}
  a: {uses: test.act, needs: [ask], with: {}}
`)).Run(t.Context(), nil, rt)
		runtest.OnlyPause(t, out, "ask", "")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		out, err := workflow.Resume(ctx, out.Token, map[string]any{"decision": "approve"}, rt, nil)
		if out.Status != workflow.StatusCancelled {
			t.Fatalf("%s, %v", out.Status, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second) // for a call that is repeated
		defer cancel()
		out, _ = workflow.Recover(ctx, out.RunID, rt, nil)
		runtest.OnlyPause(t, out, "a", "indeterminate")
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// What ends a rollback that waits for its next attempt: the run is cancelled, or the rollback's time is over.
func TestRollbackThatWaitsEnds(t *testing.T) {
	for _, tt := range []struct {
		name, timeout string
		cancelled     bool
		code          string
		took          time.Duration
		finding       string
	}{
		{"the run is cancelled", "2h", true, "rollback.interrupted", time.Second, ""},
		{"its timeout", "2s", false, "recipe.failed", 2 * time.Second,
			`a!rollback: step "a" was not rolled back: it timed out after 2s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts, began := 0, time.Now()
				undo := runtest.Tool("test.undo", func(context.Context, map[string]any) (any, error) {
					attempts++
					return nil, errors.New("no")
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancelled {
					time.AfterFunc(time.Second, cancel)
				}
				out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: test.echo
    rollback: {uses: test.undo}
    timeout: `+tt.timeout+`
    retry: {max_attempts: 5, backoff: 10m, retry_on: [unknown]}
  b: {uses: fail, needs: [a], with: {code: recipe.failed}}
`)).Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, undo}, Store: &checkpoint.Memory{}, Reporter: &runtest.Quiet{}})
				if took := time.Since(began); runtest.ErrorCode(out) != tt.code || attempts != 1 || took != tt.took {
					t.Errorf("%v with %d attempts after %v", err, attempts, took)
				}
				if got := strings.Join(runtest.Reported(out), "\n"); got != tt.finding {
					t.Errorf("diagnostics %q, want %q", got, tt.finding)
				}
			})
		})
	}
}

// A fork that shares nothing with the run it is of makes no call either before its id is known to be free.
func TestForkUnderATakenIDMakesNoCall(t *testing.T) {
	calls := 0
	m := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		calls++
		return &runtime.Response{Text: "x"}, nil
	}}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}, Store: &checkpoint.Memory{},
		NewRunID: func() string { return "r1" }}
	wf := runtest.Load(t, []byte(runtest.Head+"inputs: {s: string}\nsteps:\n  a: {uses: model, with: {model: m, prompt: hi}}\n"))
	if _, err := wf.Run(t.Context(), map[string]any{"s": "1"}, rt); err != nil {
		t.Fatal(err)
	}
	edits := workflow.Edits{Inputs: map[string]any{"s": "2"}}
	out, err := workflow.Fork(t.Context(), "r1", "a", edits, rt, nil)
	if out.Status != workflow.StatusError || !errors.Is(err, checkpoint.ErrExists) || calls != 1 {
		t.Errorf("%s, %v, %d calls", out.Status, err, calls)
	}
}

// A call of an agent's whose time is over while it waits for a slot is not made, so nobody is asked about it.
func TestCallWithoutTimeLeftIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // what was left behind ends
		var called []any
		var said []string
		a := runtest.Tool("t.a", func(_ context.Context, args map[string]any) (any, error) {
			called = append(called, args["n"])
			time.Sleep(3 * time.Second) // a clean end after its time is over
			return args["n"], nil
		})
		m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
			for _, message := range req.Messages {
				if message.Role == runtime.ToolRole {
					said = append(said, message.Text)
				}
			}
			if said != nil {
				return &runtime.Response{Text: "x"}, nil
			}
			return &runtime.Response{ToolCalls: []runtime.ToolCall{runtest.Wants("t.a", `{"n":1}`), runtest.Wants("t.a", `{"n":2}`)}}, nil
		}}
		wf, err := workflow.Agent(&agentloop.Loop{Tools: agentloop.AllTools, Name: "x", Model: "m", ToolTimeout: 2 * time.Second, ToolConcurrency: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}, Tools: []runtime.Tool{a},
			Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		rt.Limits.MaxParallel = 1
		out, err := wf.Run(t.Context(), map[string]any{"prompt": "hi"}, rt)
		if err != nil || out.Status != workflow.StatusOK {
			t.Fatalf("%s, %v, %v", out.Status, err, out.Pauses)
		}
		if diff := cmp.Diff([]any{int64(1)}, called); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		want := []string{"1", `error: tool "t.a" took longer than 2s: context deadline exceeded`}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("the model sees (-want +got)\n%s", diff)
		}
	})
}

// A run that is cancelled waits for a call that hangs, then for the Dispose of a layer, a grace period each.
func TestDisposeThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(48 * time.Hour) // what was left behind ends
		m := &runtimetest.Model{Func: func(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) {
			<-ctx.Done()
			time.Sleep(6 * time.Second) // past the grace period
			return nil, ctx.Err()
		}}
		var disposed atomic.Bool
		layer := agentloop.Layer{ID: "a", Scope: "global", Dispose: func(context.Context, string) error {
			disposed.Store(true)
			time.Sleep(24 * time.Hour)
			return nil
		}}
		wf, err := workflow.Agent(&agentloop.Loop{Tools: agentloop.AllTools, Name: "x", Model: "m", Layers: []agentloop.Layer{layer}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, cancel)
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}}
		out, err := wf.Run(ctx, map[string]any{"prompt": "hi"}, rt)
		if out.Status != workflow.StatusCancelled || !disposed.Load() {
			t.Errorf("%s, %v, disposed: %v", out.Status, err, disposed.Load())
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// What a call that was left behind may have cost counts as used.
func TestCallLeftBehindCountsAsUsed(t *testing.T) {
	for _, tt := range []struct{ name, limit, a, b, words string }{
		{"a model", "50", "{uses: model, with: {model: m, prompt: hi, max_tokens: 40}, ", "40", "50, of which 41 are used and 0 reserved"},
		{"a model of an agent", "1100", "{uses: agent, with: {agent: {model: m}, prompt: hi}, ", "900", "1100, of which 1025 are used and 0 reserved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Hour) // what was left behind ends
				m := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
					time.Sleep(time.Minute)
					return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: 5, OutputTokens: 5}}, nil
				}}
				rt := runtest.Budgeted(m)
				rt.Resume, rt.Reporter = nil, &runtest.Quiet{}
				out, _ := runtest.Load(t, []byte(runtest.Head+"limits: {tokens: "+tt.limit+"}\nsteps:\n  a: "+tt.a+`timeout: 1s, on_error: continue}
  b: {uses: model, needs: [a], trigger: all_done, with: {model: m, prompt: hi, max_tokens: `+tt.b+`}}
`)).Run(t.Context(), nil, rt)
				refusal(t, out, "b", tt.words)
				if asked := m.Requests(); len(asked) != 1 || asked[0].Step != "a" {
					t.Errorf("%d requests", len(asked))
				}
			})
		})
	}
}

// What the engine words itself about a value has no secrets: not in the error, the trace or the diagnostics.
func TestWordsOfTheEngineHaveNoSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, tt := range []struct{ name, step, want string }{
		{"a model's name", `{uses: model, with: {model: "${{ inputs.s }}", prompt: hi}}`, `no model named "***" is configured`},
		{"an agent's name", `{uses: agent, with: {agent: "${{ inputs.s }}", prompt: hi}}`, `there is no agent "***"`},
		{"an idempotency key", `{uses: test.act, idempotency_key: "${{ int(inputs.s) }}", with: {n: 1}}`, `"***" is not an integer`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt := &runtime.Runtime{Tools: []runtime.Tool{(&runtest.Effects{}).External("test.act")}, Reporter: &runtest.Quiet{},
				Models: map[string]runtime.Model{"m": &runtimetest.Model{}}, Secrets: runtime.SecretMap{"KEY": secret}}
			out, err := runtest.Load(t, []byte(runtest.Head+"inputs: {s: string}\nrequires: {secrets: [KEY]}\nagents: {clerk: {model: m}}\nsteps:\n  a: "+tt.step+"\n")).
				Run(t.Context(), map[string]any{"s": secret}, rt)
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if text := fmt.Sprint(out.Err, runtest.Lines(out), out.Diagnostics); strings.Contains(text, secret) {
				t.Errorf("a secret is in %s", text)
			}
		})
	}
}

// A pause that a hook asks for has no secrets.
func TestPauseOfAHookHasNoSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	rt := &runtime.Runtime{Tools: []runtime.Tool{(&runtest.Effects{}).External("test.act")}, Secrets: runtime.SecretMap{"KEY": secret},
		Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
	rt.Plugins = []runtime.Plugin{runtest.Hook("k", runtime.ToolBefore, func(context.Context, runtime.Moment) error {
		return resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "send " + secret, Show: map[string]any{"key": secret}, Decisions: []string{"approve"}})
	})}
	out, _ := runtest.Load(t, []byte(runtest.Head+"requires: {secrets: [KEY]}\nsteps:\n  a: {uses: test.act, with: {n: 1}}\n")).Run(t.Context(), nil, rt)
	p := runtest.OnlyPause(t, out, "a", "")
	if p.Prompt != "send ***" || !cmp.Equal(p.Show, any(map[string]any{"key": "***"})) {
		t.Errorf("prompt %q, shown %v", p.Prompt, p.Show)
	}
}

// A sink is told all of what the trace of a run has that is recovered after its end.
func TestSinkSeesTheStepsOfAnEndedRun(t *testing.T) {
	rt := &runtime.Runtime{Tools: []runtime.Tool{(&runtest.Effects{}).External("test.act")}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.act, with: {n: 1}}\n")).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	sink := &trace.Recorder{}
	rt.Trace = []trace.Sink{sink}
	if out, err = workflow.Recover(t.Context(), out.RunID, rt, nil); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range sink.Events() {
		told = append(told, e.Line())
	}
	if diff := cmp.Diff(runtest.Lines(out), told); diff != "" || !slices.Contains(told, "step.replayed a") {
		t.Errorf("%v (-trace +sink)\n%s", told, diff)
	}
}
