package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
)

// trust 4.3 and trust 8.7: text in double braces, in braces of a shell that begins with a name in scope, and a scalar that is
// an expression.
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
		{"${HOME} ${run} {inputs.n} {n} ${n} $item {\"item\": {}} $${{ inputs.n }} {{ the name of x }} {{.Names}} {{/a}}", nil},
		{"{{ n | upper() }} {{ a.text }} {{ name }}", []string{warning("1", "{{ n | upper() }}", "inputs.n | upper()"),
			warning("19", "{{ a.text }}", "steps.a.output.text"),
			`f:1:32: warning: "{{ name }}" is plain text here [expr.suspicious]` + "\n  hint: write an expression as ${{ … }}"}},
		{" steps.a.output\n", []string{warning("2", "steps.a.output", "steps.a.output")}},
		{"steps.unknown.output.x + 1", []string{warning("1", "steps.unknown.output.x + 1", "steps.unknown.output.x + 1")}},
		{"inputs.n > 3 ? 'a' : 'b'", []string{warning("1", "inputs.n > 3 ? 'a' : 'b'", "inputs.n > 3 ? 'a' : 'b'")}},
		{"inputs?.n", []string{warning("1", "inputs?.n", "inputs?.n")}},
		{"inputs.n is a number", nil},
		{"inputs.csv", nil},
		{"steps.md", nil},
		{"steps to take", nil},
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
	for _, text := range []string{"{{ inputs.n }}", "inputs.n"} {
		if _, list := scope.Text(expr.Source{Text: text}); list != nil {
			t.Errorf("%s: found %v where braces mean something", text, list)
		}
	}
}

func tenOf(line func(i int) string) (lines []string) {
	for i := range 10 {
		lines = append(lines, line(i))
	}
	return lines
}

// trust 8.7: {NAME} of an input in texts for readers.
func TestSuspectsInProse(t *testing.T) {
	for _, tt := range []struct {
		text, found, meant string
	}{
		{"Answer {question}!", "{question}", "inputs.question"},
		{"Answer ${question}", "${question}", "inputs.question"},
		{"Answer {answer}, {question.x} and {\"question\": 1}, { question }", "", ""},
	} {
		for _, prose := range []bool{true, false} {
			scope := expr.Scope{Inputs: map[string]any{"question": true}, Prose: prose}
			want := diagnostics.List(nil)
			if tt.found != "" && prose {
				want = diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeExprText,
					Message: fmt.Sprintf("%q is plain text here", tt.found), Hint: fmt.Sprintf("did you mean \"${{ %s }}\"?", tt.meant)}}
			}
			if _, got := scope.Text(expr.Source{Text: tt.text, Offset: -1}); !cmp.Equal(want, got) {
				t.Errorf("%s, prose %v (-want +got)\n%s", tt.text, prose, cmp.Diff(want, got))
			}
		}
	}
}
