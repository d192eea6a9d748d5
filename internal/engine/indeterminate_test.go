package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// paying is a runtime whose test.pay never answers before it is stopped, and whose test.refund undoes it.
func paying(log *runtest.Effects) *runtime.Runtime {
	return &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{},
		NewRunID: func() string { return "r1" },
		Tools: []runtime.Tool{
			runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
				log.Add("pay")
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			runtest.Tool("test.refund", func(_ context.Context, args map[string]any) (any, error) {
				log.Add(fmt.Sprint("refund ", args["id"]))
				return nil, nil
			}),
			runtest.Tool("test.fail", func(context.Context, map[string]any) (any, error) {
				<-time.After(time.Second)
				return nil, errors.New("no")
			}),
			runtest.Tool("test.nap", func(context.Context, map[string]any) (any, error) { <-time.After(time.Second); return "slept", nil }),
		}}
}

// trust 6.2: what follows on an external call that the run cut off, by what the step says and by what is answered. The
// failure of the run is kept, and what had its effect is rolled back.
func TestCutOffCallIsSettled(t *testing.T) {
	const pay = "uses: test.pay, with: {id: 7}, rollback: {uses: test.refund, with: {id: '${{ steps.p1.output }}'}}"
	const beside = "steps:\n  p1: {%s" + pay + "}\n  p2: {uses: test.fail}\n"
	const timed = "steps:\n  p1: {%s" + pay + ", timeout: 3s}\n"
	const race = "steps:\n  r: {uses: fork, with: {mode: race, branches: {a: {steps: {p1: {%s" + pay + "}}}, b: {steps: {p2: {uses: test.nap}}}}}}\n"
	const wall = "limits: {wall_time: 3s}\nsteps:\n  p1: {%s" + pay + "}\n"
	result := map[string]any{"decision": "result", "form": "T-1"}
	fails := map[string]any{"decision": "fail"}
	for _, tt := range []struct {
		name, text, said string
		decisions        []string // that are offered; nil: nobody is asked
		answer           any
		status           workflow.Status
		code             string
		log              []string
		unknown          bool // there is a diagnostic
	}{
		{"another step failed, it had its effect", beside, "", []string{"result", "fail"}, result, workflow.StatusError, "tool.failed", []string{"pay", "refund T-1"}, false},
		{"another step failed, it had none", beside, "", []string{"result", "fail"}, fails, workflow.StatusError, "tool.failed", []string{"pay"}, false},
		{"another step failed, pause", beside, "pause", []string{"result", "fail"}, fails, workflow.StatusError, "tool.failed", []string{"pay"}, false},
		{"another step failed, fail", beside, "fail", nil, nil, workflow.StatusError, "tool.failed", []string{"pay"}, false},
		{"another step failed, continue", beside, "continue", nil, nil, workflow.StatusError, "tool.failed", []string{"pay"}, true},
		{"its own time, it had its effect", timed, "", []string{"retry", "result", "fail"}, result, workflow.StatusOK, "", []string{"pay"}, false},
		{"its own time, it had none", timed, "", []string{"retry", "result", "fail"}, fails, workflow.StatusError, "call.indeterminate", []string{"pay"}, false},
		{"its own time, fail", timed, "fail", nil, nil, workflow.StatusError, "step.timeout", []string{"pay"}, false},
		{"its own time, continue", timed, "continue", nil, nil, workflow.StatusError, "step.timeout", []string{"pay"}, true},
		{"a lost race", race, "", nil, nil, workflow.StatusOK, "", []string{"pay"}, true},
		{"a lost race, pause", race, "pause", []string{"result", "fail"}, result, workflow.StatusOK, "", []string{"pay"}, false},
		{"the run's time", wall, "", nil, nil, workflow.StatusError, "limits.wall_time", []string{"pay"}, true},
		{"the run's time, pause", wall, "pause", []string{"result", "fail"}, result, workflow.StatusError, "limits.wall_time", []string{"pay", "refund T-1"}, false},
	} {
		for _, interrupt := range []resume.Interrupt{resume.Continue, resume.Restart} {
			t.Run(fmt.Sprintf("%s, %s", tt.name, interrupt), func(t *testing.T) {
				if interrupt == resume.Restart && strings.HasPrefix(tt.name, "its own time, it had") || interrupt == resume.Restart && tt.name == "a lost race, pause" {
					return // a run that can succeed begins again
				}
				synctest.Test(t, func(t *testing.T) {
					log, said := &runtest.Effects{}, ""
					if tt.said != "" {
						said = "on_indeterminate: " + tt.said + ", "
					}
					rt := paying(log)
					rt.Interrupt = interrupt
					out, _ := runtest.Load(t, fmt.Appendf([]byte(runtest.Head), tt.text, said)).Run(t.Context(), nil, rt)
					if tt.decisions != nil {
						if out.Status != workflow.StatusPaused || len(out.Pauses) != 1 {
							t.Fatalf("%s, %v", out.Status, out.Err)
						}
						p := out.Pauses[0]
						if diff := cmp.Diff(tt.decisions, p.Decisions); diff != "" {
							t.Errorf("decisions (-want +got)\n%s", diff)
						}
						if tt.decisions[0] != "retry" {
							refused, _ := workflow.Resume(t.Context(), p.Token, map[string]any{"decision": "retry"}, rt, nil)
							if runtest.ErrorCode(refused) != "answer.unfit" {
								t.Errorf("retry: %s, %v", refused.Status, refused.Err)
							}
						}
						if diff := cmp.Diff([]string{"pay"}, log.Lines); diff != "" {
							t.Errorf("effects before the answer (-want +got)\n%s", diff)
						}
						recovered, _ := workflow.Recover(t.Context(), "r1", rt, nil)
						if recovered.Status != workflow.StatusPaused {
							t.Fatalf("recovered: %s, %v", recovered.Status, recovered.Err)
						}
						out, _ = workflow.Resume(t.Context(), p.Token, tt.answer, rt, nil)
					}
					if out.Status != tt.status || runtest.ErrorCode(out) != tt.code {
						t.Errorf("%s, %v; want %s, %s", out.Status, out.Err, tt.status, tt.code)
					}
					if diff := cmp.Diff(tt.log, log.Lines); diff != "" {
						t.Errorf("effects (-want +got)\n%s", diff)
					}
					if found := unknowns(out); (len(found) > 0) != tt.unknown {
						t.Errorf("diagnostics %v", found)
					}
				})
			})
		}
	}
}

