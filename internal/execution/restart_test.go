package execution_test

import (
	"context"
	"fmt"
	"slices"
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

const restarting = runtest.Head + `inputs: {first: integer}
steps:
  a: {uses: test.act, with: {n: "${{ inputs.first }}"}, rollback: {uses: test.undo, with: {n: "${{ steps.a.output }}"}}}
  ask: {uses: human, needs: [a], with: {prompt: "Go on?"}}
  also: {uses: test.gate, needs: [a], with: {n: 9}}
  b: {uses: test.act, needs: [ask], with: {n: 2}, rollback: {uses: test.undo, with: {n: 2}}}
  c: {uses: test.act, needs: [b, also], with: {n: 3}, rollback: {uses: test.undo, with: {n: 3}}}
output: ["${{ steps.ask.output.decision }}", "${{ steps.also.output }}", "${{ steps.c.output }}"]
`

func restartRuntime(log *runtest.Effects, store checkpoint.Store) *runtime.Runtime {
	rt := runtest.UndoRuntime(log, store)
	rt.Interrupt = resume.Restart
	act := runtest.Tool("test.act", func(ctx context.Context, args map[string]any) (any, error) {
		log.Add(fmt.Sprint("test.act ", args["n"], generationOf(ctx)))
		return args["n"], nil
	})
	rt.Tools = append(rt.Tools, act, runtest.Gate)
	return rt
}

// generationOf finds out by its key in which generation a call of restarting's steps is made.
func generationOf(ctx context.Context) string {
	for g := range 9 {
		for _, path := range []string{"a", "b", "c"} {
			if resume.IdempotencyKey(ctx) == resume.Key("r1", g, path, 1, "") {
				return fmt.Sprint(" in ", g)
			}
		}
	}
	return " in none"
}

// told is an adapter that keeps the requests.
type told struct{ requests []resume.Request }

func (s *told) Resolve(_ context.Context, req resume.Request) (any, error) {
	s.requests = append(s.requests, req)
	return req.Input, nil
}

func TestRestart(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprint("durable ", durable), func(t *testing.T) {
			log, adapter := &runtest.Effects{}, &told{}
			rt := restartRuntime(log, nil)
			if rt.Resume = adapter; durable {
				rt.Store = &checkpoint.Memory{}
			}
			effects := func(want ...string) {
				t.Helper()
				if diff := cmp.Diff(want, log.Lines); diff != "" {
					t.Errorf("effects (-want +got)\n%s", diff)
				}
				log.Lines = nil
			}
			out, err := runtest.Load(t, []byte(restarting)).Run(t.Context(), map[string]any{"first": 1}, rt)
			if out.Status != workflow.StatusPaused || len(out.Pauses) != 2 {
				t.Fatalf("%s, %v", out.Status, err)
			}
			effects("test.act 1 in 1", "test.undo 1")
			got := runtest.LinesOf(out)
			if i := slices.Index(got, "step.rollback a!rollback ok=true"); i < 0 || got[i+1] != "run.paused pauseKind=human step=ask" {
				t.Errorf("trace %q", got)
			}

			rt.Interrupt = resume.Continue // what counts is how the run began
			other := out.Pauses[1].Token
			out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
			if out.Status != workflow.StatusPaused || len(out.Pauses) != 1 || out.Pauses[0].ID != "also" {
				t.Fatalf("%s, %v, %v", out.Status, err, out.Pauses)
			}
			if got := adapter.requests[0].Interrupt; got != resume.Restart {
				t.Errorf("the adapter was told %q", got)
			}
			effects("test.act 1 in 2", "test.act 2 in 2", "test.undo 2", "test.undo 1")
			want := []string{"run.start resume=true", "step.start a", "adapter.call a kind=tool name=test.act", "step.end a status=succeeded",
				"step.start ask", "step.end ask status=succeeded", "step.start also"}
			if got := runtest.LinesOf(out); !slices.Equal(got[:len(want)], want) {
				t.Errorf("trace (-want +got)\n%s", cmp.Diff(want, got))
			}
			if late, err := workflow.Resume(t.Context(), other, map[string]any{"decision": "approve"}, rt, nil); err == nil || late.Failure().Code != "resume.invalidToken" {
				t.Errorf("the token of another pause: %v", err)
			}
			if durable { // another process looks at it
				again, err := workflow.Recover(t.Context(), "r1", restartRuntime(log, rt.Store), nil)
				if again.Status != workflow.StatusPaused || len(log.Lines) > 0 {
					t.Errorf("%s, %v, %q", again.Status, err, log.Lines)
				}
				out = again
			}

			out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "reject"}, rt, nil)
			if err != nil || !cmp.Equal(out.Output, []any{"approve", "reject", int64(3)}) {
				t.Fatalf("%v, %v", err, out.Output)
			}
			effects("test.act 1 in 3", "test.act 2 in 3", "test.act 3 in 3")
			if durable {
				ended, err := workflow.Recover(t.Context(), "r1", rt, nil)
				if err != nil || !cmp.Equal(ended.Output, out.Output) {
					t.Errorf("of the ended run: %v, %v", err, ended.Output)
				}
				rt.NewRunID = nil
				fork, err := workflow.Fork(t.Context(), "r1", "c", workflow.Edits{}, rt, nil) // it shares the last generation
				if err != nil || !cmp.Equal(fork.Output, out.Output) {
					t.Errorf("a fork: %v, %v", err, fork.Output)
				}
				effects("test.act 3 in none")
			}
		})
	}
}

