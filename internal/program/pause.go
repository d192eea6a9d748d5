package program

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/recipe"
)

// WaitKind is what a step waits for.
type WaitKind string

// What steps wait for.
const (
	waitHuman WaitKind = "human" // a person
	WaitTime  WaitKind = "wait"  // a time, or an event from outside
)

func (s *stepCompiler) compileHuman(h *recipe.Human, names *expr.Scope) {
	earliest(&s.waits.Answer, s.src.Uses.Pos, s.path())
	parts := map[string]*expr.Template{}
	s.part(parts, "prompt", h.Prompt, names)
	s.part(parts, "show", h.Show, names)
	if len(h.Decisions) > 0 {
		list := make([]any, len(h.Decisions))
		for i, d := range h.Decisions {
			list[i] = d.Text
		}
		parts["decisions"] = expr.Literal(list)
	}
	if h.FormJSON != nil {
		parts["form"] = expr.Literal(h.FormJSON)
	}
	if h.Expires > 0 {
		parts["expires"] = expr.Literal(h.Expires.String())
	}
	switch {
	case h.OnExpire.Reject:
		parts["on_expire"] = expr.Literal("reject")
	case h.OnExpire.Set != nil:
		set := map[string]*expr.Template{}
		s.part(set, "set", h.OnExpire.Set, names)
		parts["on_expire"] = expr.Map([]string{"set"}, []*expr.Template{set["set"]})
	}
	s.arguments(waitHuman, parts)
}

func (s *stepCompiler) compileWait(w *recipe.Wait, names *expr.Scope) {
	parts := map[string]*expr.Template{}
	s.part(parts, "duration", w.Duration, names)
	s.part(parts, "at", w.At, names)
	if w.Event.Text != "" {
		earliest(&s.waits.Answer, s.src.Uses.Pos, s.path())
		parts["event"] = expr.Literal(w.Event.Text)
	}
	if w.Timeout > 0 {
		parts["timeout"] = expr.Literal(w.Timeout.String())
	}
	s.arguments(WaitTime, parts)
}
