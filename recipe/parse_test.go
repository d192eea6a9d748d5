package recipe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
)

// head stands before the recipes of the tests: they begin on line 3.
const head = "apiVersion: braise/v1\nname: x\n"

// findings prints what an error holds, for comparison: line, column, code and hint.
func findings(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var found *diagnostics.Error
	if !errors.As(err, &found) {
		t.Fatalf("got a %T, want a *diagnostics.Error", err)
	}
	var got []string
	for _, d := range found.List {
		got = append(got, print(d))
	}
	return got
}

func print(d diagnostics.Diagnostic) string {
	line := strings.TrimPrefix(d.Position.String(), "f:") + " " + string(d.Code)
	if d.Hint != "" {
		line += " | " + d.Hint
	}
	return line
}

const idHint = "use up to 63 of a-z, 0-9 and _, beginning with a letter"

// rejected holds recipes with mistakes.
var rejected = []struct {
	text string // after head
	want string // the diagnostics, one a line
}{
	// The top.
	{"", "1:1 recipe.missingKey"},
	{"steps:\n", "3:7 recipe.wrongType | indent the steps below it"},
	{"steps: {}\n", "3:8 recipe.invalid"},
	{"steps: [a]\n", "3:8 recipe.wrongType | steps is a mapping: write the id as its key, a: in place of - id: a"},
	{"nodes: {}\nsteps: {a: {uses: set, with: 1}}\n", `3:1 recipe.unknownKey | did you mean "steps"?`},
	{"jobs: {}\n", "1:1 recipe.missingKey\n" + `3:1 recipe.unknownKey | did you mean "steps"?`},
	{"tasks: {}\nparameters: {}\n", "1:1 recipe.missingKey\n" + `3:1 recipe.unknownKey | did you mean "steps"?` + "\n" + `4:1 recipe.unknownKey | did you mean "inputs"?`},
	{"setps: {}\nsteps: {a: {uses: set, with: 1}}\n", `3:1 recipe.unknownKey | did you mean "steps"?`},
	{"version: 1.4\nsteps: {a: {uses: set, with: 1}}\n", "3:10 recipe.wrongType | quote it"},
	{"tags: a\nsteps: {a: {uses: set, with: 1}}\n", "3:7 recipe.wrongType | write [a]"},
	{"requires: {tool: [a]}\nsteps: {a: {uses: set, with: 1}}\n", `3:12 recipe.unknownKey | did you mean "tools"?`},
	{"defaults: {timeout: 30}\nsteps: {a: {uses: set, with: 1}}\n", "3:21 recipe.wrongType | give it a unit: 30s"},
	{"limits: {tokens: 1, wall_time: 0s, max_parallel: 0}\nsteps: {a: {uses: set, with: 1}}\n", "3:32 recipe.invalid | leave it out for no limit\n3:50 recipe.invalid"},
	{"consts: [a]\nsteps: {a: {uses: set, with: 1}}\n", "3:9 recipe.wrongType"},

	// Inputs.
	{"inputs: {a: strin}\nsteps: {a: {uses: set, with: 1}}\n", `3:13 recipe.invalid`},
	{"inputs:\n  a:\nsteps: {a: {uses: set, with: 1}}\n", "4:5 recipe.wrongType"},
	{"inputs:\n  a: {type: strin}\nsteps: {a: {uses: set, with: 1}}\n", "4:13 recipe.badSchema"},
	{"inputs:\n  a: {type: string, required: true}\nsteps: {a: {uses: set, with: 1}}\n", "4:31 recipe.badSchema | leave required out: an input without a default is required"},
	{"inputs:\n  a: {type: string, default: 3}\nsteps: {a: {uses: set, with: 1}}\n", "4:30 recipe.invalid"},
	{"inputs:\n  a:\n    items: {type: integer}\n    default:\n      - 1\n      - b\nsteps: {a: {uses: set, with: 1}}\n", "8:9 recipe.invalid"},

	// Steps.
	{"steps:\n  a:\n", "4:5 recipe.wrongType"},
	{"steps:\n  a: {}\n", "4:6 recipe.missingKey"},
	{"steps:\n  A: {uses: set, with: 1}\n  b-c: {uses: set, with: 1}\n  _d: {uses: set, with: 1}\n", "4:3 recipe.invalid | " + idHint + "\n5:3 recipe.invalid | " + idHint + "\n6:3 recipe.invalid | " + idHint},
	{"steps:\n  a: {uses: set, with: 1}\n  a: {uses: set, with: 2}\n", "4:3 yaml.duplicateKey\n5:3 yaml.duplicateKey"},
	{"steps:\n  a: {uses: set, with: 1, if: x}\n", `4:27 recipe.unknownKey | did you mean "when"?`},
	{"steps:\n  a: {uses: set, with: 1, depends_on: [b], dependsOn: b, depends: b}\n",
		`4:27 recipe.unknownKey | did you mean "needs"?` + "\n" + `4:44 recipe.unknownKey | did you mean "needs"?` + "\n" + `4:58 recipe.unknownKey | did you mean "needs"?`},
	{"steps:\n  a:\n    run: ls\n", "5:5 recipe.missingKey\n5:5 recipe.unknownKey | to run a command, write uses: exec.run, and the command as argv inside with"},
	{"steps:\n  a:\n    uses: model\n    prompt: hi\n", "4:3 recipe.missingKey\n6:5 recipe.unknownKey | put prompt inside with"},
	{"steps:\n  a: {uses: sett, with: 1}\n", `4:13 recipe.unknownKind | did you mean "set"?`},
	{"steps:\n  a: {uses: postgres}\n", "4:13 recipe.unknownKind | the name of a tool contains a dot; the kinds are set, model, recipe, fail, human, say, wait, agent, loop, fork, switch, send, receive, retrieve, index"},
	{"steps:\n  a: {uses: end}\n", "4:13 recipe.unknownKind | did you mean \"switch\"?"},
	{"steps:\n  a: {uses: agent, with: {wrong: 1}}\n", "4:26 recipe.missingKey\n4:27 recipe.unknownKey | known here: agent, context, images, messages, prompt"},
	{"steps:\n  a: {uses: \"${{ inputs.tool }}\"}\n", "4:13 recipe.invalid"},
	{"steps:\n  a: {uses: a. b}\n", "4:13 recipe.invalid"},
	{"steps:\n  a: {uses: a.b, with: [1]}\n", "4:24 recipe.wrongType"},
	{"steps:\n  a: {uses: set}\n", "4:3 recipe.missingKey"},
	{"steps:\n  a: {uses: a.b, needs: b}\n", "4:25 recipe.wrongType | write [b]"},
	{"steps:\n  a: {uses: a.b, needs: [1, \"\"]}\n", "4:26 recipe.wrongType | quote it\n4:29 recipe.invalid"},
	{"steps:\n  a:\n    uses: a.b\n    when:\n", "6:10 recipe.invalid | write an expression, or leave the key out"},
	{"steps:\n  a:\n    uses: a.b\n    when: \" \"\n", "6:11 recipe.invalid | write an expression, or leave the key out"},
	{"steps:\n  a:\n    uses: a.b\n    when: ${{ inputs.x }}\n", "6:11 recipe.invalid | leave ${{ and }} out"},
	{"steps:\n  a:\n    uses: a.b\n    when: !inputs.x\n", "6:11 yaml.feature | quote this expression"},
	{"steps:\n  a:\n    uses: a.b\n    when: [x]\n", "6:11 recipe.wrongType"},
	{"steps:\n  a: {uses: a.b, trigger: all_done_}\n", `4:27 recipe.invalid | did you mean "all_done"?`},
	{"steps:\n  a: {uses: a.b, trigger: never}\n", "4:27 recipe.invalid | allowed: all_success, none_failed, all_done, any_success"},
	{"steps:\n  a: {uses: a.b, timeout: 90}\n  b: {uses: a.b, timeout: \"90\"}\n  c: {uses: a.b, timeout: 1 day}\n", "4:27 recipe.wrongType | give it a unit: 90s\n5:27 recipe.invalid | give it a unit: 90s\n6:27 recipe.invalid | durations look like 500ms, 30s, 5m, 2h, 1d"},
	{"steps:\n  a: {uses: a.b, priority: high}\n", "4:28 recipe.wrongType"},
	{"steps:\n  a: {uses: a.b, on_error: ignore}\n  b: {uses: a.b, on_error: {sett: 1}}\n  c: {uses: a.b, on_error: [set]}\n",
		"4:28 recipe.invalid | allowed: fail, continue\n5:28 recipe.missingKey\n" + `5:29 recipe.unknownKey | did you mean "set"?` + "\n6:28 recipe.wrongType"},
	{"steps:\n  a: {uses: a.b, output: {schema: {type: 1}, max_bytes: -1, max_byte: 2}}\n", "4:42 recipe.badSchema\n4:57 recipe.invalid\n" + `4:61 recipe.unknownKey | did you mean "max_bytes"?`},
	{"steps:\n  a: {uses: a.b, output: {schema: string}}\n", "4:35 recipe.wrongType | write {type: string}"},

	// foreach.
	{"steps:\n  a: {uses: a.b, foreach: \"${{ inputs.x }}\"}\n", `4:27 recipe.wrongType | write foreach: {in: "${{ … }}"}`},
	{"steps:\n  a: {uses: a.b, foreach: {as: x}}\n", "4:27 recipe.missingKey"},
	{"steps:\n  a: {uses: a.b, foreach: {in: inputs.x}}\n", "4:32 recipe.wrongType | write ${{ inputs.x }}"},
	{"steps:\n  a: {uses: a.b, foreach: {in: 3}}\n", "4:32 recipe.wrongType"},
	{"steps:\n  a: {uses: a.b, foreach: {in: [], as: index}}\n", "4:40 recipe.duplicateName | choose another name"},
	{"steps:\n  a: {uses: a.b, foreach: {in: [], as: a-b}}\n", "4:40 recipe.invalid | use letters, digits and _, beginning with a letter"},
	{"steps:\n  a: {uses: a.b, foreach: {in: [], on_error: continue}}\n", "4:46 recipe.invalid | allowed: fail, collect"},
	{"steps:\n  a:\n    uses: recipe\n    foreach: {in: []}\n    with:\n      steps:\n        b: {uses: a.b, foreach: {in: []}}\n        c: {uses: a.b, foreach: {in: [], as: item}}\n",
		"9:33 recipe.duplicateName | give this one another name with as\n10:46 recipe.duplicateName | give this one another name with as"},

	// Kinds.
	{"steps:\n  a: {uses: model, with: {}}\n", "4:26 recipe.missingKey"},
	{"steps:\n  a: {uses: model, with: {messages: []}}\n", "4:26 recipe.missingKey"},
	{"steps:\n  a: {uses: model, with: {prompt: 1, temperature: hot, max_tokens: 1.5, modle: x}}\n",
		"4:35 recipe.wrongType | quote it\n4:51 recipe.wrongType\n4:68 recipe.wrongType\n" + `4:73 recipe.unknownKey | did you mean "model"?`},
	{"steps:\n  a: {uses: model, with: {prompt: a, top_p: 0.5, stop: [x], seed: 5, reasoning: {effort: low}, tool_choice: auto}}\n",
		"4:38 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options\n4:50 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options\n4:61 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options\n4:70 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options\n4:96 recipe.unknownKey | known here: images, max_tokens, messages, model, prompt, system, temperature"},
	{"steps:\n  a: {uses: model, with: {prompt: a, images: [../a.png, 'http://example.com/a.png', 'data:image/png,x', 3, scans/a.png, /a.png]}}\n",
		"4:47 recipe.invalid | give a path below tools.file.base, https://… or data:image/png;base64,…\n4:57 recipe.invalid | give a path below tools.file.base, https://… or data:image/png;base64,…\n" +
			"4:85 recipe.invalid | give a path below tools.file.base, https://… or data:image/png;base64,…\n4:105 recipe.wrongType | quote it\n4:121 recipe.invalid | give a path below tools.file.base, https://… or data:image/png;base64,…"},
	{"steps:\n  a: {uses: agent, with: {prompt: a, files: [a.png]}}\nagents: {a: {model: x}}\n", `4:38 recipe.unknownKey | did you mean "images"?`},
	{"steps:\n  a: {uses: model, with: {prompt: a, images: []}}\n", "4:46 recipe.invalid"},
	{"steps:\n  a: {uses: model, with: {images: ['https://example.com/a.png'], messages: [{role: assistant, text: x, files: ['https://example.com/a.png']}]}}\n",
		"4:35 recipe.invalid | messages have files of their own\n4:111 recipe.invalid"},
	{"steps:\n  a: {uses: agent, with: {images: [../a.png], messages: [{role: system, text: x, files: ['https://example.com/a.png']}]}}\nagents: {a: {model: x}}\n",
		"4:35 recipe.invalid | messages have files of their own\n4:36 recipe.invalid | give a path below tools.file.base, https://… or data:image/png;base64,…\n4:89 recipe.invalid"},
	{"steps:\n  a: {uses: model, with: {prompt: {fil: p.md}}}\n", "4:35 recipe.missingKey\n" + `4:36 recipe.unknownKey | did you mean "file"?`},
	{"steps:\n  a: {uses: model, with: {messages: [{role: bot, content: x}]}}\n",
		"4:38 recipe.missingKey\n4:45 recipe.invalid | allowed: system, user, assistant\n" + `4:50 recipe.unknownKey | did you mean "text"?`},
	{"steps:\n  a: {uses: model, with: hi}\n", "4:26 recipe.wrongType"},
	{"steps:\n  a: {uses: fail, with: {msg: x, message: [1]}}\n", "4:26 recipe.unknownKey | known here: code, message\n4:43 recipe.wrongType"},
	{"steps:\n  a: {uses: recipe, with: {}}\n", "4:27 recipe.missingKey"},
	{"steps:\n  a: {uses: recipe, with: {ref: a.yaml, steps: {b: {uses: a.b}}}}\n", "4:48 recipe.invalid"},
	{"steps:\n  a: {uses: recipe, with: {ref: a.yaml, output: 1, parameters: {}, inputs: 2}}\n",
		"4:49 recipe.invalid | the file has its own output\n" + `4:52 recipe.unknownKey | did you mean "inputs"?` + "\n4:76 recipe.wrongType"},
	{"steps:\n  a: {uses: recipe, with: {steps: {b: {uses: a.b}}, inputs: {}}}\n", "4:61 recipe.invalid | steps in place see the names around them"},
	{"steps:\n  a: {uses: recipe, with: {ref: \"${{ inputs.x }}\"}}\n", "4:33 recipe.invalid"},
	{"steps:\n  a: {uses: recipe, with: {steps: {a: {uses: a.b}, c: {uses: a.b}}}}\n  c: {uses: a.b}\n", "4:36 recipe.duplicateName\n4:52 recipe.duplicateName"},
	{"steps:\n  a: {uses: recipe, with: {steps: {}}}\n", "4:35 recipe.invalid"},

	// Agents.
	{"agents: {a: {modle: x, tools: x, max_steps: 1001, approval: {exec.run: maybe}}}\nsteps: {a: {uses: set, with: 1}}\n",
		`3:14 recipe.unknownKey | did you mean "model"?` + "\n3:31 recipe.wrongType | write [x]\n3:45 recipe.invalid\n3:72 recipe.invalid | allowed: never, always, pause, refuse"},
	{"agents: {a: {model: x, top_p: 0.5, reasoning_effort: high}}\nsteps: {a: {uses: set, with: 1}}\n", "3:24 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options\n3:36 recipe.unknownKey | give it to the model in braise.yaml: models.NAME.options"},
	{"agents:\n  a: {subagents: true, memory: inherrit, retrieve: {top_k: 0}, on_limit: ok}\n  b: {memory: {thread: 1}, until: \"\", skills: [1], on_indeterminate: ask}\nsteps: {a: {uses: set, with: 1}}\n",
		"4:18 recipe.wrongType\n" + `4:32 recipe.invalid | did you mean "inherit"?` + "\n4:60 recipe.invalid\n4:74 recipe.invalid | allowed: fail\n" +
			"5:24 recipe.wrongType | quote it\n5:35 recipe.invalid | write an expression, or leave the key out\n5:48 recipe.wrongType | quote it\n5:70 recipe.invalid | allowed: pause, report"},
}

