package program

import (
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// withLoop adds the names that a loop defines.
func (s *stepCompiler) withLoop(names *expr.Scope, src *recipe.Loop, more ...expr.Var) *expr.Scope {
	out := *names
	last := s.outputOfBody(src.Body)
	out.Vars = slices.Concat(names.Vars, []expr.Var{
		{Name: "iteration", Index: machine.VarIteration},
		{Name: "last", Index: machine.VarLast, Type: s.typeOf(s.lastOf(src))},
		{Name: "history", Index: machine.VarHistory, Type: s.typeOf(listOf(last))},
	}, more)
	return &out
}

// lastOf describes the output of the last round; where the loop begins with a value of its own, nothing is known.
func (c *compiler) lastOf(src *recipe.Loop) shape {
	if src.First != nil {
		return nil
	}
	return c.outputOfBody(src.Body)
}

func (s *stepCompiler) compileLoop(src *recipe.Loop, inner *expr.Scope) {
	l := &machine.Loop{Max: src.MaxIterations, Continue: src.Continue, FailAt: src.FailAtLimit}
	s.node.Kind, s.node.Loop = machine.Again, l
	var more []expr.Var
	l.Over, l.OverAt = s.given(src.Over, inner)
	l.First, _ = s.given(src.First, inner)
	l.Most, l.MostAt = setting(s, src.MaxExpression, inner, machine.Rounds,
		"write a whole number, or an expression that gives one")
	if src.Over != nil {
		more = append(more, expr.Var{Name: src.As.Text, Index: machine.VarItem, Type: l.Over.Items()})
	}
	names := s.withLoop(inner, src, more...)
	l.Body = s.bodyOf(src.Body, names, "")
	more = append(more, expr.Var{Name: "elapsed", Index: machine.VarElapsed},
		expr.Var{Name: "cost", Index: machine.VarCost})
	until := s.withLoop(inner, src, more...)
	until.Hints = maps.Clone(until.Hints)
	if until.Hints == nil {
		until.Hints = map[string]string{}
	}
	for i := range src.Body.Steps {
		until.Hints["steps."+src.Body.Steps[i].ID] =
			"it is a step of the body: here last is what the round came to"
	}
	l.Until = s.condition(src.Until, until)
	l.Wait, l.WaitAt = setting(s, src.Wait, until, machine.WaitOf, "durations look like 500ms, 30s, 5m, 2h, 1d")
	if l.Wait != nil {
		l.Between = between()
	}
	if src.Next != nil {
		t, refs := s.template(src.Next, names)
		s.node.Loop.Next = t
		s.refer(refs)
	}
}

// between is the body of a wait between two rounds.
func between() *machine.Graph {
	names := expr.Scope{Inputs: map[string]any{machine.WaitInput: true}}
	d, _ := names.Text(expr.Source{Text: "${{ inputs." + machine.WaitInput + " }}"})
	return &machine.Graph{
		Succ: [][]int32{nil}, Preds: []int32{0}, Order: []int32{0}, Rank: []int32{0},
		Nodes: []machine.Node{{ID: recipe.WaitID, Kind: machine.Wait, Adapter: WaitTime,
			With: mapOf(map[string]*expr.Template{"duration": d})}},
	}
}

// setting is given for a value that read refuses where it is known before the run. What is no text was reported when
// the recipe was read.
func setting[T any](
	s *stepCompiler, v *recipe.Value, names *expr.Scope, read func(v any) (T, error), hint string,
) (*expr.Template, string) {
	found := len(s.list)
	t, at := s.given(v, names)
	if t == nil || !t.IsLiteral() || s.stored || s.list[found:].HasErrors() {
		return t, at
	}
	if _, isText := v.Scalar.(string); isText {
		if _, err := read(t.Literal()); err != nil {
			s.errorf(v.Pos, diagnostics.CodeInvalidValue, hint, "%v", err)
		}
	}
	return t, at
}

// given compiles a value of a loop, with its position; nil: it is not given.
func (s *stepCompiler) given(v *recipe.Value, names *expr.Scope) (*expr.Template, string) {
	if v == nil {
		return nil, ""
	}
	t, refs := s.template(v, names)
	s.refer(refs)
	return t, v.Pos.String()
}

func (s *stepCompiler) compileFork(src *recipe.Fork, inner *expr.Scope) {
	modes := map[string]machine.Mode{"race": machine.Race, "settle": machine.Settle}
	s.node.Kind = machine.Many
	s.node.Fork = &machine.Fork{Mode: modes[src.Mode], MaxParallel: src.MaxParallel}
	inner = s.withHints(inner, "branch")
	for i := range src.Branches {
		b := &src.Branches[i]
		s.node.Fork.Branches = append(s.node.Fork.Branches,
			machine.Branch{Name: b.Name, Body: s.bodyOf(b.Body, inner, "/"+b.Name)})
	}
}

func (s *stepCompiler) compileSwitch(src *recipe.Switch, inner *expr.Scope) {
	s.node.Kind = machine.Choice
	inner = s.withHints(inner, "case")
	for i := range src.Cases {
		c := &src.Cases[i]
		s.node.Cases = append(s.node.Cases, machine.Branch{Name: c.Name.Text, When: s.condition(c.When, inner),
			Body: s.bodyOf(c.Body, inner, "/"+c.Name.Text)})
	}
	if src.Default != nil {
		s.node.Cases = append(s.node.Cases, machine.Branch{Name: "default",
			Body: s.bodyOf(src.Default, inner, "/default")})
	}
}

// withHints adds hints for the steps of other branches or cases, which are not visible.
func (s *stepCompiler) withHints(names *expr.Scope, what string) *expr.Scope {
	out := *names
	out.Hints = map[string]string{}
	for name, b := range s.src.Bodies() {
		for i := range b.Steps {
			if id := "steps." + b.Steps[i].ID; out.Hints[id] == "" {
				out.Hints[id] = fmt.Sprintf("it is a step of %s %s: one %[1]s does not see the steps of another",
					what, name)
			}
		}
	}
	return &out
}

// condition compiles a bare condition; nil when none is given.
func (s *stepCompiler) condition(src recipe.Condition, names *expr.Scope) *expr.Program {
	if src.Text == "" {
		return nil
	}
	p, list := names.Condition(source(src.Text, src.Pos, src.Offset, src.Indent))
	s.list = append(s.list, list...)
	if p != nil {
		refs := p.Refs()
		s.noteReads(refs)
		s.refer(refs)
	}
	return p
}
