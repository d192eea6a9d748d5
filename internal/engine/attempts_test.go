package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// flaky is a tool and a model whose first calls fail, one after the other, as errs says; then it answers
// with the number of the call.
type flaky struct {
	errs   []error
	effect runtime.Effect
	about  *retry.Metadata
	before func(ctx context.Context, n int) // nil: nothing

	mutex sync.Mutex // an attempt that is left behind goes on beside the next one
	n     int
	keys  []string
	asks  []runtime.Request
}

func (f *flaky) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "test.flaky", Effect: f.effect}
}

func (f *flaky) Metadata() runtime.Metadata { return runtime.Metadata{Retry: f.about} }

// next counts a call and says how it fails.
func (f *flaky) next(ctx context.Context, note func()) (n int, err error) {
	f.mutex.Lock()
	f.n++
	n = f.n
	note()
	f.mutex.Unlock()
	if f.before != nil {
		f.before(ctx, n)
	}
	if n <= len(f.errs) {
		err = f.errs[n-1]
	}
	return n, err
}

func (f *flaky) Call(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	n, err := f.next(ctx, func() { f.keys = append(f.keys, resume.IdempotencyKey(ctx)) })
	if err != nil {
		return nil, err
	}
	return json.Marshal(n)
}

func (f *flaky) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	n, err := f.next(ctx, func() { f.asks = append(f.asks, *req) })
	if err != nil {
		return nil, err
	}
	return &runtime.Response{Text: fmt.Sprint(n)}, nil
}

func (f *flaky) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	emit(runtime.Delta{Text: "begun "})
	return f.Generate(ctx, req)
}

// on is the runtime that has f, as the tool and the model of recipes.
func (f *flaky) on() *runtime.Runtime {
	return &runtime.Runtime{Tools: []runtime.Tool{f}, Models: map[string]runtime.Model{"m": f}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
}

var (
	failing   = &retry.Failure{Reason: retry.ServerError, Status: 503, Sent: true, Err: errors.New("come back later")}
	unsent    = &retry.Failure{Reason: retry.Network, Err: errors.New("connection refused")}
	refused   = &retry.Failure{Status: 400, Sent: true, Err: errors.New("bad request")}
	exhausted = diagnostics.CodeRetryExhausted
)

// times is a list of n times the same error.
func times(n int, err error) []error { return slices.Repeat([]error{err}, n) }

// calling is a recipe that calls the tool or the model; the rest is about its step, or before steps.
func calling(uses, step, recipe string) string {
	with := "{}"
	if uses == "model" {
		with = "{model: m, prompt: hi}"
	}
	return runtest.Head + recipe + "steps:\n  call: {uses: " + uses + ", with: " + with + step + "}\noutput: ${{ steps.call.output }}\n"
}

func TestRetryLayers(t *testing.T) {
	policy := func(attempts int) retry.Policies { return retry.Policies{retry.Tool: {MaxAttempts: attempts}} }
	for _, tt := range []struct {
		name         string
		step, recipe string
		run, host    retry.Policies
		own          *retry.Metadata
		want         int // calls
	}{
		{name: "nobody", want: 1},
		{name: "the adapter", own: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}, want: 3},
		{name: "the recipe", recipe: "{max_attempts: 4}", own: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}, want: 4},
		{name: "somebody, but of something else", recipe: "{backoff: 0s}", own: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}, want: 1},
		{name: "the adapter limits nobody", recipe: "{max_attempts: 4}", own: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 1, RetryOn: []retry.Reason{}}}, want: 4},
		{name: "the host over the recipe", host: policy(5), recipe: "{max_attempts: 4}", want: 5},
		{name: "the step over the host", step: "{max_attempts: 2}", host: policy(5), recipe: "{max_attempts: 4}", want: 2},
		{name: "the run over the step", run: policy(3), step: "{max_attempts: 2}", host: policy(5), want: 3},
		{name: "field by field", run: retry.Policies{retry.Tool: {RetryOn: []retry.Reason{}}}, step: "{max_attempts: 2}", want: 1},
		{name: "of another kind", run: retry.Policies{retry.Model: {MaxAttempts: 3}}, host: retry.Policies{retry.Memory: {MaxAttempts: 3}}, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &flaky{errs: times(9, runtest.Throttled), about: tt.own, effect: runtime.ReadOnly}
			step, recipe := "", ""
			if tt.step != "" {
				step = ", retry: " + tt.step
			}
			if tt.recipe != "" {
				recipe = "defaults: {retry: {tool: " + tt.recipe + "}}\n"
			}
			rt := f.on()
			rt.Retry, rt.RetryDefaults = tt.run, tt.host
			out, err := runtest.Load(t, []byte(calling("test.flaky", step, recipe))).Run(t.Context(), nil, rt)
			if f.n != tt.want || err == nil || !errors.Is(err, runtest.Throttled) {
				t.Errorf("%d calls and error %v, want %d", f.n, err, tt.want)
			}
			var retries int
			for _, e := range out.Trace {
				if e.Kind == trace.AdapterRetry {
					retries++
				}
			}
			if retries != tt.want-1 {
				t.Errorf("%d events of retrying, want %d", retries, tt.want-1)
			}
		})
	}
}

