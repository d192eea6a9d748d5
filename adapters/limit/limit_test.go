package limit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a provider that refuses what is above its limits: in the minute before a request came, or under way.
type endpoint struct {
	limit.Limits
	takes time.Duration // to answer
	late  time.Duration // how long every third request is under way before it counts
	used  runtime.Usage // of each answer

	mu      sync.Mutex
	n, busy int
	came    []time.Time
	began   time.Time // of the test
	at      []string  // when requests came, after began
	refused int
}

func (e *endpoint) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	e.mu.Lock()
	e.n++
	late := e.n%3 == 0
	e.mu.Unlock()
	if late {
		<-time.After(e.late)
	}
	if !e.enter() {
		return nil, &retry.Failure{Reason: retry.RateLimit, Status: 429, Sent: true, Err: errors.New("slow down")}
	}
	defer e.leave()
	select {
	case <-time.After(e.takes):
		return &runtime.Response{Text: req.Messages[0].Text, Usage: e.used}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *endpoint) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.came = slices.DeleteFunc(e.came, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	tokens := (len(e.came) + 1) * (e.used.InputTokens + e.used.OutputTokens)
	if e.MaxParallel > 0 && e.busy >= e.MaxParallel || e.RPM > 0 && len(e.came) >= e.RPM || e.TPM > 0 && tokens > e.TPM {
		e.refused++
		return false
	}
	e.busy++
	e.came = append(e.came, now)
	e.at = append(e.at, now.Sub(e.began).String())
	return true
}

func (e *endpoint) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy--
}

func request(text string) *runtime.Request {
	return &runtime.Request{Model: "m", Messages: []runtime.Message{{Role: runtime.User, Text: text}}}
}

// fan asks a model n times, one call after the other as they come, and waits for all answers.
func fan(t *testing.T, m runtime.Model, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			text := fmt.Sprint(i)
			if resp, err := m.Generate(t.Context(), request(text)); err != nil || resp.Text != text {
				t.Errorf("call %d: %v, %v", i, resp, err)
			}
		})
		synctest.Wait()
	}
	all.Wait()
}

// models.md 2: no call of a fan meets a limit.
func TestFan(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits limit.Limits
		takes  time.Duration
		used   runtime.Usage
		least  time.Duration // that the fan must take
		most   time.Duration
	}{
		{"max_parallel", limit.Limits{MaxParallel: 4}, time.Second, runtime.Usage{}, 50 * time.Second, 50 * time.Second},
		{"rpm", limit.Limits{RPM: 50}, time.Second, runtime.Usage{}, 3 * time.Minute, 4 * time.Minute},
		{"tpm", limit.Limits{TPM: 10_000}, 10 * time.Second, runtime.Usage{InputTokens: 60, OutputTokens: 40}, time.Minute, 8 * time.Minute},
		{"all", limit.Limits{MaxParallel: 3, RPM: 60, TPM: 20_000}, 2 * time.Second, runtime.Usage{InputTokens: 150, OutputTokens: 50}, 2 * time.Minute, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{Limits: tt.limits, takes: tt.takes, late: 900 * time.Millisecond, used: tt.used, began: time.Now()}
				if tt.name == "max_parallel" {
					e.late = 0
				}
				fan(t, limit.New(e, tt.limits), 200)
				if took := time.Since(e.began); e.refused > 0 || len(e.at) != 200 || took < tt.least || took > tt.most {
					t.Errorf("%d answers in %v, %d refused; want 200 between %v and %v, none refused",
						len(e.at), took, e.refused, tt.least, tt.most)
				}
			})
		})
	}
}

