package program_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// repeated writes a recipe: the start, lines made of numbers until there are so many bytes, the end.
func repeated(size int, start, line, end string) string {
	var b strings.Builder
	b.WriteString(runtest.Head + start)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, line, i)
	}
	b.WriteString(end)
	return b.String()
}

// Large recipes are refused, however their diagnostics multiply: without the limit that each of these
// meets it would run for minutes, or until memory is used up.
func TestHostileRecipesAreRefused(t *testing.T) {
	const most = 400_000
	many := repeated(most, "steps:\n", "  s%d: {uses: recipe, with: {ref: sub.yaml}}\n", "")
	for _, tt := range []struct {
		name, text, sub string
		want            diagnostics.Code // of the first diagnostic
		hint            bool
	}{
		{"a need of each step", repeated(most, "steps:\n", "  s%d: {uses: set, with: 1, needs: [x%[1]d]}\n", ""), "", "recipe.unknownName", true},
		{"needs of one step", repeated(most, repeated(most/2, "steps:\n", "  s%d: {uses: set, with: 1}\n", "")[len(runtest.Head):]+"  z: {uses: set, with: 1, needs: [s0", ",x%d", "]}\n"), "", "recipe.unknownName", true},
		{"references", repeated(most, "steps:\n", "  s%d: {uses: set, with: '${{steps.x%[1]d.output}}'}\n", ""), "", "expr.unknownName", false},
		{"one cycle", repeated(most, "steps:\n  s0: {uses: set, with: 1, needs: [a]}\n", "  s1%d: {uses: set, with: 1, needs: [s0]}\n", "  a: {uses: set, with: 1, needs: [s10]}\n"), "", "recipe.cycle", true},
		{"many cycles", repeated(most, "steps:\n", "  a%d: {uses: set, with: 1, needs: [b%[1]d]}\n  b%[1]d: {uses: set, with: 1, needs: [a%[1]d]}\n", ""), "", "recipe.cycle", true},
		{"unknown inputs", repeated(most, "steps:\n  a:\n    uses: recipe\n    with:\n      ref: sub.yaml\n      inputs:\n", "        j%d: 1\n", ""),
			repeated(most, "inputs:\n", "  i%d: {type: string, default: x}\n", "steps:\n  s: {uses: set, with: 1}\n"), "input.invalid", true},
		{"missing inputs everywhere", many, repeated(most, "inputs:\n", "  i%d: string\n", "steps:\n  s: {uses: set, with: 1}\n"), "input.invalid", false},
		{"constants repeated", repeated(most, repeated(most/2, "consts:\n  k:\n", "    - %d\n", "steps:\n  a:\n    uses: set\n    with:\n")[len(runtest.Head):], "      - ${{ consts.k }} # %d\n", ""), "", "yaml.tooLarge", false},
		{"constant texts", repeated(most, "consts: {k: "+strings.Repeat("x", most/2)+"}\nsteps:\n  a:\n    uses: set\n    with:\n", "      - ${{ consts.k }}${{ consts.k }} # %d\n", ""), "", "yaml.tooLarge", false},
		{"steps multiplied", many, repeated(most, "steps:\n", "  s%d: {uses: set, with: 1}\n", ""), "yaml.tooLarge", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": tt.text, "sub.yaml": tt.sub}, nil)
			if len(list) == 0 || list[0].Code != tt.want || (list[0].Hint != "") != tt.hint {
				t.Errorf("%d diagnostics, first %+v", len(list), list[:min(1, len(list))])
			}
		})
	}
}

