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

const mailing = runtest.Head + `channels: {mail: queue, state: value, news: topic}
steps:
  a: {uses: test.act, with: {n: 1}}
  one: {uses: receive, with: {channel: mail}}
  two: {uses: receive, needs: [one], with: {channel: mail}}
  told: {uses: receive, with: {channel: news}}
  b: {uses: test.act, needs: [one], with: {n: "${{ steps.one.output }}"}}
  say: {uses: send, needs: [a], with: {channel: mail, value: "from ${{ steps.a.output }}"}}
  c: {uses: test.act, needs: [two, told], with: {n: "${{ steps.two.output }} ${{ steps.told.output }}"}}
output: ["${{ steps.one.output }}", "${{ steps.two.output }}", "${{ steps.told.output }}"]
`

func mailRuntime(log *runtest.Effects, store checkpoint.Store) *runtime.Runtime {
	return &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Store: store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
}

// pausesOf lists the pauses of an outcome, with what they wait for.
func pausesOf(out *workflow.Outcome) string {
	var list []string
	for _, p := range out.Pauses {
		list = append(list, fmt.Sprint(p.Step, " ", p.Kind, " ", p.Reason))
	}
	return strings.Join(list, ", ")
}

func send(t *testing.T, channel string, v any, rt *runtime.Runtime) *workflow.Outcome {
	t.Helper()
	out, _ := workflow.Send(t.Context(), "r1", channel, v, rt, nil)
	return out
}

func TestSendFromOutside(t *testing.T) {
	for _, how := range []string{"in the process", "with a cache", "with a store"} {
		t.Run(how, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := mailRuntime(log, nil)
			switch how {
			case "with a cache":
				rt.Cache = &checkpoint.MemoryCache{}
			case "with a store":
				rt.Store = &checkpoint.Memory{}
			}
			out, err := runtest.Load(t, []byte(mailing)).Run(t.Context(), nil, rt)
			if got := pausesOf(out); err != nil || got != "two external mail, told external news" {
				t.Fatalf("%v, %s", err, got)
			}
			token := out.Pauses[1].Token
			out = send(t, "state", map[string]any{"x": []int{1}}, rt) // nobody waits
			if got := pausesOf(out); got != "two external mail, told external news" {
				t.Fatalf("%v, %s", out.Err, got)
			}
			out = send(t, "news", "extra", rt)
			if got := pausesOf(out); got != "two external mail" {
				t.Fatalf("%v, %s", out.Err, got)
			}
			if late, err := workflow.Resume(t.Context(), token, "x", rt, nil); err == nil || late.Failure().Code != "resume.invalidToken" {
				t.Errorf("the token of an answered pause: %v", err)
			}
			out = send(t, "mail", "hello", rt)
			if diff := cmp.Diff([]any{"from 1", "hello", "extra"}, out.Output); out.Err != nil || diff != "" {
				t.Fatalf("%v (-want +got)\n%s", out.Err, diff)
			}
			if diff := cmp.Diff([]string{"test.act 1", "test.act from 1", "test.act hello extra"}, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
			want := []string{"run.start resume=true", "step.replayed a", "step.replayed one", "step.start two", "step.end two status=succeeded",
				"step.replayed told", "step.replayed b", "step.replayed say", "step.start c", "adapter.call c kind=tool name=test.act", "step.end c status=succeeded",
				"run.success", "run.end status=ok"}
			if diff := cmp.Diff(want, runtest.LinesOf(out)); diff != "" {
				t.Errorf("trace (-want +got)\n%s", diff)
			}
			if how == "with a store" {
				if out := send(t, "mail", 1, rt); out.Failure().Code != "channel.closed" {
					t.Errorf("to a run that is over: %v", out.Err)
				}
			}
		})
	}
}