func TestRetryEffects(t *testing.T) {
	timeout := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	const all = ", retry: {max_attempts: 3}"
	for _, tt := range []struct {
		name   string
		effect runtime.Effect
		err    error
		step   string // else the recipe's defaults allow 3
		want   int    // calls
		found  bool   // that it was given up
	}{
		{"a server's failure, defaults", runtime.External, failing, "", 1, true},
		{"a server's failure, own", runtime.External, failing, all, 3, true},
		{"a server's failure, own, other reasons", runtime.External, failing, ", retry: {max_attempts: 3, retry_on: [timeout]}", 1, true},
		{"a server's failure, read only", runtime.ReadOnly, failing, "", 3, true},
		{"a server's failure, idempotent", runtime.Idempotent, failing, "", 3, true},
		{"no effect given is external", "", failing, "", 1, true},
		{"rate limit, defaults", runtime.External, runtest.Throttled, "", 3, true},
		{"nothing sent, defaults", runtime.External, unsent, "", 3, true},
		{"connection lost, own", runtime.External, runtest.Lost, all, 1, true},
		{"connection lost, own by name", runtime.External, runtest.Lost, ", retry: {max_attempts: 3, retry_on: [network]}", 3, true},
		{"connection lost, idempotent", runtime.Idempotent, runtest.Lost, "", 3, true},
		{"an error of its own", runtime.External, errors.New("bad"), "", 1, true},
		{"an error of its own, own", runtime.External, errors.New("bad"), all, 3, true},
		{"a deadline of its own", runtime.External, timeout, all, 1, true},
		{"refused", runtime.ReadOnly, refused, all, 1, false},
		{"says that it was cancelled", runtime.ReadOnly, context.Canceled, all, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &flaky{errs: times(9, tt.err), effect: tt.effect}
			out, err := runtest.Load(t, []byte(calling("test.flaky", tt.step, "defaults: {retry: {tool: {max_attempts: 3}}}\n"))).Run(t.Context(), nil, f.on())
			if f.n != tt.want || out.Failure() == nil || out.Failure().Code != "tool.failed" || !errors.Is(err, tt.err) {
				t.Errorf("%d calls and error %v, want %d and %v", f.n, err, tt.want, tt.err)
			}
			found := slices.ContainsFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool {
				return d.Code == exhausted && d.Level == diagnostics.Warn && d.Kind == diagnostics.KindAdapter && d.Step == "call"
			})
			if found != tt.found {
				t.Errorf("diagnostics %v", out.Diagnostics)
			}
			want := resume.Key(out.RunID, 1, "call", 1, "")
			for i, key := range f.keys {
				if key != want {
					t.Errorf("attempt %d has the idempotency key %s, want %s", i+1, key, want)
				}
			}
		})
	}
}

