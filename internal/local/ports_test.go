package local_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// secretsFunc is runtime.Secrets of a function.
type secretsFunc func(ctx context.Context, name string) (string, error)

func (f secretsFunc) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

// badReporter panics.
type badReporter struct{}

func (badReporter) Warn(string, ...slog.Attr) { panic("the reporter is broken") }

// badSpec is a tool that cannot say what it is.
type badSpec struct{ runtest.RawTool }

func (badSpec) Spec() runtime.ToolSpec { panic("no spec") }

const secretive = runtest.Head + `steps:
  a: {uses: test.echo, with: {key: "${{ secrets.TOKEN }}"}}
  b: {uses: test.gone, needs: [a]}
`

// However a port misbehaves, the outcome has a start, an end and the diagnostics so far, and the sinks
// see the same events.
func TestPortsThatMisbehave(t *testing.T) {
	for _, tt := range []struct {
		name string
		rt   runtime.Runtime
		code string
		want []diagnostics.Code
	}{
		{"secrets fail", runtime.Runtime{Secrets: runtest.FailingSecrets{}}, "secret.failed", []diagnostics.Code{"tool.missing"}},
		{"secrets panic", runtime.Runtime{Secrets: secretsFunc(func(context.Context, string) (string, error) { panic("boom") })}, "secret.failed", []diagnostics.Code{"tool.missing"}},
		{"no id", runtime.Runtime{NewRunID: func() string { panic("no more ids") }}, "runtime.invalid", nil},
		{"a tool without a spec", runtime.Runtime{Tools: []runtime.Tool{badSpec{}}}, "runtime.invalid", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events := &trace.Recorder{}
			rt := tt.rt
			rt.Trace = []trace.Sink{events}
			if rt.Tools == nil {
				rt.Tools = []runtime.Tool{runtest.Echo}
			}
			out, err := runtest.Load(t, []byte(secretive)).Run(t.Context(), nil, &rt)
			if e := out.Failure(); e == nil || e.Code != tt.code || out.Status != workflow.StatusError || out.RunID == "" {
				t.Errorf("got %s, run %q, %v", out.Status, out.RunID, err)
			}
			var kinds []trace.Kind
			for _, e := range out.Trace {
				kinds = append(kinds, e.Kind)
			}
			if want := []trace.Kind{trace.RunStart, trace.RunError, trace.RunEnd}; !cmp.Equal(kinds, want) {
				t.Errorf("events %v, want %v", kinds, want)
			}
			var codes []diagnostics.Code
			for _, d := range out.Diagnostics {
				codes = append(codes, d.Code)
			}
			if diff := cmp.Diff(tt.want, codes); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReporterThatPanicsChangesNothing(t *testing.T) {
	out, err := runtest.Load(t, []byte(wide)).Run(t.Context(), nil, &runtime.Runtime{
		Tools: []runtime.Tool{nap, runtest.Broken}, Trace: []trace.Sink{&badSink{}}, Reporter: badReporter{}})
	if err != nil || len(out.Diagnostics) != 1 || out.Diagnostics[0].Code != diagnostics.CodeSinkFailed {
		t.Errorf("got %v, %v", err, out.Diagnostics)
	}
}

// stuckReporter does not return.
type stuckReporter struct{ stuck chan struct{} }

func (r stuckReporter) Warn(string, ...slog.Attr) { <-r.stuck }

// Trust 1.11: a reporter that does not return holds a run up for a second, no more.
func TestReporterThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, stuck := time.Now(), make(chan struct{})
		defer close(stuck)
		out, err := runtest.Load(t, []byte(runtest.Head+"steps: {a: {uses: test.gone, when: 'false'}, b: {uses: test.lost, when: 'false'}}\n")).Run(t.Context(), nil, &runtime.Runtime{Reporter: stuckReporter{stuck}})
		if took := time.Since(began); err != nil || len(out.Diagnostics) != 2 || took != time.Second {
			t.Errorf("%v, %v, after %v", err, out.Diagnostics, took)
		}
	})
}

func TestCancelWhileSecretsAreRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	secrets := secretsFunc(func(ctx context.Context, _ string) (string, error) { cancel(); return "", ctx.Err() })
	for _, mode := range []diagnostics.Mode{diagnostics.Default, diagnostics.Strict} {
		out, err := runtest.Load(t, []byte(secretive)).Run(ctx, nil, &runtime.Runtime{Secrets: secrets, Tools: []runtime.Tool{runtest.Echo}, Diagnostics: mode})
		if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("got %s, %v", out.Status, err)
		}
	}
}

