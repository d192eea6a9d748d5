package engine_test

import (
	"context"
	"errors"
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
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// rollbacks are the lines of a trace that are about rolling back.
func rollbacks(out *workflow.Outcome) []string {
	var list []string
	for _, e := range out.Trace {
		if strings.Contains(e.Step, "!") {
			list = append(list, runtest.Keyless(e))
		}
	}
	return list
}

const undoing = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: "${{ steps.a.output }}", last: "${{ steps.last.status }}"}}}
  each:
    uses: test.act
    needs: [a]
    foreach: {in: [10, 20], as: x, max_parallel: 1}
    with: {n: "${{ x }}"}
    rollback: {uses: test.undo, with: {n: "${{ steps.each.output + x + index }}"}}
  sub:
    uses: recipe
    needs: [each]
    with:
      steps:
        x: {uses: test.act, with: {n: 3}, rollback: {uses: test.undo, with: {n: "${{ steps.x.output + steps.a.output }}"}}}
    rollback: {uses: test.undo, with: {n: 4}}
  plain: {uses: test.act, needs: [sub], with: {n: 5}}
  handled: {uses: fail, needs: [plain], on_error: {set: 6}}
  boom: {uses: fail, needs: [handled], with: {message: boom, code: boom}}
  last: {uses: test.act, needs: [boom], with: {n: 7}, rollback: {uses: test.undo, with: {n: 7}}}
`

func TestRollbacks(t *testing.T) {
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), log.External("test.undo")}}
	wf := runtest.Load(t, []byte(undoing))
	out, err := wf.Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusError || out.Failure().Code != "boom" || out.Failure().Step != "boom" {
		t.Fatalf("%s, %v", out.Status, err)
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.act 10", "test.act 20", "test.act 3", "test.act 5",
		"test.undo 4", "test.undo 4", "test.undo 41", "test.undo 20", "test.undo 1"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
	var want []string
	for _, path := range []string{"sub", "sub/x", "each[1]", "each[0]", "a"} {
		want = append(want, "adapter.call "+path+"!rollback kind=tool name=test.undo", "step.rollback "+path+"!rollback ok=true")
	}
	if diff := cmp.Diff(want, rollbacks(out)); diff != "" {
		t.Errorf("trace (-want +got)\n%s", diff)
	}
	if n := len(out.Trace); out.Trace[n-2].Kind != "run.error" || out.Trace[n-3].Step != "a!rollback" {
		t.Errorf("the rollbacks do not stand before the end: %s", runtest.Lines(out))
	}
	if got := out.Diagnostics; len(got) != 0 {
		t.Errorf("diagnostics %v", got)
	}
	if got := wf.Plan().Requires.Tools; !slices.Equal(got, []string{"test.act", "test.undo"}) {
		t.Errorf("the plan needs %v", got)
	}
	for _, s := range wf.Plan().Steps {
		if s.ID == "a" && len(s.Needs) != 0 {
			t.Errorf("a rollback drew the edges %v", s.Needs)
		}
	}
}

// What goes well is not rolled back, and neither is a failure that was handled.
func TestNoRollback(t *testing.T) {
	log := &runtest.Effects{}
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo}}
  b: {uses: fail, needs: [a], on_error: continue}
`))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), log.External("test.undo")}})
	if err != nil || len(log.Lines) != 1 || rollbacks(out) != nil {
		t.Errorf("%v, %v, %v", err, log.Lines, rollbacks(out))
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := runtest.Tool("test.stop", func(context.Context, map[string]any) (any, error) { cancel(); return nil, nil })
	wf = runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.act, with: {n: 2}, rollback: {uses: test.undo}}
  b: {uses: test.stop, needs: [a]}
  c: {uses: test.act, needs: [b]}
