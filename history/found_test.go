package history_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A view has the diagnostics of what the run did, as its outcome has them: a rollback that failed, a second failure.
func TestDiagnosticsOfRuns(t *testing.T) {
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Tools: tools, Store: store}
	out, _ := load(t, `steps:
  done: {uses: test.echo, with: {key: v}, rollback: {uses: test.fail}}
  first: {uses: fail, needs: [done], with: {message: First.}}
  second: {uses: fail, trigger: all_done, needs: [first], with: {message: Second.}}
`).Run(t.Context(), nil, rt)
	var codes []string
	for _, d := range out.Diagnostics {
		codes = append(codes, string(d.Code)+" "+d.Step)
	}
	if got, want := strings.Join(codes, ", "), "step.failed second, rollback.failed done!rollback"; out.Status != workflow.StatusError || got != want {
		t.Fatalf("%s with %s, want %s", out.Status, got, want)
	}
	run, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.Diagnostics, run.Diagnostics); diff != "" {
		t.Errorf("the outcome's and the view's diagnostics (-outcome +view)\n%s", diff)
	}
	if s := run.Steps[0]; s.Status != "succeeded" || s.RolledBack || s.RollbackError != "no luck" {
		t.Errorf("a step whose rollback failed: %+v", s)
	}
}