func TestRetryWaits(t *testing.T) {
	const policy = ", retry: {max_attempts: 4, backoff: 100ms, max_backoff: 250ms}"
	long := &retry.Failure{Reason: retry.RateLimit, After: time.Minute, Err: errors.New("in a minute")}
	for _, tt := range []struct {
		name string
		uses string
		step string
		errs []error
		want time.Duration
	}{
		{"doubled and capped", "model", policy, times(3, runtest.Throttled), 550 * time.Millisecond},
		{"of a tool", "test.flaky", policy, times(3, runtest.Throttled), 550 * time.Millisecond},
		{"retry after", "model", ", retry: {max_attempts: 4, backoff: 100ms}", []error{runtest.Throttled, long}, time.Minute + 100*time.Millisecond},
		{"no backoff", "model", ", retry: {max_attempts: 4}", times(3, runtest.Throttled), 0},
		{"pause without a store", "model", ", retry: {max_attempts: 2, backoff: 1h, mode: pause}", times(1, runtest.Throttled), time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{errs: tt.errs}
				began := time.Now()
				_, err := runtest.Load(t, []byte(calling(tt.uses, tt.step, ""))).Run(t.Context(), nil, f.on())
				if took := time.Since(began); err != nil || took != tt.want || f.n != len(tt.errs)+1 {
					t.Errorf("%d calls in %v, %v; want %v", f.n, took, err, tt.want)
				}
			})
		})
	}
}

// trust 8.10: nobody waits longer than max_backoff because the other side asks for it, whatever is called, and the failure is
// the call's own. Without a store, the mode pause does not help.
func TestRetryWaitsThatAreTooLong(t *testing.T) {
	year := &retry.Failure{Reason: retry.RateLimit, After: 365 * 24 * time.Hour, Err: errors.New("in a year")}
	for _, uses := range []string{"model", "test.flaky"} {
		for _, policy := range []string{"max_attempts: 4", "max_attempts: 4, max_backoff: 1s", "max_attempts: 4, mode: pause"} {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{errs: []error{year}}
				began := time.Now()
				_, err := runtest.Load(t, []byte(calling(uses, ", retry: {"+policy+"}", ""))).Run(t.Context(), nil, f.on())
				if took := time.Since(began); !errors.Is(err, year) || took != 0 || f.n != 1 {
					t.Errorf("%s, %s: %d calls in %v, %v; want one, its error, no wait", uses, policy, f.n, took, err)
				}
			})
		}
	}
}

// Jitter is drawn from the run, the step and the call, so that a run waits the same again.
func TestRetryJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := retry.Policy{MaxAttempts: 3, Backoff: time.Hour, Jitter: retry.FullJitter}
		resolved := retry.Resolve(retry.Layers{Run: policy})
		seed := retry.Seed{Run: "r1", Step: "call", Call: 1}
		want := resolved.Delay(1, 0, seed) + resolved.Delay(2, 0, seed)
		for range 2 {
			f := &flaky{errs: times(2, runtest.Throttled)}
			rt := f.on()
			rt.NewRunID, rt.Retry = func() string { return "r1" }, retry.Policies{retry.Model: policy}
			began := time.Now()
			_, err := runtest.Load(t, []byte(calling("model", "", ""))).Run(t.Context(), nil, rt)
			if took := time.Since(began); err != nil || took != want {
				t.Errorf("took %v, %v; want %v", took, err, want)
			}
		}
	})
}

// A wait ends when the run, the step or the recipe's time does; what failed then is not told as given up.
func TestRetryWaitEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cancel bool
		text   string
		code   string
		status workflow.Status
	}{
		{"cancelled", true, calling("model", ", retry: {max_attempts: 2, backoff: 1h}", ""), "run.cancelled", workflow.StatusCancelled},
		{"cancelled, beside another step", true, runtest.Head + "steps:\n  call: {uses: model, with: {model: m, prompt: hi}, retry: {max_attempts: 2, backoff: 1h}}\n" +
			"  also: {uses: model, with: {model: m, prompt: hi}, retry: {max_attempts: 2, backoff: 1h}}\n", "run.cancelled", workflow.StatusCancelled},
		{"step's timeout", false, calling("model", ", timeout: 3s, retry: {max_attempts: 2, backoff: 1h}", ""), "step.timeout", workflow.StatusError},
		{"wall time", false, calling("model", ", retry: {max_attempts: 2, backoff: 1h}", "limits: {wall_time: 3s}\n"), "limits.wall_time", workflow.StatusError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel {
					time.AfterFunc(3*time.Second, cancel)
				}
				f := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return nil, runtest.Throttled }}
				began := time.Now()
				out, err := runtest.Load(t, []byte(tt.text)).Run(ctx, nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": f}})
				if took := time.Since(began); out.Status != tt.status || out.Failure().Code != tt.code || took != 3*time.Second {
					t.Errorf("%s after %v: %v", out.Status, took, err)
				}
				for _, d := range out.Diagnostics {
					if d.Code == exhausted {
						t.Errorf("diagnostic %s", d.Message)
					}
				}
			})
		})
	}
}

