package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// queued is a model with limits that asks its Model about one call at a time.
type queued struct {
	runtime.Model
	queue chan struct{} // full while a call is under way
}

func oneByOne(m runtime.Model) *queued { return &queued{Model: m, queue: make(chan struct{}, 1)} }

func (q *queued) Turn(ctx context.Context, req *runtime.Request) (runtime.Model, error) {
	_ = trace.Emit(ctx, "model.wait", nil)
	select {
	case q.queue <- struct{}{}:
		return leaving{q}, nil
	case <-ctx.Done():
		return nil, &retry.Failure{Err: fmt.Errorf("not asked: %w", ctx.Err())}
	}
}

func (q *queued) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return nil, errors.New("called without its turn")
}

type leaving struct{ q *queued }

func (l leaving) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	defer func() { <-l.q.queue }()
	return l.q.Model.Generate(ctx, req)
}

// stepsAB are two steps that ask a model; b begins after 1 s. of is how each of them goes on.
func stepsAB(uses, with, ofA, ofB string) string {
	step := func(name, of string) string {
		return fmt.Sprintf("  %s: {uses: %s, with: {%s, prompt: %s}%s}\n", name, uses, with, name, of)
	}
	return step("a", ofA) + "  rest: {uses: wait, with: {duration: 1s}}\n" + step("b", ofB+", needs: [rest]")
}

// models.md 2: a call that waits for its turn has not been sent. Its attempt begins when it is; the timeout of its
// step, and the end of its run, do not wait. Two steps, or agents, ask a model that answers after 10 s.
func TestLimitedModel(t *testing.T) {
	steps := func(of string) string { return stepsAB("model", "model: m", of, of) }
	for _, tt := range []struct {
		name, steps string
		fails       map[string]error // the first call of a step
		want        []string         // calls, when they were made
		status      workflow.Status
		code        string
		took        time.Duration
		calls       int64 // that count
	}{
		{"in order", steps(""), nil, []string{"a 0s", "b 10s"}, workflow.StatusOK, "", 20 * time.Second, 2},
		{"agents", stepsAB("agent", "agent: {model: m}", "", ""), nil, []string{"a 0s", "b 10s"}, workflow.StatusOK, "", 20 * time.Second, 2},
		{"the timeout of an attempt", steps(", retry: {max_attempts: 1, timeout: 11s}"), nil, []string{"a 0s", "b 10s"}, workflow.StatusOK, "", 20 * time.Second, 2},
		{"the timeout of the step", stepsAB("model", "model: m", "", ", timeout: 5s"), nil,
			[]string{"a 0s"}, workflow.StatusError, "step.timeout", 10 * time.Second, 1},
		{"Retry-After", steps(", retry: {max_attempts: 2}"),
			map[string]error{"a": &retry.Failure{Reason: retry.RateLimit, Status: 429, After: 15 * time.Second, Sent: true, Err: errors.New("slow down")}},
			[]string{"a 0s", "b 10s", "a 25s"}, workflow.StatusOK, "", 35 * time.Second, 3},
		{"wall_time", stepsAB("model", "model: m", "", ", limits: {wall_time: 5s}"), nil,
			[]string{"a 0s"}, workflow.StatusError, "limits.wall_time", 10 * time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var calls []string
				m := oneByOne(&runtimetest.Model{Func: func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
					step := req.Step
					calls = append(calls, fmt.Sprint(step, " ", time.Since(began)))
					select {
					case <-time.After(10 * time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if err := tt.fails[step]; err != nil {
						delete(tt.fails, step)
						return nil, err
					}
					return &runtime.Response{Text: step, Usage: runtime.Usage{InputTokens: 1, OutputTokens: 1}}, nil
				}})
				rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}}
				out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n"+tt.steps)).Run(t.Context(), nil, rt)
				if diff := cmp.Diff(tt.want, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				code := ""
				if e := out.Failure(); e != nil {
					code = e.Code
				}
				if out.Status != tt.status || code != tt.code || time.Since(began) != tt.took || out.Usage.Calls != tt.calls {
					t.Errorf("%s %s after %v, %d calls: %v; want %s %s after %v, %d", out.Status, code, time.Since(began), out.Usage.Calls, err,
						tt.status, tt.code, tt.took, tt.calls)
				}
			})
		})
	}
}

// serve 12.4: a run that drains does not wait for turns; who recovers it makes the calls.
func TestDrainOfLimitedModel(t *testing.T) {
	for name, steps := range map[string]string{
		"steps":  stepsAB("model", "model: m", ", retry: {max_attempts: 1}", ""),
		"agents": stepsAB("agent", "agent: {model: m}", "", ""),
		"limits": stepsAB("model", "model: m", ", limits: {tokens: 2000}", ", limits: {tokens: 2000}"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, drain := time.Now(), make(chan struct{})
				other := make(chan struct{}) // of another run, which does not drain
				var calls []string
				m := oneByOne(&runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					calls = append(calls, fmt.Sprint(req.Step, " ", time.Since(began)))
					time.Sleep(3 * time.Second)
					return &runtime.Response{Text: req.Step}, nil
				}})
				rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Drain: drain, Reporter: &runtest.Quiet{}, Resume: resume.PassThrough{},
					Models: map[string]runtime.Model{"m": m}}
				m.queue <- struct{}{}
				time.AfterFunc(2*time.Second, func() { close(drain) })
				time.AfterFunc(time.Minute, func() { close(other); <-m.queue })
				out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n"+steps)).Run(t.Context(), nil, rt)
				if out.Status != workflow.StatusCancelled || out.Failure().Code != "run.drained" || time.Since(began) != 2*time.Second || calls != nil {
					t.Fatalf("%s after %v: %v; calls %v", out.Status, time.Since(began), err, calls)
				}
				<-other
				rt.Drain = nil
				out, err = workflow.Recover(t.Context(), out.RunID, rt, nil)
				if out.Status != workflow.StatusOK {
					t.Errorf("recovered, it is %s: %v", out.Status, err)
				}
				if got := strings.Join(calls, ", "); got != "a 1m0s, b 1m3s" && got != "b 1m0s, a 1m3s" {
					t.Errorf("calls %s; want each once, at 1m0s and 1m3s", got)
				}
			})
		})
	}
}
