package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// Trust 5.1: what a call used before it paused counts in the cost of the loops around it, as if it had waited: when
// somebody else resumes the run, and while the run that opened the pause is still at work.
func TestLoopCostCountsPausedCalls(t *testing.T) {
	for _, tt := range []struct{ name, mode, beside string }{
		{"a wait", "wait", ""},
		{"a pause", "pause", ""},
		{"a pause that is over while the run is at work", "pause", "  beside: {uses: test.nap}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
					if calls++; calls == 1 { // counts as its prompt: 100 tokens
						return nil, &retry.Failure{Reason: retry.Network, Sent: true, Err: errors.New("gone")}
					}
					return &runtime.Response{Text: "x", Usage: runtime.Usage{InputTokens: 100}}, nil
				}}
				rt := &runtime.Runtime{
					Models: map[string]runtime.Model{"m": model}, Prices: map[string]runtime.Price{"m": {Input: 1e6}}, // $1 a token
					Store: &checkpoint.Memory{}, Resume: resume.PassThrough{},
					Tools: []runtime.Tool{runtest.Tool("test.nap", func(context.Context, map[string]any) (any, error) {
						time.Sleep(time.Minute)
						return nil, nil
					})},
				}
				out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  grow:
    uses: loop
    with:
      max_iterations: 2
      until: cost > 150
      steps:
        ask: {uses: model, with: {model: m, prompt: `+strings.Repeat("x", 400)+`}, retry: {max_attempts: 2, backoff: 2s, mode: `+tt.mode+`}}
`+tt.beside+`output: ${{ steps.grow.output.iterations }}
`)).Run(t.Context(), nil, rt)
				if err != nil {
					t.Fatal(err)
				}
				if paused := tt.mode == "pause" && tt.beside == ""; paused != (out.Status == workflow.StatusPaused) {
					t.Fatalf("status %s", out.Status)
				} else if paused {
					time.Sleep(2 * time.Second)
					outs, err := workflow.Sweep(t.Context(), rt, nil)
					if err != nil || len(outs) != 1 {
						t.Fatalf("%d outcomes, %v", len(outs), err)
					}
					out = outs[0]
				}
				if out.Output != int64(1) || calls != 2 {
					t.Errorf("%v rounds, %d calls; the two calls of the first round cost $200", out.Output, calls)
				}
				runID := out.RunID
				if out, err = workflow.Recover(t.Context(), runID, rt, nil); err != nil || out.Output != int64(1) || calls != 2 {
					t.Errorf("read again: %v rounds, %v, %d calls", out.Output, err, calls)
				}
			})
		})
	}
}