func TestAttemptTimeout(t *testing.T) {
	wait := func(ctx context.Context, n int) {
		if n < 3 {
			<-ctx.Done()
		}
	}
	ctxErr := []error{context.DeadlineExceeded, context.DeadlineExceeded}
	for _, tt := range []struct {
		name   string
		uses   string
		f      *flaky
		step   string
		err    string // "": none
		calls  int
		took   time.Duration
		warned bool
	}{
		{"the third is in time", "model", &flaky{errs: ctxErr, before: wait}, ", retry: {max_attempts: 3, timeout: 2s}", "", 3, 4 * time.Second, false},
		{"all too late", "model", &flaky{errs: ctxErr, before: wait}, ", retry: {max_attempts: 2, timeout: 2s}",
			"attempt 2 timed out: its timeout is 2s: context deadline exceeded", 2, 4 * time.Second, false},
		{"a timeout alone", "test.flaky", &flaky{errs: ctxErr, before: wait}, ", retry: {timeout: 2s}",
			"attempt 1 timed out: its timeout is 2s: context deadline exceeded", 1, 2 * time.Second, false},
		{"says something else", "model", &flaky{errs: times(2, unsent), before: wait}, ", retry: {max_attempts: 2, retry_on: [timeout], timeout: 2s}",
			"attempt 2 timed out: its timeout is 2s: connection refused", 2, 4 * time.Second, false},
		{"answered at the last moment", "model", &flaky{errs: times(2, failing), before: wait}, ", retry: {max_attempts: 2, retry_on: [5xx], timeout: 2s}",
			"come back later", 2, 4 * time.Second, false},
		{"succeeds late", "model", &flaky{before: wait}, ", retry: {timeout: 2s}", "", 1, 2 * time.Second, false},
		{"deaf", "model", &flaky{before: func(_ context.Context, n int) {
			if n == 1 {
				<-time.After(time.Hour)
			}
		}}, ", retry: {max_attempts: 2, timeout: 2s}", "", 2, 2250 * time.Millisecond, true},
		{"the step is over first", "test.flaky", &flaky{errs: ctxErr, before: wait, effect: runtime.ReadOnly}, ", timeout: 1s, retry: {max_attempts: 2, timeout: 2s}",
			`step "call" timed out: its timeout is 1s`, 1, time.Second, false},
		{"panics", "test.flaky", &flaky{before: func(context.Context, int) { panic("oh") }, effect: runtime.ReadOnly}, ", retry: {max_attempts: 2, timeout: 2s}",
			`panic in tool "test.flaky": oh`, 1, 0, false},
		{"ends its goroutine", "test.flaky", &flaky{before: func(context.Context, int) { goruntime.Goexit() }, effect: runtime.ReadOnly}, ", retry: {max_attempts: 2, timeout: 2s}",
			`tool "test.flaky" ended its goroutine`, 1, 0, false},
		{"panics without a timeout", "test.flaky", &flaky{before: func(context.Context, int) { panic("oh") }, effect: runtime.ReadOnly}, ", retry: {max_attempts: 2}",
			`panic in tool "test.flaky": oh`, 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				rt := tt.f.on()
				out, err := runtest.Load(t, []byte(calling(tt.uses, tt.step, ""))).Run(t.Context(), nil, rt)
				took, got := time.Since(began), ""
				if err != nil {
					got = out.Failure().Err.Error()
				}
				warned := len(rt.Reporter.(*runtest.Quiet).Texts) > 0
				time.Sleep(time.Hour) // a late answer changes nothing
				if got != tt.err || took != tt.took || tt.f.n != tt.calls || warned != tt.warned {
					t.Errorf("%d calls, %v, error %q, warned %v; want %d, %v, %q, %v", tt.f.n, took, got, warned, tt.calls, tt.took, tt.err, tt.warned)
				}
				if strings.HasPrefix(got, "panic") {
					if i := slices.IndexFunc(out.Trace, func(e trace.Event) bool { return e.Data.Get("stack") != nil }); i < 0 ||
						!strings.HasPrefix(out.Trace[i].Data.Get("stack").(string), "github.com/braise-run/braise/internal/engine_test.TestAttemptTimeout") {
						t.Errorf("no good stack in the trace: %v", runtest.Lines(out))
					}
				}
			})
		})
	}
}

