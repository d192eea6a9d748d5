package scenario_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/scenario"
	"github.com/braise-run/braise/scenario/scenariotest"
	"github.com/braise-run/braise/trace"
)

var update = flag.Bool("update", false, "rewrite the expectations of scenarios that do not hold")

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // scenarios wait more than they work
	os.Exit(m.Run())
}

// All events of the scenarios fit the schema of events, and the snapshots in them theirs.
func TestScenarios(t *testing.T) {
	var none *host.Config
	rt, err := none.Runtime("")
	if err != nil {
		t.Fatal(err)
	}
	rt.Trace = []trace.Sink{checked{t: t, event: compiled(t, trace.EventSchema()),
		snapshot: compiled(t, trace.SnapshotSchema())}}
	opts := &scenario.Options{Update: *update, Runtime: rt}
	files, err := scenario.Find([]string{"../testdata/scenarios"}, opts)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(scenario.Name(file), func(t *testing.T) {
			t.Parallel()
			scenariotest.Run(t, file, opts)
		})
	}
}

// The scenarios of Serverless Workflow's conformance suite, in our words; docs/compare.md has a row for each.
func TestConformance(t *testing.T) {
	page, err := os.ReadFile("../docs/compare.md")
	files, _ := filepath.Glob("../testdata/conformance/*.txtar")
	if err != nil || len(files) != 19 {
		t.Fatalf("%d scenarios, want the suite's 21 without the 2 of OpenAPI: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.Count(string(page), "| `"+name+"` |") != 1 {
			t.Errorf("docs/compare.md does not have a row for %q", name)
		}
	}
	scenariotest.Run(t, "../testdata/conformance", &scenario.Options{Update: *update})
}

func compiled(t *testing.T, text []byte) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checked is a sink that checks events: of each kind the first so many of a run, which waits a second for its sinks at
// most.
type checked struct {
	t               *testing.T
	event, snapshot *schema.Schema
	seen            map[trace.Kind]int
}

const mostChecked = 50

// ForRun returns a sink for the events of one run, which come one after the other.
func (c checked) ForRun(string) trace.Sink {
	c.seen = map[trace.Kind]int{}
	return c
}

