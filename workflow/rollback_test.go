package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// rollbacks are the lines of a trace that are about rolling back.
func rollbacks(out *workflow.Outcome) []string {
	var list []string
	for _, e := range out.Trace {
		if strings.Contains(e.Step, "!") {
			list = append(list, keyless(e))
		}
	}
	return list
}

// reported are the diagnostics about rollbacks that failed.
func reported(out *workflow.Outcome) []string {
	var list []string
	for _, d := range out.Diagnostics {
		if d.Code == diagnostics.CodeRollbackFailed {
			list = append(list, d.Step+": "+d.Message)
		}
	}
	return list
}

const undoing = head + `steps:
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
	log := &effects{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act"), log.external("test.undo")}}
	wf := load(t, []byte(undoing))
	out, err := wf.Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusError || out.Failure().Code != "boom" || out.Failure().Step != "boom" {
		t.Fatalf("%s, %v", out.Status, err)
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.act 10", "test.act 20", "test.act 3", "test.act 5",
		"test.undo 4", "test.undo 4", "test.undo 41", "test.undo 20", "test.undo 1"}, log.lines); diff != "" {
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
		t.Errorf("the rollbacks do not stand before the end: %s", lines(out))
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
	log := &effects{}
	wf := load(t, []byte(head+`steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo}}
  b: {uses: fail, needs: [a], on_error: continue}
`))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act"), log.external("test.undo")}})
	if err != nil || len(log.lines) != 1 || rollbacks(out) != nil {
		t.Errorf("%v, %v, %v", err, log.lines, rollbacks(out))
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := tool("test.stop", func(context.Context, map[string]any) (any, error) { cancel(); return nil, nil })
	wf = load(t, []byte(head+`steps:
  a: {uses: test.act, with: {n: 2}, rollback: {uses: test.undo}}
  b: {uses: test.stop, needs: [a]}
  c: {uses: test.act, needs: [b]}
