package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// The attempts of a call that paused belong to that call: the next one, in a process that replays the journal, has
// all of its own.
func TestAttemptsOfAnAgentsNextCall(t *testing.T) {
	wf := load(t, []byte(head+`steps:
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
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{look}, Resume: resume.PassThrough{}, Reporter: &quiet{}}
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
