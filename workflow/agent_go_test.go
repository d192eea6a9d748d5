package workflow_test

import (
	"context"
	"errors"
	"slices"
	"testing"

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

// Trust 1.4: hooks, sinks, retries, approvals, the store and the host's budget hold for an agent from Go as for any
// other step.
func TestAgentFromGoIsAStep(t *testing.T) {
	loop := &agentloop.Loop{Tools: agentloop.AllTools, Name: "finder", Model: "fast", Approval: map[string]agentloop.Approval{"*": agentloop.ApprovePause}}
	wf, err := workflow.Agent(loop, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooked, sink, store := 0, &trace.Recorder{}, &checkpoint.Memory{}
	host := func(answers ...runtimetest.Answer) *runtime.Runtime {
		return &runtime.Runtime{
			Models: map[string]runtime.Model{"fast": &runtimetest.Model{Answers: answers}}, Tools: []runtime.Tool{customers},
			Store: store, Resume: resume.PassThrough{}, Trace: []trace.Sink{sink}, Reporter: &runtest.Quiet{},
			RetryDefaults: retry.Policies{retry.Model: {MaxAttempts: 2, RetryOn: []retry.Reason{retry.ServerError}}},
			Plugins: []runtime.Plugin{{Key: "p", Hooks: runtime.Hooks{runtime.ToolBefore: func(context.Context, runtime.Moment) error {
				hooked++
				return nil
			}}}},
		}
	}
	broken := runtimetest.Answer{Err: &retry.Failure{Reason: retry.ServerError, Err: errors.New("overloaded")}}
	lookup := runtimetest.Answer{ToolCalls: []runtime.ToolCall{runtest.Wants("crm.lookup", `{"id":7}`)}}
	input := map[string]any{"prompt": "Who is customer 7?"}
	out, err := wf.Run(t.Context(), input, host(broken, lookup))
	if out.Status != workflow.StatusPaused {
		t.Fatalf("trust 1.4: %s, %v, want an approval", out.Status, err)
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, host(runtimetest.Answer{Text: "Ann"}))
	if err != nil || out.Output.(map[string]any)["text"] != "Ann" {
		t.Fatalf("trust 1.4: %v, %v", out.Output, err)
	}
	if hooked != 2 { // before somebody is asked, and before the call that the next execution makes
		t.Errorf("trust 1.4: the hook before tools was called %d times, want 2", hooked)
	}
	for _, kind := range []trace.Kind{trace.AdapterRetry, trace.ToolStart, trace.RunEnd} {
		if !slices.ContainsFunc(sink.Events(), func(e trace.Event) bool { return e.Kind == kind }) {
			t.Errorf("trust 1.4: the sink was not shown %s", kind)
		}
	}
	poor := host(lookup)
	poor.Budget.Tokens = 1
	if out, err = wf.Run(t.Context(), input, poor); out.Status != workflow.StatusError {
		t.Errorf("trust 1.4: a run over the host's budget is %s, %v", out.Status, err)
	}
}
