package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const lasting = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  ask: {uses: human, needs: [a], with: {prompt: "Go on?"}}
  fails: {uses: fail, needs: [ask], when: steps.ask.output.decision == "reject", with: {code: no.good}}
finally:
  told: {uses: test.act, with: {n: "${{ run.status }} ${{ run.error?.code }} ${{ steps.a.status }} ${{ steps.ask.status }}"}}
  sure: {uses: human, needs: [told], with: {prompt: "Seen?"}}
  last: {uses: test.act, needs: [sure], with: {n: last}}
output: done
`

// paused runs a recipe until it pauses.
func pausedIn(t *testing.T, out *workflow.Outcome, step string) *workflow.Outcome {
	t.Helper()
	if out.Status != workflow.StatusPaused || len(out.Pauses) != 1 || out.Pauses[0].Step != step {
		t.Fatalf("%s, %v, %v, want a pause of %s", out.Status, out.Err, out.Pauses, step)
	}
	return out
}

// After each end: well, failed, cancelled. The status is that of before; finally sees it, may pause, and comes after the
// rollbacks.
func TestFinally(t *testing.T) {
	approve, reject := map[string]any{"decision": "approve"}, map[string]any{"decision": "reject"}
	for _, tt := range []struct {
		name   string
		answer any // nil: it is cancelled
		status workflow.Status
		code   string
		want   []string
	}{
		{"ok", approve, workflow.StatusOK, "", []string{"test.act 1", "test.act ok  succeeded succeeded", "test.act last"}},
		{"failed", reject, workflow.StatusError, "no.good", []string{"test.act 1", "test.undo 1", "test.act error no.good succeeded succeeded", "test.act last"}},
		{"cancelled", nil, workflow.StatusCancelled, "run.cancelled", []string{"test.act 1", "test.undo 1", "test.act cancelled run.cancelled succeeded cancelled", "test.act last"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, store := &runtest.Effects{}, &checkpoint.Memory{}
			rt := runtest.UndoRuntime(log, store)
			out, _ := runtest.Load(t, []byte(lasting)).Run(t.Context(), nil, rt)
			out = pausedIn(t, out, "ask")
			if tt.answer == nil {
				out, _ = workflow.Cancel(t.Context(), "r1", "why", rt, nil)
			} else {
				out, _ = workflow.Resume(t.Context(), out.Token, tt.answer, rt, nil)
			}
			out = pausedIn(t, out, "sure")
			out, err := workflow.Resume(t.Context(), out.Token, approve, rt, nil)
			if out.Status != tt.status || tt.code != "" && out.Failure().Code != tt.code {
				t.Errorf("%s, %v", out.Status, err)
			}
			if diff := cmp.Diff(tt.want, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			if out.Artefact["sure"] == nil || len(out.Diagnostics) != 0 {
				t.Errorf("artefact %v, diagnostics %v", out.Artefact, out.Diagnostics)
			}
			again, _ := workflow.Recover(t.Context(), "r1", rt, nil)
			if again.Status != out.Status || !cmp.Equal(again.Artefact, out.Artefact) || !cmp.Equal(again.Output, out.Output) || len(log.Lines) != len(tt.want) {
				t.Errorf("once more: %s, %v, %v", again.Status, again.Artefact, again.Output)
			}
			if sum, _, err := store.Load(t.Context(), "r1", 0); err != nil || string(sum.Status) != string(tt.status) {
				t.Errorf("the store has %s, %v", sum.Status, err)
			}
		})
	}
}

// A cancellation ends a finally that has begun, and changes nothing else.
func TestFinallyCancelled(t *testing.T) {
	for _, first := range []string{"approve", "reject", ""} {
		log, store := &runtest.Effects{}, &checkpoint.Memory{}
		rt := runtest.UndoRuntime(log, store)
		out, _ := runtest.Load(t, []byte(lasting)).Run(t.Context(), nil, rt)
		want := workflow.StatusOK
		switch first {
		case "":
			out, _ = workflow.Cancel(t.Context(), "r1", "first", rt, nil)
			want = workflow.StatusCancelled
		case "reject":
			want = workflow.StatusError
			fallthrough
		default:
			out, _ = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": first}, rt, nil)
		}
		token := pausedIn(t, out, "sure").Token
		out, err := workflow.Cancel(t.Context(), "r1", "second", rt, nil)
		if out.Status != want || err != nil && strings.Contains(err.Error(), "second") {
			t.Errorf("%s: %s, %v", first, out.Status, err)
		}
		if slices.Contains(log.Lines, "test.act last") || len(out.Diagnostics) != 1 || out.Diagnostics[0].Code != "finally.failed" {
			t.Errorf("%s: %q, %v", first, log.Lines, out.Diagnostics)
		}
		if late, err := workflow.Resume(t.Context(), token, map[string]any{"decision": "approve"}, rt, nil); err == nil || late.Failure().Code != "resume.invalidToken" {
			t.Errorf("%s: a token of it: %v", first, err)
		}
		if again, _ := workflow.Recover(t.Context(), "r1", rt, nil); again.Status != want {
			t.Errorf("%s: once more: %s", first, again.Status)
		}
	}
}

// Where the process stops at any write, recovery comes to the same end, with each effect once.
func TestFinallyAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(lasting))
	answer := map[string]map[string]any{"ask": {"decision": "reject"}, "sure": {"decision": "approve"}}
	for dies := 0; ; dies++ {
		log, memory := &runtest.Effects{}, &checkpoint.Memory{}
		dying := &runtest.Dead{Store: memory, After: dies}
		out, _ := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, dying))
		for n := 0; out.Status == workflow.StatusPaused && n < 9; n++ {
			out, _ = workflow.Resume(t.Context(), out.Token, answer[out.Pauses[0].Step], runtest.UndoRuntime(log, runtest.Claimed{Dead: dying}), nil)
		}
		if out.Failure().Code == "no.good" {
			if dies < 7 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		out, err := workflow.Recover(t.Context(), "r1", runtest.UndoRuntime(log, memory), nil)
		for n := 0; out.Status == workflow.StatusPaused && n < 9; n++ {
			in := answer[out.Pauses[0].Step]
			if p := out.Pauses[0]; p.Reason == "indeterminate" {
				n := map[string]any{"a": 1, "told": 2, "last": 3}[p.Step]
				in = map[string]any{"decision": "result", "form": map[string]any{"result": n}}
			}
			out, err = workflow.Resume(t.Context(), out.Token, in, runtest.UndoRuntime(log, memory), nil)
		}
		if out.Failure().Code != "no.good" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		seen := map[string]bool{}
		for _, line := range log.Lines {
			if seen[line] {
				t.Errorf("after %d writes: %q twice", dies, line)
			}
			seen[line] = true
		}
	}
}

// A context that ends leaves finally, or the rest of it, to a recovery.
func TestFinallyInterrupted(t *testing.T) {
	for _, in := range []string{"main", "finally"} {
		t.Run(in, func(t *testing.T) {
			log, store := &runtest.Effects{}, &checkpoint.Memory{}
			rt := runtest.UndoRuntime(log, store)
			ctx, cancel := context.WithCancel(t.Context())
			stop := runtest.Tool("test.stop", func(ctx context.Context, args map[string]any) (any, error) {
				if args["in"] == in {
					cancel()
				}
				return 1, nil
			})
			rt.Tools = append(rt.Tools, stop)
			wf := runtest.Load(t, []byte(runtest.Head+`steps: {one: {uses: test.stop, with: {in: main}}}
