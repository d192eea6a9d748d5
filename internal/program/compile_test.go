package program_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func TestCompileFindings(t *testing.T) {
	tests := []struct {
		name string
		text string // lines 3 and on
		want []string
	}{
		{"cycle", `
steps:
  a: {uses: set, with: "${{ steps.c.output }}"}
  b: {uses: set, needs: [a], with: 1}
  c: {uses: set, with: "${{ steps.b.output }}"}
  d: {uses: set, needs: [c], with: 1}
`, []string{"5:3 recipe.cycle steps need each other: a → c → b → a | remove one of these needs or references: a at recipe.yaml:5:3, c at recipe.yaml:7:3, b at recipe.yaml:6:3"}},
		{"two cycles, the shortest of each", `
steps:
  a: {uses: set, needs: [b, d], with: 1}
  b: {uses: set, needs: [c], with: 1}
  c: {uses: set, needs: [a], with: 1}
  d: {uses: set, needs: [a], with: 1}
  e: {uses: set, with: "${{ steps.e.output }}"}
`, []string{
			"5:3 recipe.cycle steps need each other: a → d → a | remove one of these needs or references: a at recipe.yaml:5:3, d at recipe.yaml:8:3",
			"9:3 recipe.cycle steps need each other: e → e | remove one of these needs or references: e at recipe.yaml:9:3",
		}},
		{"unknown steps", `
steps:
  fetch: {uses: set, with: 1}
  b: {uses: set, needs: [fetsh], with: "${{ steps.ftch.output }}"}
`, []string{
			`6:26 recipe.unknownName step "b" needs "fetsh", which is not a step here | did you mean "fetch"?`,
			`6:51 expr.unknownName unknown step "ftch" | did you mean "fetch"?`,
		}},
		{"may be skipped", `
inputs: {go: boolean}
steps:
  a: {uses: set, when: inputs.go, with: {x: 1}}
  b: {uses: set, needs: [a], trigger: all_done, with: "${{ steps.a.output.x }}"}
  c: {uses: set, needs: [a], trigger: all_done, with: "${{ steps.a.output?.x }}"}
  d: {uses: set, with: {y: "${{ steps.a.output.x }}"}}
  e: {uses: set, needs: [d], trigger: none_failed, with: "${{ steps.d.output.y }}"}
  f: {uses: set, needs: [d], trigger: any_success, with: "${{ steps.d.output.y }}"}
output: ["${{ steps.a.output.x }}", "${{ steps.d.output.y }}"]
`, []string{
			`7:60 expr.maybeSkipped step "a" may be skipped, then its output is null and this fails | write steps.a.output?.…`,
			`10:63 expr.maybeSkipped step "d" may be skipped, then its output is null and this fails | write steps.d.output?.…`,
			`12:15 expr.maybeSkipped step "a" may be skipped, then its output is null and this fails | write steps.a.output?.…`,
			`12:42 expr.maybeSkipped step "d" may be skipped, then its output is null and this fails | write steps.d.output?.…`,
		}},
		{"what an expression has found not to be null", `
inputs: {go: boolean}
steps:
  a: {uses: human, when: inputs.go, with: {prompt: Sure?, decisions: [approve, reject]}}
  b: {uses: set, needs: [a], trigger: all_done, when: 'steps.a.output == null || steps.a.output.decision == "approve"', with: 1}
  c: {uses: set, trigger: all_done, when: 'null != steps.a.output and not (steps.a.output.decision == "reject")', with: 1}
  d: {uses: set, trigger: all_done, with: "${{ steps.a.status == 'succeeded' ? steps.a.output.decision : 'none' }}"}
  e: {uses: set, trigger: all_done, with: "${{ !(steps.a.output?.decision == 'approve' && true) ? 'none' : steps.a.output.decision }}"}
  f: {uses: set, trigger: all_done, when: 'steps.a.output != null || steps.a.output.decision == "approve"', with: 1}
  g: {uses: set, trigger: all_done, when: 'steps.a.output == null && steps.a.output.decision == "approve"', with: 1}
  h: {uses: set, trigger: all_done, when: 'steps.a.output?.decision != "reject" && steps.a.output.decision == "approve"', with: 1}
`, []string{
			`11:70 expr.maybeSkipped step "a" may be skipped, then its output is null and this fails | write steps.a.output?.…`,
			`12:70 expr.maybeSkipped step "a" may be skipped, then its output is null and this fails | write steps.a.output?.…`,
			`13:84 expr.maybeSkipped step "a" may be skipped, then its output is null and this fails | write steps.a.output?.…`,
		}},
		{"steps that fail and let the run continue", `
steps:
  a: {uses: http.request, on_error: continue, with: {url: "https://example.com"}}
  b: {uses: set, trigger: all_done, with: "${{ steps.a.output.body }}"}
  c: {uses: set, trigger: none_failed, with: "${{ steps.a.output.body }}"}
  d: {uses: set, with: "${{ steps.a.output.body }}"}
  e: {uses: http.request, on_error: {set: {body: x}}, with: {url: "https://example.com"}}
output: ["${{ steps.a.output.body }}", "${{ steps.a.output?.body }}", "${{ steps.e.output.body }}"]
`, []string{
			`6:48 expr.maybeSkipped step "a" may fail, then its output is null and this fails | write steps.a.output?.…`,
			`10:15 expr.maybeSkipped step "a" may fail, then its output is null and this fails | write steps.a.output?.…`,
		}},
		{"secrets", `
steps:
  a: {uses: set, with: "${{ secrets.KEY }}"}
  b: {uses: http.request, with: {url: "http://x", headers: {authorization: "Bearer ${{ secrets.KEY }}"}}}
  c: {uses: http.request, with: {url: "${{ secrets.KEY + 'x' }}"}}
  d: {uses: model, with: {model: m, prompt: "${{ secrets.KEY }}"}}
  e: {uses: set, when: secrets.KEY == "x", with: 1}
`, []string{
			"5:29 expr.secret secrets are not available here | secrets.NAME stands alone in a ${{ }} in the with of a tool; the string around it may be longer",
			"7:44 expr.secret",
			"8:50 expr.secret",
			"9:24 expr.secret",
		}},
		{"a model step without a model", `
steps:
  a: {uses: model, with: {prompt: hi}}
`, []string{`5:13 recipe.missingKey step "a" names no model | give model in with, or defaults.model for all steps`}},
		{"names in bodies", `
steps:
  outer: {uses: set, with: 1}
  body:
    uses: recipe
    foreach: {in: [1], as: n}
    with:
      steps:
        in1: {uses: set, with: "${{ [steps.outer.output, n, index] }}"}
        in2: {uses: set, with: "${{ steps.body.output }}"}
        in3: {uses: set, needs: [outer], with: 1}
  after: {uses: set, with: "${{ steps.in1.output }}"}
`, []string{
			"6:3 recipe.cycle steps need each other: body → body | remove one of these needs or references: body at recipe.yaml:6:3",
			`13:34 recipe.unknownName step "in3" needs "outer", which is not a step here`,
			`14:39 expr.unknownName unknown step "in1"`,
		}},
		{"inputs of a sub-recipe", `
steps:
  a: {uses: recipe, with: {ref: sub.yaml, inputs: {nmae: x, count: "${{ 1 }}"}}}
  b: {uses: recipe, with: {ref: sub.yaml, inputs: {name: 7}}}
  c: {uses: recipe, with: {ref: sub.yaml}}
`, []string{
			`5:33 input.invalid sub-recipe "sub.yaml": input "name" is missing`,
			`5:52 input.invalid sub-recipe "sub.yaml": unknown input "nmae" | did you mean "name"?`,
			`6:52 input.invalid sub-recipe "sub.yaml": input "name" does not match its schema: must be a string, not a number`,
			`7:33 input.invalid sub-recipe "sub.yaml": input "name" is missing`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, list := runtest.CompileFiles(t, map[string]string{
				"recipe.yaml": runtest.Head + tt.text,
				"sub.yaml":    runtest.Head + "inputs: {name: string, count: {type: integer, default: 1}}\nsteps:\n  s: {uses: set, with: 1}\n",
			}, nil)
			got := runtest.Printed(list)
			for i := range min(len(got), len(tt.want)) { // a want may stop early
				if strings.HasPrefix(got[i], tt.want[i]) {
					got[i] = tt.want[i]
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileFindsMistakesOfEveryStageAtOnce(t *testing.T) {
	_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": runtest.Head + `inputs: {n: integer}
steps:
  a: {uses: set, with: 1, iff: true}
  b: {uses: sett, with: 1}
  c: {uses: set, with: "${{ inputs.m }}"}
  d: {uses: set, needs: [e], with: 1}
  e: {uses: set, needs: [d], with: 1}
  f: {uses: set, with: 1, timeout: 30}
`}, nil)
	var got []string
	for _, d := range list {
		got = append(got, fmt.Sprintf("%d %s", d.Position.Line, d.Code))
	}
	want := []string{"5 recipe.unknownKey", "6 recipe.unknownKind", "7 expr.unknownName", "8 recipe.cycle", "10 recipe.wrongType"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func TestCompileChecksToolsThatItKnows(t *testing.T) {
	const text = runtest.Head + `steps:
  ok: {uses: crm.lookup, with: {id: x, depth: "${{ 1 + 1 }}"}}
  missing: {uses: crm.lookup, with: {depth: 1}}
  unknown: {uses: crm.lookup, with: {id: x, dpeth: "${{ 1 }}"}}
  wrong: {uses: crm.lookup, with: {id: x, tags: [a, 2, "${{ 3 }}"]}}
  none: {uses: crm.lookup}
  typo: {uses: crm.lokup}
`
	_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": text}, &workflow.Options{Tools: []runtime.ToolSpec{runtest.Lookup.Spec()}})
	var got []string
	for _, d := range list {
		got = append(got, fmt.Sprintf("%s %d:%d %s %s", d.Level, d.Position.Line, d.Position.Column, d.Code, d.Message))
	}
	want := []string{
		`error 5:37 tool.arguments arguments of "crm.lookup": /id: is required`,
		`error 6:45 tool.arguments arguments of "crm.lookup": /dpeth: is not a known property`,
		`error 7:53 tool.arguments arguments of "crm.lookup": /tags/1: must be a string, not a number`,
		`error 8:16 tool.arguments arguments of "crm.lookup": /id: is required`,
		`warn 9:16 tool.missing no tool named "crm.lokup" is configured; step "typo" needs it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("diagnostics (-want +got):\n%s", diff)
	}
	if got, want := list[1].Hint, `did you mean "depth"?`; got != want {
		t.Errorf("hint for dpeth: %q, want %q", got, want)
	}
}

const planned = runtest.Head + `version: "2"
steps:
  fetch: {uses: http.request, with: {url: "https://example.com", headers: {authorization: "${{ secrets.TOKEN }}"}}}
  ask:
    uses: model
    needs: [each]
    when: steps.fetch.output.status == 200
    with: {model: fast, prompt: "${{ steps.fetch.output.body }}"}
  each:
    uses: recipe
    trigger: all_done
    priority: 3
    foreach: {in: [1, 2]}
    with:
      steps:
        second: {uses: set, with: "${{ steps.first.output }}"}
        first: {uses: test.echo, with: {was: "${{ steps.fetch.status }}"}}
`

func TestPlan(t *testing.T) {
	wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": planned}, nil)
	if wf == nil {
		t.Fatal(runtest.Printed(list))
	}
	plan := wf.Plan()
	want := &workflow.Plan{
		Recipe: "test", Version: "2", Digest: plan.Digest,
		Steps: []workflow.PlanStep{
			{ID: "fetch", Uses: "http.request", Needs: []workflow.Edge{}, Trigger: "all_success"},
			{ID: "each", Uses: "recipe", Needs: []workflow.Edge{{Step: "fetch", Kind: "data"}}, Trigger: "all_done", Foreach: true, Priority: 3,
				Body: []workflow.PlanStep{
					{ID: "each/first", Uses: "test.echo", Needs: []workflow.Edge{}, Trigger: "all_success"},
					{ID: "each/second", Uses: "set", Needs: []workflow.Edge{{Step: "each/first", Kind: "data"}}, Trigger: "all_success"},
				}},
			{ID: "ask", Uses: "model", Needs: []workflow.Edge{{Step: "fetch", Kind: "data"}, {Step: "each", Kind: "order"}},
				When: "steps.fetch.output.status == 200", Trigger: "all_success"},
		},
		Requires: workflow.Requires{Models: []string{"fast"}, Tools: []string{"http.request", "test.echo"}, Secrets: []string{"TOKEN"}},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for name, got := range map[string]string{"text": plan.Text(), "mmd": plan.Mermaid(), "dot": plan.DOT()} {
		golden, err := os.ReadFile("testdata/plan." + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(string(golden), "DIGEST", plan.Digest), got); diff != "" {
			t.Errorf("plan.%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStepsAreCountedWhereTheyStand(t *testing.T) {
	files := map[string]string{"recipe.yaml": runtest.Head + "steps:\n  a: {uses: recipe, with: {ref: r1.yaml}}\n"}
	for i := 1; i < 20; i++ { // each file runs the next one four times
		text := runtest.Head + "steps:\n"
		for j := range 4 {
			text += fmt.Sprintf("  s%d: {uses: recipe, with: {ref: r%d.yaml}}\n", j, i+1)
		}
		files[fmt.Sprintf("r%d.yaml", i)] = text
	}
	files["r20.yaml"] = runtest.Head + "steps:\n  s: {uses: set, with: 1}\n"
	_, list := runtest.CompileFiles(t, files, nil)
	if len(list) == 0 || list[0].Code != diagnostics.CodeTooLarge {
		t.Errorf("diagnostics: %q", runtest.Printed(list))
	}
}

// Names that would end a label, or be mistaken for others.
func TestPlanOfOddNames(t *testing.T) {
	wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": "apiVersion: braise/v1\nname: \"a \\\"b\\\"\"\n" + `steps:
  a: {uses: recipe, with: {steps: {b: {uses: 'x."<y>\'}}}}
  a__b: {uses: set, needs: [a], when: "true &&\n\n  true", with: 1}
`}, nil)
	if wf == nil {
		t.Fatal(runtest.Printed(list))
	}
	plan := wf.Plan()
	_, text, _ := strings.Cut(plan.Text(), "\n")
	for _, tt := range []struct{ got, want string }{
		{text, "  1. a  recipe\n    1. a/b  x.\"<y>\\\n  2. a__b  set  after a (order)  when true && true\nneeds tools: x.\"<y>\\\n"},
		{plan.Mermaid(), "flowchart TD\n  subgraph s_a[\"a<br/>recipe\"]\n    s_a_S_b[\"a/b<br/>x.#quot;#lt;y#gt;\\\"]\n  end\n  s_a__b{{\"a__b<br/>set\"}}\n  s_a -.-> s_a__b\n"},
		{plan.DOT(), `strict digraph {
  label="a \"b\"";
  "a" [ shape="point",  weight=0 ];
  "a/b" [ label="a/b\nx.\"<y>\\", shape="box",  weight=0 ];
  "a__b" [ label="a__b\nset", shape="box",  weight=0 ];
  "a" -> "a__b" [ style="dashed",  weight=1 ];
  subgraph "cluster_a" {
    label="a\nrecipe";
    "a";
    "a/b";
  }
}
`},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// What a sub-recipe requires is required.
func TestRequirementsOfSubRecipes(t *testing.T) {
	wf, _ := runtest.CompileFiles(t, map[string]string{
		"recipe.yaml": runtest.Head + "steps:\n  a: {uses: recipe, with: {ref: sub.yaml}}\n",
		"sub.yaml":    runtest.Head + "requires: {tools: [x.gone], secrets: [KEY], capabilities: [model]}\nsteps:\n  s: {uses: set, with: 1}\n",
	}, nil)
	list, err := wf.Check(t.Context(), nil)
	var got []string
	for _, d := range list {
		got = append(got, fmt.Sprintf("%s %s %s", d.Kind, d.Code, d.Position))
	}
	want := []string{"requirement tool.missing sub.yaml:3:20", "requirement secret.missing sub.yaml:3:39", "requirement capability.missing sub.yaml:3:60"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
