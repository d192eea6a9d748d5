package engine_test

import (
	"context"
	"errors"
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

// withEffect is a tool that says what its calls do.
type withEffect struct {
	runtest.JSONTool
	effect runtime.Effect
}

func (t withEffect) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: t.Name, Effect: t.effect}
}

// unknowns lists the steps of which a diagnostic says that the outcome of their call is unknown.
func unknowns(out *workflow.Outcome) (steps []string) {
	for _, d := range out.Diagnostics {
		if d.Code == "call.unknown" {
			steps = append(steps, d.Step)
		}
	}
	return steps
}

// trust 6.2: whatever ends an external call that had begun, it is recorded that its effect is not known; also when the
// tool does not heed its context. In a run that is kept somebody is asked, unless the run is about to succeed without the
// call or its time is over. Else a diagnostic says so, again when the run's outcome is read from the store.
func TestCutOffCallIsUnknown(t *testing.T) {
	const pay = "{uses: test.pay}"
	for _, tt := range []struct {
		name, text string
		want       []string
		cancel     bool
	}{
		{"the grace period of another step's failure", "steps:\n  p1: " + pay + "\n  p2: {uses: test.fail}\n", []string{"p1"}, false},
		{"the run's time", "limits: {wall_time: 3s}\nsteps:\n  p1: " + pay + "\n", []string{"p1"}, false},
		{"the step's timeout", "steps:\n  p1: {uses: test.pay, timeout: 3s}\n", []string{"p1"}, false},
		{"the timeout of the body around it", "steps:\n  b: {uses: recipe, timeout: 3s, with: {steps: {p1: " + pay + "}}}\n", []string{"b/p1"}, false},
		{"a timeout that the recipe goes on after", "steps:\n  p1: {uses: test.pay, timeout: 3s, on_error: continue}\n", []string{"p1"}, false},
		{"an item's timeout", "steps:\n  p1: {uses: test.pay, timeout: 3s, foreach: {in: [1]}}\n", []string{"p1[0]"}, false},
		{"a lost race", "steps:\n  r: {uses: fork, with: {mode: race, branches: {a: {steps: {p1: " + pay + "}}, b: {steps: {p2: {uses: test.nap}}}}}}\n", []string{"r/a/p1"}, false},
		{"a cancelled context", "steps:\n  p1: " + pay + "\n", []string{"p1"}, true},
		{"in an agent", "steps:\n  p1: {uses: agent, timeout: 3s, with: {agent: {model: m, tools: [test.pay]}, prompt: go}}\n", []string{"p1"}, false},
		{"in an agent's delegate", "agents:\n  child: {model: m, tools: [test.pay]}\n  parent: {model: m, tools: [], delegates: [child]}\n" +
			"steps:\n  p1: {uses: agent, timeout: 3s, with: {agent: parent, prompt: go}}\n", []string{"p1/child#1"}, false},
		{"nothing", "steps:\n  p1: {uses: test.nap}\n", nil, false},
	} {
		for _, store := range []string{"", "memory"} {
			for _, deaf := range []bool{false, true} {
				name := tt.name + map[string]string{"": "", "memory": ", with a store"}[store] + map[bool]string{true: ", deaf"}[deaf]
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						over := make(chan struct{})
						pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
							if deaf {
								<-over
							} else {
								<-ctx.Done()
							}
							return nil, ctx.Err()
						})
						nap := runtest.Tool("test.nap", func(context.Context, map[string]any) (any, error) { time.Sleep(time.Second); return nil, nil })
						bad := runtest.Tool("test.fail", func(context.Context, map[string]any) (any, error) {
							time.Sleep(time.Second)
							return nil, errors.New("no")
						})
						m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
							call := runtime.ToolCall{Name: "test.pay", Arguments: []byte(`{"task":"go"}`)}
							if slices.ContainsFunc(req.Tools, func(s runtime.ToolSpec) bool { return s.Name == "delegate_child" }) {
								call.Name = "delegate_child"
							}
							return &runtime.Response{ToolCalls: []runtime.ToolCall{call}}, nil
						}}
						rt := &runtime.Runtime{Tools: []runtime.Tool{pay, nap, bad}, Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}}
						if store != "" {
							rt.Store = &checkpoint.Memory{}
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if tt.cancel {
							time.AfterFunc(2*time.Second, cancel)
						}
						out, _ := runtest.Load(t, []byte(runtest.Head+tt.text)).Run(ctx, nil, rt)
						want := tt.want
						if asks := store != "" && !tt.cancel && want != nil && tt.name != "the run's time" && tt.name != "a lost race"; asks {
							step, _, _ := strings.Cut(want[0], "/child")
							runtest.OnlyPause(t, out, step, "indeterminate")
							want = nil
						}
						if diff := cmp.Diff(want, unknowns(out)); diff != "" {
							t.Errorf("%s, %v: diagnostics (-want +got)\n%s", out.Status, out.Err, diff)
						}
						if store != "" && !tt.cancel && !strings.Contains(tt.name, "agent") {
							again, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
							if diff := cmp.Diff(want, unknowns(again)); diff != "" {
								t.Errorf("read again: diagnostics (-want +got)\n%s", diff)
							}
						}
						close(over)
						synctest.Wait()
					})
				})
			}
		}
	}
}

// What is known of a call that is stopped needs no diagnostic: a call that does no harm, did not reach the other side, was
// answered, failed by itself or was not made.
func TestStoppedCallIsKnown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		effect runtime.Effect
		answer func() (any, error) // once it is stopped
		step   string
	}{
		{"idempotent", runtime.Idempotent, func() (any, error) { return nil, context.Canceled }, ""},
		{"read only", runtime.ReadOnly, func() (any, error) { return nil, context.Canceled }, ""},
		{"not sent", runtime.External, func() (any, error) { return nil, &retry.Failure{Reason: retry.Timeout, Err: context.Canceled} }, ""},
		{"refused", runtime.External, func() (any, error) { return nil, refused }, ""},
		{"done", runtime.External, func() (any, error) { return "paid", nil }, ""},
		{"in back-off", runtime.External, nil, ", retry: {max_attempts: 2, backoff: 1h}"},
		{"before it began", runtime.External, nil, ", with: {n: '${{ 1 / inputs.zero }}'}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pay := withEffect{runtest.JSONTool{Name: "test.pay", F: func(ctx context.Context, _ map[string]any) (any, error) {
					if tt.answer == nil {
						return nil, runtest.Throttled
					}
					<-ctx.Done()
					return tt.answer()
				}}, tt.effect}
				rt := &runtime.Runtime{Tools: []runtime.Tool{pay}, Store: &checkpoint.Memory{}}
				out, _ := runtest.Load(t, []byte(runtest.Head+"inputs: {zero: integer}\nsteps:\n  pay: {uses: test.pay, timeout: 3s"+tt.step+"}\n")).Run(t.Context(), map[string]any{"zero": 0}, rt)
				if got := unknowns(out); got != nil {
					t.Errorf("%s, %v: diagnostics about %v", out.Status, out.Err, got)
				}
			})
		})
	}
}
