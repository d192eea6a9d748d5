package execution_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/workflow"
)

// serve 3: what a fork runs again is known before the fork, and it is what the fork then runs.
func TestAffectedIsWhatForkRunsAgain(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`
inputs: {n: {type: integer, default: 1}}
channels: {mail: queue}
steps:
  a: {uses: test.act, with: {n: "${{ inputs.n > 0 ? 'a' : 'no' }}"}}
  b: {uses: test.act, needs: [a], with: {n: b}}
  each:
    uses: recipe
    needs: [a]
    foreach: {in: [1, 2]}
    with: {steps: {one: {uses: test.act, with: {n: each/one}}, two: {uses: test.act, needs: [one], with: {n: each/two}}}}
  rounds:
    uses: loop
    needs: [each]
    with:
      until: iteration == 2
      max_iterations: 3
      steps: {try: {uses: test.act, with: {n: rounds/try}}, look: {uses: test.act, needs: [try], with: {n: rounds/look}}}
  both:
    uses: fork
    needs: [b]
    with:
      branches:
        left: {steps: {l1: {uses: test.act, with: {n: both/left/l1}}, l2: {uses: test.act, needs: [l1], with: {n: both/left/l2}}}}
        right: {steps: {r1: {uses: test.act, with: {n: both/right/r1}}}}
  give: {uses: send, with: {channel: mail, value: 1}}
  take: {uses: receive, with: {channel: mail}}
  used: {uses: test.act, needs: [take], with: {n: used}}
  sum: {uses: set, with: 1}
  shown: {uses: test.act, needs: [sum], with: {n: shown}}
  last: {uses: test.act, needs: [both, rounds], with: {n: last}}
`))
	log := &runtest.Effects{}
	rt := mailRuntime(log, &checkpoint.Memory{})
	rt.NewRunID = nil
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	output := func(paths ...string) workflow.Edits {
		outputs := map[string]any{}
		for _, path := range paths {
			outputs[path] = 5
		}
		return workflow.Edits{Outputs: outputs}
	}
	each, rounds := []string{"each", "each/one", "each/two"}, []string{"rounds", "rounds/try", "rounds/look"}
	both := []string{"both", "both/left/l1", "both/left/l2", "both/right/r1"}
	list := func(parts ...[]string) (all []string) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	for _, tt := range []struct {
		name, at string
		edits    workflow.Edits
		want     []string // nil: it is refused
	}{
		{"the last step", "last", workflow.Edits{}, []string{"last"}},
		{"all that follows", "a", workflow.Edits{}, list([]string{"a", "b"}, each, rounds, both, []string{"last"})},
		{"with an output", "b", output("a"), list([]string{"b"}, both, []string{"last"})},
		{"its own output", "b", output("b"), list(both, []string{"last"})},
		{"its own output, nothing follows", "last", output("last"), []string{}},
		{"a foreach", "each", workflow.Edits{}, list(each, rounds, []string{"last"})},
		{"a loop", "rounds", workflow.Edits{}, list(rounds, []string{"last"})},
		{"in a branch", "both/left/l2", workflow.Edits{}, []string{"both", "both/left/l2", "last"}},
		{"with an output of a step that must wait", "a", output("b"), list([]string{"a", "b"}, each, rounds, both, []string{"last"})},
		{"both, with outputs", "a", output("a", "b"), list(each, rounds, both, []string{"last"})},
		{"behind what only computes", "sum", output("shown"), []string{"sum"}},
		{"a step in a body with an output", "both", output("both/left/l1"), []string{"both", "both/left/l2", "both/right/r1", "last"}},
		{"a step in a body that must wait", "b", output("both/left/l1"), list([]string{"b"}, both, []string{"last"})},
		{"only calls have outputs to edit", "b", output("both"), nil},
		{"nor has a step that computes", "shown", output("sum"), nil}, {"nor a foreach as a whole", "last", output("each"), nil},
		{"an item with an output", "each", output("each[0]/one"), list(each, rounds, []string{"last"})},
		{"steps in a foreach have many outputs", "each", output("each/one"), nil},
		{"so have steps in a loop", "rounds", output("rounds/try"), nil},
		{"a round with an output", "rounds", output("rounds#1/try"), list(rounds, []string{"last"})},
		{"a channel", "give", workflow.Edits{}, []string{"give", "take", "used"}},
		{"inputs and outputs", "last", workflow.Edits{Inputs: map[string]any{"n": 2}, Outputs: map[string]any{"a": 5}}, nil},
		{"inputs", "last", workflow.Edits{Inputs: map[string]any{"n": 2}}, list([]string{"a", "b"}, each, rounds, both, []string{"give", "take", "used", "sum", "shown", "last"})},
		{"an unknown step", "lst", workflow.Edits{}, nil},
		{"an unknown step in a body", "both/l1", workflow.Edits{}, nil},
		{"an output of an unknown step", "last", output("lst"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := wf.Affected(tt.at, tt.edits)
			inOrder := planOrder(wf.Plan().Steps, tt.want)
			if diff := cmp.Diff(inOrder, got); diff != "" {
				t.Fatalf("affected (-want +got)\n%s", diff)
			}
			log.Lines = nil
			_, err := workflow.Fork(t.Context(), out.RunID, tt.at, tt.edits, rt, nil)
			if tt.want == nil {
				if check := wf.CheckFork(tt.at, tt.edits); check == nil || err == nil || err.Error() != check.Error() {
					t.Errorf("the fork is refused with %v, and the check says %v", err, check)
				}
				return
			}
			if strings.HasSuffix(tt.name, "must wait") {
				if runtest.CodeOf(err) != "fork.computed" || len(log.Lines) > 0 {
					t.Errorf("%v, calls %q: the fork takes no output of a step that runs again", err, log.Lines)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			acted := map[string]bool{}
			for _, line := range log.Lines {
				acted[line] = true
			}
			want := map[string]bool{}
			for _, id := range got {
				if !slices.Contains([]string{"each", "rounds", "both", "give", "take", "sum"}, id) { // they call nothing
					want["test.act "+id] = true
				}
			}
			if diff := cmp.Diff(want, acted); diff != "" {
				t.Errorf("what the fork called (-affected +called)\n%s", diff)
			}
		})
	}
}

// planOrder sorts ids as they stand in a plan; nil stays nil.
func planOrder(steps []workflow.PlanStep, ids []string) []string {
	if ids == nil {
		return nil
	}
	list := []string{}
	var add func(steps []workflow.PlanStep)
	add = func(steps []workflow.PlanStep) {
		for _, s := range steps {
			for _, id := range ids {
				if id == s.ID {
					list = append(list, id)
				}
			}
			add(s.Body)
		}
	}
	add(steps)
	return list
}
