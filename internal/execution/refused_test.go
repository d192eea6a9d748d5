package execution_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// kindsSink notes the kinds of events.
type kindsSink struct{ kinds *[]string }

func (s kindsSink) Emit(e trace.Event) { *s.kinds = append(*s.kinds, string(e.Kind)) }

// counted is a model that says what a call took: tokens in and out.
type counted [2]int

func (m counted) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return &runtime.Response{Text: "ok", Finish: "stop", Usage: runtime.Usage{InputTokens: m[0], OutputTokens: m[1]}}, nil
}

// Trust 5.5: a resume that is refused has a trace, which sinks are shown.
func TestRefusedResumesHaveATrace(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go}}\n"))
	var shown []string
	live := kindsSink{&shown}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	rt.Trace = []trace.Sink{live}
	for _, tt := range []struct{ token, code string }{
		{out.Token, "answer.unfit"}, {"nonsense", "resume.invalidToken"}, {out.RunID + ".AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "resume.invalidToken"},
	} {
		shown = nil
		refused, _ := workflow.Resume(t.Context(), tt.token, map[string]any{"decision": "maybe"}, rt, nil)
		var kinds []string
		for _, e := range refused.Trace {
			kinds = append(kinds, string(e.Kind))
		}
		want := []string{"run.start", "run.error", "run.end"}
		if diff := cmp.Diff(want, kinds) + cmp.Diff(want, shown); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.code, diff)
			continue
		}
		if refused.Trace[0].Data.Get("resume") != true || refused.Trace[1].Data.Get("code") != tt.code {
			t.Errorf("%s: %v", tt.code, refused.Trace)
		}
	}
}

// Trust 5.5: the artefact of a paused outcome has what bodies have finished, by path.
func TestArtefactOfAPausedRun(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: set, with: 1}
  done: {uses: recipe, with: {steps: {in: {uses: set, with: 2}}, output: 3}}
  each:
    uses: recipe
    foreach: {in: [1, 2], as: n}
    with:
      steps:
        one: {uses: set, with: "${{ n * 10 }}"}
        ask: {uses: human, needs: [one], when: n == 2, with: {prompt: Go}}
`))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: &checkpoint.Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path := range out.Artefact {
		paths = append(paths, path)
	}
	want := map[string]any{"a": int64(1), "done": int64(3), "each[0]": out.Artefact["each[0]"], "each[1]/one": int64(20)}
	if diff := cmp.Diff(want, out.Artefact); diff != "" {
		t.Errorf("%v (-want +got)\n%s", paths, diff)
	}
}

// Trust 5.8: an outcome decodes its output, has its usage over all executions, and its times.
func TestOutcomesSayWhatTheyTook(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  say: {uses: model, with: {model: fast, prompt: Hello}}\n"+
		"  ask: {uses: human, needs: [say], with: {prompt: Go}}\n"+
		"  more: {uses: model, needs: [ask], with: {model: fast, prompt: More}}\noutput: {n: 7}\n"))
	model := counted{5, 3}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"fast": model},
		Prices: map[string]runtime.Price{"fast": {Input: 1, Output: 2}}}
	paused, _ := wf.Run(t.Context(), nil, rt)
	var v struct{ N int }
	if err := paused.Decode(&v); err == nil {
		t.Error("a paused run has an output")
	}
	done, err := workflow.Resume(t.Context(), paused.Token, map[string]any{"decision": "approve"}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := done.Decode(&v); err != nil || v.N != 7 {
		t.Errorf("decoded %v, %v", v, err)
	}
	again, _ := workflow.Recover(t.Context(), done.RunID, rt, nil)
	forked, err := workflow.Fork(t.Context(), done.RunID, "more", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := workflow.Usage{Calls: 1, InputTokens: 5, OutputTokens: 3, CostUSD: 11e-6}
	two := workflow.Usage{Calls: 2, InputTokens: 10, OutputTokens: 6, CostUSD: 22e-6}
	for name, tt := range map[string]struct {
		out  *workflow.Outcome
		want workflow.Usage
	}{"paused": {paused, one}, "resumed": {done, two}, "once more": {again, two}, "a fork has its own": {forked, one}} {
		if diff := cmp.Diff(tt.want, tt.out.Usage); diff != "" {
			t.Errorf("%s: usage (-want +got)\n%s", name, diff)
		}
		if tt.out.StartedAt.IsZero() || tt.out.EndedAt.Before(tt.out.StartedAt) {
			t.Errorf("%s: from %v to %v", name, tt.out.StartedAt, tt.out.EndedAt)
		}
	}
	if !done.StartedAt.Equal(paused.StartedAt) || !again.EndedAt.Equal(again.EndedAt) {
		t.Errorf("it began at %v, and at %v", paused.StartedAt, done.StartedAt)
	}
	failed, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  who: {uses: test.who}\n")).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{
		repeatable("test.who", func() (any, error) { return nil, errors.New("customer 8 is unknown") })}})
	if got := fmt.Sprint(failed.Err, failed.Decode(&v)); got != `step "who": customer 8 is unknown step "who": customer 8 is unknown` {
		t.Errorf("got %s", got)
	}
}

// A context that ends while a run is claimed cancels the execution: nothing is wrong with the store.
func TestCancelledWhileClaiming(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go}}\n"))
	store := &checkpoint.Memory{}
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := func() { cancel(errors.New("terminated")) }
	got, err := workflow.Recover(ctx, out.RunID, &runtime.Runtime{Store: stoppingStore{store, stop}}, nil)
	if got.Status != workflow.StatusCancelled || got.Failure().Code != "run.cancelled" || !errors.Is(err, context.Canceled) ||
		got.Trace[1].Kind != trace.RunCancelled {
		t.Errorf("%s: %v, %v", got.Status, err, got.Trace)
	}
}

// stoppingStore ends the context of whoever claims a run.
type stoppingStore struct {
	checkpoint.Store
	stop func()
}

func (s stoppingStore) Claim(ctx context.Context, _, _ string, _ time.Duration) (checkpoint.Lease, error) {
	s.stop()
	return checkpoint.Lease{}, ctx.Err()
}