// trust 3.4: a call is made as often whether somebody watches or not. One that is to be tried again streams only if the
// adapter can restart.
func TestRetryStreams(t *testing.T) {
	several := retry.Policies{retry.Model: {MaxAttempts: 2}}
	for _, tt := range []struct {
		name    string
		about   *retry.Metadata
		run     retry.Policies
		watched bool
		stream  bool
		want    int
	}{
		{"restartable", &retry.Metadata{Restartable: true}, several, true, true, 2},
		{"not restartable", nil, several, true, false, 2},
		{"not watched", nil, several, false, false, 2},
		{"only the adapter says so", &retry.Metadata{Restartable: true, Policy: several[retry.Model]}, nil, true, true, 2},
		{"only the adapter says so, not restartable", &retry.Metadata{Policy: several[retry.Model]}, nil, true, false, 2},
	} {
		for kind, text := range map[string]string{
			"model": calling("model", "", ""), "agent": runtest.Head + "steps:\n  a: {uses: agent, with: {agent: {model: m}, prompt: hi}}\n",
		} {
			f := &flaky{errs: times(1, runtest.Throttled), about: tt.about}
			rt := f.on()
			w := &runtest.Watcher{Level: trace.Detail{Deltas: tt.watched}}
			rt.Retry, rt.Trace = tt.run, []trace.Sink{w}
			out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			if f.n != tt.want {
				t.Errorf("%s, %s: %d calls, want %d", kind, tt.name, f.n, tt.want)
			}
			for _, e := range out.Trace {
				if method := e.Data.Get("method"); method != nil && (method == "stream") != tt.stream {
					t.Errorf("%s, %s: method %v", kind, tt.name, method)
				}
			}
		}
	}
}

// The hooks of a call see it once, however many attempts it takes, and the request of the last one.
func TestRetryHooks(t *testing.T) {
	d := &runtest.Diary{}
	f := &flaky{errs: append(times(2, runtest.Throttled), nil, runtest.Throttled)}
	rt := f.on()
	rt.Plugins = []runtime.Plugin{d.Plugin("p")}
	rt.Retry = retry.Policies{retry.Tool: {MaxAttempts: 3}, retry.Model: {MaxAttempts: 3}}
	text := runtest.Head + "steps:\n  a: {uses: test.flaky}\n  b: {uses: model, needs: [a], with: {model: m, prompt: hi}}\n"
	if _, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range d.Lines {
		if strings.Contains(line, "tool.") || strings.Contains(line, "model.") {
			line, _, _ = strings.Cut(line, " in the run")
			got = append(got, line)
		}
	}
	// hooks are asked about each attempt
	want := []string{"p tool.before a test.flaky args {}", "p tool.after a test.flaky args {} fails: slow down",
		"p tool.before a test.flaky args {}", "p tool.after a test.flaky args {} fails: slow down",
		"p tool.before a test.flaky args {}", "p tool.after a test.flaky args {} gives 3",
		"p model.before b m asks hi", "p model.after b m asks hi fails: slow down",
		"p model.before b m asks hi", "p model.after b m asks hi says 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hooks (-want +got)\n%s", diff)
	}
	if f.n != 5 || f.asks[0].StepCall != 1 || f.asks[1].StepCall != 2 || f.asks[1].Call != 2 {
		t.Errorf("%d calls, %+v", f.n, f.asks)
	}
}

// of returns the events of these kinds, as lines.
func of(out *workflow.Outcome, kinds ...trace.Kind) (list []string) {
	for _, e := range out.Trace {
		if slices.Contains(kinds, e.Kind) {
			list = append(list, e.Line())
		}
	}
	return list
}