func TestParseRejects(t *testing.T) {
	for _, tt := range rejected {
		_, err := recipe.Parse("f", []byte(head+tt.text))
		if diff := cmp.Diff(strings.Split(tt.want, "\n"), findings(t, err)); diff != "" {
			t.Errorf("Parse(%s) (-want +got):\n%s%v", tt.text, diff, err)
		}
	}
}

// TestParseFindsAll has one mistake in each of five parts of a recipe.
func TestParseFindsAll(t *testing.T) {
	_, err := recipe.Parse("f", []byte(`
apiVersion: braise/v2
name: x
inputs: {a: txt}
steps:
  Fetch: {uses: a.b, if: true}
  b: {uses: modle}
outptu: 1
`))
	want := []string{
		`2:13 recipe.invalid | did you mean "braise/v1"?`,
		"4:13 recipe.invalid",
		"6:3 recipe.invalid | use up to 63 of a-z, 0-9 and _, beginning with a letter",
		`6:22 recipe.unknownKey | did you mean "when"?`,
		`7:13 recipe.unknownKind | did you mean "model"?`,
		`8:1 recipe.unknownKey | did you mean "output"?`,
	}
	if diff := cmp.Diff(want, findings(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func at(line, column int) diagnostics.Position {
	return diagnostics.Position{File: "f", Line: line, Column: column}
}

func TestParse(t *testing.T) {
	r, err := recipe.Parse("f", []byte(`apiVersion: braise/v1
name: triage
version: 1.4.0
description: d
tags: [a]
x-team: ops
requires: {capabilities: [model], tools: [a.b], secrets: [KEY]}
inputs:
  id: {type: string, pattern: "^T"}
  n: integer
  on: {type: boolean, default: false}
consts: {url: "https://x", list: [1, 2.5, null]}
defaults: {model: fast, timeout: 2m}
limits: {wall_time: 30m, max_parallel: 8}
steps:
  fetch:
    uses: a.b
    with: {url: "${{ consts.url }}"}
    needs: [x]
    when: inputs.n > 3
    trigger: none_failed
    timeout: 1m30s
    priority: -2
    on_error: {set: [1]}
    output: {schema: true, max_bytes: 10}
    description: d
    tags: [t]
    x-note: {any: thing}
  each:
    uses: recipe
    foreach: {in: "${{ inputs.list }}", as: one, max_parallel: 2, on_error: collect, max_items: 9}
    on_error: continue
    when: true
    with:
      steps:
        in_place: {uses: set, with: "${{ one }}"}
      output: ${{ steps.in_place.output }}
  other:
    uses: recipe
    with: {ref: ./other.yaml, inputs: {a: 1}}
output: {id: "${{ inputs.id }}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	str := func(line, column, offset int, text string) *recipe.Value {
		return &recipe.Value{Pos: at(line, column), Offset: offset, Scalar: text}
	}
	field := func(line, column int, key string, v *recipe.Value) []recipe.Field {
		return []recipe.Field{{Key: key, Pos: at(line, column), Value: v}}
	}
	wantSteps := []recipe.Step{{
		ID: "fetch", Pos: at(16, 3), Description: "d", Tags: []string{"t"},
		Uses:    recipe.Name{Text: "a.b", Pos: at(17, 11)},
		With:    &recipe.Value{Pos: at(18, 11), Offset: -1, IsMap: true, Map: field(18, 12, "url", str(18, 17, 1, "${{ consts.url }}"))},
		Needs:   []recipe.Name{{Text: "x", Pos: at(19, 13)}},
		When:    recipe.Condition{Text: "inputs.n > 3", Pos: at(20, 11)},
		Trigger: recipe.NoneFailed,
		Timeout: 90 * time.Second, TimeoutPos: at(22, 14), Priority: -2,
		OnError: recipe.OnError{Set: &recipe.Value{Pos: at(24, 21), Offset: -1, IsList: true, List: []*recipe.Value{{Pos: at(24, 22), Scalar: int64(1)}}}},
		Output:  &recipe.Output{Pos: at(25, 13), Schema: &recipe.Value{Pos: at(25, 22), Scalar: true}, SchemaJSON: map[string]any{}, MaxBytes: 10},
	}, {
		ID: "each", Pos: at(29, 3),
		Uses:    recipe.Name{Text: "recipe", Pos: at(30, 11)},
		When:    recipe.Condition{Text: "true", Pos: at(33, 11)},
		OnError: recipe.OnError{Continue: true},
		Foreach: &recipe.Foreach{Pos: at(31, 14), In: str(31, 19, 1, "${{ inputs.list }}"), As: recipe.Name{Text: "one", Pos: at(31, 45)}, MaxParallel: 2, Collect: true, MaxItems: 9},
		Body: &recipe.Body{
			Pos:    at(35, 7),
			Steps:  []recipe.Step{{ID: "in_place", Pos: at(36, 9), Uses: recipe.Name{Text: "set", Pos: at(36, 26)}, With: str(36, 37, 1, "${{ one }}")}},
			Output: str(37, 15, 0, "${{ steps.in_place.output }}"),
		},
	}, {
		ID: "other", Pos: at(38, 3),
		Uses: recipe.Name{Text: "recipe", Pos: at(39, 11)},
		Body: &recipe.Body{
			Pos: at(40, 11), Ref: recipe.Name{Text: "./other.yaml", Pos: at(40, 17)},
			Inputs: &recipe.Value{Pos: at(40, 39), Offset: -1, IsMap: true, Map: field(40, 40, "a", &recipe.Value{Pos: at(40, 43), Scalar: int64(1)})},
		},
	}}
	if diff := cmp.Diff(wantSteps, r.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	got := []any{r.File, r.Name, r.Version, r.Description, r.Tags, r.Defaults, r.Limits, len(r.Agents), len(r.Diagnostics)}
	want := []any{"f", "triage", "1.4.0", "d", []string{"a"}, recipe.Defaults{Model: "fast", Timeout: 2 * time.Minute}, recipe.Limits{Pos: at(14, 9), WallTime: 30 * time.Minute, MaxParallel: 8}, 0, 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
	requires := recipe.Requires{
		Capabilities: []recipe.Name{{Text: "model", Pos: at(7, 27)}},
		Tools:        []recipe.Name{{Text: "a.b", Pos: at(7, 43)}},
		Secrets:      []recipe.Name{{Text: "KEY", Pos: at(7, 59)}},
	}
	if diff := cmp.Diff(requires, r.Requires); diff != "" {
		t.Errorf("requires (-want +got):\n%s", diff)
	}
	for i, want := range []recipe.Input{
		{Name: "id", Pos: at(9, 3), SchemaJSON: map[string]any{"type": "string", "pattern": "^T"}},
		{Name: "n", Pos: at(10, 3), SchemaJSON: map[string]any{"type": "integer"}},
		{Name: "on", Pos: at(11, 3), SchemaJSON: map[string]any{"type": "boolean"}, HasDefault: true, Default: false},
	} {
		got := r.Inputs[i]
		if got.Schema == nil || !got.Schema.IsMap || got.Schema.Map[0].Key != "type" {
			t.Errorf("input %s: got schema %+v, want one that begins with type", want.Name, got.Schema)
		}
		got.Schema = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("input (-want +got):\n%s", diff)
		}
	}
}

func TestParseEscapedExpressionIsText(t *testing.T) {
	_, err := recipe.Parse("f", []byte(head+"steps: {a: {uses: model, with: {prompt: x, max_tokens: \"$${{ 1 }}\"}}}\n"))
	if got, want := findings(t, err), []string{"3:56 recipe.wrongType"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := recipe.Parse("f", []byte(head+"steps: {a: {uses: model, with: {prompt: x, max_tokens: \"${{ 1 }}\"}}}\n")); err != nil {
		t.Error(err)
	}
}

// nested returns a recipe with bodies in place, as deep as asked for.
func nested(levels int) string {
	var b strings.Builder
	b.WriteString(head + "steps:\n")
	for i := range levels {
		fmt.Fprintf(&b, "%[1]ss%[2]d:\n%[1]s  uses: recipe\n%[1]s  with:\n%[1]s    steps:\n", strings.Repeat(" ", 1+5*i), i)
	}
	fmt.Fprintf(&b, "%ss: {uses: set, with: 1}\n", strings.Repeat(" ", 1+5*levels))
	return b.String()
}

func TestParseNesting(t *testing.T) {
	if _, err := recipe.Parse("f", []byte(nested(64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	// The body of s64 is the 65th: its keys are two lines below the id, which is on line 4 + 4*64.
	_, err := recipe.Parse("f", []byte(nested(65)))
	if got, want := findings(t, err), []string{fmt.Sprintf("%d:%d recipe.recursion", 4+4*64+3, 2+5*64+4)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDigest(t *testing.T) {
	parse := func(text string) string {
		t.Helper()
		r, err := recipe.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest
	}
	base := parse(head + "inputs: {n: {type: integer, default: 1}}\nagents: {z: {model: m}}\nsteps:\n  a: {uses: a.b, with: {x: 1, y: \"é\"}, timeout: 60s}\n  b: {uses: set, with: null}\n")
	if !strings.HasPrefix(base, "sha256:") || len(base) != len("sha256:")+64 {
		t.Errorf("got %q, want sha256: and 64 digits", base)
	}
	same := map[string]string{
		"layout": "# c\nname:   'x'\napiVersion: braise/v1\nsteps:\n  a:\n    timeout: 1m\n    with:\n      \"y\": é\n      x: 0x1\n    uses: a.b\n" +
			"  b: {uses: set, with: ~, trigger: all_success, priority: 0, on_error: fail}\nagents: {z: {model: m}}\ninputs:\n  n: {default: 1, type: integer}\n",
		"words": head + "description: d\ntags: [t]\nx-a: 1\ninputs: {n: {type: integer, default: 1}}\nagents: {z: {model: m, description: d, x-b: 1}}\n" +
			"steps:\n  a: {uses: a.b, with: {x: 1, y: é}, timeout: 60s, description: d, tags: [t], x-c: 1}\n  b: {uses: set, with: null}\n",
	}
	for name, text := range same {
		if got := parse(text); got != base {
			t.Errorf("%s: got another digest", name)
		}
	}
	other := map[string]string{
		"order":                   head + "inputs: {n: {type: integer, default: 1}}\nagents: {z: {model: m}}\nsteps:\n  b: {uses: set, with: null}\n  a: {uses: a.b, with: {x: 1, y: é}, timeout: 60s}\n",
		"x- in with":              head + "inputs: {n: {type: integer, default: 1}}\nagents: {z: {model: m}}\nsteps:\n  a: {uses: a.b, with: {x: 1, y: é, x-z: 1}, timeout: 60s}\n  b: {uses: set, with: null}\n",
		"description in a schema": head + "inputs: {n: {type: integer, default: 1, description: d}}\nagents: {z: {model: m}}\nsteps:\n  a: {uses: a.b, with: {x: 1, y: é}, timeout: 60s}\n  b: {uses: set, with: null}\n",
		"default":                 head + "inputs: {n: {type: integer}}\nagents: {z: {model: m}}\nsteps:\n  a: {uses: a.b, with: {x: 1, y: é}, timeout: 60s}\n  b: {uses: set, with: null}\n",
		"agent":                   head + "inputs: {n: {type: integer, default: 1}}\nagents: {z: {model: n}}\nsteps:\n  a: {uses: a.b, with: {x: 1, y: é}, timeout: 60s}\n  b: {uses: set, with: null}\n",
	}
	for name, text := range other {
		if got := parse(text); got == base {
			t.Errorf("%s: got the same digest", name)
		}
	}
}
