package program

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// compileApprove lowers what a person is asked before the step begins. What it would get is shown, unless the recipe
// says what is.
func (s *stepCompiler) compileApprove(src *recipe.Step, inner *expr.Scope) {
	a := src.Approve
	if a == nil {
		return
	}
	earliest(&s.waits.Answer, a.Pos, s.path())
	prompt := expr.Literal("Run step " + src.ID + "?")
	parts := map[string]*expr.Template{"prompt": prompt}
	s.part(parts, "prompt", a.Prompt, inner)
	switch s.part(parts, "show", a.Show, inner); {
	case a.Show != nil:
	case s.node.With != nil:
		parts["show"] = s.node.With
	case s.node.Body != nil && s.node.Body.Given != nil:
		parts["show"] = s.node.Body.Given
	case s.node.Loop != nil && s.node.Loop.Given != nil:
		parts["show"] = s.node.Loop.Given
	}
	words := []any{"approve", "reject"}
	if a.Decisions != nil {
		words = nil
	}
	for _, d := range a.Decisions {
		words = append(words, d.Text)
	}
	parts["decisions"] = expr.Literal(words)
	yes, _ := words[0].(string)
	s.node.Approve = &machine.Approve{When: s.condition(a.When, inner), Ask: mapOf(parts), Yes: yes}
}