// A call whose own time was over is made again if the answer says so, with the same key and its whole time.
func TestTimedOutCallIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &runtest.Effects{}
		rt := paying(log)
		out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  p1: {uses: test.pay, timeout: 3s}\n")).Run(t.Context(), nil, rt)
		for range 2 {
			runtest.OnlyPause(t, out, "p1", "indeterminate")
			began := time.Now()
			out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "retry"}, rt, nil)
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("it took %v", took)
			}
		}
		if diff := cmp.Diff([]string{"pay", "pay", "pay"}, log.Lines); diff != "" {
			t.Error(diff)
		}
	})
}

// trust 6.3: who decides about a call sees what was called, with the key by which the other side may know it.
func TestPauseShowsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := paying(&runtest.Effects{})
		rt.Secrets = runtime.SecretMap{"iban": "DE00-4711"}
		began := time.Now()
		out, _ := runtest.Load(t, []byte(runtest.Head+"requires: {secrets: [iban]}\nsteps:\n  p1: {uses: test.pay, timeout: 3s, with: {to: '${{ secrets.iban }}', n: 5}}\n")).Run(t.Context(), nil, rt)
		runtest.OnlyPause(t, out, "p1", "indeterminate")
		want := &resume.Call{Tool: "test.pay", Arguments: map[string]any{"to": "***", "n": int64(5)}, Attempt: 1,
			Key: resume.Key("r1", 1, "p1", 1, ""), At: began.UTC(), Owner: out.Pauses[0].Call.Owner}
		if diff := cmp.Diff(want, out.Pauses[0].Call); diff != "" || want.Owner == "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// trust 6.2: a run that is cancelled for good asks what became of its calls first, whether it asked already or was