// A run has limits that its recipe cannot pass, whatever it makes of few bytes.
func TestHostileRunsEnd(t *testing.T) {
	many := func(n int, text string) string { return strings.Repeat(text+", ", n) }
	for _, tt := range []struct {
		name, text string
		code       string
		step       string
	}{
		{"texts in a list", "steps:\n  a: {uses: set, with: [" + many(2_000, `"x${{ inputs.s }}"`) + "1]}\n", "expr.failed", "a"},
		{"lists that are built", "steps:\n  a: {uses: set, with: [" + many(2_000, `"${{ map(1..100000, # + 0.5) }}"`) + "1]}\n", "expr.failed", "a"},
		{"much to compute", "steps:\n  a: {uses: set, with: [" + many(1_000, `"${{ reduce(1..900000, #acc + #, 0) }}"`) + "1]}\n", "expr.failed", "a"},
		{"an output", "steps:\n  a: {uses: set, with: [" + many(5_000, `"${{ inputs.s }}"`) + "1]}\n", "output.tooLarge", "a"},
		{"an output to be checked", "steps:\n  a: {uses: set, output: {schema: {items: {pattern: y}}, max_bytes: 2000000000}, with: [" + many(5_000, `"${{ inputs.s }}"`) + "1]}\n", "output.tooLarge", "a"},
		{"arguments", "steps:\n  a: {uses: test.json, with: {x: [" + many(5_000, `"${{ inputs.s }}"`) + "1]}}\n", "output.tooLarge", "a"},
		{"arguments with a secret", "steps:\n  a: {uses: test.json, with: {x: [\"${{ secrets.TOKEN }}\", " + many(5_000, `"${{ inputs.s }}"`) + "1]}}\n", "output.tooLarge", "a"},
		{"messages", "steps:\n  a: {uses: fail, foreach: {in: \"${{ 1..100 }}\", on_error: collect}, with: {message: \"${{ inputs.s }}\"}}\n", "outputs.tooLarge", "a"},
		{"items", "steps:\n  a: {uses: recipe, foreach: {in: \"${{ 1..100 }}\", as: i}, with: {steps: {b: {uses: set, foreach: {in: [\"${{ inputs.s }}\"], as: j}, with: 1}}}}\n", "outputs.tooLarge", "a[20]/b"},
		{"inputs of files", "steps:\n  a: {uses: recipe, foreach: {in: \"${{ 1..100 }}\"}, with: {ref: sub.yaml, inputs: {s: \"${{ inputs.s }}\"}}}\n", "outputs.tooLarge", "a[19]"},
		{"steps", "steps:\n  a: {uses: recipe, foreach: {in: \"${{ 1..100 }}\", as: i}, with: {steps: {b: {uses: recipe, foreach: {in: \"${{ 1..100 }}\", as: j}, with: {steps: {c: {uses: set, foreach: {in: \"${{ 1..100 }}\", as: k}, with: 1}}}}}}}\n", "steps.tooMany", "a[0]/b[97]/c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf, list := runtest.CompileFiles(t, map[string]string{
				"recipe.yaml": runtest.Head + "inputs: {s: string}\n" + tt.text,
				"sub.yaml":    runtest.Head + "inputs: {s: string}\nsteps:\n  s: {uses: set, with: 1}\n",
			}, nil)
			if wf == nil {
				t.Fatal(list)
			}
			counting := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.json"}}
			out, err := wf.Run(t.Context(), map[string]any{"s": strings.Repeat("x", 500_000)}, &runtime.Runtime{
				Tools: []runtime.Tool{counting}, Secrets: runtime.SecretMap{"TOKEN": "open sesame"},
				Limits: runtime.Limits{MaxParallel: 1, MaxSteps: 10_000, MaxOutputBytes: 5_000_000, MaxRunBytes: 10_010_000},
			})
			if e := out.Failure(); e == nil || e.Code != tt.code || e.Step != tt.step || len(err.Error()) > 1000 {
				t.Errorf("got %.1000v, %+v", err, out.Diagnostics)
			}
			if len(counting.Calls()) > 0 {
				t.Error("the tool was called")
			}
		})
	}
}

// Cancelling is noticed between two steps that compute, however long each takes.
func TestCancelBetweenStepsThatCompute(t *testing.T) {
	text := repeated(20_000, "steps:\n", "  s%d: {uses: set, with: \"${{ reduce(1..900000, #acc + #, 0) }}\"}\n", "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	out, _ := runtest.Load(t, []byte(text)).Run(ctx, nil, nil)
	if out.Status != workflow.StatusCancelled || len(out.Artefact) > 20 {
		t.Errorf("got %s after %d steps", out.Status, len(out.Artefact))
	}
}
