package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
)

// trust 6.11: braise.yaml may lower the limits of a run, but not raise them.
func TestBoundsOfRuns(t *testing.T) {
	c, err := host.ParseConfig("braise.yaml", []byte(
		"limits: {max_plan_steps: 5, max_items: 4, max_output_bytes: 300, max_run_bytes: 2000}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := c.Runtime("")
	if err != nil {
		t.Fatal(err)
	}
	want := runtime.Limits{MaxSteps: 5, MaxItems: 4, MaxOutputBytes: 300, MaxRunBytes: 2000}
	if diff := cmp.Diff(want, rt.Limits); diff != "" {
		t.Errorf("limits (-want +got)\n%s", diff)
	}
	_, err = host.ParseConfig("braise.yaml", []byte(
		"limits: {max_plan_steps: 1000001, max_items: 0, max_output_bytes: 16777217, max_run_bytes: -1, max_steps: 1}"), nil)
	var got []string
	for _, d := range err.(*diagnostics.Error).List {
		got = append(got, strings.ReplaceAll(d.String(), "\n", ""))
	}
	if diff := cmp.Diff([]string{
		`braise.yaml:1:26: "max_plan_steps" must be between 1 and 1000000 [recipe.invalid]`,
		`braise.yaml:1:46: "max_items" must be between 1 and 10000 [recipe.invalid]`,
		`braise.yaml:1:67: "max_output_bytes" must be between 1 and 16777216 [recipe.invalid]`,
		`braise.yaml:1:92: "max_run_bytes" must be between 1 and 1073741824 [recipe.invalid]`,
		`braise.yaml:1:96: unknown key "max_steps" [recipe.unknownKey]  hint: did you mean "max_items"?`,
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
