package workflow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// compiled returns what is found when a recipe is compiled, with its hints.
func compiled(t *testing.T, text string) (lines []string) {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(head+text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	var list diagnostics.List
	if err != nil {
		list = err.(*diagnostics.Error).List
	} else {
		list = wf.Diagnostics
	}
	for _, d := range list {
		lines = append(lines, d.String())
	}
	return lines
}

// trust 4.3: braces are those of a program only among its words.
func TestBracesOfPrograms(t *testing.T) {
	got := compiled(t, `inputs: {n: string}
steps:
  run:
    uses: exec.run
    with: {argv: [awk, "${ inputs.n }", [x, "{{ inputs.n }}"]], stdin: "{{ inputs.n }}"}
    rollback: {uses: exec.run, with: {argv: ["${inputs.n}"], dir: "${inputs.n}"}}
  say: {uses: test.say, with: {argv: ["{{ inputs.n }}"]}}
`)
	const end = " is plain text here [expr.suspicious]\n  hint: did you mean \"${{ inputs.n }}\"?"
	want := []string{`recipe.yaml:7:73: warning: "{{ inputs.n }}"` + end, `recipe.yaml:8:68: warning: "${inputs.n}"` + end,
		`recipe.yaml:9:40: warning: "{{ inputs.n }}"` + end}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
