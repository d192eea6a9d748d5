package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
)

// trust 4.3: text in braces that begins with a name in scope.
func TestSuspects(t *testing.T) {
	scope := expr.Scope{
		Inputs: map[string]any{"n": true},
		Vars:   []expr.Var{{Name: "item"}},
		Steps:  map[string]expr.StepRef{"a": {}},
		Outer:  &expr.Scope{Vars: []expr.Var{{Name: "round"}}},
	}
	warning := func(column, found, meant string) string {
		return "f:1:" + column + `: warning: "` + found + `" is plain text here [expr.suspicious]` + "\n" +
			`  hint: did you mean "${{ ` + meant + ` }}"?`
	}
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"{{ inputs.n }}", []string{warning("1", "{{ inputs.n }}", "inputs.n")}},
		{"ü ${ inputs.n } and ${{ inputs.n }}, {{item.x|upper}}", []string{
			warning("3", "${ inputs.n }", "inputs.n"), warning("38", "{{item.x|upper}}", "item.x|upper")}},
		{"${{ inputs.n }}{{- steps.a.output -}}", []string{warning("16", "{{- steps.a.output -}}", "steps.a.output")}},
		{"{{ round }} ${item}", []string{warning("1", "{{ round }}", "round"), warning("13", "${item}", "item")}},
		{"${consts.x} {{run.id}} {{secrets.K}} {{ inputs['n'] }}", []string{
			warning("1", "${consts.x}", "consts.x"), warning("13", "{{run.id}}", "run.id"),
			warning("24", "{{secrets.K}}", "secrets.K"), warning("38", "{{ inputs['n'] }}", "inputs['n']")}},
		{"{{ name }} ${HOME} {{inputs}} ${run} {inputs.n} {{ n }} $item {\"item\": {}} {{ itemised }} $${{ inputs.n }}", nil},
		{strings.Repeat("{{ item }}", 40), tenOf(func(i int) string {
			return strings.Replace(warning("1", "{{ item }}", "item"), "f:1:1:", fmt.Sprintf("f:1:%d:", 1+10*i), 1)
		})},
	} {
		template, list := scope.Text(expr.Source{Text: tt.text, Pos: diagnostics.Position{File: "f", Line: 1, Column: 1}})
		var got []string
		for _, d := range list {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || template == nil {
			t.Errorf("%s (-want +got)\n%s", tt.text, diff)
		}
	}
	scope.Braces = true
	if _, list := scope.Text(expr.Source{Text: "{{ inputs.n }}"}); list != nil {
		t.Errorf("found %v where braces mean something", list)
	}
}

func tenOf(line func(i int) string) (lines []string) {
	for i := range 10 {
		lines = append(lines, line(i))
	}
	return lines
}
