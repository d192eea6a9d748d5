package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// need is one way for a step to end. ID stands for its id. The failing ones start in spite of each
// other; what is cancelled comes after a step called boom.
type need struct {
	end   string // as ends tells it
	steps string
	fails bool // nobody handles it
}

var needs = []need{
	{"succeeded", "ID: {uses: set, priority: 9, with: 1}", false},
	{"failed", "ID: {uses: fail, priority: 9, on_error: continue}", false},
	{"failed", "ID: {uses: fail, priority: 8, trigger: all_done}", true},
	{"when_false", "ID: {uses: set, priority: 9, when: 1 > 2, with: 1}", false},
	{"upstream", "ID0: {uses: set, priority: 9, when: 1 > 2, with: 1}\nID: {uses: set, priority: 9, needs: [ID0], with: 1}", false},
	{"cancelled", "ID: {uses: set, with: 1}", true},
}

// ends tells from the trace how each step ended, by path. A step without an event was cancelled
// before it began.
func ends(out *workflow.Outcome) map[string]string {
	ends := map[string]string{}
	for _, e := range out.Trace {
		switch e.Kind {
		case trace.StepEnd:
			ends[e.Step] = e.Data.Get("status").(string)
		case trace.StepSkip:
			ends[e.Step] = e.Data.Get("reason").(string)
		}
	}
	return ends
}

// wantEnd works out how a step ends that needs a and b, from the tables of the format.
func wantEnd(a, b need, trigger string, when bool) string {
	count := map[string]int{}
	count[a.end]++
	count[b.end]++
	holds := map[string]bool{
		"all_success": count["succeeded"] == 2,
		"none_failed": count["succeeded"]+count["when_false"] == 2,
		"any_success": count["succeeded"] >= 1,
		"all_done":    true,
	}[trigger]
	switch {
	case !holds:
		return "upstream"
	case (a.fails || b.fails) && trigger != "all_done":
		return "cancelled"
	case !when:
		return "when_false"
	}
	return "succeeded"
}

func TestTriggersOverAllEndsOfTheNeeds(t *testing.T) {
	rt := &runtime.Runtime{Tools: []runtime.Tool{echo}}
	for _, a := range needs {
		for _, b := range needs {
			for _, trigger := range []string{"all_success", "none_failed", "any_success", "all_done"} {
				for variant := range 8 {
					inBody, call, when := variant&1 > 0, variant&2 > 0, variant&4 > 0
					steps := strings.ReplaceAll(a.steps, "ID", "a") + "\n" + strings.ReplaceAll(b.steps, "ID", "b") + "\n"
					if a.end == "cancelled" || b.end == "cancelled" {
						steps += "boom: {uses: fail, priority: 7, trigger: all_done}\n"
					}
					uses := map[bool]string{false: "set", true: "test.echo"}[call]
					steps += fmt.Sprintf("t: {uses: %s, needs: [a, b], trigger: %s, when: %t, with: {}}\n", uses, trigger, when)
					text, prefix := head+"steps:\n  "+strings.ReplaceAll(steps, "\n", "\n  "), ""
					if inBody {
						text, prefix = head+"steps:\n  body:\n    uses: recipe\n    with:\n      steps:\n        "+strings.ReplaceAll(steps, "\n", "\n        "), "body/"
					}
					out, _ := load(t, []byte(text)).Run(t.Context(), nil, rt)
					got := ends(out)
					for id, want := range map[string]string{"a": a.end, "b": b.end, "t": wantEnd(a, b, trigger, when)} {
						end := got[prefix+id]
						if end == "" {
							end = "cancelled"
						}
						if end != want {
							t.Errorf("%s is %s, want %s, in\n%s", id, end, want, text)
						}
					}
					if failed := out.Status == workflow.StatusError; failed != (a.fails || b.fails) {
						t.Errorf("the run is %s in\n%s", out.Status, text)
					}
				}
			}
		}
	}
}