`))
	out, err = wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act"), log.external("test.undo"), stop}})
	if out.Status != workflow.StatusCancelled || len(log.lines) != 2 || rollbacks(out) != nil {
		t.Errorf("%v, %v, %v", err, log.lines, rollbacks(out))
	}
}

// Whatever a rollback does, the others run, and the run's error is the one that it had.
func TestRollbacksThatFail(t *testing.T) {
	var keys []string
	undo := tool("test.undo", func(ctx context.Context, args map[string]any) (any, error) {
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
	warned := &quiet{}
	rt := &runtime.Runtime{Tools: []runtime.Tool{undo}, Secrets: runtime.SecretMap{"KEY": "a very secret key"}, Reporter: warned, NewRunID: func() string { return "r1" }}
	wf := load(t, []byte(head+`steps:
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
	got := reported(out)
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "\n")
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b string) bool {
		return a == b || strings.HasPrefix(a, "reads") && strings.HasPrefix(b, "reads") && strings.Contains(a, "missing") && strings.Contains(b, "missing")
	})); diff != "" {
		t.Errorf("diagnostics (-want +got)\n%s", diff)
	}
	if len(warned.texts) != len(want) || len(warned.findings) != 1 || warned.texts[0] != "a rollback failed" {
		t.Errorf("the reporter got %q, %q", warned.texts, warned.findings)
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
				hang := tool("test.hang", func(ctx context.Context, _ map[string]any) (any, error) {
					if tt.obeys {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					<-never
					return nil, nil
				})
				wf := load(t, []byte(head+"steps:\n  a: {uses: test.ok, "+tt.timeout+"rollback: {uses: test.hang}}\n  b: {uses: fail, needs: [a]}\n"))
				ctx := t.Context()
				if tt.cancelAfter > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.cancelAfter)
					defer cancel()
				}
				ok := tool("test.ok", func(context.Context, map[string]any) (any, error) { return nil, nil })
				began := time.Now()
				out, err := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{hang, ok}, Reporter: &quiet{}})
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if out.Failure().Code != tt.code {
					t.Errorf("%v, want %s", err, tt.code)
				}
				if tt.finding != "" && (len(reported(out)) != 1 || !strings.HasSuffix(reported(out)[0], tt.finding)) {
					t.Errorf("diagnostics %q, want %q", reported(out), tt.finding)
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
		wf := load(t, []byte(head+`steps:
  a: {uses: test.undo, with: {}, rollback: {uses: test.undo}, retry: {max_attempts: 5, backoff: 5s, mode: pause, retry_on: [unknown]}}
  b: {uses: fail, needs: [a]}
`))
		rt := &runtime.Runtime{Tools: []runtime.Tool{tool("test.undo", func(context.Context, map[string]any) (any, error) {
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

const doomed = head + `inputs: {first: integer}
steps:
  a: {uses: test.act, with: {n: "${{ inputs.first }}"}, rollback: {uses: test.undo, with: {n: "${{ steps.a.output }}"}}}
  b: {uses: test.act, needs: [a], with: {n: 2}, rollback: {uses: test.again, with: {n: 2}}}
  c: {uses: set, needs: [b], with: 3, rollback: {uses: test.undo, with: {n: "${{ steps.c.output }}"}}}
  d: {uses: test.boom, needs: [c]}
`

// undoRuntime has tools that act and undo, of which test.again is idempotent, and one that fails.
func undoRuntime(log *effects, store checkpoint.Store) *runtime.Runtime {
	boom := tool("test.boom", func(context.Context, map[string]any) (any, error) {
		log.add("test.boom")
		return nil, &runtime.Error{Category: runtime.CategoryTool, Code: "boom", Err: errors.New("boom")}
	})
	var mutex sync.Mutex
	again := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.again", Effect: runtime.Idempotent}, Func: func(ctx context.Context, args json.RawMessage) (any, error) {
		mutex.Lock()
		defer mutex.Unlock()
		log.mutex.Lock()
		defer log.mutex.Unlock()
		if line := "test.again " + resume.IdempotencyKey(ctx); !slices.Contains(log.lines, line) {
			log.lines = append(log.lines, line)
		}
		return nil, nil
	}}
	return &runtime.Runtime{Tools: []runtime.Tool{log.external("test.act"), log.external("test.undo"), again, boom}, Store: store,
		Resume: resume.PassThrough{}, Reporter: &quiet{}, NewRunID: func() string { return "r1" }}
}

// A run that fails and dies at any write of its journal is rolled back by its recovery: each rollback
// once per key, and one with unknown outcome is reported and not repeated.
func TestRollbackAfterEachWrite(t *testing.T) {
	wf := load(t, []byte(doomed))
	inputs := map[string]any{"first": 1}
	undisturbed := &effects{}
	wf.Run(t.Context(), inputs, undoRuntime(undisturbed, &checkpoint.Memory{}))
	want := []string{"test.act 1", "test.act 2", "test.boom", "test.undo 3", "test.again " + resume.Key("r1", 1, "b!rollback", 1, ""), "test.undo 1"}
	if diff := cmp.Diff(want, undisturbed.lines); diff != "" {
		t.Fatalf("undisturbed effects (-want +got)\n%s", diff)
	}
	unsure := 0
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &effects{}
		out, err := wf.Run(t.Context(), inputs, undoRuntime(log, &dead{Store: memory, after: dies}))
		if out.Failure().Code == "boom" {
			if dies < 5 || unsure < 2 {
				t.Fatalf("only %d writes, %d unsure", dies, unsure)
			}
			return
		}
		if out.Failure().Code != "store.failed" {
			t.Fatalf("after %d writes: %v", dies, err)
		}
		out, err = workflow.Recover(t.Context(), "r1", undoRuntime(log, memory), nil)
		for out.Status == workflow.StatusPaused {
			p := out.Pauses[0]
			answer := map[string]any{"decision": "retry"}
			if n := map[string]any{"a": int64(1), "b": int64(2)}[p.Step]; n != nil && slices.Contains(log.lines, fmt.Sprint("test.act ", n)) {
				answer = map[string]any{"decision": "result", "form": n}
			} else if p.Step == "d" && slices.Contains(log.lines, "test.boom") {
				answer = map[string]any{"decision": "fail"}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, undoRuntime(log, memory), nil)
		}
		if out.Status != workflow.StatusError || out.Failure().Step != "d" {
			t.Errorf("after %d writes: %s, %v", dies, out.Status, err)
		}
		if diff := cmp.Diff(undisturbed.lines, log.lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
		for _, text := range reported(out) {
			if unsure++; !strings.Contains(text, "not known whether it had its effect") {
				t.Errorf("after %d writes: %s", dies, text)
			}
		}
		once, _ := workflow.Recover(t.Context(), "r1", undoRuntime(log, memory), nil)
		if once.Status != workflow.StatusError || !slices.Equal(reported(once), reported(out)) || len(log.lines) != len(want) {
			t.Errorf("after %d writes: once more: %s, %q", dies, once.Status, reported(once))
		}
	}
}

// A fork does not build on what was undone.
func TestForkOfWhatWasRolledBack(t *testing.T) {
	log := &effects{}
	rt := undoRuntime(log, &checkpoint.Memory{})
	wf := load(t, []byte(head+`steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  b: {uses: test.act, with: {n: 2}}
  c: {uses: test.boom, needs: [a, b]}
`))
	if out, err := wf.Run(t.Context(), nil, rt); out.Status != workflow.StatusError {
		t.Fatal(err)
	}
	log.lines, rt.NewRunID = nil, nil
	if _, err := workflow.Fork(t.Context(), "r1", "c", workflow.Edits{}, rt, nil); err == nil {
		t.Fatal("it did not fail again")
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.boom", "test.undo 1"}, log.lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
}

// What a fork shares is the old run's: if the fork fails, only what it did itself is rolled back, whenever its process
// died meanwhile, and under another definition too.
func TestForkLeavesWhatItShares(t *testing.T) {
	const text = head + `steps:
  a: {uses: test.act, foreach: {in: "${{ [1, 2] }}"}, with: {n: "${{ item }}"},
    rollback: {uses: test.undo, with: {n: "${{ item }}"}}}
  b: {uses: test.act, with: {n: 3}}
  c: {uses: test.act, needs: [a, b], with: {n: 4}, rollback: {uses: test.undo, with: {n: 4}}}
  d: {uses: test.boom, needs: [c], when: steps.b.output != 3}
`
	wf := load(t, []byte(text))
	changed := load(t, []byte(text+"  e: {uses: set, with: {x: 1}}\n"))
	want := []string{"test.act 4", "test.boom", "test.undo 4"}
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &effects{}
		if _, err := wf.Run(t.Context(), nil, undoRuntime(log, memory)); err != nil {
			t.Fatal(err)
		}
		log.lines = nil
		rt := undoRuntime(log, &dead{Store: memory, after: dies})
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
		out, err = workflow.Recover(t.Context(), "fork", undoRuntime(log, memory), with)
		for out.Status == workflow.StatusPaused {
			answer := map[string]any{"decision": "retry"}
			if p := out.Pauses[0]; p.Step == "c" && slices.Contains(log.lines, "test.act 4") {
				answer = map[string]any{"decision": "result", "form": 4}
			} else if p.Step == "d" && slices.Contains(log.lines, "test.boom") {
				answer = map[string]any{"decision": "fail"}
			}
			out, err = workflow.Resume(t.Context(), out.Token, answer, undoRuntime(log, memory), with)
		}
		if out.Status != workflow.StatusError || out.Failure().Step != "d" {
			t.Errorf("after %d writes: %s, %v", dies, out.Status, err)
		}
		if diff := cmp.Diff(want, log.lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
	}
}

// Without a journal a run is rolled back all the same, and what a live sink is told comes in order.
func TestLiveRollbacks(t *testing.T) {
	log, sink := &effects{}, &trace.Recorder{}
	rt := undoRuntime(log, nil)
	rt.Trace = []trace.Sink{sink}
	out, _ := load(t, []byte(doomed)).Run(t.Context(), map[string]any{"first": 1}, rt)
	live := sink.Events()
	for i := range live {
		if got, want := live[i].Line(), out.Trace[i].Line(); got != want {
			t.Errorf("event %d: %s, want %s", i, got, want)
		}
	}
}

func ExampleWorkflow_Run_rollback() {
	wf := must(workflow.Compile(must(recipe.Parse("trip.yaml", []byte(`
apiVersion: braise/v1
name: trip
steps:
  book: {uses: hotel.book, rollback: {uses: hotel.cancel, with: {id: "${{ steps.book.output }}"}}}
  fly: {uses: fail, needs: [book], with: {message: no flight}}
`))), nil))
	rt := &runtime.Runtime{Tools: []runtime.Tool{
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.book"}, func(context.Context, struct{}) (string, error) { return "B-1", nil }),
		runtime.NewTool(runtime.ToolSpec{Name: "hotel.cancel"}, func(_ context.Context, in struct {
			ID string `json:"id"`
		}) (string, error) {
			fmt.Println("cancelled", in.ID)
			return "", nil
		}),
	}}
	_, err := wf.Run(context.Background(), nil, rt)
	fmt.Println(err)
	// Output:
	// cancelled B-1
	// step "fly": no flight
}