finally: {two: {uses: test.stop, with: {in: finally}}, three: {uses: test.act, needs: [two], with: {n: "${{ run.status }}"}}}
output: done
`))
			out, err := wf.Run(ctx, nil, rt)
			if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) || len(log.Lines) != 0 || out.Output != nil {
				t.Fatalf("%s, %v, %q", out.Status, err, log.Lines)
			}
			out, err = workflow.Recover(t.Context(), "r1", rt, nil)
			if out.Status == workflow.StatusPaused { // nobody knows what the call did
				out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "result", "form": map[string]any{"result": 1}}, rt, nil)
			}
			if err != nil || out.Output != "done" || !slices.Equal(log.Lines, []string{"test.act ok"}) {
				t.Errorf("%s, %v, %q", out.Status, err, log.Lines)
			}
		})
	}
}

// finally has five minutes of its own, whatever the run's wall_time. A child's goes on when its run has failed.
func TestFinallyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := runtest.Tool("test.slow", func(ctx context.Context, _ map[string]any) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		rt := &runtime.Runtime{Tools: []runtime.Tool{slow}, Resume: resume.PassThrough{}}
		out, err := runtest.Load(t, []byte(runtest.Head+`limits: {wall_time: 1s}
steps: {one: {uses: test.slow}}
finally:
  two: {uses: test.slow, with: {n: "${{ run.error.code }}"}}
  three: {uses: set, needs: [two], trigger: all_done, with: 1}
`)).Run(t.Context(), nil, rt)
		if out.Failure().Code != "limits.wall_time" || len(out.Diagnostics) == 0 {
			t.Fatalf("%v, %v", err, out.Diagnostics)
		}
		if d := out.Diagnostics[0]; d.Code != "finally.failed" || !strings.Contains(d.Message, "it may take 5m0s") {
			t.Errorf("%v", d)
		}
		if took := out.EndedAt.Sub(out.StartedAt).Round(1e9).String(); took != "5m1s" {
			t.Errorf("it took %s", took)
		}
	})
}
