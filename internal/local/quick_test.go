package local_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Calls of tools that take values are made one after the other, as long as nothing else comes with them that
// takes time or stops them.
func TestValueToolsAreMadeInTurn(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(string, runtest.ToolFunc) runtime.Tool
		more string
		want time.Duration
	}{
		{"by value", runtest.ValueTool, "", 3 * time.Second},
		{"by value, with a timeout", runtest.ValueTool, ", timeout: 1m", time.Second},
		{"by value, with retries", runtest.ValueTool, ", retry: {max_attempts: 2}", time.Second},
		{"by value, in a body", runtest.ValueTool, ", foreach: {in: [1]}", time.Second},
		{"by JSON", runtest.Tool, "", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+"steps:\n"+
				"  a: {uses: test.nap"+tt.more+"}\n  b: {uses: test.nap"+tt.more+"}\n  c: {uses: test.nap"+tt.more+"}\n"))
			synctest.Test(t, func(t *testing.T) {
				nap := tt.make("test.nap", func(context.Context, map[string]any) (any, error) { time.Sleep(time.Second); return nil, nil })
				began := time.Now()
				if _, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{nap}}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("three calls of a second took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// A tool that takes values and blocks holds no call that has begun, nor what follows on it. Once the run is
// cancelled and its grace period over it is left behind.
func TestValueToolThatBlocks(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  nap: {uses: test.nap}
  stuck: {uses: test.stuck}
  after: {uses: test.echo, needs: [nap], with: {n: 1}}
`))
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		stuck := runtest.ValueTool("test.stuck", func(context.Context, map[string]any) (any, error) { <-end; return nil, nil })
		nap := runtest.Tool("test.nap", func(context.Context, map[string]any) (any, error) { time.Sleep(time.Second); return "rested", nil })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		log := &runtest.Quiet{}
		began := time.Now()
		out, _ := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{stuck, nap, runtest.Echo}, Reporter: log,
			Limits: runtime.Limits{Grace: 3 * time.Second}})
		if took, want := time.Since(began), 13*time.Second; took != want || out.Status != workflow.StatusCancelled {
			t.Errorf("%s after %v, want cancelled after %v", out.Status, took, want)
		}
		want := map[string]any{"nap": "rested", "after": map[string]any{"n": int64(1)}}
		if diff := cmp.Diff(want, out.Artefact); diff != "" {
			t.Errorf("artefact (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a call ignored its context and was left behind"}, log.Texts); diff != "" {
			t.Errorf("warnings (-want +got)\n%s", diff)
		}
		close(end)
	})
}
