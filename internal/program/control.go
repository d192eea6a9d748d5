package program

import (
	"fmt"
	"slices"

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
		{Name: "last", Index: machine.VarLast, Type: s.typeOf(last)},
		{Name: "history", Index: machine.VarHistory, Type: s.typeOf(listOf(last))},
	}, more)
	return &out
}

func (s *stepCompiler) compileLoop(src *recipe.Loop, inner *expr.Scope) {
	names := s.withLoop(inner, src)
	s.node.Kind = machine.Again
	s.node.Loop = &machine.Loop{
		Body: s.bodyOf(src.Body, names, ""), Max: src.MaxIterations, Continue: src.Continue, FailAt: src.FailAtLimit,
		Until: s.condition(src.Until, s.withLoop(inner, src, expr.Var{Name: "elapsed", Index: machine.VarElapsed},
			expr.Var{Name: "cost", Index: machine.VarCost})),
	}
	if src.Next != nil {
		t, refs := s.template(src.Next, names)
		s.node.Loop.Next = t
		s.refer(refs)
	}
}

func (s *stepCompiler) compileFork(src *recipe.Fork, inner *expr.Scope) {
	modes := map[string]machine.ForkMode{"race": machine.Race, "settle": machine.Settle}
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
		s.refer(p.Refs())
	}
	return p
}
