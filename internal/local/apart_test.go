package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// What a run gives away stays as it was, whatever later runs of the workflow do, and they
// find nothing of it.
func TestRunsAfterEachOther(t *testing.T) {
	wf := runtest.Load(t, []byte("apiVersion: braise/v1\nname: apart\ninputs: {do: {type: string}}\nsteps:\n"+
		"  a: {uses: test.do, with: {do: \"${{ inputs.do }}\"}}\n"+
		"  b: {uses: test.do, with: {do: \"b of ${{ inputs.do }}\"}, needs: [a]}\n"+
		"output: ${{ steps.b.output }}\n"))
	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kept []context.Context // of the calls of a run
	do := runtest.ValueTool("test.do", func(ctx context.Context, args map[string]any) (any, error) {
		kept = append(kept, ctx)
		switch args["do"] {
		case "fail":
			return nil, errors.New("as asked")
		case "panic":
			panic("as asked")
		case "cancel":
			cancel()
			return nil, ctx.Err()
		}
		return args["do"], nil
	})
	type past struct {
		out   *workflow.Outcome
		text  string
		calls []context.Context
	}
	var runs []past
	for i, tt := range []struct {
		ctx   context.Context
		do    string
		want  any // the output, or the error's code
		calls int
	}{
		{t.Context(), "one", "b of one", 2},
		{context.Background(), "two", "b of two", 2},
		{context.Background(), "fail", "tool.failed", 1},
		{context.Background(), "three", "b of three", 2},
		{context.Background(), "panic", "step.panic", 1},
		{context.Background(), "four", "b of four", 2},
		{ending, "cancel", "run.cancelled", 1},
		{context.Background(), "five", "b of five", 2},
	} {
		kept = nil
		rt := &runtime.Runtime{Tools: []runtime.Tool{do}, NewRunID: func() string { return fmt.Sprint("run-", i) }}
		out, err := wf.Run(tt.ctx, map[string]any{"do": tt.do}, rt)
		got := out.Output
		if err != nil {
			got = out.Failure().Code
		}
		if got != tt.want || len(kept) != tt.calls {
			t.Errorf("run %d: %v and %d calls, want %v and %d", i, got, len(kept), tt.want, tt.calls)
		}
		runs = append(runs, past{out, runtest.BytesOf(t, out), kept})
	}
	for i, r := range runs {
		if diff := cmp.Diff(r.text, runtest.BytesOf(t, r.out)); diff != "" {
			t.Errorf("run %d has changed (-was +is)\n%s", i, diff)
		}
		for n, ctx := range r.calls {
			if got, want := resume.IdempotencyKey(ctx), resume.Key(fmt.Sprint("run-", i), 1, "ab"[n:n+1], 1, ""); got != want {
				t.Errorf("run %d: the key of call %d is now %s, not %s", i, n, got, want)
			}
		}
	}
}
