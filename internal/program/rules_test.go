package program_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// compiled returns what is found when a recipe is compiled, with its hints.
func compiled(t *testing.T, text string) (lines []string) {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+text))
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

// trust 8.7: text that was meant as an expression is found wherever one may stand, but not among the words of a program.
func TestTextsMeantAsExpressions(t *testing.T) {
	files := fstest.MapFS{
		"main.yaml": {Data: []byte(runtest.Head + `inputs: {n: string}
agents: {writer: {model: m, instructions: "Write {n}"}}
steps:
  each: {uses: model, foreach: {in: [1]}, with: {model: m, system: "Be {n}", prompt: "{{ item }}"}}
  round: {uses: loop, with: {max_iterations: 2, steps: {in: {uses: say, with: {text: "{n}", value: inputs.n}}}}}
  sub: {uses: recipe, with: {ref: sub.yaml, inputs: {q: inputs.n}}}
  ask: {uses: human, with: {prompt: "Really {n}?", show: steps.each.output}}
  write: {uses: agent, with: {agent: writer, prompt: "Do {n}"}}
  stop: {uses: fail, when: inputs.n == "x", with: {message: "No {n}"}}
  tool: {uses: test.x, with: {path: inputs.n, note: "{n}", deep: [{value: "{{ n }}"}]}}
  run: {uses: exec.run, with: {argv: [echo, inputs.n, "{{ inputs.n }}", "{n}"], dir: inputs.n}}
output: {all: steps.each.output}
`)},
		"sub.yaml":         {Data: []byte(runtest.Head + "inputs: {q: string}\nsteps: {a: {uses: set, with: inputs.q}}\noutput: steps.a.output\n")},
		"agents/editor.md": {Data: []byte("---\nmodel: m\n---\nEdit {n} and ${{ inputs.n }}.\n")},
	}
	r, err := recipe.Load(files, "main.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range wf.Diagnostics {
		got = append(got, strings.ReplaceAll(d.String(), " is plain text here [expr.suspicious]\n  hint:", ""))
	}
	line := func(place, found, meant string) string {
		return place + `: warning: "` + found + `" did you mean "${{ ` + meant + ` }}"?`
	}
	const taken = " the text of an agent's file is taken as it is: an agent in the recipe takes ${{ … }}"
	want := []string{
		`agents/editor.md:1:1: warning: "{n}"` + taken,
		`agents/editor.md:1:1: warning: "{{ inputs.n }}"` + taken,
		line("main.yaml:4:50", "{n}", "inputs.n"),
		line("main.yaml:6:72", "{n}", "inputs.n"),
		line("main.yaml:6:87", "{{ item }}", "item"),
		line("main.yaml:7:87", "{n}", "inputs.n"),
		line("main.yaml:7:100", "inputs.n", "inputs.n"),
		line("main.yaml:8:57", "inputs.n", "inputs.n"),
		line("main.yaml:9:45", "{n}", "inputs.n"),
		line("main.yaml:9:58", "steps.each.output", "steps.each.output"),
		line("main.yaml:10:58", "{n}", "inputs.n"),
		line("main.yaml:11:65", "{n}", "inputs.n"),
		line("main.yaml:12:37", "inputs.n", "inputs.n"),
		line("main.yaml:12:76", "{{ n }}", "inputs.n"),
		line("main.yaml:13:86", "inputs.n", "inputs.n"),
		line("main.yaml:14:15", "steps.each.output", "steps.each.output"),
		line("sub.yaml:4:30", "inputs.q", "inputs.q"),
		line("sub.yaml:5:9", "steps.a.output", "steps.a.output"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