`))
	out, err = wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), log.External("test.undo"), stop}})
	if out.Status != workflow.StatusCancelled || len(log.Lines) != 2 || rollbacks(out) != nil {
		t.Errorf("%v, %v, %v", err, log.Lines, rollbacks(out))
	}
}

// Whatever a rollback does, the others run, and the run's error is the one that it had.
func TestRollbacksThatFail(t *testing.T) {
	var keys []string
	undo := runtest.Tool("test.undo", func(ctx context.Context, args map[string]any) (any, error) {
		keys = append(keys, resume.IdempotencyKey(ctx))
		switch args["how"] {
		case "fail":
			return nil, fmt.Errorf("cannot undo with %v", args["key"])
		case "panic":
			panic("oh")
		case "pause":
			return nil, resume.Suspend(resume.Pause{Kind: resume.Human})
		}
		return "undone", nil
	})
	warned := &runtest.Quiet{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{undo}, Secrets: runtime.SecretMap{"KEY": "a very secret key"}, Reporter: warned, NewRunID: func() string { return "r1" }}
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  fine: {uses: set, with: 1, rollback: {uses: test.undo, with: {how: fine}}}
  fails: {uses: set, with: 1, rollback: {uses: test.undo, with: {how: fail, key: "${{ secrets.KEY }}"}}}
  panics: {uses: set, with: 1, rollback: {uses: test.undo, with: {how: panic}}}
  pauses: {uses: set, with: 1, rollback: {uses: test.undo, with: {how: pause}}}
  reads: {uses: set, with: {}, rollback: {uses: test.undo, with: {how: "${{ steps.reads.output.missing }}"}}}
  absent: {uses: set, with: {}, rollback: {uses: test.absent}}
  boom: {uses: fail, needs: [fine, fails, panics, pauses, reads, absent], with: {message: boom}}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusError || out.Failure().Step != "boom" {
		t.Fatalf("%s, %v", out.Status, err)
	}
	want := []string{
		`absent!rollback: step "absent" was not rolled back: recipe.yaml:9:50: no tool named "test.absent" is configured`,
		`reads!rollback: step "reads" was not rolled back: recipe.yaml:8:72: output has no key "missing"`,
		`pauses!rollback: step "pauses" was not rolled back: the tool asked for a pause, and a rollback cannot pause`,
		`panics!rollback: step "panics" was not rolled back: panic in tool "test.undo": oh`,
		`fails!rollback: step "fails" was not rolled back: cannot undo with ***`,
	}
	got := runtest.Reported(out)
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "\n")
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b string) bool {
		return a == b || strings.HasPrefix(a, "reads") && strings.HasPrefix(b, "reads") && strings.Contains(a, "missing") && strings.Contains(b, "missing")
	})); diff != "" {
		t.Errorf("diagnostics (-want +got)\n%s", diff)
	}
	if len(warned.Texts) != len(want) || len(warned.Coded) != 1 || warned.Texts[0] != "a rollback failed" {
		t.Errorf("the reporter got %q, %q", warned.Texts, warned.Coded)
	}
	if rolled := rollbacks(out); rolled[len(rolled)-1] != "step.rollback fine!rollback ok=true" || strings.Contains(strings.Join(rolled, ""), "secret key") {
		t.Errorf("trace %q", rolled)
	}
	if want := resume.Key("r1", 1, "fine!rollback", 1, ""); !slices.Contains(keys, want) {
		t.Errorf("no call had the key %s: %s", want, keys)
	}
}

func TestRollbackHangs(t *testing.T) {
	for _, tt := range []struct {
		name, timeout string
		cancelAfter   time.Duration // 0: never
		obeys         bool
		want          time.Duration
		code, finding string
	}{
		{"the step's timeout", "timeout: 2s, ", 0, true, 2 * time.Second, "fail", "it timed out after 2s"},
		{"a timeout of its own", "", 0, true, time.Minute, "fail", "it timed out after 1m0s"},
		{"it ignores its context", "timeout: 2s, ", 0, false, 2*time.Second + 250*time.Millisecond, "fail", "it timed out after 2s"},
		{"the run is cancelled", "", 3 * time.Second, true, 8 * time.Second, "rollback.interrupted", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				defer close(never)
				hang := runtest.Tool("test.hang", func(ctx context.Context, _ map[string]any) (any, error) {
					if tt.obeys {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					<-never
					return nil, nil
				})
				wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.ok, "+tt.timeout+"rollback: {uses: test.hang}}\n  b: {uses: fail, needs: [a]}\n"))
				ctx := t.Context()
				if tt.cancelAfter > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.cancelAfter)
					defer cancel()
				}
				ok := runtest.Tool("test.ok", func(context.Context, map[string]any) (any, error) { return nil, nil })
				began := time.Now()
				out, err := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{hang, ok}, Reporter: &runtest.Quiet{}})
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if out.Failure().Code != tt.code {
					t.Errorf("%v, want %s", err, tt.code)
				}
				if tt.finding != "" && (len(runtest.Reported(out)) != 1 || !strings.HasSuffix(runtest.Reported(out)[0], tt.finding)) {
					t.Errorf("diagnostics %q, want %q", runtest.Reported(out), tt.finding)
				}
				if tt.code == "rollback.interrupted" && (!errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(out.Diagnostics), "failed on purpose")) {
					t.Errorf("%v, %v", err, out.Diagnostics)
				}
			})
		})
	}
}

// A rollback that fails for a while is tried again as the step's retry says, and does not pause.
func TestRollbackIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.undo, with: {}, rollback: {uses: test.undo}, retry: {max_attempts: 5, backoff: 5s, mode: pause, retry_on: [unknown]}}
  b: {uses: fail, needs: [a]}
`))
		rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Tool("test.undo", func(context.Context, map[string]any) (any, error) {
			if calls++; calls == 2 || calls == 3 { // the first is the step's own
				return nil, errors.New("not now")
			}
			return nil, nil
		})}, Store: &checkpoint.Memory{}}
		out, _ := wf.Run(t.Context(), nil, rt)
		want := []string{"adapter.call a!rollback kind=tool name=test.undo", "adapter.retry", "adapter.call a!rollback kind=tool name=test.undo", "adapter.retry",
			"adapter.call a!rollback kind=tool name=test.undo", "step.rollback a!rollback ok=true"}
		got := rollbacks(out)
		for i, line := range got {
			if strings.HasPrefix(line, "adapter.retry ") {
				got[i] = "adapter.retry"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("trace (-want +got)\n%s", diff)
		}
	})
}

