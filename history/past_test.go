package history_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// slow is a model that takes two seconds.
type slow struct{}

func (slow) Generate(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) {
	select {
	case <-time.After(2 * time.Second):
		return &runtime.Response{Text: "done", Usage: runtime.Usage{InputTokens: 3, OutputTokens: 4}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sleeping is a tool that takes a second.
func sleeping(name string, effect runtime.Effect) runtime.Tool {
	return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: effect}, func(context.Context, map[string]any) (any, error) {
		<-time.After(time.Second) // in a bubble
		return nil, nil
	})
}

const slowRecipe = `steps:
  look: {uses: test.look}
  pay: {uses: test.pay, needs: [look]}
  say: {uses: model, with: {model: fast, prompt: Hello}, needs: [look]}
  quick: {uses: test.echo, needs: [say, pay]}
`

func slowRuntime(store checkpoint.Store) *runtime.Runtime {
	return &runtime.Runtime{Models: map[string]runtime.Model{"fast": slow{}}, Store: store, By: "ada", Resume: resume.PassThrough{},
		Tools:    []runtime.Tool{echo, sleeping("test.look", runtime.ReadOnly), sleeping("test.pay", runtime.External)},
		NewRunID: func() string { return "r1" }}
}

// serve 12.6: the time bars of a past run are those of the live one, to 50 ms.
func TestBarsOfAPastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		out, err := load(t, slowRecipe).Run(t.Context(), nil, slowRuntime(store))
		if err != nil {
			t.Fatal(err)
		}
		run := past(t, store)
		live, later := bars(t, out.Trace), bars(t, run.Events)
		for step, bar := range live {
			was := later[step]
			if off := was.from.Sub(bar.from).Abs(); off > 50*time.Millisecond || (was.took-bar.took).Abs() > 50*time.Millisecond {
				t.Errorf("step %s: it took %v from %v, and the journal says %v from %v", step, bar.took, bar.from, was.took, was.from)
			}
		}
		want := map[string]time.Duration{"look": time.Second, "pay": time.Second, "say": 2 * time.Second, "quick": 0}
		got := map[string]time.Duration{}
		for _, s := range run.Steps {
			got[s.Step] = s.EndedAt.Sub(s.StartedAt)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lengths of the steps (-want +got)\n%s", diff)
		}
		if run.Usage != (checkpoint.Usage{Calls: 1, InputTokens: 3, OutputTokens: 4}) {
			t.Errorf("usage: %+v", run.Usage)
		}
		if len(run.Executions) != 1 || run.Executions[0].By != "ada" || run.Executions[0].To.Sub(run.Executions[0].From) != 3*time.Second {
			t.Errorf("executions: %+v", run.Executions)
		}
	})
}

// A step that only waits has its length in the journal, too: from when it was opened to the answer.
func TestLengthOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
		wf := load(t, "steps: {ask: {uses: human, with: {prompt: Go?}}}\n")
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if out, err = wf.Resume(t.Context(), out.Pauses[0].Token, map[string]any{"decision": "approve"}, rt); err != nil {
			t.Fatal(err)
		}
		run, err := history.Load(t.Context(), store, out.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if got := bars(t, run.Events)["ask"].took; got != 3*time.Second || run.Steps[0].EndedAt.Sub(run.Steps[0].StartedAt) != got {
			t.Errorf("it took %v, and its step %+v", got, run.Steps[0])
		}
	})
}

// bar is when a step began, and how long it took.
type bar struct {
	from time.Time
	took time.Duration
}

// bars are those of the steps of a trace.
func bars(t *testing.T, events []trace.Event) map[string]bar {
	t.Helper()
	list := map[string]bar{}
	for _, e := range events {
		b := list[e.Step]
		switch e.Kind {
		case trace.StepStart:
			b.from = e.At
		case trace.StepEnd:
			ms := e.Data.Get("durationMs")
			n, _ := ms.(int64)
			b.took = time.Duration(n) * time.Millisecond
		default:
			continue
		}
		list[e.Step] = b
	}
	return list
}

