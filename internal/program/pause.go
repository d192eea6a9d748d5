package program

import (
	"fmt"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// WaitKind is what a step waits for.
type WaitKind string

// What steps wait for.
const (
	waitHuman WaitKind = "human" // a person
	WaitTime  WaitKind = "wait"  // a time, or an event from outside
	WaitSaid  WaitKind = "say"   // nobody: what it says is recorded, and that ends it
)

func (s *stepCompiler) compileHuman(h *recipe.Human, names *expr.Scope) {
	earliest(&s.waits.Answer, s.src.Uses.Pos, s.path())
	parts := map[string]*expr.Template{}
	s.part(parts, "prompt", h.Prompt, names)
	s.part(parts, "show", h.Show, names)
	s.part(parts, "to", h.To, names)
	if h.FourEyes {
		parts["four_eyes"] = expr.Literal(true)
	}
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
	if h.AnswerJSON != nil {
		parts["answer"] = expr.Literal(h.AnswerJSON)
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

// PeopleOf reads the names that to or approval_to gave.
func PeopleOf(key string, v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a list of names, not %s", key, value.TypeName(v))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is empty, so nobody could answer", key)
	}
	names := make([]string, len(list))
	for i, e := range list {
		if names[i], ok = e.(string); !ok || names[i] == "" {
			return nil, fmt.Errorf("%s holds %s, not a name", key, value.TypeName(e))
		}
	}
	return names, nil
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
