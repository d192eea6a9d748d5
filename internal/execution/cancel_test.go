package execution_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

const waiting = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  ask: {uses: human, needs: [a], with: {prompt: "Go on?"}}
  also: {uses: human, needs: [a], with: {prompt: "Sure?"}}
  b: {uses: set, needs: [a], with: 2, rollback: {uses: test.again, with: {n: 2}}}
  c: {uses: test.act, needs: [ask, also], with: {n: 3}, rollback: {uses: test.undo, with: {n: 3}}}
output: "${{ steps.c.output }}"
`

func TestCancelForGood(t *testing.T) {
	log, store := &runtest.Effects{}, &checkpoint.Memory{}
	rt := runtest.UndoRuntime(log, store)
	out, err := runtest.Load(t, []byte(waiting)).Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusPaused || len(out.Pauses) != 2 {
		t.Fatalf("%s, %v", out.Status, err)
	}
	lease, err := store.Claim(t.Context(), "r1", "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if busy, err := workflow.Cancel(t.Context(), "r1", "", rt, nil); err == nil || busy.Failure().Code != "run.busy" {
		t.Errorf("of a held run: %v", err)
	}
	if err := store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if gone, err := workflow.Cancel(t.Context(), "r2", "", rt, nil); err == nil || gone.Failure().Code != "run.notFound" {
		t.Errorf("of no run: %v", err)
	}

	done, err := workflow.Cancel(t.Context(), "r1", "the customer left", rt, nil)
	if done.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) || done.Failure().Code != "run.cancelled" || !strings.HasSuffix(err.Error(), ": the customer left") {
		t.Fatalf("%s, %v", done.Status, err)
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.again " + resume.Key("r1", 1, "b!rollback", 1, ""), "test.undo 1"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
	want := []string{"run.start recover=true", "step.replayed a", "step.replayed b",
		"adapter.call b!rollback kind=tool name=test.again", "step.rollback b!rollback ok=true",
		"adapter.call a!rollback kind=tool name=test.undo", "step.rollback a!rollback ok=true"}
	if got := runtest.LinesOf(done); !slices.Equal(got[:len(got)-2], want) || !strings.HasPrefix(got[7], "run.cancelled ") || got[8] != "run.end status=cancelled" {
		t.Errorf("trace (-want +got)\n%s", cmp.Diff(want, got))
	}
	if diff := cmp.Diff(map[string]any{"a": int64(1), "b": int64(2)}, done.Artefact); diff != "" {
		t.Errorf("artefact (-want +got)\n%s", diff)
	}
	if sum, _, err := store.Load(t.Context(), "r1", 0); err != nil || sum.Status != checkpoint.Cancelled || len(sum.Pauses) != 0 {
		t.Errorf("the store has %+v, %v", sum, err)
	}
	if late, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err == nil || late.Failure().Code != "resume.invalidToken" {
		t.Errorf("a token of it: %v", err)
	}
	for name, f := range map[string]func() (*workflow.Outcome, error){
		"Cancel":  func() (*workflow.Outcome, error) { return workflow.Cancel(t.Context(), "r1", "again", rt, nil) },
		"Recover": func() (*workflow.Outcome, error) { return workflow.Recover(t.Context(), "r1", rt, nil) },
	} {
		if again, err := f(); err == nil || err.Error() != done.Err.Error() || !cmp.Equal(again.Artefact, done.Artefact) {
			t.Errorf("%s of a cancelled run: %v", name, err)
		}
	}
	if len(log.Lines) != 3 {
		t.Errorf("effects afterwards %q", log.Lines)
	}
}

// Of a run that has ended nothing is undone.
func TestCancelOfAnEndedRun(t *testing.T) {
	log := &runtest.Effects{}
	rt := runtest.UndoRuntime(log, &checkpoint.Memory{})
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo}}\noutput: done\n"))
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	out, err := workflow.Cancel(t.Context(), "r1", "late", rt, nil)
	if err != nil || out.Output != "done" || len(log.Lines) != 1 {
		t.Errorf("%v, %v, %q", err, out.Output, log.Lines)
	}
}

// Cancelling that dies at any write is resumed by whoever recovers or cancels the run, and nothing
// else goes on.
func TestCancelAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(waiting))
	for dies := 0; ; dies++ {
		log, memory := &runtest.Effects{}, &checkpoint.Memory{}
		if out, err := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, memory)); out.Status != workflow.StatusPaused {
			t.Fatal(err)
		}
		dying := &runtest.Dead{Store: memory, After: dies}
		out, err := workflow.Cancel(t.Context(), "r1", "why", runtest.UndoRuntime(log, runtest.Claimed{Dead: dying}), nil)
		if out.Status == workflow.StatusCancelled {
			if dies < 3 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		if sum, _, _ := memory.Load(t.Context(), "r1", 0); dies > 0 && len(sum.Pauses) > 0 {
			t.Errorf("after %d writes, open: %v", dies, sum.Pauses)
		}
		again := func() (*workflow.Outcome, error) {
			return workflow.Recover(t.Context(), "r1", runtest.UndoRuntime(log, memory), nil)
		}
		if dies%2 == 0 {
			again = func() (*workflow.Outcome, error) {
				return workflow.Cancel(t.Context(), "r1", "why", runtest.UndoRuntime(log, memory), nil)
			}
		}
		out, err = again()
		if out.Status != workflow.StatusCancelled || !strings.HasSuffix(fmt.Sprint(err), ": why") {
			t.Errorf("after %d writes: %s, %v", dies, out.Status, err)
		}
		if diff := cmp.Diff([]string{"test.act 1", "test.again " + resume.Key("r1", 1, "b!rollback", 1, ""), "test.undo 1"}, log.Lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
	}
}

// trust 6.2: what is not known of a run that was interrupted, or that asks, is said when its end is forced.
func TestForcedCancelOfAnInterruptedRun(t *testing.T) {
	for _, asks := range []bool{false, true} {
		log, memory := &runtest.Effects{}, &checkpoint.Memory{}
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}\n"))
		if _, err := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, &runtest.Dead{Store: memory, After: 1})); err == nil {
			t.Fatal("it did not die")
		}
		if asks {
			if out, err := workflow.Recover(t.Context(), "r1", runtest.UndoRuntime(log, memory), nil); out.Status != workflow.StatusPaused {
				t.Fatal(err)
			}
		}
		out, err := workflow.Cancel(t.Context(), "r1", "", runtest.UndoRuntime(log, memory), &workflow.ResumeOptions{Force: true})
		if out.Status != workflow.StatusCancelled || !strings.HasSuffix(err.Error(), "no reason was given") {
			t.Errorf("%s, %v", out.Status, err)
		}
		want := []string{`a!rollback: step "a" was not rolled back: it was called, and it is not known whether it had its effect`}
		if diff := cmp.Diff(want, runtest.Reported(out)); diff != "" {
			t.Errorf("diagnostics (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"test.act 1"}, log.Lines); diff != "" {
			t.Errorf("effects (-want +got)\n%s", diff)
		}
	}
}

// A run without a store can be cancelled where it is kept.
func TestCancelWithoutAStore(t *testing.T) {
	for _, cache := range []checkpoint.Cache{nil, &checkpoint.MemoryCache{}} {
		log := &runtest.Effects{}
		rt := runtest.UndoRuntime(log, nil)
		rt.Cache = cache
		out, err := runtest.Load(t, []byte(waiting)).Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatal(err)
		}
		done, err := workflow.Cancel(t.Context(), "r1", "", rt, nil)
		if done.Status != workflow.StatusCancelled || len(log.Lines) != 3 {
			t.Errorf("%s, %v, %q", done.Status, err, log.Lines)
		}
		if late, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err == nil || late.Failure().Code != "resume.invalidToken" {
			t.Errorf("a token of it: %v", err)
		}
	}
}
