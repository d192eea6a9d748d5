package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 2.2: a call that a person said the end of is never made again: in a fork, in a fork of that, when either is
// recovered, and under a changed definition of another step. The journal tells that it is over.
func TestWhatAPersonSettledStands(t *testing.T) {
	for _, tt := range []struct {
		name, charge, path string
		answer             map[string]any
		output             string // an expression
		want               any
		status             string // of the step, in the past
	}{
		{"a result", "{uses: test.pay}", "charge", map[string]any{"decision": "result", "form": map[string]any{"id": "p1"}},
			"${{ steps.charge.output.id }}", "p1", "succeeded"},
		{"no result", "{uses: test.pay}", "charge", map[string]any{"decision": "result"}, "${{ steps.charge.output }}", nil, "succeeded"},
		{"the result of an item", "{uses: test.pay, foreach: {in: [1]}}", "charge[0]", map[string]any{"decision": "result", "form": "p2"},
			"${{ steps.charge.output[0] }}", "p2", "succeeded"},
		{"the result of a round", "{uses: loop, with: {max_iterations: 1, steps: {pay: {uses: test.pay}}, output: '${{ steps.pay.output }}'}}", "charge#1/pay",
			map[string]any{"decision": "result", "form": "p3"}, "${{ steps.charge.output.last }}", "p3", "succeeded"},
		{"a failure", "{uses: test.pay, on_error: continue}", "charge", map[string]any{"decision": "fail"},
			"${{ steps.charge.error.code }}", "call.indeterminate", "failed"},
		{"a result that does not fit", "{uses: test.pay, on_error: continue, output: {schema: {type: string}}}", "charge", map[string]any{"decision": "result", "form": int64(1)},
			"${{ steps.charge.error.code }}", "output.invalid", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			paid, log := 0, &runtest.Effects{}
			pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { paid++; return nil, runtest.Lost })
			rt := &runtime.Runtime{Tools: []runtime.Tool{pay, log.External("test.act")}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
			text := runtest.Head + "steps:\n  charge: " + tt.charge + `
  ask: {uses: human, needs: [charge], trigger: all_done, with: {prompt: Go on}}
  mail: {uses: test.act, needs: [ask], with: {n: OLD}}
output: "` + tt.output + "\"\n"
			out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			if err != nil || len(out.Pauses) != 1 || out.Pauses[0].Reason != "indeterminate" {
				t.Fatal(out.Pauses, err)
			}
			if out, err = workflow.Resume(t.Context(), out.Token, tt.answer, rt, nil); err != nil || out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, err)
			}
			runID, token := out.RunID, out.Token
			if got := statusIn(t, rt.Store, runID, tt.path); tt.status != "" && got != tt.status {
				t.Errorf("the journal says that the step is %s", got)
			}

			forkAsk, err := workflow.Fork(t.Context(), runID, "ask", workflow.Edits{}, rt, nil)
			if err != nil || forkAsk.Status != workflow.StatusPaused {
				t.Fatal(forkAsk.Status, err)
			}
			if forkAsk, err = workflow.Resume(t.Context(), forkAsk.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
				t.Fatal(err)
			}
			again, err := workflow.Fork(t.Context(), forkAsk.RunID, "mail", workflow.Edits{}, rt, nil)
			if err != nil {
				t.Fatal(err)
			}
			recovered, err := workflow.Recover(t.Context(), again.RunID, rt, nil)
			if err != nil {
				t.Fatal(err)
			}
			changed := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(text, "OLD", "NEW", 1))), AcceptChanged: true}
			resumed, err := workflow.Resume(t.Context(), token, map[string]any{"decision": "approve"}, rt, changed)
			if err != nil {
				t.Fatal(err)
			}
			for name, got := range map[string]*workflow.Outcome{"a fork": forkAsk, "a fork of it": again, "that, recovered": recovered, "a changed definition": resumed} {
				if !cmp.Equal(got.Output, tt.want) {
					t.Errorf("%s: output %v, want %v", name, got.Output, tt.want)
				}
			}
			if diff := cmp.Diff([]string{"test.act OLD", "test.act OLD", "test.act NEW"}, log.Lines); diff != "" || paid != 1 {
				t.Errorf("paid %d times, other effects (-want +got)\n%s", paid, diff)
			}
		})
	}
}

// statusIn is the status of a step by the journal of a run.
func statusIn(t *testing.T, store checkpoint.Store, runID, step string) string {
	t.Helper()
	d, err := (&history.Reader{Store: store}).Step(t.Context(), runID, step)
	if err != nil {
		t.Fatal(err)
	}
	return d.Status
}

