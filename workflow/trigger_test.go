package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// shape is a kind of step. Its keys do WORK, as they are or in a body; ID stands for the step's id. inside is
// the path of the first work.
type shape struct{ name, keys, inside string }

var shapes = []shape{
	{"step", "WORK", "ID"},
	{"foreach", "foreach: {in: [1, 2]}, WORK", "ID[0]"},
	{"recipe", "uses: recipe, with: {steps: {ID_in: {WORK}}}", "ID/ID_in"},
	{"recipes", "uses: recipe, foreach: {in: [1, 2]}, with: {steps: {ID_in: {WORK}}}", "ID[0]/ID_in"},
	{"loop", "uses: loop, with: {max_iterations: 2, steps: {ID_in: {WORK}}}", "ID#1/ID_in"},
	{"switch", "uses: switch, with: {cases: [{name: c, when: 1 < 2, steps: {ID_in: {WORK}}}]}", "ID/c/ID_in"},
	{"fork", "uses: fork, with: {branches: {one: {steps: {ID_in: {WORK}}}, two: {steps: {}}}}", "ID/one/ID_in"},
	{"race", "uses: fork, with: {mode: race, branches: {one: {steps: {ID_in: {WORK}}}}}", "ID/one/ID_in"},
}

// works says what the steps of a shape do.
func (s shape) works(work string) string { return strings.ReplaceAll(s.keys, "WORK", work) }

const (
	goesWell = "uses: set, with: 1"
	goesBad  = "uses: fail"
)

// need is one way for a step to end. ID stands for its id. The failing ones start in spite of each
// other; what is cancelled comes after a step called boom.
type need struct {
	end   string // as ends tells it
	steps string
	fails bool // nobody handles it

	unreached bool // a step before it failed
}

// needs are the ways in which a step of a shape ends.
func (s shape) needs() []need {
	well, bad := s.works(goesWell), s.works(goesBad)
	return []need{
		{"succeeded", "ID: {priority: 9, " + well + "}", false, false},
		{"failed", "ID: {priority: 9, on_error: continue, " + bad + "}", false, false},
		{"failed", "ID: {priority: 8, trigger: all_done, " + bad + "}", true, false},
		{"when_false", "ID: {priority: 9, when: 1 > 2, " + well + "}", false, false},
		{"upstream", "ID0: {uses: set, priority: 9, when: 1 > 2, with: 1}\nID: {priority: 9, needs: [ID0], " + well + "}", false, false},
		{"upstream", "ID0: {uses: fail, priority: 9, on_error: continue}\nID: {priority: 9, needs: [ID0], " + well + "}", false, true},
		{"cancelled", "ID: {" + well + "}", true, false},
	}
}

// inSpite are steps that succeed, whatever fails or is skipped in them.
var inSpite = []string{
	"on_error: {set: 1}, uses: recipe, with: {steps: {ID_in: {uses: fail}}}",
	"uses: recipe, with: {steps: {ID_in: {uses: fail, on_error: continue}}}",
	"uses: recipe, with: {steps: {ID_in: {uses: set, when: 1 > 2, with: 1}}}",
	"uses: set, foreach: {in: []}, with: 1",
	"uses: fail, foreach: {in: [1, 2], on_error: collect}",
	"uses: loop, with: {max_iterations: 2, on_error: continue, steps: {ID_in: {uses: fail}}}",
	"uses: switch, with: {cases: [{name: c, when: 1 > 2, steps: {ID_in: {uses: fail}}}]}",
	"uses: fork, with: {mode: settle, branches: {one: {steps: {ID_in: {uses: fail}}}}}",
	"uses: fork, with: {mode: race, branches: {one: {steps: {ID_in: {uses: fail}}}, two: {steps: {ID_too: {uses: set, with: 1}}}}}",
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
		"none_failed": count["failed"]+count["cancelled"] == 0 && !a.unreached && !b.unreached,
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

// One need has every end in every shape, the other one every end, and the step that needs them every trigger and, over
// the shapes of the first need, every shape. What else there is to choose is drawn by lot, the same each time. A short
// test has a third of the ends of the one need.
func TestTriggersOverAllEndsOfTheNeeds(t *testing.T) {
	lot := rand.New(rand.NewPCG(1, 1))
	try := func(a need, nth int) {
		for end := range shapes[0].needs() {
			for k, trigger := range []string{"all_success", "none_failed", "any_success", "all_done"} {
				for _, when := range []bool{true, false} {
					b := shapes[lot.IntN(len(shapes))].needs()[end]
					work := []string{goesWell, "uses: test.echo, with: {}"}[lot.IntN(2)]
					checkTrigger(t, a, b, trigger, shapes[(nth+end+k)%len(shapes)], work, when, lot.IntN(2) > 0)
				}
			}
		}
	}
	const parts = 3
	part := seedtest.Part(t, parts)
	for nth, s := range shapes {
		for i, a := range s.needs() {
			if !testing.Short() || (nth+i)%parts == part {
				try(a, nth)
			}
		}
	}
	for nth, keys := range inSpite {
		try(need{"succeeded", "ID: {priority: 9, " + keys + "}", false, false}, nth)
	}
}

// checkTrigger runs a step of a shape that needs two others.
func checkTrigger(t *testing.T, a, b need, trigger string, s shape, work string, when, inBody bool) {
	t.Helper()
	steps := strings.ReplaceAll(a.steps, "ID", "a") + "\n" + strings.ReplaceAll(b.steps, "ID", "b") + "\n"
	if a.end == "cancelled" || b.end == "cancelled" {
		steps += "boom: {uses: fail, priority: 7, trigger: all_done}\n"
	}
	steps += strings.ReplaceAll(fmt.Sprintf("ID: {needs: [a, b], trigger: %s, when: %t, %s}\n", trigger, when, s.works(work)), "ID", "t")
	text, prefix := runtest.Head+"steps:\n  "+strings.ReplaceAll(steps, "\n", "\n  "), ""
	if inBody {
		text, prefix = runtest.Head+"steps:\n  body:\n    uses: recipe\n    with:\n      steps:\n        "+strings.ReplaceAll(steps, "\n", "\n        "), "body/"
	}
	out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}})
	got := ends(out)
	wants := map[string]string{"a": a.end, "b": b.end, "t": wantEnd(a, b, trigger, when)}
	for id, want := range wants {
		end := got[prefix+id]
		if end == "" {
			end = "cancelled"
		}
		if end != want {
			t.Errorf("%s is %s, want %s, in\n%s", id, end, want, text)
		}
	}
	if inside := prefix + strings.ReplaceAll(s.inside, "ID", "t"); (got[inside] == "succeeded") != (wants["t"] == "succeeded") {
		t.Errorf("%s is %q in\n%s", inside, got[inside], text)
	}
	if failed := out.Status == workflow.StatusError; failed != (a.fails || b.fails) {
		t.Errorf("the run is %s in\n%s", out.Status, text)
	}
}
