package workflow_test

import (
	"regexp"
	"testing"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Ids are UUIDs of version 7 that sort in the order in which the runs began, in a millisecond too.
func TestRunIDsSort(t *testing.T) {
	r, err := recipe.Parse("one.yaml", []byte("apiVersion: braise/v1\nname: one\nsteps: {a: {uses: set, with: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	version7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	last := ""
	for range 500 {
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{})
		if err != nil {
			t.Fatal(err)
		}
		if !version7.MatchString(out.RunID) {
			t.Fatalf("run id %q is not a UUIDv7", out.RunID)
		}
		if out.RunID <= last {
			t.Fatalf("run id %q comes after %q, want one that sorts behind it", out.RunID, last)
		}
		last = out.RunID
	}
}