const doomed = runtest.Head + `inputs: {first: integer}
steps:
  a: {uses: test.act, with: {n: "${{ inputs.first }}"}, rollback: {uses: test.undo, with: {n: "${{ steps.a.output }}"}}}
  b: {uses: test.act, needs: [a], with: {n: 2}, rollback: {uses: test.again, with: {n: 2}}}
  c: {uses: set, needs: [b], with: 3, rollback: {uses: test.undo, with: {n: "${{ steps.c.output }}"}}}
  d: {uses: test.boom, needs: [c]}
`

// A run that fails and dies at any write of its journal is rolled back by its recovery: each rollback
// once per key, and one with unknown outcome is reported and not repeated.
func TestRollbackAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(doomed))
	inputs := map[string]any{"first": 1}
	undisturbed := &runtest.Effects{}
	wf.Run(t.Context(), inputs, runtest.UndoRuntime(undisturbed, &checkpoint.Memory{}))
	want := []string{"test.act 1", "test.act 2", "test.boom", "test.undo 3", "test.again " + resume.Key("r1", 1, "b!rollback", 1, ""), "test.undo 1"}
	if diff := cmp.Diff(want, undisturbed.Lines); diff != "" {
		t.Fatalf("undisturbed effects (-want +got)\n%s", diff)
	}
	unsure := 0
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		out, err := wf.Run(t.Context(), inputs, runtest.UndoRuntime(log, &runtest.Dead{Store: memory, After: dies}))
		if out.Failure().Code == "boom" {
			if dies < 5 || unsure < 2 {
				t.Fatalf("only %d writes, %d unsure", dies, unsure)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		out, err = workflow.Recover(t.Context(), "r1", runtest.UndoRuntime(log, memory), nil)
		for out.Status == workflow.StatusPaused {
			p := out.Pauses[0]
			answer := map[string]any{"decision": "retry"}
			if n := map[string]any{"a": int64(1), "b": int64(2)}[p.Step]; n != nil && slices.Contains(log.Lines, fmt.Sprint("test.act ", n)) {
				answer = map[string]any{"decision": "result", "form": n}
			} else if p.Step == "d" && slices.Contains(log.Lines, "test.boom") {
				answer = map[string]any{"decision": "fail"}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, runtest.UndoRuntime(log, memory), nil)
		}
		if out.Status != workflow.StatusError || out.Failure().Step != "d" {
			t.Errorf("after %d writes: %s, %v", dies, out.Status, err)
		}
		if diff := cmp.Diff(undisturbed.Lines, log.Lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
		for _, text := range runtest.Reported(out) {
			if unsure++; !strings.Contains(text, "not known whether it had its effect") {
				t.Errorf("after %d writes: %s", dies, text)
			}
		}
		once, _ := workflow.Recover(t.Context(), "r1", runtest.UndoRuntime(log, memory), nil)
		if once.Status != workflow.StatusError || !slices.Equal(runtest.Reported(once), runtest.Reported(out)) || len(log.Lines) != len(want) {
			t.Errorf("after %d writes: once more: %s, %q", dies, once.Status, runtest.Reported(once))
		}
	}
}

// A fork does not build on what was undone.
func TestForkOfWhatWasRolledBack(t *testing.T) {
	log := &runtest.Effects{}
	rt := runtest.UndoRuntime(log, &checkpoint.Memory{})
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  b: {uses: test.act, with: {n: 2}}
  c: {uses: test.boom, needs: [a, b]}
`))
	if out, err := wf.Run(t.Context(), nil, rt); out.Status != workflow.StatusError {
		t.Fatal(err)
	}
	log.Lines, rt.NewRunID = nil, nil
	if _, err := workflow.Fork(t.Context(), "r1", "c", workflow.Edits{}, rt, nil); err == nil {
		t.Fatal("it did not fail again")
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.boom", "test.undo 1"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
}

// What a fork shares is the old run's: if the fork fails, only what it did itself is rolled back, whenever its process
// died meanwhile, and under another definition too.
func TestForkLeavesWhatItShares(t *testing.T) {
	const text = runtest.Head + `steps:
  a: {uses: test.act, foreach: {in: "${{ [1, 2] }}"}, with: {n: "${{ item }}"},
    rollback: {uses: test.undo, with: {n: "${{ item }}"}}}
  b: {uses: test.act, with: {n: 3}}
  c: {uses: test.act, needs: [a, b], with: {n: 4}, rollback: {uses: test.undo, with: {n: 4}}}
  d: {uses: test.boom, needs: [c], when: steps.b.output != 3}
`
	wf := runtest.Load(t, []byte(text))
	changed := runtest.Load(t, []byte(text+"  e: {uses: set, with: {x: 1}}\n"))
	want := []string{"test.act 4", "test.boom", "test.undo 4"}
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		if _, err := wf.Run(t.Context(), nil, runtest.UndoRuntime(log, memory)); err != nil {
			t.Fatal(err)
		}
		log.Lines = nil
		rt := runtest.UndoRuntime(log, &runtest.Dead{Store: memory, After: dies})
		rt.NewRunID = func() string { return "fork" }
		out, err := workflow.Fork(t.Context(), "r1", "c", workflow.Edits{Outputs: map[string]any{"b": 5}}, rt, nil)
		if out.Failure().Code == "boom" {
			if dies < 4 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		var with *workflow.ResumeOptions
		if dies == 1 { // later it has begun to roll back
			with = &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true}
		}
		out, err = workflow.Recover(t.Context(), "fork", runtest.UndoRuntime(log, memory), with)
		for out.Status == workflow.StatusPaused {
			answer := map[string]any{"decision": "retry"}
			if p := out.Pauses[0]; p.Step == "c" && slices.Contains(log.Lines, "test.act 4") {
				answer = map[string]any{"decision": "result", "form": 4}
			} else if p.Step == "d" && slices.Contains(log.Lines, "test.boom") {
				answer = map[string]any{"decision": "fail"}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, runtest.UndoRuntime(log, memory), with)
		}
		if out.Status != workflow.StatusError || out.Failure().Step != "d" {
			t.Errorf("after %d writes: %s, %v", dies, out.Status, err)
		}
		if diff := cmp.Diff(want, log.Lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
	}
}

// Without a journal a run is rolled back all the same, and what a live sink is told comes in order.
func TestLiveRollbacks(t *testing.T) {
	log, sink := &runtest.Effects{}, &trace.Recorder{}
	rt := runtest.UndoRuntime(log, nil)
	rt.Trace = []trace.Sink{sink}
	out, _ := runtest.Load(t, []byte(doomed)).Run(t.Context(), map[string]any{"first": 1}, rt)
	live := sink.Events()
	for i := range live {
		if got, want := live[i].Line(), out.Trace[i].Line(); got != want {
			t.Errorf("event %d: %s, want %s", i, got, want)
		}
	}
}
