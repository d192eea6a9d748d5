package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// The attempts of a call that paused belong to that call: the next one, in a process that replays the journal, has
// all of its own.
func TestAttemptsOfAnAgentsNextCall(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: agent
    retry: {max_attempts: 2, backoff: 1h, mode: pause, retry_on: [5xx]}
    with: {agent: {model: m, tools: [t.look]}, prompt: go}
output: ${{ steps.a.output.text }}
`))
	model, err := script.Parse("script.yaml", []byte(`turns: [{error: {status: 503}}, {tool_calls: [{name: t.look}]}, {error: {status: 503}}, {text: done}]`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	look := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "t.look", Effect: runtime.ReadOnly}, Func: func(ctx context.Context, _ json.RawMessage) (any, error) {
		cancel()
		return "seen", ctx.Err()
	}}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{look}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
	out, err := wf.Run(ctx, nil, rt)
	if out.Status != workflow.StatusPaused {
		t.Fatalf("%s, %v", out.Status, err)
	}
	out, err = workflow.Resume(ctx, out.Token, nil, rt, nil)
	if out.Status != workflow.StatusCancelled {
		t.Fatalf("%s, %v", out.Status, err)
	}
	out, err = workflow.Recover(t.Context(), out.RunID, rt, nil)
	if out.Status != workflow.StatusPaused {
		t.Fatalf("%s, %v", out.Status, err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, nil, rt, nil); err != nil || out.Output != "done" {
		t.Errorf("%v, %v", out.Output, err)
	}
}

// A tool in an agent asks a person, then fails, and the run waits before it tries again: the tool gets the person's answer
// again, and nothing of what ended the wait. Its attempts have one key.
func TestToolsOfAgentsKeepTheirAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
	}{{"somebody ends the wait", 0}, {"the wait is over", time.Hour}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: agent
    retry: {max_attempts: 3, backoff: 1h, mode: pause, retry_on: [5xx]}
    with: {agent: {model: m, tools: [t.send]}, prompt: go}
output: ${{ steps.a.output.text }}
`))
				var keys []string
				send := runtimetest.NewTool("t.send", func(ctx context.Context, _ json.RawMessage) (any, error) {
					answer, ok := resume.Answer(ctx)
					if !ok {
						return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "Send it?", Decisions: []string{"approve"}})
					}
					if keys = append(keys, resume.IdempotencyKey(ctx)); len(keys) == 1 {
						return nil, &retry.Failure{Status: 503, Reason: retry.ServerError, Err: errors.New("busy")}
					}
					return answer.(map[string]any)["decision"], nil
				})
				m := runtest.Rounds([]runtime.ToolCall{runtest.Wants("t.send", `{}`)})
				rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{send}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
				out, err := wf.Run(t.Context(), nil, rt)
				if out.Status != workflow.StatusPaused {
					t.Fatalf("%s, %v", out.Status, err)
				}
				out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
				if out.Status != workflow.StatusPaused {
					t.Fatalf("%s, %v", out.Status, err)
				}
				if tt.wait == 0 {
					out, err = workflow.Resume(t.Context(), out.Token, nil, rt, nil)
				} else {
					time.Sleep(tt.wait)
					outs, bad := workflow.Sweep(t.Context(), rt, nil)
					if bad != nil || len(outs) != 1 {
						t.Fatalf("%d outcomes, %v", len(outs), bad)
					}
					out, err = outs[0], outs[0].Err
				}
				if err != nil || out.Output != "done" {
					t.Fatalf("%s, %v, %v", out.Status, out.Output, err)
				}
				if diff := cmp.Diff([]string{"approve"}, runtest.Said(m)); diff != "" || len(keys) != 2 || keys[0] != keys[1] {
					t.Errorf("keys %s, results (-want +got)\n%s", keys, diff)
				}
			})
		})
	}
}

// The time of a run that is used up pauses an agent before its next call, of a tool, too. Raised, the call is made, and
// the tool hears nothing of that.
func TestTimeOfAnAgentIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 10s, on_exceeded: pause}
steps:
  a: {uses: agent, with: {agent: {model: m, tools: [t.slow, t.next]}, prompt: go}}
output: ${{ steps.a.output.text }}
`))
		slow := runtimetest.NewTool("t.slow", func(context.Context, json.RawMessage) (any, error) {
			time.Sleep(15 * time.Second)
			return "slow", nil
		})
		next := runtimetest.NewTool("t.next", func(ctx context.Context, _ json.RawMessage) (any, error) {
			answer, ok := resume.Answer(ctx)
			return fmt.Sprint("next ", answer, ok), nil
		})
		m := runtest.Rounds([]runtime.ToolCall{runtest.Wants("t.slow", `{}`), runtest.Wants("t.next", `{}`)})
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{slow, next}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
		out, err := wf.Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, err)
		}
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "raise", "form": map[string]any{"wall_time": "60s"}}, rt, nil)
		if err != nil || out.Output != "done" {
			t.Fatalf("%s, %v, %v", out.Status, out.Output, err)
		}
		if diff := cmp.Diff([]string{"slow", "next <nil> false"}, runtest.Said(m)); diff != "" {
			t.Errorf("results (-want +got)\n%s", diff)
		}
	})
}
