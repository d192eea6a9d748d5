package program

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// Replies says how long a person talks with an agent.
type Replies struct {
	Max   int
	until *expr.Program // reads the reply, too; nil: only Max ends the talk
}

func (s *stepCompiler) compileReplies(set *AgentSet, src *recipe.Replies, inner *expr.Scope) {
	if src == nil {
		return
	}
	earliest(&s.waits.Answer, src.Pos, s.path())
	set.Replies = &Replies{Max: src.Max, until: s.condition(src.Until,
		withVar(inner, expr.Var{Name: "reply", Index: machine.VarReply, Type: s.typeOf(textShape())}))}
}

// Until reports whether a reply to the agent of a task ends the talk.
func (r *Replies) Until(t *machine.Task, reply string) (bool, error) {
	if r.until == nil {
		return false, nil
	}
	return r.until.Bool(t.Replied(reply))
}
