package local_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Wherever a tool that takes values is called, and whatever it does instead of returning: it fails its call alone, nothing waits
// for it that need not, and Run returns. So it is on one processor too.
func TestValueToolsThatMisbehave(t *testing.T) {
	const beside = "  beside: {uses: test.echo, with: {n: 1}}\n  after: {uses: test.echo, needs: [beside], with: {n: 2}}\n"
	places := []struct {
		name, step string
		calls      int // at once
	}{
		{"step", "  it: {uses: test.it, on_error: continue}\n", 1},
		{"foreach", "  it: {uses: test.it, foreach: {in: [1, 2, 3]}, on_error: continue}\n", 3},
		{"body", "  it: {uses: recipe, with: {steps: {in: {uses: test.it}}, output: 1}, on_error: continue}\n", 1},
		{"agent", "  it: {uses: agent, with: {agent: {model: m, tools: [test.it]}, prompt: go}}\n", 1},
	}
	for _, procs := range []int{goruntime.GOMAXPROCS(0), 1} {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
		for _, at := range places {
			wf := runtest.Load(t, []byte(runtest.Head+"steps:\n"+beside+at.step+"output: ${{ steps.it.error?.message }}\n"))
			for _, how := range []string{"panics", "ends its goroutine", "blocks"} {
				t.Run(fmt.Sprintf("%s, %s, %d processors", at.name, how, procs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						end := make(chan struct{})
						defer close(end)
						it := runtest.ValueTool("test.it", func(context.Context, map[string]any) (any, error) {
							switch how {
							case "panics":
								panic("boom")
							case "ends its goroutine":
								goruntime.Goexit()
							}
							<-end
							return nil, nil
						})
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						defer cancel()
						m, log, began := runtest.Rounds([]runtime.ToolCall{runtest.Wants("test.it", "{}")}), &runtest.Quiet{}, time.Now()
						out, _ := wf.Run(ctx, nil, &runtime.Runtime{Tools: []runtime.Tool{it, runtest.Echo}, Reporter: log,
							Models: map[string]runtime.Model{"m": m}, Limits: runtime.Limits{Grace: 3 * time.Second}})
						took := time.Since(began)
						for _, id := range []string{"beside", "after"} {
							if out.Artefact[id] == nil {
								t.Errorf("%s has no output: %v", id, out.Artefact)
							}
						}
						if how == "blocks" {
							if took != 13*time.Second || out.Status != workflow.StatusCancelled {
								t.Errorf("%s after %v, want cancelled after 13s", out.Status, took)
							}
							left := slices.Repeat([]string{"a call ignored its context and was left behind"}, at.calls)
							if diff := cmp.Diff(left, log.Texts); diff != "" {
								t.Errorf("warnings (-want +got)\n%s", diff)
							}
							return
						}
						want := map[string]string{"panics": `panic in tool "test.it": boom`,
							"ends its goroutine": `tool "test.it" ended its goroutine`}[how]
						got := out.Output
						if at.name == "agent" { // the model is told
							want, got = "error: "+want, strings.Join(runtest.Said(m), "\n")
						}
						if got != want || took != 0 || out.Status != workflow.StatusOK {
							t.Errorf("%s, %v, after %v: %q, want %q", out.Status, out.Err, took, got, want)
						}
					})
				})
			}
		}
	}
}
