package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
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
	"github.com/braise-run/braise/workflow"
)

// cuttable is a store of several processes, and the connection of one of them to it.
type cuttable struct {
	*checkpoint.Memory
	cut atomic.Bool
}

var errCut = errors.New("connection refused")

func (s *cuttable) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	if s.cut.Load() {
		return checkpoint.Lease{}, errCut
	}
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
				pay := runtest.Tool("test.pay", func(ctx context.Context, args map[string]any) (any, error) {
					if args["beside"] == true {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					if calls++; calls == 1 {
						store.cut.Store(true)
						return nil, runtest.Throttled
					}
					return "paid", nil
				})
				m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
						return &runtime.Response{Text: last.Text}, nil
					}
					return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.pay", Arguments: []byte("{}")}}}, nil
				}}
				rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay, runtest.Echo}, Models: map[string]runtime.Model{"m": m}, Resume: resume.PassThrough{},
					NewRunID:      func() string { return "r1" },
					RetryDefaults: map[retry.Kind]retry.Policy{retry.Tool: {MaxAttempts: 2, Backoff: 25 * time.Second}}}
				done := make(chan *workflow.Outcome)
				go func() {
					out, _ := runtest.Load(t, []byte(runtest.Head+"steps:"+tt.steps)).Run(t.Context(), nil, rt)
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
				if out.Err == nil || out.Failure().Code != "run.fenced" {
					t.Errorf("the process that had lost the run ended with %s, %v", out.Status, out.Err)
				}
				if calls != 1 {
					t.Errorf("%d calls, want the first attempt alone", calls)
				}
			})
		})
	}
}

// hanging is a store whose first renewals fail, then one does not return in time.
type hanging struct {
	checkpoint.Store
	asked atomic.Int64
}

func (s *hanging) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	switch s.asked.Add(1) {
	case 1, 2:
		return checkpoint.Lease{}, errCut
	case 3:
		<-ctx.Done()
		return checkpoint.Lease{}, ctx.Err()
	}
	return s.Store.Renew(ctx, l, ttl)
}

// A store that answers again in time is asked before the attempt, and the attempt is made.
func TestLeaseIsRenewedBeforeAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Store: &checkpoint.Memory{}}
		var asked []int64 // before each attempt
		pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) {
			if asked = append(asked, store.asked.Load()); len(asked) == 1 {
				return nil, runtest.Throttled
			}
			return "paid", nil
		})
		rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay}}
		out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  pay: {uses: test.pay, retry: {max_attempts: 2, backoff: 16s}}
output: ${{ steps.pay.output }}
`)).Run(t.Context(), nil, rt)
		if err != nil || out.Output != "paid" {
			t.Fatal(out.Output, err)
		}
		if diff := cmp.Diff([]int64{0, 4}, asked); diff != "" { // every 5 s: at 5 s and 10 s in vain, from 15 s on it hangs
			t.Errorf("renewals before each attempt (-want +got)\n%s", diff)
		}
	})
}

// trust 6.1: a renewal that fails for a whole lease stops the run, whatever the error: a call under way is told to stop.
func TestRunStopsWithoutRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cuttable{Memory: &checkpoint.Memory{}}
		began := time.Now()
		var stopped time.Duration
		pay := runtest.Tool("test.pay", func(ctx context.Context, _ map[string]any) (any, error) {
			store.cut.Store(true)
			<-ctx.Done()
			stopped = time.Since(began)
			return nil, ctx.Err()
		})
		rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{pay}, Reporter: &runtest.Quiet{}}
		out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  pay: {uses: test.pay}\n")).Run(t.Context(), nil, rt)
		if out.Err == nil || out.Failure().Code != "run.fenced" || !errors.Is(out.Err, errCut) {
			t.Errorf("%s, %v", out.Status, out.Err)
		}
		if stopped < 15*time.Second || stopped > 20*time.Second { // the lease lasts for 15, and is renewed every 5
			t.Errorf("the call was stopped after %v", stopped)
		}
	})
}