// interrupted. Then it rolls back, and ends.
func TestCancelAsksFirst(t *testing.T) {
	for _, asked := range []bool{false, true} {
		for _, tt := range []struct {
			answer map[string]any
			log    []string
		}{
			{map[string]any{"decision": "result", "form": 1}, []string{"test.act 1", "test.undo 1"}},
			{map[string]any{"decision": "fail"}, []string{"test.act 1"}},
		} {
			t.Run(fmt.Sprint(asked, tt.answer["decision"]), func(t *testing.T) {
				log, memory := &runtest.Effects{}, &checkpoint.Memory{}
				rt := runtest.UndoRuntime(log, memory)
				rt.Resume = resume.PassThrough{}
				wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}\n  b: {uses: test.act, needs: [a], with: {n: 2}}\n"))
				if _, err := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, &runtest.Dead{Store: memory, After: 1})); err == nil {
					t.Fatal("it did not die")
				}
				if asked {
					out, _ := workflow.Recover(t.Context(), "r1", rt, nil)
					runtest.OnlyPause(t, out, "a", "indeterminate")
				}
				out, _ := workflow.Cancel(t.Context(), "r1", "enough", rt, nil)
				runtest.OnlyPause(t, out, "a", "indeterminate")
				if diff := cmp.Diff([]string{"result", "fail"}, out.Pauses[0].Decisions); diff != "" {
					t.Error(diff)
				}
				for _, again := range []func() (*workflow.Outcome, error){
					func() (*workflow.Outcome, error) { return workflow.Cancel(t.Context(), "r1", "again", rt, nil) },
					func() (*workflow.Outcome, error) { return workflow.Recover(t.Context(), "r1", rt, nil) },
				} {
					out, _ = again()
					runtest.OnlyPause(t, out, "a", "indeterminate")
				}
				out, err := workflow.Resume(t.Context(), out.Token, tt.answer, rt, nil)
				if out.Status != workflow.StatusCancelled || !strings.HasSuffix(err.Error(), "enough") {
					t.Errorf("%s, %v", out.Status, err)
				}
				if diff := cmp.Diff(tt.log, log.Lines); diff != "" {
					t.Errorf("effects (-want +got)\n%s", diff)
				}
				if again, _ := workflow.Recover(t.Context(), "r1", rt, nil); again.Status != workflow.StatusCancelled {
					t.Errorf("recovered: %s, %v", again.Status, again.Err)
				}
			})
		}
	}
}

// A question that is open when a run is cancelled can be dropped by force.
func TestForcedCancelDropsTheQuestion(t *testing.T) {
	log, memory := &runtest.Effects{}, &checkpoint.Memory{}
	rt := runtest.UndoRuntime(log, memory)
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.act, with: {n: 1}}\n"))
	if _, err := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, &runtest.Dead{Store: memory, After: 1})); err == nil {
		t.Fatal("it did not die")
	}
	out, _ := workflow.Cancel(t.Context(), "r1", "enough", rt, nil)
	runtest.OnlyPause(t, out, "a", "indeterminate")
	out, _ = workflow.Cancel(t.Context(), "r1", "at once", rt, &workflow.ResumeOptions{Force: true})
	if out.Status != workflow.StatusCancelled || len(runtest.Reported(out)) != 1 {
		t.Errorf("%s, %v, %v", out.Status, out.Err, runtest.Reported(out))
	}
}

// trust 1.7: a call whose end a person gave was made, so limits.tool_calls counts it, in every execution; one that is
// made again counts once.
func TestSettledCallCountsAsACallOfATool(t *testing.T) {
	for _, decision := range []string{"result", "fail", "retry"} {
		t.Run(decision, func(t *testing.T) {
			made := 0
			pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
				if made++; made == 1 {
					return nil, runtest.Lost
				}
				return "paid", nil
			})
			rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Tools: []runtime.Tool{pay}}
			text := runtest.Head + "limits: {tool_calls: 2}\nsteps:\n  a: {uses: test.pay, on_error: continue}\n  ask: {uses: human, needs: [a], trigger: all_done, with: {prompt: Go on}}\n" +
				"  b: {uses: test.pay, needs: [ask]}\n  c: {uses: test.pay, needs: [b]}\n"
			out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			answer := map[string]any{"decision": decision, "form": "paid"}
			if decision != "result" {
				delete(answer, "form")
			}
			out, _ = workflow.Resume(t.Context(), runtest.OnlyPause(t, out, "a", "indeterminate").Token, answer, rt, nil)
			out, err := workflow.Resume(t.Context(), runtest.OnlyPause(t, out, "ask", "").Token, map[string]any{"decision": "approve"}, rt, nil)
			if e := out.Failure(); e == nil || e.Code != "limits.tool_calls" || e.Step != "c" {
				t.Errorf("%s, %v", out.Status, err)
			}
		})
	}
}
