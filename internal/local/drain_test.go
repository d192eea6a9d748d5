package local_test

import (
	"context"
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

// serve 12.4: a run that drains begins no call, waits for those that are in progress, and records them. Then it is
// given back as interrupted. Whoever recovers it asks nobody, and each effect is there once.
func TestDrain(t *testing.T) {
	const agent = `
  pay: {uses: agent, with: {agent: {model: m, tools: [test.pay]}, prompt: Pay.}}
`
	for _, tt := range []struct {
		name, steps string
		drained     time.Duration // after the start of the run, which is told to drain after 1 s
		calls       int           // of the tool, in the end
		recovered   time.Duration // when it can be recovered
	}{
		{"a call of 3 s", "\n  pay: {uses: test.pay}\n  then: {uses: test.pay, needs: [pay]}\n", 3 * time.Second, 2, 0},
		{"two beside each other", "\n  pay: {uses: test.pay}\n  also: {uses: test.pay, with: {long: true}}\n  then: {uses: test.pay, needs: [pay]}\n", 5 * time.Second, 3, 0},
		{"no slot", "\n  pay: {uses: test.pay}\n  also: {uses: test.pay}\n  more: {uses: test.pay}\n", 3 * time.Second, 3, 0},
		{"an agent", agent, 3 * time.Second, 1, 0},
		{"agents beside each other", `
  one: {uses: agent, with: {agent: {model: m, tools: [test.pay]}, prompt: Pay.}}
  two: {uses: agent, with: {agent: {model: m, tools: [test.pay]}, prompt: Pay.}}
  three: {uses: agent, with: {agent: {model: m, tools: [test.pay]}, prompt: Pay.}}
`, 3 * time.Second, 3, 0},
		{"a wait", "\n  rest: {uses: wait, with: {duration: 2s}}\n  pay: {uses: test.pay, needs: [rest]}\n", time.Second, 1, 0},
		{"back-off", "\n  pay: {uses: test.pay, with: {fails: true}, retry: {max_attempts: 3, backoff: 20s}}\n",
			time.Second, 2, 19 * time.Second},
		{"an attempt that fails", "\n  pay: {uses: test.pay, with: {fails: true, long: true}, retry: {max_attempts: 3, backoff: 20s}}\n",
			5 * time.Second, 2, 20 * time.Second},
		{"back-off of what may come twice", "\n  pay: {uses: test.again, with: {fails: true}, retry: {max_attempts: 3, backoff: 20s}}\n",
			time.Second, 2, 0},
		{"rollbacks", `
  pay: {uses: test.pay, with: {quick: true}, rollback: {uses: test.pay}}
  also: {uses: test.pay, with: {quick: true}, needs: [pay], rollback: {uses: test.pay}}
  stop: {uses: fail, needs: [also], with: {message: no}}
`, 3 * time.Second, 4, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, calls := 0, make(chan struct{}, 10)
				act := func(ctx context.Context, args map[string]any) (any, error) {
					calls <- struct{}{}
					switch {
					case args["fails"] == true && failed == 0:
						failed++
						if args["long"] == true {
							time.Sleep(5 * time.Second)
						}
						return nil, runtest.Throttled
					case args["long"] == true && args["fails"] == nil:
						time.Sleep(5 * time.Second)
					case args["quick"] == nil:
						time.Sleep(3 * time.Second)
					}
					return "paid", ctx.Err()
				}
				m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
						return &runtime.Response{Text: last.Text}, nil
					}
					return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.pay", Arguments: []byte("{}")}}}, nil
				}}
				drain := make(chan struct{})
				rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Drain: drain, Reporter: &runtest.Quiet{}, Resume: resume.PassThrough{},
					Tools:  []runtime.Tool{runtest.Tool("test.pay", act), runtest.Idempotent{JSONTool: runtest.JSONTool{Name: "test.again", F: act}}},
					Models: map[string]runtime.Model{"m": m}, Limits: runtime.Limits{MaxParallel: 2, InlineWait: 10 * time.Second}}
				time.AfterFunc(time.Second, func() { close(drain) })
				began := time.Now()
				wf := runtest.Load(t, []byte(runtest.Head+"steps:"+tt.steps))
				out, err := wf.Run(t.Context(), nil, rt)
				if took := time.Since(began); took != tt.drained {
					t.Errorf("it drained after %v, want %v", took, tt.drained)
				}
				phase, code := checkpoint.PhaseInterrupted, "run.drained"
				switch {
				case tt.name == "rollbacks":
					code = "rollback.interrupted"
				case tt.recovered > 0: // nothing but that wait is left
					phase = checkpoint.PhaseWaiting
				}
				if phase == checkpoint.PhaseInterrupted &&
					(out.Status != workflow.StatusCancelled || out.Failure().Code != code || !errors.Is(err, context.Canceled)) {
					t.Fatal(out.Status, err)
				}
				sum, err := rt.Store.List(t.Context(), checkpoint.Filter{Phases: []checkpoint.Phase{phase}})
				if err != nil || len(sum) != 1 {
					t.Fatalf("the run is not %s: %v", phase, err)
				}

				time.Sleep(tt.recovered)
				rt.Drain = nil
				out, err = workflow.Recover(t.Context(), out.RunID, rt, nil)
				if want := workflow.StatusOK; tt.name != "rollbacks" && out.Status != want {
					t.Errorf("recovered, it is %s (%v), want %s; %v", out.Status, err, want, out.Pauses)
				}
				if len(calls) != tt.calls {
					t.Errorf("%d calls, want %d", len(calls), tt.calls)
				}
			})
		})
	}
}

// A runtime that is draining already begins a run, and records it, but makes no call.
func TestDrainBeforeTheStart(t *testing.T) {
	drain := make(chan struct{})
	close(drain)
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Drain: drain, Reporter: &runtest.Quiet{},
		Tools: []runtime.Tool{runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
			t.Error("it was called")
			return nil, nil
		})}}
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  pay: {uses: test.pay}\n")).Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusCancelled || out.Failure().Code != "run.drained" {
		t.Error(out.Status, err)
	}
	var kinds []string
	_, recs, err := rt.Store.Load(t.Context(), out.RunID, 0)
	for _, rec := range recs {
		kinds = append(kinds, string(rec.Kind))
	}
	if diff := cmp.Diff([]string{"run.created", "run.input", "run.execution", "run.stopped"}, kinds); diff != "" {
		t.Errorf("the journal, %v (-want +got)\n%s", err, diff)
	}
}
