package program

import (
	"encoding/json"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Limits limit a run, or a step with its body.
type Limits = recipe.Limits

// HasBudget reports whether l limits what models may use, or how often tools are called. l may be nil.
func HasBudget(l *recipe.Limits) bool {
	return l != nil && (l.Tokens > 0 || l.CostUSD > 0 || l.ToolCalls > 0)
}

// PausesInTime reports whether calls wait for an answer when the time of these limits is over. l may be nil.
func PausesInTime(l *recipe.Limits) bool { return l != nil && l.Pause && l.WallTime > 0 }

// Number returns a decoded JSON number; ok is false for anything else.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// limits takes over a step's limits.
func (s *stepCompiler) limits(l *recipe.Limits) {
	if l == nil {
		return
	}
	if l.WallTime > 0 && !l.Pause && (s.node.Timeout == 0 || l.WallTime < s.node.Timeout) {
		s.node.Timeout, s.node.WallTime = l.WallTime, true
	}
	if l.Pause {
		earliest(&s.waits.Answer, l.Pos, s.path())
	}
	if HasBudget(l) || PausesInTime(l) {
		s.node.Limits = l
		some := &s.stepLimits
		some.Any, some.Cost = true, some.Cost || l.CostUSD > 0
		some.Time, some.Tools = some.Time || PausesInTime(l), some.Tools || l.ToolCalls > 0
	}
}

// Parallel is the maximum number of concurrent calls: the lowest limit that recipe and host set, else the default.
func (p *Program) Parallel(host runtime.Limits) int {
	inRecipe := p.Recipe.Limits.MaxParallel
	if inRecipe > 0 && (host.MaxParallel == 0 || inRecipe < host.MaxParallel) {
		return inRecipe
	}
	return host.WithDefaults().MaxParallel
}
