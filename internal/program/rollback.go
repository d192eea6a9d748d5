package program

import (
	"cmp"
	"time"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// rollbackTime is how long a rollback may take where neither the step nor defaults gives a timeout.
const rollbackTime = time.Minute

// compileRollback lowers how the step is undone. What that reads has ended by then: it draws no edges.
func (s *stepCompiler) compileRollback(src *recipe.Step, inner *expr.Scope) {
	r := src.Rollback
	if r == nil || r.Uses.Text == "" {
		return // the latter was reported when the recipe was read
	}
	c := &Call{Kind: ToolCall, Name: r.Uses.Text, Step: s.path(), Pos: r.Uses.Pos, With: r.With,
		Event: CallData(ToolCall, r.Uses.Text)}
	c.Retry = s.retryOf(s.defaults.Retry[string(ToolCall)], inner)
	s.node.Rollback = &machine.Rollback{Timeout: cmp.Or(src.Timeout, s.defaults.Timeout, rollbackTime), Adapter: c}
	if r.With != nil {
		names := *inner
		names.Secrets = takesSecrets(r.Uses.Text)
		if src.Foreach != nil { // its own output is that of one item
			names.Outputs = map[string]expr.Type{src.ID: s.typeOf(s.outputOfOne(src))}
		}
		s.own = ownRulesOf(r.Uses, r.With)
		s.warnNoShell(s.own.argv)
		t, refs := s.template(r.With, &names)
		s.node.Rollback.With, c.Secrets = t, t.HasSecrets()
		for _, ref := range refs {
			if ref.Kind == expr.RefSecret {
				s.need(useSecret, ref.Name, ref.Pos, s.path())
			}
		}
	}
	s.need(useTool, r.Uses.Text, r.Uses.Pos, s.path()).called = true
	s.addCall(c)
}
