package workflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/diagnostics"
)

// repeated writes a recipe: the start, lines made of numbers until there are so many bytes, the end.
func repeated(size int, start, line, end string) string {
	var b strings.Builder
	b.WriteString(head + start)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, line, i)
	}
	b.WriteString(end)
	return b.String()
}

// A recipe of the largest size is refused soon, however its findings multiply.
func TestHostileRecipesAreRefusedSoon(t *testing.T) {
	const most = 400_000
	many := repeated(most, "steps:\n", "  s%d: {uses: recipe, with: {ref: sub.yaml}}\n", "")
	for _, tt := range []struct {
		name, text, sub string
		want            diagnostics.Code // of the first finding
		hint            bool
	}{
		{"a need of each step", repeated(most, "steps:\n", "  s%d: {uses: set, with: 1, needs: [x%[1]d]}\n", ""), "", "recipe.unknownName", true},
		{"needs of one step", repeated(most, repeated(most/2, "steps:\n", "  s%d: {uses: set, with: 1}\n", "")[len(head):]+"  z: {uses: set, with: 1, needs: [s0", ",x%d", "]}\n"), "", "recipe.unknownName", true},
		{"references", repeated(most, "steps:\n", "  s%d: {uses: set, with: '${{steps.x%[1]d.output}}'}\n", ""), "", "expr.unknownName", false},
		{"one cycle", repeated(most, "steps:\n  s0: {uses: set, with: 1, needs: [a]}\n", "  s1%d: {uses: set, with: 1, needs: [s0]}\n", "  a: {uses: set, with: 1, needs: [s10]}\n"), "", "recipe.cycle", true},
		{"many cycles", repeated(most, "steps:\n", "  a%d: {uses: set, with: 1, needs: [b%[1]d]}\n  b%[1]d: {uses: set, with: 1, needs: [a%[1]d]}\n", ""), "", "recipe.cycle", true},
		{"unknown inputs", repeated(most, "steps:\n  a:\n    uses: recipe\n    with:\n      ref: sub.yaml\n      inputs:\n", "        j%d: 1\n", ""),
			repeated(most, "inputs:\n", "  i%d: {type: string, default: x}\n", "steps:\n  s: {uses: set, with: 1}\n"), "input.invalid", true},
		{"missing inputs everywhere", many, repeated(most, "inputs:\n", "  i%d: string\n", "steps:\n  s: {uses: set, with: 1}\n"), "input.invalid", false},
		{"constants repeated", repeated(most, repeated(most/2, "consts:\n  k:\n", "    - %d\n", "steps:\n  a:\n    uses: set\n    with:\n")[len(head):], "      - ${{ consts.k }} # %d\n", ""), "", "yaml.tooLarge", false},
		{"constant texts", repeated(most, "consts: {k: "+strings.Repeat("x", most/2)+"}\nsteps:\n  a:\n    uses: set\n    with:\n", "      - ${{ consts.k }}${{ consts.k }} # %d\n", ""), "", "yaml.tooLarge", false},
		{"steps multiplied", many, repeated(most, "steps:\n", "  s%d: {uses: set, with: 1}\n", ""), "yaml.tooLarge", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			_, list := compileFiles(t, map[string]string{"recipe.yaml": tt.text, "sub.yaml": tt.sub}, nil)
			if took := time.Since(begin); took > 10*time.Second { // a second, on an idle machine and without -race
				t.Errorf("took %v", took)
			}
			if len(list) == 0 || list[0].Code != tt.want || (list[0].Hint != "") != tt.hint {
				t.Errorf("%d findings, first %+v", len(list), list[:min(1, len(list))])
			}
		})
	}
}