// An edited output of a step that a person settled is what the fork continues with.
func TestForkEditsWhatAPersonSettled(t *testing.T) {
	paid := 0
	pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { paid++; return nil, runtest.Lost })
	rt := &runtime.Runtime{Tools: []runtime.Tool{pay, runtest.Echo}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  charge: {uses: test.pay}
  mail: {uses: test.echo, with: {n: "${{ steps.charge.output }}"}}
output: ${{ steps.mail.output.n }}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "result", "form": "p1"}, rt, nil); err != nil {
		t.Fatal(err)
	}
	fork, err := workflow.Fork(t.Context(), out.RunID, "mail", workflow.Edits{Outputs: map[string]any{"charge": "p2"}}, rt, nil)
	if err != nil || fork.Output != "p2" || paid != 1 {
		t.Errorf("output %v, %v, paid %d times", fork.Output, err, paid)
	}
}

// trust 7.8: a changed definition of a step whose call a person settled asks before it makes the call again.
func TestSettledCallIsAskedAboutBeforeItIsMadeAgain(t *testing.T) {
	for _, settled := range []string{"result", "fail"} {
		paid := 0
		pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
			if paid++; paid == 1 {
				return nil, runtest.Lost
			}
			return "p2", nil
		})
		rt := &runtime.Runtime{Tools: []runtime.Tool{pay}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
		const text = runtest.Head + `steps:
  charge: {uses: test.pay, on_error: continue, with: {n: OLD}}
  ask: {uses: human, needs: [charge], trigger: all_done, with: {prompt: Go on}}
output: ${{ steps.charge.output }}
`
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": settled, "form": "p1"}, rt, nil); err != nil || out.Status != workflow.StatusPaused {
			t.Fatal(out.Status, err)
		}
		opts := &workflow.ResumeOptions{Workflow: runtest.Load(t, []byte(strings.Replace(text, "OLD", "NEW", 1))), AcceptChanged: true}
		for range 2 { // the second time it knows the definition, and still asks
			out, err = workflow.Recover(t.Context(), out.RunID, rt, opts)
			if err != nil || len(out.Pauses) != 1 || out.Pauses[0].Step != "charge" || out.Pauses[0].Reason != "indeterminate" || paid != 1 {
				t.Fatalf("%s: %v, %v, paid %d times", settled, out.Pauses, err, paid)
			}
		}
	}
}

// Whoever forks a run is asked what became of a call with unknown outcome, unless the fork makes it again: about the
// call that was made, with the key that it had.
func TestForkAsksAboutAnUnknownCall(t *testing.T) {
	for _, tt := range []struct {
		decision string
		calls    []string // in the fork
	}{{"result", []string{"mail"}}, {"retry", []string{"pay", "mail"}}} {
		for _, recovered := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.decision, recovered), func(t *testing.T) {
				log, ids := &runtest.Effects{}, []string{"r2", "r1"}
				first := true
				pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
					log.Add("pay")
					if first {
						first = false
						return nil, runtest.Lost
					}
					return "paid", nil
				})
				mail := runtest.Tool("test.mail", func(context.Context, map[string]any) (any, error) { log.Add("mail"); return "sent", nil })
				rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Tools: []runtime.Tool{pay, mail}, NewRunID: func() string {
					id := ids[len(ids)-1]
					ids = ids[:len(ids)-1]
					return id
				}}
				out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  pay: {uses: test.pay}\n  mail: {uses: test.mail, needs: [pay]}\noutput: ${{ steps.pay.output }}\n")).Run(t.Context(), nil, rt)
				runtest.OnlyPause(t, out, "pay", "indeterminate")
				asked := out.Pauses[0].Call
				log.Lines = nil
				fork, _ := workflow.Fork(t.Context(), "r1", "mail", workflow.Edits{}, rt, nil)
				if recovered {
					fork, _ = workflow.Recover(t.Context(), "r2", rt, nil)
				}
				runtest.OnlyPause(t, fork, "pay", "indeterminate")
				if diff := cmp.Diff(asked, fork.Pauses[0].Call); diff != "" || asked.Key != resume.Key("r1", 1, "pay", 1, "") || log.Lines != nil {
					t.Errorf("calls %v, the call that is asked about (-want +got)\n%s", log.Lines, diff)
				}
				log.Lines = []string{}
				answer := map[string]any{"decision": tt.decision}
				if tt.decision == "result" {
					answer["form"] = "by hand"
				}
				fork, err := workflow.Resume(t.Context(), fork.Token, answer, rt, nil)
				if diff := cmp.Diff(tt.calls, log.Lines); diff != "" || fork.Status != workflow.StatusOK {
					t.Errorf("%s, %v, calls (-want +got)\n%s", fork.Status, err, diff)
				}
			})
		}
	}
}
