package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 6.2, 6.3: a call with unknown outcome is not made again by a fork at a later step, nor
// under another definition, unless somebody says so. The question has the key that the call was made with. That holds
// for a fork of the fork, and for one that is recovered.
func TestUnknownCallsAreAskedAboutElsewhere(t *testing.T) {
	for _, tt := range []struct{ name, charge, path string }{
		{"a step", "{uses: test.pay, with: {id: 7}}", "charge"},
		{"a key of the recipe", "{uses: test.pay, with: {id: 7}, idempotency_key: k}", "charge"},
		{"an item", "{uses: test.pay, with: {id: 7}, foreach: {in: [1]}}", "charge[0]"},
		{"a body", "{uses: loop, with: {max_iterations: 1, steps: {pay: {uses: test.pay, with: {id: 7}}}, output: done}}", "charge#1/pay"},
	} {
		for _, asked := range []bool{true, false} { // before the fork; otherwise the call had only begun
			t.Run(fmt.Sprintf("%s, asked %v", tt.name, asked), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				paid, log := 0, &runtest.Effects{}
				pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
					if paid++; asked || paid > 1 {
						return "p1", runtest.Lost
					}
					cancel(context.Canceled)
					<-ctx.Done()
					return nil, ctx.Err()
				})
				rt := &runtime.Runtime{Tools: []runtime.Tool{pay, log.External("test.act")}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
				text := runtest.Head + "steps:\n  charge: " + tt.charge + "\n  mail: {uses: test.act, needs: [charge], with: {n: OLD}}\n"
				old, _ := runtest.Load(t, []byte(text)).Run(ctx, nil, rt)
				own := ""
				if strings.Contains(tt.charge, "idempotency_key") {
					own = "k"
				}
				key := resume.Key(old.RunID, 1, tt.path, 1, own)
				asks := func(name string, out *workflow.Outcome, err error) {
					t.Helper()
					if err != nil || len(out.Pauses) != 1 || out.Pauses[0].Step != tt.path || out.Pauses[0].Call == nil {
						t.Fatalf("%s: %v, %v", name, out.Pauses, err)
					}
					if c := out.Pauses[0].Call; c.Key != key || c.Tool != "test.pay" || !cmp.Equal(c.Arguments, any(map[string]any{"id": int64(7)})) {
						t.Errorf("%s: asked about %+v, want the key %s", name, c, key)
					}
				}
				fork, err := workflow.Fork(t.Context(), old.RunID, "mail", workflow.Edits{}, rt, nil)
				asks("a fork", fork, err)
				again, err := workflow.Fork(t.Context(), fork.RunID, "mail", workflow.Edits{}, rt, nil)
				asks("a fork of it", again, err)
				recovered, err := workflow.Recover(t.Context(), again.RunID, rt, nil)
				asks("that, recovered", recovered, err)
				if paid != 1 || len(log.Lines) > 0 {
					t.Fatalf("paid %d times, other effects %v", paid, log.Lines)
				}
				ended, err := workflow.Resume(t.Context(), recovered.Token, map[string]any{"decision": "result", "form": "p1"}, rt, nil)
				if err != nil || ended.Status != workflow.StatusOK || paid != 1 {
					t.Errorf("%s, %v, paid %d times", ended.Status, err, paid)
				}
				changed := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(text, "id: 7", "id: 8", 1))), AcceptChanged: true}
				out, err := workflow.Recover(t.Context(), old.RunID, rt, changed)
				if err != nil || len(out.Pauses) != 1 || out.Pauses[0].Call.Key != key || paid != 1 {
					t.Errorf("another definition: %v, %v, paid %d times, want the key %s", out.Pauses, err, paid, key)
				}
			})
		}
	}
}

// What a call was that the run went on without, with a warning, is not known in a fork either.
func TestForkDoesNotRepeatAnUnknownCall(t *testing.T) {
	paid := 0
	pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { paid++; return nil, runtest.Lost })
	rt := &runtime.Runtime{Tools: []runtime.Tool{pay, runtest.Echo}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  charge: {uses: test.pay, on_indeterminate: continue, on_error: continue}
  mail: {uses: test.echo, needs: [charge], trigger: all_done}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	fork, err := workflow.Fork(t.Context(), out.RunID, "mail", workflow.Edits{}, rt, nil)
	if err != nil || paid != 1 || len(unknowns(fork)) != 1 {
		t.Errorf("%v, paid %d times, diagnostics %v", err, paid, fork.Diagnostics)
	}
	if _, err = workflow.Fork(t.Context(), out.RunID, "charge", workflow.Edits{}, rt, nil); err != nil || paid != 2 {
		t.Errorf("a fork that names the step: %v, paid %d times", err, paid)
	}
}
