package execution_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// again is an adapter that begins the run again with each answer to the pauses of a step.
type again struct{ step string }

func (a again) Resolve(_ context.Context, req resume.Request) (any, error) {
	if req.Pause.Step == a.step {
		return resume.RestartWith{Input: req.Input}, nil
	}
	return req.Input, nil
}

var no = map[string]any{"decision": "reject"}

func restartWithRuntime(log *runtest.Effects, store checkpoint.Store) *runtime.Runtime {
	rt := restartRuntime(log, store)
	rt.Interrupt, rt.Resume = resume.Continue, again{"ask"}
	return rt
}

// trust 2.7: an adapter's RestartWith has a run that continues rolled back, and begun again with that answer and those
// before it. The tokens of other pauses are dead.
func TestRestartWith(t *testing.T) {
	for _, tt := range []struct {
		name    string
		store   checkpoint.Store
		first   bool // the other pause is answered before
		effects []string
	}{
		{"the last answer", &checkpoint.Memory{}, true, []string{"test.act 1 in 1", "test.undo 1", "test.act 1 in 2", "test.act 2 in 2", "test.act 3 in 2"}},
		{"the first answer", &checkpoint.Memory{}, false, []string{"test.act 1 in 1", "test.undo 1", "test.act 1 in 2", "test.act 2 in 2", "test.act 3 in 2"}},
		{"without a store", nil, true, []string{"test.act 1 in 1", "test.undo 1", "test.act 1 in 2", "test.act 2 in 2", "test.act 3 in 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := restartWithRuntime(log, tt.store)
			out, err := runtest.Load(t, []byte(restarting)).Run(t.Context(), map[string]any{"first": 1}, rt)
			if len(out.Pauses) != 2 {
				t.Fatalf("%s, %v", out.Status, err)
			}
			ask, also := out.Pauses[0].Token, out.Pauses[1].Token
			if tt.first {
				if _, err := workflow.Resume(t.Context(), also, no, rt, nil); err != nil {
					t.Fatal(err)
				}
			}
			out, err = workflow.Resume(t.Context(), ask, runtest.Yes, rt, nil)
			if !tt.first {
				if late, _ := workflow.Resume(t.Context(), also, no, rt, nil); late.Failure() == nil || late.Failure().Code != "resume.invalidToken" {
					t.Errorf("the token of the other pause: %v", late.Err)
				}
				out, err = workflow.Resume(t.Context(), runtest.OnlyPause(t, out, "also", "").Token, no, rt, nil)
			}
			if err != nil || !cmp.Equal(out.Output, []any{"approve", "reject", int64(3)}) {
				t.Fatalf("%v, %v", err, out.Output)
			}
			if diff := cmp.Diff(tt.effects, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			if tt.store == nil {
				return
			}
			ended, err := workflow.Recover(t.Context(), "r1", rt, nil)
			if err != nil || !cmp.Equal(ended.Output, out.Output) {
				t.Errorf("of the ended run: %v, %v", err, ended.Output)
			}
			log.Lines, rt.NewRunID = nil, nil
			fork, err := workflow.Fork(t.Context(), "r1", "c", workflow.Edits{}, rt, nil) // it shares the last generation
			if err != nil || !cmp.Equal(fork.Output, out.Output) || !cmp.Equal(log.Lines, []string{"test.act 3 in none"}) {
				t.Errorf("a fork: %v, %v, %q", err, fork.Output, log.Lines)
			}
		})
	}
}

// trust 2.7: wherever the run dies after the decision, a recovery rolls it back and begins it again.
func TestRestartWithAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(restarting))
	used := 0 // deaths after the token was used
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		out, _ := wf.Run(t.Context(), map[string]any{"first": 1}, restartWithRuntime(log, memory))
		var err error
		if out, err = workflow.Resume(t.Context(), out.Pauses[1].Token, no, restartWithRuntime(log, memory), nil); err != nil {
			t.Fatal(err)
		}
		token := out.Token
		out, err = workflow.Resume(t.Context(), token, runtest.Yes, restartWithRuntime(log, runtest.Claimed{Dead: &runtest.Dead{Store: memory, After: dies}}), nil)
		if err == nil && out.Status == workflow.StatusOK {
			if used < 5 {
				t.Fatalf("only %d deaths after the decision", used)
			}
			return
		}
		rt := restartWithRuntime(log, memory)
		out, err = workflow.Recover(t.Context(), "r1", rt, nil)
		if out.Status == workflow.StatusPaused && out.Pauses[0].Step == "ask" {
			out, err = workflow.Resume(t.Context(), token, runtest.Yes, rt, nil) // it is usable still
		} else {
			used++
		}
		for out.Status == workflow.StatusPaused && out.Pauses[0].Reason == "indeterminate" {
			p := out.Pauses[0]
			answer := map[string]any{"decision": "retry"}
			if n := map[string]any{"a": int64(1), "b": int64(2), "c": int64(3)}[p.Step]; left(log)[fmt.Sprint(n)] > 0 {
				answer = map[string]any{"decision": "result", "form": n}
			}
			out, err = workflow.Resume(t.Context(), p.Token, answer, rt, nil)
		}
		if err != nil || !cmp.Equal(out.Output, []any{"approve", "reject", int64(3)}) {
			t.Errorf("after %d writes: %v, %v", dies, err, out.Output)
		}
		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "3": 1}, left(log)); diff != "" {
			t.Errorf("after %d writes: what is left of the effects (-want +got)\n%s\n%q", dies, diff, log.Lines)
		}
	}
}

// trust 2.7: a run in which calls were under way when it was interrupted does not begin again before it is recovered,
// as nobody would ask what became of them. The token stays usable.
func TestRestartWithOfAnInterruptedRunIsRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := &checkpoint.Memory{}
	began := false
	rt := &runtime.Runtime{Store: store, Resume: again{"ask"}, Tools: []runtime.Tool{
		runtest.Tool("test.hang", func(ctx context.Context, _ map[string]any) (any, error) {
			if began {
				return "done", nil
			}
			began = true
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		})}}
	out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go on}}\n  hang: {uses: test.hang, needs: []}\n")).Run(ctx, nil, rt)
	if out.Status != workflow.StatusCancelled {
		t.Fatal(out.Status)
	}
	refused, _ := workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, nil)
	want := "the run cannot begin again: calls of it were under way when it was interrupted\n  hint: recover it first"
	if e := refused.Failure(); e == nil || e.Code != "answer.unfit" || e.Err.Error() != want {
		t.Fatalf("got %v", refused.Err)
	}
	if sum, _, _ := store.Load(t.Context(), out.RunID, 0); len(sum.Pauses) != 1 {
		t.Errorf("%d open pauses", len(sum.Pauses))
	}
}