// Runs at once share a workflow and its secrets, whatever each comes to.
func TestConcurrentRunsWithSecrets(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs: {n: integer}
steps:
  a: {uses: test.leak, foreach: {in: "${{ 1..5 }}"}, with: {key: "x ${{ secrets.TOKEN }} ${{ inputs.n }}"}}
  b: {uses: test.fail, needs: [a], on_error: continue, with: {key: "${{ secrets.TOKEN }}"}}
  c: {uses: set, needs: [b], trigger: all_done, with: "${{ [steps.a.output, steps.b.error.message] }}"}
output: ${{ steps.c.output }}
`))
	leak := runtest.Tool("test.leak", func(_ context.Context, args map[string]any) (any, error) { return args["key"], nil })
	fail := runtest.Tool("test.fail", func(_ context.Context, args map[string]any) (any, error) {
		return nil, fmt.Errorf("not %v", args["key"])
	})
	var wg sync.WaitGroup
	for n := range int64(8) {
		wg.Go(func() {
			rt := &runtime.Runtime{Tools: []runtime.Tool{leak, fail}, Secrets: runtime.SecretMap{"TOKEN": fmt.Sprintf("secret number %d", n)}}
			out, err := wf.Run(t.Context(), map[string]any{"n": n}, rt)
			text := fmt.Sprintf("x *** %d", n)
			want := []any{[]any{text, text, text, text, text}, "not ***"}
			if diff := cmp.Diff(want, out.Output); err != nil || diff != "" {
				t.Errorf("run %d: %v (-want +got):\n%s", n, err, diff)
			}
		})
	}
	wg.Wait()
}

// stuckSink never takes its first event.
type stuckSink chan struct{}

func (s stuckSink) Emit(trace.Event) { <-s }

func TestStuckSinkHoldsTheRunASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(stuckSink)
		defer close(stuck)
		events := &trace.Recorder{}
		begin := time.Now()
		out, err := runtest.Load(t, []byte(wide)).Run(t.Context(), nil, &runtime.Runtime{
			Tools: []runtime.Tool{runtest.Echo, runtest.JSONTool{Name: "test.nap", F: runtest.Echo.(runtest.JSONTool).F}, runtest.Broken}, Trace: []trace.Sink{stuck, events}, Reporter: &runtest.Quiet{}})
		if err != nil || len(events.Events()) != len(out.Trace) {
			t.Errorf("%v; the other sink has %d of %d events", err, len(events.Events()), len(out.Trace))
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		live := events.Events()
		for i, e := range live {
			if (e.Kind == trace.RunEnd) != (i == len(live)-1) || (e.Kind == trace.RunStart) != (i == 0) {
				t.Errorf("event %d of %d is %s", i, len(live), e.Kind)
			}
		}
	})
}

// Runs that end early share the workflow's diagnostics, and must not write to them.
func TestOutcomesDoNotShareFindings(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs: {go: {type: boolean, default: true}}
steps:
  a: {uses: set, when: inputs.go, with: {x: 1}}
  b: {uses: test.echo, needs: [a], with: {key: "${{ secrets.TOKEN }}"}}
output: ${{ [steps.a.output.x, steps.a.output.y, steps.a.output.z] }}
`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{
				Trace: []trace.Sink{&badSink{}}, Tools: []runtime.Tool{nil}, Reporter: &runtest.Quiet{}})
			for i := range out.Diagnostics {
				out.Diagnostics[i].Message = "changed"
			}
			out, _ = wf.Run(t.Context(), nil, &runtime.Runtime{
				Trace: []trace.Sink{&badSink{}}, Secrets: runtest.FailingSecrets{}, Reporter: &runtest.Quiet{}})
			out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{})
		})
	}
	wg.Wait()
	for _, d := range wf.Diagnostics {
		if d.Message == "changed" {
			t.Error("an outcome's diagnostics are the workflow's own")
		}
	}
}

// A cancel that comes at any moment finds a lone call that ignores it, or prevents the call.
func TestDeafCallsNeverHoldACancelledRun(t *testing.T) {
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		deaf := runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { <-release; return nil, nil })
		wf := runtest.Load(t, one("with: {}"))
		go func() {
			for range rand.IntN(1000) {
				_ = ctx.Err()
			}
			cancel()
		}()
		ended := make(chan *workflow.Outcome)
		go func() {
			out, _ := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{deaf}, Limits: runtime.Limits{Grace: 1}, Reporter: &runtest.Quiet{}})
			ended <- out
		}()
		select {
		case out := <-ended:
			if out.Status != workflow.StatusCancelled {
				t.Errorf("got %s, %v", out.Status, out.Err)
			}
			close(release)
		case <-time.After(2 * time.Minute):
			t.Error("the run hangs")
			close(release)
			<-ended
		}
	}
}

// A lone call that was left behind ends late, while the caller has the outcome: then the model is not asked again,
// although its answer has to be mended.
func TestLateResultsOfWhatWasLeftBehind(t *testing.T) {
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		asked, release, late := make(chan struct{}, 10), make(chan struct{}), make(chan struct{}, 1)
		model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			asked <- struct{}{}
			<-release
			defer func() { late <- struct{}{} }()
			return &runtime.Response{Text: "no JSON"}, nil
		}}
		go func() { <-asked; cancel() }()
		out, err := runtest.Load(t, []byte(runtest.Structured)).Run(ctx, nil, &runtime.Runtime{
			Models: map[string]runtime.Model{"fast": model}, Limits: runtime.Limits{Grace: time.Duration(1 + i)}, Reporter: &runtest.Quiet{}})
		close(release)
		if out.Status != workflow.StatusCancelled || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %s, %v", out.Status, err)
		}
		before := fmt.Sprint(runtest.Lines(out))
		<-late
		if got := fmt.Sprint(runtest.Lines(out)); got != before {
			t.Errorf("the trace changed to %s", got)
		}
	}
}