func TestRetryPauses(t *testing.T) {
	const policy = ", retry: {max_attempts: 4, backoff: 1s, mode: pause}"
	for _, how := range []string{"resumed", "recovered when due"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flaky{errs: times(3, runtest.Throttled)}
				rt := f.on()
				rt.Store = &checkpoint.Memory{}
				wf := runtest.Load(t, []byte(calling("model", policy, "")))
				goOn := func(out *workflow.Outcome) (*workflow.Outcome, error) {
					if how == "resumed" {
						return workflow.Resume(t.Context(), out.Token, nil, rt, nil)
					}
					time.Sleep(time.Until(out.Pauses[0].RetryAt))
					return wf.Recover(t.Context(), out.RunID, rt)
				}
				began := time.Now()
				out, err := wf.Run(t.Context(), nil, rt)
				// One second is waited for, two are too many.
				if err != nil || out.Status != workflow.StatusPaused || f.n != 2 {
					t.Fatalf("%s after %d calls, %v", out.Status, f.n, err)
				}
				p := out.Pauses[0]
				if p.Kind != resume.System || p.Reason != "retry" || p.Step != "call" || !p.RetryAt.Equal(began.Add(3*time.Second)) {
					t.Errorf("pause %+v, until %v", p, p.RetryAt)
				}
				want := []string{"adapter.retry call adapterKind=model attempt=1 delayMs=1000 maxAttempts=4 method=generate reason=rate_limit",
					"adapter.retry call adapterKind=model attempt=2 delayMs=2000 maxAttempts=4 method=generate reason=rate_limit", "step.waiting call pauseKind=system"}
				if diff := cmp.Diff(want, of(out, trace.AdapterRetry, trace.StepWaiting)); diff != "" {
					t.Errorf("first execution (-want +got)\n%s", diff)
				}
				if out, err = goOn(out); err != nil || out.Status != workflow.StatusPaused || f.n != 3 {
					t.Fatalf("%s after %d calls, %v", out.Status, f.n, err)
				}
				want = []string{"adapter.retry call adapterKind=model attempt=3 delayMs=4000 maxAttempts=4 method=generate reason=rate_limit", "step.waiting call pauseKind=system"}
				if diff := cmp.Diff(want, of(out, trace.AdapterRetry, trace.StepWaiting)); diff != "" {
					t.Errorf("second execution (-want +got)\n%s", diff)
				}
				if out, err = goOn(out); err != nil || f.n != 4 || !cmp.Equal(out.Output, any(map[string]any{"text": "4"})) {
					t.Fatalf("%s after %d calls, %v, %v", out.Status, f.n, err, out.Output)
				}
				for i, req := range f.asks {
					if req.Call != i+1 || req.StepCall != i+1 {
						t.Errorf("call %d has the numbers %d and %d", i+1, req.Call, req.StepCall)
					}
				}
			})
		})
	}
}

// The attempts are counted over the pauses.
func TestRetryPauseExhausted(t *testing.T) {
	f := &flaky{errs: times(9, runtest.Throttled)}
	rt := f.on()
	rt.Store = &checkpoint.Memory{}
	out, err := runtest.Load(t, []byte(calling("test.flaky", ", retry: {max_attempts: 3, backoff: 1h, mode: pause}", ""))).Run(t.Context(), nil, rt)
	for out.Status == workflow.StatusPaused {
		out, err = workflow.Resume(t.Context(), out.Token, "now", rt, nil)
	}
	want := []string{"adapter.retry.exhausted call adapterKind=tool attempt=3 maxAttempts=3 method=call reason=rate_limit"}
	if diff := cmp.Diff(want, of(out, trace.AdapterRetry, trace.RetriesOver)); diff != "" || f.n != 3 || !errors.Is(err, runtest.Throttled) {
		t.Errorf("%d calls, %v (-want +got)\n%s", f.n, err, diff)
	}
}

