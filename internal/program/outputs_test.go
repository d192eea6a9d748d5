package program_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 4.2: what is read of an output is checked when a recipe is compiled.
func TestFieldsOfOutputs(t *testing.T) {
	const (
		ask    = "steps:\n  ask: {uses: model, with: {model: m, prompt: x}%}\n"
		closed = ", output: {schema: {type: object, properties: {kind: {type: string}}, additionalProperties: false}}"
		open   = ", output: {schema: {type: object, properties: {kind: {type: string}}}}"
	)
	step := func(text string) string { return "steps:\n  s: {" + text + "}\n" }
	until := func(condition string) string {
		return "agents: {one: {model: m, until: '" + condition + "'}}\n" + step("uses: agent, with: {prompt: go}")
	}
	for _, tt := range []struct {
		name, text, read string
		want             []string // the first line of each, without its place; nil: nothing is found
	}{
		{"of a model", ask, "steps.ask.output.txt", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of a model, good", ask, "steps.ask.output.text", nil},
		{"of a model, with ?.", ask, "steps.ask.output?.txt", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of a schema that is closed", ask + closed, "steps.ask.output.knd", []string{`unknown field "knd" [expr.unknownName]`, `did you mean "kind"?`}},
		{"of a schema that is open", ask + open, "steps.ask.output.knd",
			[]string{`warning: this output is not known to have a field "knd" [expr.unknownName]`, `did you mean "kind"?`}},
		{"of a schema that is open, with ?.", ask + open, "steps.ask.output?.knd", nil},
		{"of a schema that says more", ask + `, output: {schema: {properties: {a: {}}, anyOf: [{properties: {b: {}}}]}}`, "steps.ask.output.b", nil},
		{"in place of text", ask + closed, "steps.ask.output.text", []string{`unknown field "text" [expr.unknownName]`, "known here: kind"}},
		{"of a step that has another output after a failure", ask + ", on_error: {set: {txt: 1}}", "steps.ask.output.txt", nil},
		{"of a step that may have failed", ask + ", on_error: continue", "steps.ask.output?.txt", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of a field", ask, "steps.ask.output.text.first", []string{`steps.ask.output.text is a string, which has no field "first" [expr.type]`}},
		{"of an item", ask + ", foreach: {in: [1]}", "steps.ask.output[0].txt", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of items", ask + ", foreach: {in: [1]}", "map(steps.ask.output, .txt)", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of a list", ask + ", foreach: {in: [1]}", "steps.ask.output.text", []string{`steps.ask.output is a list, which has no field "text" [expr.type]`, "read one item, as in steps.ask.output[0].text, or all: map(steps.ask.output, .text)"}},
		{"of items that are collected", ask + ", foreach: {in: [1], on_error: collect}", "steps.ask.output[0].output.txt", []string{`unknown field "txt" [expr.unknownName]`, `did you mean "text"?`}},
		{"of a program", step("uses: exec.run, with: {argv: [ls]}"), "steps.s.output.stdot", []string{`unknown field "stdot" [expr.unknownName]`, `did you mean "stdout"?`}},
		{"of another tool", step("uses: test.x, with: {}"), "steps.s.output.anything", nil},
		{"of an agent", "agents: {one: {model: m}}\n" + step("uses: agent, with: {prompt: go}"), "steps.s.output.answer",
			[]string{`unknown field "answer" [expr.unknownName]`, "known here: steps, stop_reason, text"}},
		{"of the usage of an agent", until("usage.total_tokens > 3"), "1", []string{`unknown field "total_tokens" [expr.unknownName]`, "known here: input_tokens, output_tokens"}},
		{"of the calls of an agent", until(`any(calls, .name == "x")`), "1", []string{`unknown field "name" [expr.unknownName]`, "known here: arguments, error, result, tool"}},
		{"of arguments of calls", until(`any(calls, .arguments.path == "x")`), "1", nil},
		{"of the steps of an agent", until(`steps_done > "3"`), "1", []string{"> needs two operands of one type, a number or a string, not a number and a string [expr.type]"}},
		{"of a loop", step("uses: loop, with: {max_iterations: 2, steps: {a: {uses: set, with: 1}}, output: {n: 1}}"), "steps.s.output.n",
			[]string{`unknown field "n" [expr.unknownName]`, "known here: iterations, last, reason"}},
		{"of a round", step("uses: loop, with: {max_iterations: 2, steps: {a: {uses: set, with: 1}}, output: {n: 1}}"), "steps.s.output.last.m",
			[]string{`unknown field "m" [expr.unknownName]`, `known here: n`}},
		{"of branches", step("uses: fork, with: {branches: {left: {steps: {a: {uses: set, with: 1}}}}}"), "steps.s.output.right",
			[]string{`unknown field "right" [expr.unknownName]`, "known here: left"}},
		{"of a race", step("uses: fork, with: {mode: race, branches: {left: {steps: {a: {uses: set, with: 1}}}}}"), "steps.s.output.left",
			[]string{`unknown field "left" [expr.unknownName]`, "known here: output, winner"}},
		{"of a switch", step("uses: switch, with: {cases: [{when: 'true', name: a, steps: {a: {uses: set, with: 1}}}]}"), "steps.s.output.text",
			[]string{`unknown field "text" [expr.unknownName]`, "known here: case, output"}},
		{"of steps in place", step("uses: recipe, with: {steps: {a: {uses: set, with: 1}}, output: {n: 1}}"), "steps.s.output.m",
			[]string{`unknown field "m" [expr.unknownName]`, `known here: n`}},
		{"of a value", step("uses: set, with: {field: 1, deep: {inner: \"${{ 1 + 1 }}\"}}"), "steps.s.output.fieldd", []string{`warning: this output is not known to have a field "fieldd" [expr.unknownName]`, `did you mean "field"?`}},
		{"deep in a value", step("uses: set, with: {field: 1, deep: {inner: 2}}"), "steps.s.output.deep.iner", []string{`warning: this output is not known to have a field "iner" [expr.unknownName]`, `did you mean "inner"?`}},
		{"of a value, good", step("uses: set, with: {field: 1, deep: {inner: 2}, list: [{a: 1}]}"), "steps.s.output.field + steps.s.output.deep.inner + steps.s.output.list[0].a", nil},
		{"of a value, with ?.", step("uses: set, with: {field: 1}"), "steps.s.output?.fieldd", nil},
		{"an index from a value", step("uses: set, with: {i: 1}"), "[1, 2][steps.s.output.i] % 2", nil},
		{"of a value that an expression gives", "inputs: {x: {}}\n" + step("uses: set, with: '${{ inputs.x }}'"), "steps.s.output.anything", nil},
		{"of documents", step("uses: retrieve, with: {query: x}"), "steps.s.output.docs",
			[]string{`unknown field "docs" [expr.unknownName]`, "known here: documents"}},
		{"of a person", step("uses: human, with: {prompt: Really?}"), "steps.s.output.answer",
			[]string{`unknown field "answer" [expr.unknownName]`, "known here: decision, form"}},
		{"of a person's form", step("uses: human, with: {prompt: Really?, form: {type: object, properties: {why: {type: string}}, additionalProperties: false}}"),
			"steps.s.output.form.what", []string{`unknown field "what" [expr.unknownName]`, "known here: why"}},
		{"after nobody answered", step("uses: human, with: {prompt: Really?, expires: 1h, on_expire: {set: {late: true}}}"), "steps.s.output.late", nil},
		{"a decision", step("uses: human, with: {prompt: Really?}"), "steps.s.output.decision == 'approved'",
			[]string{`this is never "approved" [expr.type]`, `did you mean "approve"?`}},
		{"a decision of the recipe's own", step("uses: human, with: {prompt: Really?, decisions: [send, drop]}"), "steps.s.output.decision != 'approve'",
			[]string{`this is never "approve" [expr.type]`, "known here: drop, send"}},
		{"one of several decisions", step("uses: human, with: {prompt: Really?}"), "steps.s.output.decision in ['approve', 'rejected']",
			[]string{`this is never "rejected" [expr.type]`, `did you mean "reject"?`}},
		{"good decisions", step("uses: human, with: {prompt: Really?}"), "steps.s.output.decision in ['approve', 'reject'] && 'reject' != steps.s.output.decision", nil},
		{"a word of a schema", ask + ", output: {schema: {properties: {kind: {enum: [bug, wish]}}}}", "steps.ask.output.kind == 'bugs'",
			[]string{`this is never "bugs" [expr.type]`, `did you mean "bug"?`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := splice(tt.text) + "output: \"${{ " + tt.read + " }}\"\n"
			var want []string
			if tt.want != nil {
				line := tt.want[0]
				if len(tt.want) > 1 {
					line += "\n  hint: " + tt.want[1]
				}
				want = []string{line}
			}
			got := compiled(t, text)
			for i := range got {
				got[i] = withoutPlace(got[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// trust 4.2: also through what a foreach and a loop define, in bodies, with places.
func TestFieldsOfNames(t *testing.T) {
	got := compiled(t, `steps:
  list: {uses: model, with: {model: m, prompt: x}, output: {schema: {type: object, properties: {all: {type: array, items: {type: object, properties: {id: {type: string}}, additionalProperties: false}}}, additionalProperties: false}}}
  each: {uses: set, foreach: {in: "${{ steps.list.output.all }}"}, with: "${{ item.idd }}"}
  both:
    uses: loop
    with:
      max_iterations: 2
      steps:
        w: {uses: set, with: ["${{ last?.scor }}", "${{ map(history, .scor) }}", "${{ steps.list.output.al }}"]}
      output: {score: 1}
      until: last.points > 1
`)
	want := []string{
		"recipe.yaml:5:84: unknown field \"idd\" [expr.unknownName]\n  hint: did you mean \"id\"?",
		"recipe.yaml:11:42: unknown field \"scor\" [expr.unknownName]\n  hint: did you mean \"score\"?",
		"recipe.yaml:11:71: unknown field \"scor\" [expr.unknownName]\n  hint: did you mean \"score\"?",
		"recipe.yaml:11:105: unknown field \"al\" [expr.unknownName]\n  hint: did you mean \"all\"?",
		"recipe.yaml:13:19: unknown field \"points\" [expr.unknownName]\n  hint: known here: score",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// trust 4.2: a body that reads what may be skipped is read by its step.
func TestMaybeSkippedInBodies(t *testing.T) {
	got := compiled(t, `inputs: {go: boolean}
steps:
  maybe: {uses: test.x, when: inputs.go, with: {}}
  skipped_too: {uses: recipe, with: {steps: {a: {uses: set, with: "${{ steps.maybe.output.n }}"}}}}
  runs:
    uses: recipe
    trigger: none_failed
    with:
      steps:
        deep: {uses: loop, with: {max_iterations: 1, steps: {a: {uses: set, with: "${{ steps.maybe.output.n }}"}}}}
        good: {uses: set, with: "${{ steps.maybe.output?.n }}"}
`)
	want := []string{"recipe.yaml:12:88: warning: step \"maybe\" may be skipped, then its output is null and this fails [expr.maybeSkipped]\n" +
		"  hint: write steps.maybe.output?.…"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// trust 7.1: a run of a recipe that an earlier version took goes on; what is wrong with it is a warning.
func TestStoredRecipesGoOn(t *testing.T) {
	const text = runtest.Head + `steps:
  gate: {uses: human, with: {prompt: Really?}}
  say: {uses: set, when: "steps.gate.output.decision == 'approved'", with: "${{ steps.gate.output.text.x }}"}
output: done
`
	good, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+`steps:
  gate: {uses: human, with: {prompt: Really?}}
`))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	wf, err := workflow.Compile(good, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := wf.Run(t.Context(), nil, rt)
	bad, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workflow.Compile(bad, nil); err == nil {
		t.Fatal("a new recipe compiles")
	}
	definition, err := bad.Definition()
	if err != nil {
		t.Fatal(err)
	}
	rt.Store = withDefinition{rt.Store, definition}
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	var got []string
	for _, d := range out.Diagnostics {
		got = append(got, string(d.Level)+" "+d.Message)
	}
	want := []string{`warn this is never "approved"`, `warn unknown field "text"`}
	if diff := cmp.Diff(want, got); err != nil || out.Output != "done" || diff != "" {
		t.Errorf("%v, %v (-want +got)\n%s", out.Output, err, diff)
	}
}

// A run whose recipe has a key that this version does not know is refused, and stays as it is.
func TestStoredRecipesOfAnotherVersion(t *testing.T) {
	const definition = `{"format":1,"main":"recipe.yaml","files":{"recipe.yaml":"apiVersion: braise/v1\nname: r\nsteps: {a: {uses: set, with: 1, later: 1}}\n"}}`
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  gate: {uses: human, with: {prompt: Really?}}\n"))
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
	out, _ := wf.Run(t.Context(), nil, rt)
	rt.Store = withDefinition{store, json.RawMessage(definition)}
	_, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	want := `this version cannot compile the recipe of the run: recipe.yaml:3:33: unknown key "later" [recipe.unknownKey]
  hint: the version that began the run can`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	rt.Store = store
	if _, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
		t.Error(err)
	}
}

// withDefinition is a store in which all runs have one definition.
type withDefinition struct {
	checkpoint.Store
	text json.RawMessage
}

func (s withDefinition) Definition(context.Context, string) (json.RawMessage, error) {
	return s.text, nil
}

// splice puts what stands behind the line with a % in its place.
func splice(text string) string {
	before, after, ok := strings.Cut(text, "%")
	if !ok {
		return text
	}
	line, more, _ := strings.Cut(after, "\n")
	return before + more + line + "\n"
}

// withoutPlace cuts the position off a diagnostic.
func withoutPlace(text string) string {
	_, rest, _ := strings.Cut(text, ": ")
	return rest
}
