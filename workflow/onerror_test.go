package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Every way for a step to fail, with the error of the run when nothing handles it, and with what
// the other values of on_error make of it.
func TestOnError(t *testing.T) {
	explode := runtest.Tool("test.panic", func(context.Context, map[string]any) (any, error) { panic("boom") })
	for _, tt := range []struct {
		name     string
		step     string // keys of step a
		category runtime.Category
		code     string
		path     string
		message  string // the beginning
	}{
		{"a call", `uses: test.break`, "tool", "tool.failed", "a", "broken"},
		{"a panic", `uses: test.panic`, "tool", "step.panic", "a", `panic in tool "test.panic": boom`},
		{"a missing tool", `uses: test.gone`, "config", "tool.missing", "a", "recipe.yaml:5:"},
		{"a timeout", `uses: test.hang, timeout: 2s`, "infra", "step.timeout", "a", `step "a" timed out: its timeout is 2s`},
		{"on purpose", `uses: fail, with: {message: no, code: mine}`, "tool", "mine", "a", "no"},
		{"with", `uses: set, with: "${{ steps.ok.output.x }}"`, "config", "expr.failed", "a", "recipe.yaml:5:"},
		{"when", `uses: set, when: steps.ok.output.x, with: 1`, "config", "expr.failed", "a", "recipe.yaml:5:"},
		{"foreach.in", `uses: set, foreach: {in: "${{ steps.ok.output.x }}"}, with: 1`, "config", "expr.failed", "a", "recipe.yaml:5:"},
		{"no list", `uses: set, foreach: {in: "${{ steps.ok.output }}"}, with: 1`, "config", "foreach.notList", "a", "recipe.yaml:5:"},
		{"too many items", `uses: set, foreach: {in: [1, 2, 3], max_items: 2}, with: 1`, "limit", "foreach.maxItems", "a", "recipe.yaml:5:"},
		{"output.schema", `uses: set, with: 1, output: {schema: {type: string}}`, "config", "output.invalid", "a", "recipe.yaml:5:"},
		{"output.schema of a call", `uses: test.echo, output: {schema: {type: string}}`, "config", "output.invalid", "a", "recipe.yaml:5:"},
		{"an item", `uses: test.break, foreach: {in: [1, 2]}`, "tool", "tool.failed", "a[0]", "broken"},
		{"an item's panic", `uses: test.panic, foreach: {in: [1]}`, "tool", "step.panic", "a[0]", `panic in`},
		{"an item's timeout", `uses: test.hang, timeout: 2s, foreach: {in: [1, 2]}`, "infra", "step.timeout", "a[0]", `step "a[0]" timed out: its timeout is 2s`},
		{"an item's output", `uses: set, foreach: {in: [1, x]}, with: "${{ item }}", output: {schema: {type: integer}}`, "config", "output.invalid", "a[1]", "recipe.yaml:5:"},
		{"inside a body", `uses: recipe, with: {steps: {b: {uses: test.break}}}`, "tool", "tool.failed", "a/b", "broken"},
		{"a body's output", `uses: recipe, with: {steps: {b: {uses: set, with: 1}}, output: "${{ steps.b.output.x }}"}`, "config", "expr.failed", "a", "recipe.yaml:5:"},
		{"a body's timeout", `uses: recipe, timeout: 2s, with: {steps: {b: {uses: test.hang}}}`, "infra", "step.timeout", "a", `step "a" timed out`},
		{"a timeout in a body", `uses: recipe, timeout: 3s, with: {steps: {b: {uses: test.hang, timeout: 2s}}}`, "infra", "step.timeout", "a/b", `step "a/b" timed out`},
		{"deep inside", `uses: recipe, foreach: {in: [1], as: i}, with: {steps: {b: {uses: recipe, foreach: {in: [1, 2], as: j}, with: {steps: {c: {uses: fail, when: j == 2}}}}}}`,
			"tool", "fail", "a[0]/b[1]/c", "the recipe failed on purpose"},
		{"a timeout deep inside", `uses: recipe, foreach: {in: [1, 2], as: i}, timeout: 2s, with: {steps: {b: {uses: recipe, timeout: 4s, with: {steps: {c: {uses: test.hang, timeout: 3s}}}}}}`,
			"infra", "step.timeout", "a[0]", `step "a[0]" timed out: its timeout is 2s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, onError := range []string{"fail", "continue", "{set: {instead: true}}", `{set: "${{ steps.ok.output.x }}"}`} {
				synctest.Test(t, func(t *testing.T) {
					text := runtest.Head + "steps:\n  ok: {uses: set, with: 1}\n" +
						fmt.Sprintf("  a: {needs: [ok], on_error: %s, %s}\n", onError, tt.step) + `
  after: {uses: set, needs: [a], with: 1}
  always: {uses: set, needs: [a], trigger: all_done, with: "${{ [steps.a.status, steps.a.output, steps.a.error] }}"}
output: ${{ steps.always.output }}
`
					out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, runtest.Broken, runtest.Hang, explode}})
					got := out.Artefact["always"].([]any)
					switch onError {
					case "fail", `{set: "${{ steps.ok.output.x }}"}`: // the replacement fails itself
						e := out.Failure()
						category, code, path, message := tt.category, tt.code, tt.path, tt.message
						if onError != "fail" {
							category, code, path, message = "config", "expr.failed", "a", "recipe.yaml:5:"
						}
						if e == nil || e.Category != category || e.Code != code || e.Step != path || !strings.HasPrefix(e.Err.Error(), message) {
							t.Fatalf("%s: got %+v", onError, e)
						}
						if onError != "fail" && !strings.Contains(err.Error(), "; on_error was for: "+tt.message) {
							t.Errorf("%s: %v does not tell of the first failure", onError, err)
						}
						reason := "" // only a call that failed has one
						if code == "tool.failed" {
							reason = "unknown"
						}
						want := []any{"failed", nil, map[string]any{"category": string(category), "code": code, "message": e.Err.Error(),
							"reason": reason, "status": nil, "step": path}}
						if diff := cmp.Diff(want, got); diff != "" || ends(out)["after"] != "upstream" {
							t.Errorf("%s: others see (-want +got), after is %s:\n%s", onError, ends(out)["after"], diff)
						}
					case "continue":
						if err != nil || got[0] != "failed" || got[1] != nil || got[2].(map[string]any)["code"] != tt.code || ends(out)["after"] != "upstream" {
							t.Errorf("continue: got %v, %v, after is %s", err, got, ends(out)["after"])
						}
					default:
						want := []any{"succeeded", map[string]any{"instead": true}, nil}
						if diff := cmp.Diff(want, got); err != nil || diff != "" || ends(out)["after"] != "succeeded" {
							t.Errorf("set: %v, after is %s, others see (-want +got):\n%s", err, ends(out)["after"], diff)
						}
					}
					for _, d := range out.Diagnostics { // what timed out may have had its effect
						if out.Status == workflow.StatusOK && d.Code != diagnostics.CodeCallUnknown && tt.code != "tool.missing" {
							t.Errorf("diagnostics of a run that is ok: %v", out.Diagnostics)
						}
					}
				})
			}
		})
	}
}

// Inside a body that fails, as in a run that does, only what says all_done still starts, and what
// it does cannot change the error.
func TestAllDoneInsideABodyThatFails(t *testing.T) {
	for _, tt := range []struct{ name, tidy, others string }{
		{"tidies", "{uses: test.echo, needs: [x], trigger: all_done}", ""},
		{"fails too", "{uses: test.break, needs: [x], trigger: all_done}", "a[0]/tidy"},
		{"a body", "{uses: recipe, needs: [x], trigger: all_done, with: {steps: {t1: {uses: test.echo}, t2: {uses: test.echo, needs: [t1]}}}}", ""},
		{"items", "{uses: test.echo, needs: [x], trigger: all_done, foreach: {in: [1, 2, 3], as: t, max_parallel: 1}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  a:
    uses: recipe
    foreach: {in: [1, 2], as: i, max_parallel: 1}
    with:
      steps:
        x: {uses: fail, with: {message: first}}
        y: {uses: set, needs: [x], with: 1}
        z: {uses: set, with: 1}
        tidy: `+tt.tidy+`
  b: {uses: set, with: 1}
`)).Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, runtest.Broken}})
				if err == nil || err.Error() != `step "a[0]/x": first` || out.Failure().Step != "a[0]/x" {
					t.Errorf("got %v", err)
				}
				want := map[string]string{"a[0]/x": "failed", "a[0]/y": "upstream", "a[0]/tidy": "succeeded", "a[0]": "failed", "a": "failed", "b": "succeeded"}
				if tt.others != "" {
					want["a[0]/tidy"] = "failed"
				}
				got := ends(out)
				for path := range got { // of what is inside
					if strings.HasPrefix(path, "a[0]/tidy/") || strings.HasPrefix(path, "a[0]/tidy[") {
						delete(got, path)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("ends (-want +got):\n%s", diff)
				}
				others := ""
				for _, d := range out.Diagnostics {
					others += d.Step
				}
				if others != tt.others {
					t.Errorf("other failures %q, want %q", others, tt.others)
				}
			})
		})
	}
}
