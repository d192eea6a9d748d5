package workflow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// cuttable is a store of several processes, and the connection of one of them to it.
type cuttable struct {
	*checkpoint.Memory
	cut     atomic.Bool
	renewed atomic.Int64
}

var errCut = errors.New("connection refused")

func (s *cuttable) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	if s.cut.Load() {
		return checkpoint.Lease{}, errCut
	}
	s.renewed.Add(1)
	return s.Memory.Renew(ctx, l, ttl)
}

func (s *cuttable) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	if s.cut.Load() {
		return errCut
	}
	return s.Memory.Append(ctx, l, after, recs...)
}

func (s *cuttable) Release(ctx context.Context, l checkpoint.Lease) error {
	if s.cut.Load() {
		return errCut
	}
	return s.Memory.Release(ctx, l)
}

// trust 6.1: a process whose lease may have run out makes no further attempt, of a step's call, of one in an agent or
// of a rollback, and says run.fenced. What a person decided meanwhile is all that happens.
func TestNoAttemptWithoutTheRun(t *testing.T) {
	const agent = `
  pay: {uses: agent, with: {agent: {model: m, tools: [test.pay]}, prompt: Pay.}}
`
	for _, tt := range []struct{ name, steps string }{
		{"a step", "\n  pay: {uses: test.pay}\n"},
		{"a step beside another", "\n  pay: {uses: test.pay}\n  beside: {uses: test.pay, with: {beside: true}}\n"},
		{"a step with a timeout", "\n  pay: {uses: test.pay, timeout: 1h}\n"},
		{"an agent", agent},
		{"a rollback", `
  hold: {uses: test.echo, rollback: {uses: test.pay}}
  stop: {uses: fail, needs: [hold], with: {message: no}}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &cuttable{Memory: &checkpoint.Memory{}}
				calls := 0
				pay := tool("test.pay", func(ctx context.Context, args map[string]any) (any, error) {
					if args["beside"] == true {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					if calls++; calls == 1 {
						store.cut.Store(true)
						return nil, throttled
					}
					return "paid", nil
				})
				m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
						return &runtime.Response{Text: last.Text}, nil
					}
					return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.pay", Arguments: []byte("{}")}}}, nil
				}}
				rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay, echo}, Models: map[string]runtime.Model{"m": m}, Resume: resume.PassThrough{},
					NewRunID:      func() string { return "r1" },
					RetryDefaults: map[retry.Kind]retry.Policy{retry.Tool: {MaxAttempts: 2, Backoff: 25 * time.Second}}}
				done := make(chan *workflow.Outcome)
				go func() {
					out, _ := load(t, []byte(head+"steps:"+tt.steps)).Run(t.Context(), nil, rt)
					done <- out
				}()
				time.Sleep(20 * time.Second) // the lease lasts for 15
				other := *rt
				other.Store = store.Memory
				_, err := workflow.Recover(t.Context(), "r1", &other, nil)
				if e := new(runtime.Error); errors.As(err, &e) && e.Code == "run.busy" {
					t.Fatal("the lease has not run out")
				}
				out := <-done
				if out.Err == nil || out.Error().Code != "run.fenced" {
					t.Errorf("the process that had lost the run ended with %s, %v", out.Status, out.Err)
				}
				if calls != 1 {
					t.Errorf("%d calls, want the first attempt alone", calls)
				}
			})
		})
	}
}

// A store that answers again in time is asked before the attempt, and the attempt is made.
func TestLeaseIsRenewedBeforeAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cuttable{Memory: &checkpoint.Memory{}}
		var renewed []int64 // before each attempt
		pay := tool("test.pay", func(context.Context, map[string]any) (any, error) {
			renewed = append(renewed, store.renewed.Load())
			if len(renewed) == 1 {
				store.cut.Store(true)
				time.AfterFunc(23*time.Second, func() { store.cut.Store(false) })
				return nil, throttled
			}
			return "paid", nil
		})
		rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay}}
		out, err := load(t, []byte(head+`steps:
  pay: {uses: test.pay, retry: {max_attempts: 2, backoff: 24s}}
output: ${{ steps.pay.output }}
`)).Run(t.Context(), nil, rt)
		if err != nil || out.Output != "paid" {
			t.Fatal(out.Output, err)
		}
		if diff := cmp.Diff([]int64{0, 1}, renewed); diff != "" { // every 5 s: at 20 s in vain, at 25 s too late
			t.Errorf("renewals before each attempt (-want +got)\n%s", diff)
		}
	})
}

// A call of an agent that waited for a slot behind another one is not made when the run may be somebody else's by
// then.
func TestNoCallAfterASlotWithoutTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cuttable{Memory: &checkpoint.Memory{}}
		var calls atomic.Int64
		pay := tool("test.pay", func(context.Context, map[string]any) (any, error) {
			calls.Add(1)
			store.cut.Store(true)
			time.Sleep(20 * time.Second)
			return "paid", nil
		})
		m := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			call := runtime.ToolCall{Name: "test.pay", Arguments: []byte("{}")}
			return &runtime.Response{ToolCalls: []runtime.ToolCall{call, call}}, nil
		}}
		rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay}, Models: map[string]runtime.Model{"m": m}, Limits: runtime.Limits{MaxParallel: 1}}
		out, _ := load(t, []byte(head+`steps:
  pay: {uses: agent, with: {agent: {model: m, tools: [test.pay], tool_concurrency: 2}, prompt: Pay.}}
`)).Run(t.Context(), nil, rt)
		if out.Err == nil || out.Status == workflow.StatusOK || calls.Load() != 1 {
			t.Errorf("%s, %v, %d calls", out.Status, out.Err, calls.Load())
		}
	})
}
