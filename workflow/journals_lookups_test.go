package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// agent-loop 2.1: an agent that looks documents up, and does not say how many, looks for 5. A run that began when that
// was none goes on so.
func TestEarlierRunsLookNothingUp(t *testing.T) {
	for _, tt := range []struct {
		name, without string
		want          []string
	}{
		{"now", "", []string{"first", "second", "third"}},
		{"earlier", `,"retrieves":true`, []string{"third"}},
	} {
		var looked []string
		for _, c := range journalCases(t, "22") {
			for _, line := range c.goOnWithout(t, tt.without, "died") {
				if step, ok := strings.CutPrefix(line, "call retriever "); ok {
					looked = append(looked, strings.Fields(step)[0])
				}
			}
		}
		if diff := cmp.Diff(tt.want, looked); diff != "" {
			t.Errorf("%s: agents that looked documents up (-want +got)\n%s", tt.name, diff)
		}
	}
}
