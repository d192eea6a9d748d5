package program

import (
	"cmp"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
)

// Retry is what a step and its recipe say about calling again.
type Retry struct {
	retry.Layers               // Step and Recipe only
	When         *expr.Program // in the environment that [machine.Task.Failing] returns; nil: always
}

// retryOf lowers the retry settings of a step and its recipe; nil for none. names are those of the step's when.
func (s *stepCompiler) retryOf(defaults *recipe.Retry, names *expr.Scope) *Retry {
	own := s.src.Retry
	if own == nil && defaults == nil {
		return nil
	}
	r := &Retry{Layers: retry.Layers{Step: policyOf(own), Recipe: policyOf(defaults)}}
	switch {
	case own != nil && own.When.Text != "":
		r.When = s.condition(own.When, withError(names, s.compiler))
	case defaults != nil:
		r.When = s.whens[defaults]
	}
	return r
}

// defaultWhens compiles the conditions of defaults.retry, which know nothing of steps.
func (c *compiler) defaultWhens(r *recipe.Recipe, names expr.Scope) {
	for _, kind := range []CallKind{ModelCall, ToolCall, RetrieverCall, MemoryCall} {
		if d := r.Defaults.Retry[string(kind)]; d != nil && d.When.Text != "" {
			p, list := withError(&names, c).Condition(source(d.When.Text, d.When.Pos, d.When.Offset, d.When.Indent))
			c.list = append(c.list, list...)
			if c.whens[d] = p; p != nil {
				c.noteReads(p.Refs())
			}
		}
	}
}

// knownElsewhere are hints for names that only some conditions know.
var knownElsewhere = map[string]string{errorVar: "when of retry knows it; elsewhere it is steps.ID.error",
	outputVar: "check of output knows it; elsewhere it is steps.ID.output"}

// errorVar is the name by which conditions over a failure read it.
const errorVar = "error"

// withError adds the variable error to names.
func withError(names *expr.Scope, c *compiler) *expr.Scope {
	return withVar(names, expr.Var{Name: errorVar, Index: machine.VarError, Noted: true, Type: c.typeOf(closed(shape{
		"category": textShape(), "code": textShape(), "message": textShape(), "reason": textShape(),
		"status": shape{"type": []any{"integer", "null"}}, "step": textShape()}))})
}

// withVar adds a variable to names, unless the recipe has given its name to an item.
func withVar(names *expr.Scope, v expr.Var) *expr.Scope {
	for around := names; around != nil; around = around.Outer {
		if slices.ContainsFunc(around.Vars, func(other expr.Var) bool { return other.Name == v.Name }) {
			return names
		}
	}
	more := *names
	more.Vars = append(slices.Clip(names.Vars), v)
	return &more
}

func policyOf(r *recipe.Retry) (p retry.Policy) {
	if r == nil {
		return p
	}
	length := func(d *time.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return cmp.Or(*d, retry.None)
	}
	p = retry.Policy{
		MaxAttempts: r.MaxAttempts, Backoff: length(r.Backoff), MaxBackoff: length(r.MaxBackoff),
		Jitter: retry.Jitter(r.Jitter), Mode: retry.Mode(r.Mode), Timeout: length(r.Timeout),
	}
	if r.RetryOn != nil {
		p.RetryOn = make([]retry.Reason, len(r.RetryOn))
		for i, reason := range r.RetryOn {
			p.RetryOn[i] = retry.Reason(reason)
		}
	}
	return p
}