// When calls are sent: each row has the calls as they come, one a second, and the seconds at which the endpoint gets
// them.
func TestTurns(t *testing.T) {
	sixty := strings.Repeat("four", 60) // 60 tokens
	for _, tt := range []struct {
		name   string
		limits limit.Limits
		used   runtime.Usage
		fails  error
		most   int // MaxTokens
		want   []string
	}{
		{"none", limit.Limits{MaxParallel: -1}, runtime.Usage{}, nil, 10, []string{"0s", "1s", "2s", "3s"}},
		{"rpm", limit.Limits{RPM: 2}, runtime.Usage{}, nil, 10, []string{"0s", "1s", "1m1s", "1m2s"}},
		{"max_parallel", limit.Limits{MaxParallel: 1}, runtime.Usage{}, nil, 10, []string{"0s", "10s", "20s", "30s"}},
		{"tokens are reserved", limit.Limits{TPM: 140}, runtime.Usage{}, nil, 10, []string{"0s", "1s", "1m1s", "1m2s"}},
		{"an answer has 1,024", limit.Limits{TPM: 2000}, runtime.Usage{}, nil, 0, []string{"0s", "1m1s", "2m2s", "3m3s"}},
		{"a large one goes alone", limit.Limits{TPM: 50}, runtime.Usage{}, nil, 10, []string{"0s", "1m1s", "2m2s", "3m3s"}},
		{"less was used", limit.Limits{TPM: 70}, runtime.Usage{InputTokens: 1, OutputTokens: 1}, nil, 8, []string{"0s", "10s", "1m1s", "1m11s"}},
		{"more was used", limit.Limits{TPM: 140}, runtime.Usage{InputTokens: 99, OutputTokens: 42}, nil, 10, []string{"0s", "1s", "1m2s", "1m2s"}},
		{"trust 8.9: nothing was sent", limit.Limits{RPM: 1, TPM: 70}, runtime.Usage{},
			&retry.Failure{Reason: retry.Network, Err: errors.New("no such host")}, 10, []string{"0s", "10s", "20s", "30s"}},
		{"it was refused", limit.Limits{RPM: 1}, runtime.Usage{},
			&retry.Failure{Reason: retry.RateLimit, Status: 429, Sent: true, Err: errors.New("slow down")}, 10, []string{"0s", "1m1s", "2m2s", "3m3s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				var got []string
				m := limit.New(&runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
					mu.Lock()
					got = append(got, time.Since(began).String())
					mu.Unlock()
					time.Sleep(10 * time.Second)
					return &runtime.Response{Usage: tt.used}, tt.fails
				}}, tt.limits)
				var all sync.WaitGroup
				for range 4 {
					req := request(sixty)
					req.MaxTokens = tt.most
					all.Go(func() { _, _ = m.Generate(t.Context(), req) })
					synctest.Wait()
					time.Sleep(time.Second)
				}
				all.Wait()
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Calls have their turns in order, also when others give up. A call that gives up counts for nothing.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{takes: time.Second, began: time.Now()}
		m := limit.New(e, limit.Limits{MaxParallel: 1, RPM: 4})
		var order []string
		var mu sync.Mutex
		var all sync.WaitGroup
		cancels := map[int]context.CancelFunc{}
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i] = cancel
			defer cancel()
			all.Go(func() {
				_, err := m.Generate(ctx, request(fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprint(i, " ", err))
				if f := retry.FailureOf(err); err != nil && (!f.Unsent() || !errors.Is(err, context.Canceled)) {
					t.Errorf("call %d: %+v", i, f)
				}
			})
			synctest.Wait()
		}
		cancels[1]()
		cancels[3]()
		all.Wait()
		slices.Sort(order[:2]) // both were given up at once
		const why = ` model "m" was not asked, after 0s of waiting for its limit max_parallel: context canceled`
		want := []string{"1" + why, "3" + why, "0 <nil>", "2 <nil>", "4 <nil>", "5 <nil>"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"0s", "1s", "2s", "3s"}, e.at); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// A model that panics gives its place back.
func TestPanic(t *testing.T) {
	m := limit.New(&runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { panic("no") }},
		limit.Limits{MaxParallel: 1})
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			_, _ = m.Generate(t.Context(), request("x"))
		}()
	}
}

// The parts of a model.
type (
	plain  struct{ runtime.Model }
	stream struct{ runtime.Model }
	about  struct{ runtime.Model }
	both   struct{ stream }
)

func (s stream) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	emit(runtime.Delta{Text: "st"})
	emit(runtime.Delta{Text: "reamed"})
	return &runtime.Response{Text: "streamed"}, nil
}

func (about) Metadata() runtime.Metadata { return runtime.Metadata{Provider: "p"} }
func (both) Metadata() runtime.Metadata  { return runtime.Metadata{Provider: "p"} }

// A model with limits is what the model is.
func TestNew(t *testing.T) {
	answers := runtimetest.Texts("a", "b", "c", "d", "e", "f", "g", "h")
	for _, m := range []runtime.Model{plain{answers}, stream{answers}, about{answers}, both{stream{answers}}} {
		limited := limit.New(m, limit.Limits{RPM: 1000})
		if _, ok := limited.(runtime.LimitedModel); !ok {
			t.Errorf("%T: no limits", m)
		}
		_, want := m.(runtime.Described)
		d, got := limited.(runtime.Described)
		if got != want || got && d.Metadata().Provider != "p" {
			t.Errorf("%T: described %v, want %v", m, got, want)
		}
		_, want = m.(runtime.StreamingModel)
		s, got := limited.(runtime.StreamingModel)
		if got != want {
			t.Errorf("%T: streams %v, want %v", m, got, want)
		}
		if got {
			var pieces string
			resp, err := s.Stream(t.Context(), request("x"), func(d runtime.Delta) { pieces += d.Text })
			if err != nil || resp.Text != "streamed" || pieces != "streamed" {
				t.Errorf("%T: %v, %v, pieces %q", m, resp, err, pieces)
			}
		}
		if resp, err := limited.Generate(t.Context(), request("x")); err != nil || len(resp.Text) != 1 {
			t.Errorf("%T: %v, %v", m, resp, err)
		}
		if limit.New(m, limit.Limits{RPM: -1}) != m {
			t.Errorf("%T: without limits it is another model", m)
		}
	}
}