// left counts what was done and not undone.
func left(log *runtest.Effects) map[string]int {
	balance := map[string]int{}
	for _, line := range log.Lines {
		switch words := strings.Fields(line); words[0] {
		case "test.act":
			balance[words[1]]++
		case "test.undo":
			balance[words[1]]--
		}
	}
	return balance
}

// Wherever a run dies that begins again, the answers that it got hold and each generation that was left
// is undone.
func TestRestartAfterEachWrite(t *testing.T) {
	for second := range 7 {
		restartAfterEachWrite(t, second)
	}
}

// restartAfterEachWrite lets runs die after each of their writes and, where they are answered then, once
// more after some.
func restartAfterEachWrite(t *testing.T, second int) {
	wf := runtest.Load(t, []byte(restarting))
	answers := map[string]any{"ask": map[string]any{"decision": "approve"}, "also": map[string]any{"decision": "reject"}}
	// goOn brings a run to its end, whatever it waits for.
	goOn := func(out *workflow.Outcome, err error, log *runtest.Effects, rt *runtime.Runtime) (*workflow.Outcome, error) {
		for out.Status == workflow.StatusPaused {
			p := out.Pauses[0]
			answer := answers[p.Step]
			if p.Reason == "indeterminate" {
				answer = map[string]any{"decision": "retry"}
				if n := map[string]any{"a": int64(1), "b": int64(2), "c": int64(3)}[p.Step]; left(log)[fmt.Sprint(n)] > 0 {
					answer = map[string]any{"decision": "result", "form": n}
				}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, rt, nil)
		}
		return out, err
	}
	for dies, answered := 0, 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		dying := &runtest.Dead{Store: memory, After: dies}
		out, err := wf.Run(t.Context(), map[string]any{"first": 1}, restartRuntime(log, runtest.Claimed{Dead: dying}))
		out, err = goOn(out, err, log, restartRuntime(log, runtest.Claimed{Dead: dying}))
		if err == nil {
			if dies < 10 || answered == 0 {
				t.Fatalf("only %d writes, %d answers", dies, answered)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		if sum, _, _ := memory.Load(t.Context(), "r1", 0); dies%2 == 1 && slices.ContainsFunc(sum.Pauses, func(p checkpoint.Pause) bool { return p.ID == "ask" }) {
			// It dies once more, on the way from an answer to the next generation or in that.
			workflow.Answer(t.Context(), "r1", "ask", answers["ask"], restartRuntime(log, runtest.Claimed{Dead: &runtest.Dead{Store: memory, After: second}}), nil)
			answered++
		}
		out, err = workflow.Recover(t.Context(), "r1", restartRuntime(log, memory), nil)
		out, err = goOn(out, err, log, restartRuntime(log, memory))
		if err != nil || !cmp.Equal(out.Output, []any{"approve", "reject", int64(3)}) {
			t.Errorf("after %d writes: %v, %v", dies, err, out.Output)
		}
		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "3": 1}, left(log)); diff != "" {
			t.Errorf("after %d writes: what is left of the effects (-want +got)\n%s\n%s", dies, diff, strings.Join(log.Lines, "\n"))
		}
	}
}

// A pause that nobody answers in time begins the run again too.
func TestRestartOnExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &runtest.Effects{}
		rt := restartRuntime(log, &checkpoint.Memory{})
		wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  ask: {uses: human, needs: [a], with: {prompt: "Go on?", expires: 1h, on_expire: {set: late}}}
output: "${{ steps.ask.output }}"
`))
		out, err := wf.Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, err)
		}
		time.Sleep(2 * time.Hour)
		outs, err := workflow.Sweep(t.Context(), rt, nil)
		if err != nil || len(outs) != 1 || outs[0].Output != "late" {
			t.Fatalf("%v, %v", err, outs)
		}
		if diff := cmp.Diff([]string{"test.act 1 in 1", "test.undo 1", "test.act 1 in 2"}, log.Lines); diff != "" {
			t.Errorf("effects (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"run.start recover=true", "step.replayed a", "step.start a", "adapter.call a kind=tool name=test.act", "step.end a status=succeeded",
			"step.start ask", "step.end ask status=succeeded", "run.success", "run.end status=ok"}, runtest.LinesOf(outs[0])); diff != "" {
			t.Errorf("trace (-want +got)\n%s", diff)
		}
	})
}

func TestUnknownInterrupt(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: set, with: 1}\n"))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Interrupt: "stop"})
	if err == nil || out.Failure().Code != "runtime.invalid" || !strings.Contains(err.Error(), `unknown Interrupt "stop"`) {
		t.Errorf("got %v", err)
	}
}
