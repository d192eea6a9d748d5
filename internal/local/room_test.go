package local_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A run continues with another number of calls at once than it began with: what it decided before stands, and each call
// was made once. It continues with either number after that.
func TestOtherNumberOfCallsAtOnce(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.act}
  b: {uses: test.act}
  c: {uses: test.act}
  ask: {uses: human, needs: [a, b, c], with: {prompt: Go on}}
  d: {uses: test.act, needs: [ask]}
  e: {uses: test.act, needs: [ask]}
  last: {uses: human, needs: [d, e], with: {prompt: And now}}
output: ${{ steps.last.output.decision }}
`))
	for _, parallel := range [][3]int{{3, 1, 2}, {1, 3, 1}, {2, 3, 3}} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			made := make(chan string, 10)
			act := runtest.Tool("test.act", func(context.Context, map[string]any) (any, error) { made <- ""; return nil, nil })
			store := &checkpoint.Memory{}
			with := func(n int) *runtime.Runtime {
				return &runtime.Runtime{Tools: []runtime.Tool{act}, Resume: resume.PassThrough{}, Store: store,
					Limits: runtime.Limits{MaxParallel: n}}
			}
			out, err := wf.Run(t.Context(), nil, with(parallel[0]))
			for _, n := range parallel[1:] {
				if err != nil || out.Status != workflow.StatusPaused {
					t.Fatalf("got %s, %v, want paused", out.Status, err)
				}
				out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, with(n))
			}
			if err != nil || out.Output != "approve" {
				t.Errorf("got %v, %v, want approve", out.Output, err)
			}
			if got := len(made); got != 5 {
				t.Errorf("%d calls were made, want 5", got)
			}
			again, err := workflow.Recover(t.Context(), out.RunID, with(parallel[0]), nil)
			if diff := cmp.Diff(out.Artefact, again.Artefact); diff != "" || err != nil {
				t.Errorf("the ended run, %v (-want +got)\n%s", err, diff)
			}
		})
	}
}