// A model that was asked to mend its answer knows of it after the pause, also in another process.
func TestRetryPauseInARepair(t *testing.T) {
	m := &runtimetest.Model{Answers: []runtimetest.Answer{{Text: "good"}, {Err: runtest.Throttled}, {Text: `{"score": 7}`}}}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	text := calling("model", ", retry: {max_attempts: 2, backoff: 1h, mode: pause}, output: {schema: {type: object, required: [score]}}", "")
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%s, %v", out.Status, err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, nil, rt, nil); err != nil || !cmp.Equal(out.Output, any(map[string]any{"score": int64(7)})) {
		t.Fatalf("%s, %v, %v", out.Status, err, out.Output)
	}
	requests := m.Requests()
	if diff := cmp.Diff(requests[1].Messages, requests[2].Messages); diff != "" || len(requests) != 3 || len(requests[2].Messages) != 3 {
		t.Errorf("messages of the second and the third call (-second +third)\n%s", diff)
	}
	if requests[2].Call != 3 || requests[2].StepCall != 3 {
		t.Errorf("the third call has the numbers %d and %d", requests[2].Call, requests[2].StepCall)
	}
}

// Other steps go on while a call waits, and so does the call when it is due meanwhile.
func TestRetryPauseBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{errs: times(1, runtest.Throttled)}
		rt := f.on()
		rt.Store = &checkpoint.Memory{}
		slow := runtimetest.NewTool("test.slow", func(ctx context.Context, _ json.RawMessage) (any, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		rt.Tools = append(rt.Tools, slow)
		text := runtest.Head + "limits: {max_parallel: 1}\nsteps:\n  call: {uses: test.flaky, retry: {max_attempts: 2, backoff: 1m, mode: pause}}\n  slow: {uses: test.slow}\n  after: {uses: set, needs: [call], with: 1}\n"
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
		if err != nil || out.Status != workflow.StatusOK || f.n != 2 || out.Artefact["after"] != int64(1) {
			t.Errorf("%s after %d calls, %v", out.Status, f.n, err)
		}
	})
}

// A tool that asked a person finds the answer again after a pause for its next attempt; what ended that
// pause is not for the tool.
func TestRetryPauseKeepsAnswers(t *testing.T) {
	calls := 0
	ask := runtimetest.NewTool("test.ask", func(ctx context.Context, _ json.RawMessage) (any, error) {
		answer, ok := resume.Answer(ctx)
		if !ok {
			return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "How many?"})
		}
		if calls++; calls == 1 {
			return nil, runtest.Throttled
		}
		return answer, nil
	})
	rt := &runtime.Runtime{Tools: []runtime.Tool{ask}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: test.ask, retry: {max_attempts: 2, backoff: 1h, mode: pause}}\noutput: ${{ steps.ask.output }}\n"))
	out, err := wf.Run(t.Context(), nil, rt)
	for _, answer := range []any{"six", "go on"} {
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatalf("%s, %v", out.Status, err)
		}
		out, err = wf.Resume(t.Context(), out.Token, answer, rt)
	}
	if err != nil || out.Output != "six" || calls != 2 {
		t.Errorf("%v, output %v", err, out.Output)
	}
}

