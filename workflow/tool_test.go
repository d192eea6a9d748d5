package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

func TestToolSpec(t *testing.T) {
	spec := runtest.Load(t, []byte(runtest.Called)).Tool(nil).Spec()
	want := runtime.ToolSpec{Name: "recipe.refund", Description: "Refunds an order.", Parameters: json.RawMessage(
		`{"additionalProperties":false,"properties":{"cents":{"type":"integer"},"order":{"type":"string"}},"required":["order"],"type":"object"}`)}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if effect := runtest.Load(t, []byte(runtest.Called)).Tool(&runtime.Runtime{Store: new(checkpoint.Memory)}).Spec().Effect; effect != runtime.Idempotent {
		t.Errorf("with a store the effect is %q", effect)
	}
}

// A recipe is a tool of another one's agent: its pause is the call's, the answer resumes its run, and a
// result that was lost is found again.
func TestRecipeAsTool(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store checkpoint.Store
	}{{"stored", new(checkpoint.Memory)}, {"in the process", nil}} {
		for _, caller := range []string{
			"steps:\n  a: {uses: agent, with: {agent: {model: m, tools: [recipe.refund]}, prompt: go}}\noutput: ${{ steps.a.output.text }}\n",
			"steps:\n  a: {uses: recipe.refund, with: {order: A7}}\noutput: ${{ steps.a.output.decision }}\n",
		} {
			pay := runtimetest.NewTool("test.pay", func(context.Context, json.RawMessage) (any, error) { return "paid", nil })
			inner := &runtime.Runtime{Store: tt.store, Tools: []runtime.Tool{pay}}
			m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
					return &runtime.Response{Text: last.Text}, nil
				}
				return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "recipe.refund", Arguments: json.RawMessage(`{"order":"A7"}`)}}}, nil
			}}
			outer := &runtime.Runtime{Store: tt.store, Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"m": m},
				Tools: []runtime.Tool{runtest.Load(t, []byte(runtest.Called)).Tool(inner)}}
			out, err := runtest.Load(t, []byte(runtest.Head+caller)).Run(t.Context(), nil, outer)
			if err != nil || out.Status != workflow.StatusPaused || out.Pauses[0].Prompt != "Refund A7?" {
				t.Fatalf("%s: %v %+v", tt.name, err, out.Pauses)
			}
			out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, outer, nil)
			if err != nil || out.Status != workflow.StatusOK {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if out.Output != "approve" && out.Output != `{"decision":"approve","paid":"paid"}` {
				t.Errorf("%s: output %v", tt.name, out.Output)
			}
			if n := len(pay.Calls()); n != 1 {
				t.Errorf("%s: paid %d times", tt.name, n)
			}
		}
	}
}

// A call that is made again resumes the run that it began, and does nothing twice.
func TestRecipeAsToolAgain(t *testing.T) {
	const text = runtest.Head + "steps:\n  pay: {uses: test.pay}\noutput: ${{ steps.pay.output }}\n"
	pay := runtimetest.NewTool("test.pay", func(context.Context, json.RawMessage) (any, error) { return "paid", nil })
	tool := runtest.Load(t, []byte(text)).Tool(&runtime.Runtime{Store: new(checkpoint.Memory), Tools: []runtime.Tool{pay}})
	ctx := resume.WithIdempotencyKey(t.Context(), resume.Key("run", 1, "a", 1, ""))
	for range 3 {
		got, err := tool.Call(ctx, json.RawMessage("{}"))
		if err != nil || string(got) != `"paid"` {
			t.Fatalf("%s, %v", got, err)
		}
	}
	if n := len(pay.Calls()); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// The run of a call may still be held by a process that died over it: the call waits until the lease is over.
func TestRecipeAsToolWaitsForItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(checkpoint.Memory)
		tool := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Now}}\noutput: ${{ steps.ask.output.decision }}\n")).
			Tool(&runtime.Runtime{Store: store})
		call := &resume.CallContext{Context: t.Context(), RunID: "run", Generation: 1, Path: "a", Ordinal: 1}
		id := "call-" + resume.IdempotencyKey(call)[:32]
		_, err := tool.Call(call, json.RawMessage("{}"))
		asked, ok := errors.AsType[*resume.Suspension](err)
		if !ok {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := store.Claim(t.Context(), id, "the dead", 15*time.Second); err != nil {
				t.Fatal(err)
			}
			got, err := tool.Call(call, json.RawMessage("{}"))
			answered := call.Detail != nil
			if !answered && !errors.As(err, &asked) || answered && (err != nil || string(got) != `"approve"`) {
				t.Errorf("answered %v: got %s, %v", answered, got, err)
			}
			call.Detail = &resume.CallDetail{Replies: []resume.Reply{{To: asked.Pause.Reason, Answer: map[string]any{"decision": "approve"}}}, Answered: true}
		}
	})
}

func TestRecipeAsToolFails(t *testing.T) {
	bad := runtimetest.NewTool("test.pay", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("no money") })
	tool := runtest.Load(t, []byte(runtest.Head+"steps:\n  pay: {uses: test.pay}\n")).Tool(&runtime.Runtime{Tools: []runtime.Tool{bad}})
	_, err := tool.Call(t.Context(), json.RawMessage("{}"))
	var e *runtime.Error
	if !errors.As(err, &e) || e.Category != runtime.CategoryTool || e.Code != "tool.failed" {
		t.Errorf("got %v", err)
	}
	if _, err := tool.Call(t.Context(), json.RawMessage(`{"x":1}`)); !errors.As(err, &e) || e.Code != "input.invalid" {
		t.Errorf("got %v", err)
	}

	// One that calls itself ends.
	rt := &runtime.Runtime{}
	self := runtest.Load(t, []byte("apiVersion: braise/v1\nname: self\nsteps:\n  a: {uses: recipe.self}\n"))
	rt.Tools = []runtime.Tool{self.Tool(rt)}
	if out, _ := self.Run(t.Context(), nil, rt); out.Failure() == nil || out.Failure().Code != "recipe.depth" {
		t.Errorf("got %v", out.Err)
	}
}