func TestSendRefused(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := mailRuntime(&runtest.Effects{}, store)
	if _, err := runtest.Load(t, []byte(mailing)).Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	before, _, _ := store.Load(t.Context(), "r1", 0)
	check := func(name string, out *workflow.Outcome, want string) {
		t.Helper()
		if out.Err == nil || out.Failure().Code != want || out.Status != workflow.StatusError {
			t.Errorf("%s: %s, %v", name, out.Status, out.Err)
		}
	}
	check("unknown", send(t, "mial", 1, rt), "channel.unknown")
	check("no name", send(t, "", 1, rt), "channel.unknown")
	check("no JSON", send(t, "mail", func() {}, rt), "input.invalid")
	small := *rt
	small.Limits.MaxOutputBytes = 100
	check("too large", send(t, "mail", strings.Repeat("x", 200), &small), "output.tooLarge")
	gone, _ := workflow.Send(t.Context(), "r2", "mail", 1, rt, nil)
	check("no run", gone, "run.notFound")
	lease, err := store.Claim(t.Context(), "r1", "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	check("held", send(t, "mail", 1, rt), "run.busy")
	if err := store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if after, _, _ := store.Load(t.Context(), "r1", 0); after.Seq != before.Seq {
		t.Errorf("%d records were written", after.Seq-before.Seq)
	}
	if _, err := workflow.Cancel(t.Context(), "r1", "", rt, nil); err == nil {
		t.Fatal("not cancelled")
	}
	check("cancelled", send(t, "mail", 1, rt), "channel.closed")
}

// A full queue takes nothing from outside, and room is made when somebody receives.
func TestSendToFullQueue(t *testing.T) {
	rt := mailRuntime(&runtest.Effects{}, &checkpoint.Memory{})
	wf := runtest.Load(t, []byte(runtest.Head+`channels: {mail: queue, go: topic}
steps:
  fill: {uses: send, foreach: {in: "${{ 1..1000 }}"}, with: {channel: mail, value: "${{ item }}"}}
  go: {uses: receive, needs: [fill], with: {channel: go}}
  one: {uses: receive, needs: [go], with: {channel: mail}}
  again: {uses: receive, needs: [one], with: {channel: go}}
output: ${{ steps.one.output }}
`))
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	if out := send(t, "mail", 0, rt); out.Err == nil || out.Failure().Code != "channel.full" {
		t.Errorf("full: %v", out.Err)
	}
	if out := send(t, "go", 0, rt); pausesOf(out) != "again external go" {
		t.Errorf("%s, %v", pausesOf(out), out.Err)
	}
	if out := send(t, "mail", 0, rt); out.Err != nil {
		t.Errorf("with room: %v", out.Err)
	}
	if out := send(t, "go", 0, rt); out.Output != int64(1) {
		t.Errorf("%v, %v", out.Output, out.Err)
	}
}

// At whatever write the process dies, the run comes to the same end: values that were recorded are neither
// lost nor received twice.
func TestChannelsAfterEachWrite(t *testing.T) {
	wf := runtest.Load(t, []byte(mailing))
	for dies := 0; ; dies++ {
		memory, log := &checkpoint.Memory{}, &runtest.Effects{}
		rt, died := mailRuntime(log, runtest.Claimed{Dead: &runtest.Dead{Store: memory, After: dies}}), false
		// settle resumes a run whose process has died, and says what really happened.
		settle := func(out *workflow.Outcome) *workflow.Outcome {
			if out.Err != nil && out.Failure().Code == "store.failed" {
				rt, died = mailRuntime(log, memory), true
				out, _ = workflow.Recover(t.Context(), "r1", rt, nil)
			}
			for out.Status == workflow.StatusPaused && out.Pauses[0].Reason == "indeterminate" {
				n := map[string]string{"a": "1", "b": "from 1", "c": "x y"}[out.Pauses[0].Step]
				answer := map[string]any{"decision": "retry"}
				if slices.Contains(log.Lines, "test.act "+n) {
					answer = map[string]any{"decision": "result", "form": n}
				}
				out, _ = workflow.Resume(t.Context(), out.Token, answer, rt, nil)
			}
			return out
		}
		out, _ := wf.Run(t.Context(), nil, rt)
		out = settle(out)
		for _, s := range []struct{ channel, value string }{{"news", "y"}, {"mail", "x"}} {
			for strings.Contains(pausesOf(out), "external "+s.channel) { // once more if it was not recorded
				out = settle(send(t, s.channel, s.value, rt))
			}
		}
		if diff := cmp.Diff([]any{"from 1", "x", "y"}, out.Output); out.Err != nil || diff != "" {
			t.Fatalf("after %d writes: %v, %s (-want +got)\n%s", dies, out.Err, pausesOf(out), diff)
		}
		if diff := cmp.Diff([]string{"test.act 1", "test.act from 1", "test.act x y"}, log.Lines); diff != "" {
			t.Errorf("after %d writes: effects (-want +got)\n%s", dies, diff)
		}
		if !died {
			if dies < 6 {
				t.Fatalf("only %d writes", dies)
			}
			return
		}
	}
}

// A timeout counts in the process, then by the clock: whoever sweeps fails the step.
func TestReceiveTimeout(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`channels: {mail: queue}
steps:
  short: {uses: receive, with: {channel: mail, timeout: 1s}, on_error: continue}
  long: {uses: receive, with: {channel: mail, timeout: 1h}, on_error: {set: late}}
  slow: {uses: test.slow}
output: ["${{ steps.short.error.code }}", "${{ steps.long.output }}"]
`))
	synctest.Test(t, func(t *testing.T) {
		slow := runtest.Tool("test.slow", func(ctx context.Context, _ map[string]any) (any, error) {
			time.Sleep(20 * time.Minute)
			return nil, nil
		})
		rt := &runtime.Runtime{Tools: []runtime.Tool{slow}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		began := time.Now()
		out, err := wf.Run(t.Context(), nil, rt)
		if got := pausesOf(out); err != nil || got != "long external mail" || !out.Pauses[0].ExpiresAt.Equal(began.Add(time.Hour)) || time.Since(began) != 20*time.Minute {
			t.Fatalf("%v, %s, %+v after %v", err, got, out.Pauses, time.Since(began))
		}
		time.Sleep(39 * time.Minute)
		if list, err := workflow.Sweep(t.Context(), rt, nil); err != nil || len(list) != 0 {
			t.Errorf("too early: %v, %v", list, err)
		}
		time.Sleep(2 * time.Minute)
		list, err := workflow.Sweep(t.Context(), rt, nil)
		if err != nil || len(list) != 1 || !cmp.Equal(list[0].Output, any([]any{"channel.timeout", "late"})) {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// A run that is rolled back when it pauses has values from outside from the start of its next beginning.
func TestSendToRestartedRun(t *testing.T) {
	log := &runtest.Effects{}
	rt := runtest.UndoRuntime(log, &checkpoint.Memory{})
	rt.Interrupt = resume.Restart
	wf := runtest.Load(t, []byte(runtest.Head+`channels: {mail: queue, state: value, news: topic}
steps:
  act: {uses: test.act, with: {n: 1}, rollback: {uses: test.undo, with: {n: 1}}}
  one: {uses: receive, needs: [act], with: {channel: mail}}
  now: {uses: receive, needs: [one], with: {channel: state}}
  told: {uses: receive, needs: [one], with: {channel: news}}
  also: {uses: receive, needs: [one], with: {channel: news}}
output: ["${{ steps.one.output }}", "${{ steps.now.output }}", "${{ steps.told.output }}", "${{ steps.also.output }}"]
`))
	_, err := wf.Run(t.Context(), nil, rt)
	var out *workflow.Outcome
	for _, s := range []struct {
		channel string
		value   any
		want    string
	}{
		{"state", "s", "one external mail"},
		{"mail", "m", "told external news, also external news"},
	} {
		if err != nil {
			t.Fatal(err)
		}
		if out = send(t, s.channel, s.value, rt); pausesOf(out) != s.want {
			t.Fatalf("after %s: %s, %v", s.channel, pausesOf(out), out.Err)
		}
		if out, err = workflow.Recover(t.Context(), "r1", rt, nil); pausesOf(out) != s.want {
			t.Fatalf("after %s, recovered: %s, %v", s.channel, pausesOf(out), err)
		}
	}
	out = send(t, "news", "n", rt)
	if diff := cmp.Diff([]any{"m", "s", "n", "n"}, out.Output); diff != "" || out.Err != nil {
		t.Errorf("%v (-want +got)\n%s", out.Err, diff)
	}
	if again, err := workflow.Recover(t.Context(), "r1", rt, nil); err != nil || !cmp.Equal(again.Output, out.Output) {
		t.Errorf("recovered: %v, %v", again.Output, err)
	}
	if got := strings.Join(log.Lines, ", "); got != "test.act 1, test.undo 1, test.act 1, test.undo 1, test.act 1" {
		t.Error(got)
	}
}

// A fork shares what was sent from outside; what is received follows from what is sent.
func TestForkWithChannels(t *testing.T) {
	log := &runtest.Effects{}
	rt := mailRuntime(log, &checkpoint.Memory{})
	ids := 0
	rt.NewRunID = func() string { ids++; return fmt.Sprint("r", ids) }
	wf := runtest.Load(t, []byte(runtest.Head+`channels: {mail: queue, state: value}
steps:
  give: {uses: test.act, with: {n: 1}}
  say: {uses: send, needs: [give], with: {channel: mail, value: "${{ steps.give.output }}"}}
  take: {uses: receive, with: {channel: mail}}
  use: {uses: test.act, needs: [take], with: {n: "use ${{ steps.take.output }}"}}
  beside: {uses: test.act, with: {n: beside}}
  state: {uses: receive, with: {channel: state}}
output: ["${{ steps.use.output }}", "${{ steps.state.output }}"]
`))
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	if out := send(t, "state", "s", rt); out.Err != nil || !cmp.Equal(out.Output, any([]any{"use 1", "s"})) {
		t.Fatalf("%v, %v", out.Output, out.Err)
	}
	log.Lines = nil
	out, err := workflow.Fork(t.Context(), "r1", "give", workflow.Edits{}, rt, nil)
	if err != nil || !cmp.Equal(out.Output, any([]any{"use 1", "s"})) {
		t.Errorf("%v, %v, %s", out.Output, err, pausesOf(out))
	}
	if diff := cmp.Diff([]string{"test.act 1", "test.act use 1"}, log.Lines); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
}