func (c checked) Emit(e trace.Event) {
	if c.seen[e.Kind]++; c.seen[e.Kind] > mostChecked {
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		c.t.Error(err)
	}
	v, err := value.Decode(text)
	if err != nil {
		c.t.Error(err)
	}
	if problems := c.event.Check(v); problems != nil {
		c.t.Errorf("%s: %s", text, schema.Describe(problems))
	}
	if s := e.Data.Get("snapshot"); s != nil {
		if problems := c.snapshot.Check(s); problems != nil {
			c.t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
}

func ExampleCheck() {
	result, err := scenario.Check(context.Background(), "../testdata/scenarios/set_types.txtar", nil)
	fmt.Println(result.Name, len(result.Failures), err)
	// Output: set_types 0 <nil>
}

// good is a scenario that passes, up to its expectations.
const good = `It adds.
-- recipe.yaml --
apiVersion: braise/v1
name: add
inputs: {n: {type: integer, default: 1}}
steps:
  a: {uses: set, with: "${{ inputs.n + 1 }}"}
  b: {uses: set, needs: [a], with: "${{ steps.a.output * 2 }}"}
output: ${{ steps.b.output }}
`

// broken is one whose recipe is refused, up to the key that does it.
const broken = `It is refused.
-- recipe.yaml --
apiVersion: braise/v1
name: broken
steps:
`

// write makes a scenario file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "one.txtar")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// check runs the scenario of a text and returns its failures, one below the other.
func check(t *testing.T, text string, opts *scenario.Options) string {
	t.Helper()
	r, err := scenario.Check(t.Context(), write(t, text), opts)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(r.Failures, "\n")
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
		want []string // parts of the failures; none: the scenario passes
	}{
		{"it holds", good + `-- outcome.json --
{"status": "ok", "output": 4, "artefact": {"a": 2}, "trace": [{"kind": "step.start", "step": "a"}, {"kind": "step.end", "step": "b"}]}
`, nil},
		{"input", good + "-- input.json --\n{\"n\": 20}\n-- outcome.json --\n{\"output\": 42.0}\n", nil},
		{"another output", good + "-- outcome.json --\n{\"status\": \"ok\", \"output\": 5}\n", []string{"outcome.json: output is 4, want 5"}},
		{"every difference", good + `-- outcome.json --
{"output": {"x": 1}, "artefact": {"a": [2], "c": 1}, "trace": [{"kind": "step.start", "step": "b"}, {"kind": "step.start", "step": "a"}]}
`, []string{"artefact.a is 2, want [2]", "artefact.c is null, want 1", `output is 4, want {"x":1}`, `trace[1]: no event, after those before it in the list, is {"kind":"step.start","step":"a"}`}},
		{"lists are whole", good + "-- outcome.json --\n{\"diagnostics\": [{}]}\n", []string{"diagnostics has 0 elements, want 1: []"}},
		{"null is a missing member", good + "-- outcome.json --\n{\"error\": null, \"artefact\": {\"c\": null}}\n", nil},
		{"a wrong member", good + "-- outcome.json --\n{\"ouput\": 4}\n", []string{`an outcome has no "ouput"; did you mean "output"?`}},
		{"not JSON", good + "-- outcome.json --\n{\"output\": 4\n", []string{"outcome.json: line 2"}},
		{"a member twice", good + "-- outcome.json --\n{\"output\": 5, \"output\": 4}\n", []string{"outcome.json: ", "output"}},
		{"not an object", good + "-- outcome.json --\n[]\n", []string{"outcome.json: it must hold an object"}},
		{"nothing expected", good, []string{"nothing is expected", `"output": 4`}},
		{"trace", good + "-- trace.txt --\nrun.start recipe=add\nstep.start a\nstep.end b\n",
			[]string{"trace.txt: it is not as expected (-want +got)", "\n step.start a\n-step.end b\n+step.end a status=succeeded\n"}},
		{"two differences", good + "-- plan.mmd --\nflowchart TB\n  s_a[\"a<br/>set\"]\n  s_b[\"b<br/>set\"]\n  s_b --> s_a\n",
			[]string{"plan.mmd: it is not as expected (-want +got):\n@@ -1,4 +1,4 @@\n-flowchart TB\n+flowchart TD\n   s_a[\"a<br/>set\"]\n   s_b[\"b<br/>set\"]\n-  s_b --> s_a\n+  s_a --> s_b"}},
		{"plan", good + "-- plan.mmd --\nflowchart TD\n  s_a[\"a<br/>set\"]\n  s_b[\"b<br/>set\"]\n  s_a --> s_b\n", nil},
		{"plan as JSON", good + "-- plan.json --\n{\"steps\": [{\"id\": \"a\"}, {\"id\": \"c\"}]}\n", []string{`plan.json: steps[1].id is "b", want "c"`}},
		{"a plan of nothing", broken + "  a: {uses: sett}  # want \"unknownKind\"\n-- plan.mmd --\n", []string{"plan.mmd: there is no plan: the recipe was refused"}},
		{"no paragraph", strings.TrimPrefix(good, "It adds.\n"), []string{"a scenario begins with a paragraph"}},
		{"no recipe", "Nothing.\n-- outcome.json --\n{}\n", []string{"there is no recipe.yaml, neither in the scenario nor beside it"}},
		{"a path outside", good + "-- ../x --\n", []string{`"../x" is an invalid path`}},
		{"a file twice", good + "-- x --\n-- x --\n", []string{`duplicate path "x"`}},
		{"a faulty script", good + "-- script.yaml --\nturn: []\n", []string{`script.yaml:1:1: unknown key "turn"`}},
		{"a faulty input", good + "-- input.json --\n{\n", []string{"input.json: line 2"}},
		{"a faulty mode", good + "-- scenario.yaml --\nstrikt: true\n", []string{`scenario.yaml:1:1: unknown key "strikt"`}},
		{"a recipe that is missing", good + "-- scenario.yaml --\nrecipe: sub.yaml\n", []string{"there is no sub.yaml, neither in the scenario nor beside it"}},
		{"a recipe outside", good + "-- scenario.yaml --\nrecipe: ../recipe.yaml\n", []string{`scenario.yaml: "../recipe.yaml" is not a file of the scenario`}},
		{"a recipe of the wrong type", good + "-- scenario.yaml --\nrecipe: 1\n", []string{`scenario.yaml:1:9: "recipe" must be a string, not an integer`}},
		{"the same what", good + "-- scenario.yaml --\nsame: trace\n", []string{`scenario.yaml:1:7: "same" may not be "trace"`, "allowed: outcome, output"}},
		{"a faulty script of tools", good + "-- tools.yaml --\ntools: {a.b: {turn: []}}\n", []string{`tools.yaml:1:15: unknown key "turn"`}},

		{"a want", broken + "  a: {uses: sett}  # want \"unknownKind: .*sett\"\n", nil},
		{"a want with a hint", broken + "  a: {uses: sett}  # want `\\(hint: did you mean \"set\"\\?\\)$`\n", nil},
		{"two wants on a line", broken + "  a: {uses: set, wiht: 1}  # want `missingKey` \"unknownKey\"\n", nil},
		{"a want is used once", broken + "  a: {uses: sett}  # want \"sett\" \"sett\"\n", []string{`recipe.yaml:4: no diagnostic matches "sett"`}},
		{"a missing diagnostic", strings.ReplaceAll(good, "add\n", "add  # want \"never\"\n"), []string{`recipe.yaml:2: no diagnostic matches "never"`}},
		{"another diagnostic", broken + "  a: {uses: sett}  # want \"never\"\n",
			[]string{`recipe.yaml:4: no diagnostic matches "never"` + "\n  there is: recipe.unknownKind: there is no kind of step \"sett\"", "unexpected diagnostic: recipe.yaml:4:"}},
		{"an unexpected diagnostic", broken + "  a: {uses: sett}  # want \"sett\"\n  b: {uses: sett}\n", []string{"unexpected diagnostic: recipe.yaml:5:13:"}},
		{"an unexpected warning", strings.ReplaceAll(good, "uses: set, needs: [a],", "uses: model,") + "-- outcome.json --\n{\"status\": \"error\"}\n",
			[]string{"recipe.yaml:6:"}},
		{"expected elsewhere", broken + "  a: {uses: sett}\n-- outcome.json --\n{\"status\": \"error\", \"diagnostics\": [{\"code\": \"recipe.unknownKind\", \"line\": 4}]}\n", nil},
		{"expected as text", broken + "  a: {uses: sett}\n-- diagnostics.txt --\nrecipe.yaml:4:13: there is no kind of step \"sett\" [recipe.unknownKind]\n  hint: did you mean \"set\"?\n", nil},
		{"another text", broken + "  a: {uses: sett}\n-- diagnostics.txt --\nrecipe.yaml:4:13: no\n", []string{"diagnostics.txt: it is not as expected", "-recipe.yaml:4:13: no\n+recipe.yaml:4:13: there is no kind"}},
		{"a want without quotes", broken + "  a: {uses: sett}  # want sett\n", []string{"recipe.yaml:4: # want is followed by regular expressions"}},
		{"a want that is no regexp", broken + "  a: {uses: sett}  # want \"(\"\n", []string{"recipe.yaml:4: # want: error parsing regexp"}},
		{"a bad end", broken + "  a: {uses: fail, with: {message: no luck}}\n-- trace.txt --\n", []string{"the run did not end well", "no luck"}},
		{"an error is named", good + "-- input.json --\n{\"n\": \"x\"}\n-- outcome.json --\n{\"status\": \"ok\"}\n", []string{`status is "error", want "ok"`, "the run ended with ", "input.invalid"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, tt.text, nil)
			if tt.want == nil && got != "" {
				t.Errorf("failures:\n%s", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("failures do not say %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestRunsThatDiffer(t *testing.T) {
	runs := 0
	counter := runtimetest.NewTool("test.count", func(context.Context, json.RawMessage) (any, error) {
		runs++
		return runs / 3, nil // the first two runs agree
	})
	got := check(t, `It differs.
-- recipe.yaml --
apiVersion: braise/v1
name: differs
steps: {a: {uses: test.count}}
output: ${{ steps.a.output }}
-- outcome.json --
{"status": "ok"}
`, &scenario.Options{Runtime: &runtime.Runtime{Tools: []runtime.Tool{counter}}})
	for _, want := range []string{"run 3 (max_parallel 8, +) differs from run 1 (max_parallel 1, -)", `-  "output": 0,`, `+  "output": 1,`} {
		if !strings.Contains(got, want) {
			t.Errorf("failures do not say %q:\n%s", want, got)
		}
	}
}

// What same: output allows to differ is a difference otherwise.
func TestSame(t *testing.T) {
	text, err := os.ReadFile("../testdata/scenarios/scenario_same.txtar")
	if err != nil {
		t.Fatal(err)
	}
	strict := strings.Replace(string(text), "same: output", "same: outcome", 1)
	if got := check(t, strict, nil); !strings.Contains(got, "run 3 (max_parallel 8, +) differs from run 1") {
		t.Errorf("failures: %s", got)
	}
	other := strings.Replace(string(text), "contains: two, text: done", "contains: two, text: other", 1)
	if got := check(t, other, nil); !strings.Contains(got, `+  "output": "other",`) {
		t.Errorf("failures: %s", got)
	}
}

// A script that names a step which the recipe does not have fails the scenario; what a step does inside may be named.
func TestScriptsNameSteps(t *testing.T) {
	const text = `The steps are there.
-- recipe.yaml --
apiVersion: braise/v1
name: steps
steps:
  each:
    uses: loop
    foreach: {in: [1, 2]}
    with: {until: "true", max_iterations: 2, steps: {classify: {uses: model, with: {model: fast, prompt: Hi}}}}
  ask: {uses: agent, with: {agent: {model: fast}, prompt: Hi}}
-- script.yaml --
steps:
  each[1]#1/classify: [{text: a}]
  ask/helper#1: [{text: b}]
matches: [{step: ask, text: c}, {step: "each[0]#1/classify", text: d}]
-- outcome.json --
{"status": "ok"}
`
	if got := check(t, text, nil); got != "" {
		t.Errorf("failures: %s", got)
	}
	wrong := strings.NewReplacer("each[1]#1/classify", "each[1]#1/clasify", "step: ask", "step: aks").Replace(text)
	path := filepath.Join(t.TempDir(), "wrong.txtar")
	if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := scenario.Check(t.Context(), path, nil)
	if err == nil {
		t.Fatal("steps that the recipe does not have are taken")
	}
	for _, want := range []string{`script.yaml:2:3: the recipe has no step "each[1]#1/clasify"` + "\n  hint: did you mean \"each/classify\"?",
		`script.yaml:4:18: the recipe has no step "aks"` + "\n  hint: did you mean \"ask\"?"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestEveryRunHasAFreshFolder(t *testing.T) {
	const text = `The folder holds what the scenario brings.
-- recipe.yaml --
apiVersion: braise/v1
name: folder
steps:
  write: {uses: file.write, with: {path: data.txt, content: x, append: true}}
  read: {uses: exec.run, needs: [write], with: {argv: [cat, data.txt]}}
  where: {uses: exec.run, with: {argv: [pwd]}}
output: ["${{ steps.read.output.stdout }}", "${{ steps.where.output.stdout }}"]
-- data.txt --
abc
-- braise.yaml --
tools: {exec: {allow: [cat, pwd]}, file: {base: .}}
-- outcome.json --
{"status": "ok", "output": ["abc\nx", ".\n"]}
`
	if got := check(t, text, nil); got != "" {
		t.Error(got)
	}
}

func TestRuntimeOfAnApp(t *testing.T) {
	app := &runtime.Runtime{
		Models:  map[string]runtime.Model{"fast": runtimetest.Texts("the app's"), "slow": runtimetest.Texts("never")},
		Tools:   []runtime.Tool{runtimetest.NewTool("app.name", func(context.Context, json.RawMessage) (any, error) { return "app", nil })},
		Secrets: runtime.SecretMap{"TOKEN": "0123456789"},
	}
	const recipe = `The app's tools and models.
-- recipe.yaml --
apiVersion: braise/v1
name: app
steps:
  tool: {uses: app.name}
  model: {uses: model, with: {model: fast, prompt: hello}}
output: ["${{ steps.tool.output }}", "${{ steps.model.output.text }}"]
-- script.yaml --
matches: [{contains: hello, text: the script's}]
-- outcome.json --
{"status": "ok", "output": ["app", "the script's"]}
`
	if got := check(t, recipe, &scenario.Options{Runtime: app}); got != "" {
		t.Error(got)
	}
	if model, _ := app.Models["fast"].(*runtimetest.Model); model == nil || len(app.Models) != 2 {
		t.Errorf("the app's models became %v", app.Models)
	}
}

// With tools.yaml no tool is called but those that are real, and a call without an answer or an answer without a call
// fails the scenario, whatever the recipe makes of it.
func TestToolsOfAScenario(t *testing.T) {
	const recipe = `Its tools answer from a script.
-- recipe.yaml --
apiVersion: braise/v1
name: tools
steps:
  look: {uses: crm.lookup, on_error: continue, with: {id: 7}}
  read: {uses: file.read, needs: [look], trigger: all_done, on_error: continue, with: {path: note.txt}}
-- braise.yaml --
tools: {file: {base: .}}
-- note.txt --
x
-- outcome.json --
{"status": "ok"}
-- tools.yaml --
`
	for _, tt := range []struct{ tools, want string }{
		{"tools: {crm.lookup: [{result: Ada}]}\nreal: [file.read]\n", ""},
		{"steps: {look: [{result: Ada}], read: [{result: {content: x}}]}\n", ""},
		{"tools: {crm.lookup: [{result: Ada}]}\n",
			`tools.yaml: there is no answer for call 1 of tool "file.read", call 1 by step "read", with the arguments {"path":"note.txt"}
  hint: give it answers under steps or tools, or name it under real: [file.read]`},
		{"tools: {crm.lookup: []}\nreal: [file.read]\n", `tools.yaml: there is no answer for call 1 of tool "crm.lookup", call 1 by step "look", with the arguments {"id":7}
  hint: give it answers under steps or tools, or name it under real: [crm.lookup]`},
		{"matches: [{tool: crm.lookup, args: {id: 8}, result: 1}]\nreal: [file.read]\n", `tools.yaml: there is no answer for call 1 of tool "crm.lookup", call 1 by step "look", with the arguments {"id":7}
  hint: the match of tools.yaml:1:11 wants the arguments {"id":8}`},
		{"tools: {crm.lookup: [{result: Ada}, {result: Bo}, {result: Cy}]}\nreal: [file.read]\n", "tools.yaml:1:37: answer 2 of 3 of tools.crm.lookup is left over"},
		{"matches: [{tool: crm.lookup, result: 1}]\nsteps: {look: [{result: 2}]}\nreal: [file.read]\n", "tools.yaml:2:16: answer 1 of 1 of steps.look is left over"},
		{"matches: [{tool: crm.lookup, result: 1}]\nreal: [file.reed, file.read]\n", "tools.yaml:2:8: there is no tool \"file.reed\"\n  hint: did you mean \"file.read\"?"},
	} {
		if got := check(t, recipe+tt.tools, nil); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.tools, got, tt.want)
		}
	}
}

func TestARecipeBesideTheScenario(t *testing.T) {
	path := write(t, "It greets.\n-- input.json --\n{\"who\": \"Ada\"}\n-- outcome.json --\n{\"status\": \"ok\", \"output\": \"Hello Ada\"}\n")
	const recipe = "apiVersion: braise/v1\nname: greet\ninputs: {who: string}\nsteps: {a: {uses: set, with: \"Hello ${{ inputs.who }}\"}}\noutput: ${{ steps.a.output }}\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "recipe.yaml"), []byte(recipe), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Check(t.Context(), path, nil)
	if err != nil || r.Failures != nil {
		t.Error(r, err)
	}
}

// Beside NAME.yaml, NAME.txtar tests that recipe; a file that is no recipe is none.
func TestTheRecipeOfTheSameName(t *testing.T) {
	dir := t.TempDir()
	recipe := func(name string) string {
		return "apiVersion: braise/v1\nname: " + name + "\nsteps: {a: {uses: set, with: 1}}\n"
	}
	for name, text := range map[string]string{
		"recipe.yaml": recipe("whole"), "sub.yaml": recipe("part"), "script.yaml": "turns: []\n",
		"sub.txtar":    "It is the part.\n-- outcome.json --\n{\"recipe\": \"part\"}\n",
		"script.txtar": "It is the whole.\n-- outcome.json --\n{\"recipe\": \"whole\"}\n",
		"other.txtar":  "It is the part again.\n-- scenario.yaml --\nrecipe: sub.yaml\n-- outcome.json --\n{\"recipe\": \"part\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	scenariotest.Run(t, dir, nil)
}

func TestUpdate(t *testing.T) {
	const outcome = "{\n  \"output\": 4,\n  \"status\": \"ok\"\n}\n"
	for _, tt := range []struct{ name, before, after string }{
		{"what holds stays", good + "-- outcome.json --\n{\"output\":4}\n", ""},
		{"nothing expected", good, good + "-- outcome.json --\n" + outcome},
		{"an outcome", good + "-- outcome.json --\n{\"output\": 5}\n", good + "-- outcome.json --\n" + outcome},
		{"what it speaks of", good + "-- outcome.json --\n{\"output\": 5, \"artefact\": {}}\n",
			good + "-- outcome.json --\n{\n  \"artefact\": {\n    \"a\": 2,\n    \"b\": 4\n  },\n  \"output\": 4,\n  \"status\": \"ok\"\n}\n"},
		{"texts", good + "-- trace.txt --\n-- plan.mmd --\n", good + `-- trace.txt --
run.start recipe=add
step.start a
step.end a status=succeeded
step.start b
step.end b status=succeeded
run.success
run.end status=ok
-- plan.mmd --
flowchart TD
  s_a["a<br/>set"]
  s_b["b<br/>set"]
  s_a --> s_b
`},
		{"diagnostics", broken + "  a: {uses: sett}\n-- diagnostics.txt --\n",
			broken + "  a: {uses: sett}\n-- diagnostics.txt --\nrecipe.yaml:4:13: there is no kind of step \"sett\" [recipe.unknownKind]\n  hint: did you mean \"set\"?\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.before)
			r, err := scenario.Check(t.Context(), path, &scenario.Options{Update: true})
			if err != nil || r.Failures != nil {
				t.Fatal(r, err)
			}
			want := tt.after
			if want == "" {
				want = tt.before
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(text)); diff != "" {
				t.Errorf("the file (-want +got)\n%s", diff)
			}
			if r.Updated != (tt.after != "") {
				t.Errorf("Updated is %v", r.Updated)
			}
			if r, err = scenario.Check(t.Context(), path, nil); err != nil || r.Failures != nil {
				t.Errorf("afterwards: %v, %v", r, err)
			}
		})
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txtar", "a/two.txtar", "a/one.txtar", "a/notes.txt", ".git/x.txtar", "other.txt"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		paths []string
		run   string
		want  []string
	}{
		{"a folder", []string{"."}, "", []string{"a/one.txtar", "a/two.txtar", "b.txtar"}},
		{"in the order of the paths", []string{"b.txtar", "a"}, "", []string{"b.txtar", "a/one.txtar", "a/two.txtar"}},
		{"a file of any name", []string{"other.txt"}, "", []string{"other.txt"}},
		{"by name", []string{"."}, "^t|^b$", []string{"a/two.txtar", "b.txtar"}},
		{"none", []string{"."}, "x", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var opts *scenario.Options
			if tt.run != "" {
				opts = &scenario.Options{Run: regexp.MustCompile(tt.run)}
			}
			var paths []string
			for _, p := range tt.paths {
				paths = append(paths, filepath.Join(dir, p))
			}
			found, err := scenario.Find(paths, opts)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				rel, _ := filepath.Rel(dir, f)
				got = append(got, filepath.ToSlash(rel))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := scenario.Find([]string{filepath.Join(dir, "missing")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing path: %v", err)
	}
}

func TestAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scenario.Check(ctx, write(t, good), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