func TestIndeterminateLiveCall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		store  bool
		effect runtime.Effect
		err    error
		answer any // nil: no pause
		output any
		calls  int
	}{
		{"called again", true, runtime.External, runtest.Lost, map[string]any{"decision": "retry"}, int64(2), 2},
		{"its result is told", true, runtime.External, runtest.Lost, map[string]any{"decision": "result", "form": "sent"}, "sent", 1},
		{"given up", true, runtime.External, runtest.Lost, map[string]any{"decision": "fail"}, nil, 1},
		{"without a store", false, runtime.External, runtest.Lost, nil, nil, 1},
		{"idempotent", true, runtime.Idempotent, runtest.Lost, nil, nil, 1},
		{"answered", true, runtime.External, failing, nil, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &flaky{errs: times(1, tt.err), effect: tt.effect}
			rt := f.on()
			if tt.store {
				rt.Store = &checkpoint.Memory{}
			}
			wf := runtest.Load(t, []byte(calling("test.flaky", "", "")))
			out, err := wf.Run(t.Context(), nil, rt)
			if paused := out.Status == workflow.StatusPaused; paused != (tt.answer != nil) {
				t.Fatalf("%s, %v", out.Status, err)
			}
			if tt.answer != nil {
				if p := out.Pauses[0]; p.Kind != resume.System || p.Reason != "indeterminate" || !slices.Equal(p.Decisions, []string{"retry", "result", "fail"}) {
					t.Errorf("pause %+v", p)
				}
				out, err = wf.Resume(t.Context(), out.Token, tt.answer, rt)
			}
			if (err == nil) != (tt.output != nil) || !cmp.Equal(out.Output, tt.output) || f.n != tt.calls {
				t.Errorf("%d calls, %v, output %v", f.n, err, out.Output)
			}
			if tt.answer == nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	f := &flaky{errs: times(1, runtest.Throttled)}
	text := runtest.Head + `inputs: {order: string}
steps:
  one: {uses: test.flaky, idempotency_key: "${{ inputs.order }}-x", retry: {max_attempts: 2}}
  each: {uses: test.flaky, needs: [one], foreach: {in: [7, 8], as: n}, idempotency_key: "${{ n }}"}
  ref: {uses: test.flaky, idempotency_key: "${{ steps.each.output[0] }}"}
  none: {uses: test.flaky, needs: [ref], idempotency_key: "${{ steps.one.output > 99 ? 'a' : '' }}", on_error: continue}
output: ${{ steps.none.error }}
`
	rt := f.on()
	rt.Limits.MaxParallel = 1
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), map[string]any{"order": "o1"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	one := resume.Key(out.RunID, 1, "one", 1, "o1-x")
	want := []string{one, one, resume.Key(out.RunID, 1, "each[0]", 1, "7"), resume.Key(out.RunID, 1, "each[1]", 1, "8"), resume.Key(out.RunID, 1, "ref", 1, "3")}
	if diff := cmp.Diff(want, f.keys); diff != "" {
		t.Errorf("keys (-want +got)\n%s", diff)
	}
	wantErr := map[string]any{"category": "config", "code": "tool.arguments", "reason": "", "status": nil, "step": "none",
		"message": `recipe.yaml:8:16: idempotency_key of "test.flaky" must not be empty`}
	if diff := cmp.Diff(any(wantErr), out.Output); diff != "" {
		t.Errorf("an empty key (-want +got)\n%s", diff)
	}
}

// Quick tools that wait for their next attempt hold nobody up.
func TestRetryWaitsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick := func(name string) runtime.Tool {
			n := 0
			return runtest.Tool(name, func(context.Context, map[string]any) (any, error) {
				if n++; n == 1 {
					return nil, runtest.Throttled
				}
				return n, nil
			})
		}
		rt := &runtime.Runtime{Tools: []runtime.Tool{quick("test.a"), quick("test.b")}, RetryDefaults: retry.Policies{retry.Tool: {MaxAttempts: 2, Backoff: time.Hour}}}
		began := time.Now()
		_, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.a}\n  b: {uses: test.b}\n")).Run(t.Context(), nil, rt)
		if took := time.Since(began); err != nil || took < time.Hour || took > time.Hour+time.Second {
			t.Errorf("took %v, %v", took, err)
		}
	})
}

// In a rollback a call that would pause waits, or fails.
func TestRetryInARollback(t *testing.T) {
	for _, tt := range []struct {
		errs  []error
		calls int
		took  time.Duration
		found bool
	}{
		{times(1, runtest.Throttled), 2, time.Minute, false},
		{times(1, runtest.Lost), 1, 0, true},
		// trust 8.10
		{times(1, error(&retry.Failure{Reason: retry.RateLimit, After: time.Hour, Err: errors.New("in an hour")})), 1, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &flaky{errs: tt.errs}
			rt := f.on()
			rt.Store = &checkpoint.Memory{}
			text := runtest.Head + "steps:\n  a: {uses: set, with: 1, rollback: {uses: test.flaky}}\n  b: {uses: fail, needs: [a]}\ndefaults: {retry: {tool: {max_attempts: 2, backoff: 1m, mode: pause}}}\n"
			began := time.Now()
			out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
			found := slices.ContainsFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool { return d.Code == diagnostics.CodeRollbackFailed })
			if took := time.Since(began); out.Status != workflow.StatusError || f.n != tt.calls || took != tt.took || found != tt.found {
				t.Errorf("%s after %d calls and %v, %v", out.Status, f.n, took, out.Diagnostics)
			}
		})
	}
}