// serve 12.6: a process that does not execute a run sees its calls within 200 ms.
func TestCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		ended := make(chan *workflow.Outcome)
		go func() {
			out, _ := load(t, slowRecipe).Run(t.Context(), nil, slowRuntime(store))
			ended <- out
		}()
		began := time.Now()
		for _, want := range []string{"[look running 0s]", "[look succeeded 0s, pay running 1s, say running 1s]"} {
			time.Sleep(200 * time.Millisecond)
			got := []string{}
			for _, s := range past(t, store).Steps {
				if s.Status == "pending" {
					continue
				}
				got = append(got, fmt.Sprintf("%s %s %v", s.Step, s.Status, s.StartedAt.Sub(began).Round(50*time.Millisecond)))
			}
			if text := "[" + join(got) + "]"; text != want {
				t.Errorf("%v after the start: %s, want %s", time.Since(began), text, want)
			}
			time.Sleep(800 * time.Millisecond)
		}
		<-ended
	})
}

func join(list []string) (text string) {
	for i, s := range list {
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}

// A run that failed says why, with at most 300 bytes, and each execution who it was.
func TestFailureAndExecutions(t *testing.T) {
	store := &checkpoint.Memory{}
	long := make([]rune, 200)
	for i := range long {
		long[i] = 'é'
	}
	rt := slowRuntime(store)
	fails := true
	rt.Tools = append(rt.Tools, runtime.NewTool(runtime.ToolSpec{Name: "test.fail"}, func(ctx context.Context, _ map[string]any) (any, error) {
		if fails {
			return nil, fmt.Errorf("%s", string(long))
		}
		return nil, nil
	}))
	ask := load(t, "steps:\n  ask: {uses: human, with: {prompt: Go?}}\n  bad: {uses: test.fail, needs: [ask]}\n")
	if _, err := ask.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	out, _ := workflow.Answer(t.Context(), "r1", "ask", map[string]any{"decision": "approve"}, rt, &workflow.ResumeOptions{Workflow: ask, By: "bob"})
	run := past(t, store)
	if out.Status != workflow.StatusError || run.Error.Code != "tool.failed" || run.Error.Step != "bad" {
		t.Fatalf("%s: %+v", out.Status, run.Error)
	}
	if n := len(run.Error.Message); n > 300 || n < 290 || run.Error.Message[n-3:] != "…" {
		t.Errorf("the message has %d bytes: %s", n, run.Error.Message)
	}
	var by []string
	for _, x := range run.Executions {
		by = append(by, x.By)
	}
	if diff := cmp.Diff([]string{"ada", "bob"}, by); diff != "" {
		t.Errorf("executions (-want +got)\n%s", diff)
	}
	if len(run.Acts) != 2 || run.Acts[0].By != "ada" || run.Acts[1].By != "bob" || run.By != "ada" {
		t.Errorf("acts: %+v, by %q", run.Acts, run.By)
	}
}

// serve 14.8: a run with a record of a later version is shown, and nobody goes on with it.
func TestRecordOfALaterVersion(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := slowRuntime(store)
	ask := load(t, "steps:\n  ask: {uses: human, with: {prompt: Go?}}\n")
	if _, err := ask.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	lease, err := store.Claim(t.Context(), "r1", "later", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sum, _, _ := store.Load(t.Context(), "r1", 0)
	rec, _ := checkpoint.NewRecord(time.Now(), "run.dreamt", "", nil)
	if err := store.Append(t.Context(), lease, sum.Seq, rec); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for name, act := range map[string]func() (*workflow.Outcome, error){
		"recover": func() (*workflow.Outcome, error) { return workflow.Recover(t.Context(), "r1", rt, nil) },
		"answer": func() (*workflow.Outcome, error) {
			return workflow.Answer(t.Context(), "r1", "ask", map[string]any{"decision": "approve"}, rt, nil)
		},
		"cancel": func() (*workflow.Outcome, error) { return workflow.Cancel(t.Context(), "r1", "no", rt, nil) },
	} {
		if out, _ := act(); out.Failure() == nil || out.Failure().Code != "journal.newer" {
			t.Errorf("%s: %s, %v", name, out.Status, out.Failure())
		}
	}
	after, _, _ := store.Load(t.Context(), "r1", 0)
	if after.Seq != sum.Seq+1 || after.Held {
		t.Errorf("it ends at %d, held %v; want %d", after.Seq, after.Held, sum.Seq+1)
	}
	run := past(t, store)
	last := run.Events[len(run.Events)-1]
	if name := last.Data.Get("name"); run.Status != history.Paused || last.Kind != trace.Custom || name != "journal.unknown" {
		t.Errorf("%s, the last event is %+v", run.Status, last)
	}
}

// timeless compares steps without their times.
var timeless = cmpopts.IgnoreFields(history.Step{}, "StartedAt", "EndedAt")
