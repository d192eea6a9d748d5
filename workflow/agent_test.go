package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// The calls of agents count in max_parallel too, one by one.
func TestCallsOfAgentsShareTheSlots(t *testing.T) {
	const text = head + `limits: {max_parallel: %d}
defaults: {model: fast}
agents: {busy: {tool_concurrency: %d}}
steps:
  a: {uses: agent, with: {prompt: go}}
  b: {uses: agent, with: {prompt: go}}
  c: {uses: test.sleep}
output: ${{ steps.b.output.text }}
`
	for _, tt := range []struct {
		slots, concurrency int
		most               int64
		took               time.Duration // of nine calls that take a second each
	}{
		{1, 1, 1, 9 * time.Second},
		{1, 4, 1, 9 * time.Second},
		{3, 4, 3, 3 * time.Second},
		{8, 4, 8, 2 * time.Second},
		{16, 4, 9, time.Second},
		{16, 1, 3, 4 * time.Second},
	} {
		t.Run(fmt.Sprint(tt.slots, " slots, ", tt.concurrency, " at once"), func(t *testing.T) {
			wf := load(t, fmt.Appendf(nil, text, tt.slots, tt.concurrency))
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				sleep := runtimetest.NewTool("test.sleep", func(context.Context, json.RawMessage) (any, error) {
					n := now.Add(1)
					defer now.Add(-1)
					for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
					}
					time.Sleep(time.Second)
					return nil, nil
				})
				call := runtime.ToolCall{Name: "test.sleep", Arguments: json.RawMessage("{}")}
				fast := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if req.StepCall == 1 {
						return &runtime.Response{ToolCalls: []runtime.ToolCall{call, call, call, call}}, nil
					}
					return &runtime.Response{Text: "done"}, nil
				}}
				began := time.Now()
				out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": fast}, Tools: []runtime.Tool{sleep}})
				if err != nil {
					t.Fatal(err)
				}
				got := []any{out.Output, most.Load(), time.Since(began)}
				if diff := cmp.Diff([]any{"done", tt.most, tt.took}, got); diff != "" {
					t.Errorf("output, most calls at once, time (-want +got):\n%s", diff)
				}
			})
		})
	}
}
