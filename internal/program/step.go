package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// stepCompiler compiles one step.
type stepCompiler struct {
	*compiler
	*bodySource
	*compiledStep
	body *body
}

func (s *stepCompiler) path() string { return s.prefix + s.src.ID }

func (s *stepCompiler) compile(src *recipe.Step) {
	s.src = src
	s.edges = map[int]bool{}
	s.node = machine.Node{ID: src.ID, Trigger: triggers[src.Trigger], Timeout: src.Timeout}
	for _, n := range src.Needs {
		if ref, ok := s.names.Steps[n.Text]; ok {
			s.edge(ref.Index, false)
			s.listed = append(s.listed, int32(ref.Index))
		} else {
			s.errorf(n.Pos, diagnostics.CodeUnknownName, s.suggestStep(n.Text),
				"step %q needs %q, which is not a step here", src.ID, n.Text)
		}
	}
	s.node.When = s.condition(src.When, &s.names)
	s.limits(src.Limits)
	inner := s.names // what the step itself, or each item, sees
	if f := src.Foreach; f != nil {
		in, refs := s.template(f.In, &s.names)
		s.refer(refs)
		s.node.Foreach = &machine.Foreach{In: in, MaxParallel: f.MaxParallel, MaxItems: f.MaxItems, Collect: f.Collect}
		if f.In != nil { // else reported when the recipe was read
			s.node.Foreach.Where = f.In.Pos.String()
		}
		inner.Vars = slices.Concat(s.names.Vars,
			[]expr.Var{{Name: f.As.Text, Index: 0, Type: in.Items()}, {Name: "index", Index: 1}})
	}
	if set := src.OnError.Set; set != nil {
		t, refs := s.template(set, &s.names)
		s.node.OnError.Set = t
		s.refer(refs)
	}
	s.node.OnError.Continue = src.OnError.Continue
	s.compileUse(src, &inner)
	s.compileMessages(src.ID)
	s.compileRollback(src, &inner)
	if s.node.Rules.Fits == nil {
		s.node.Rules.Fits = s.accept(src)
	}
	s.compileChecks(src, &inner)
}

var triggers = map[recipe.Trigger]machine.Trigger{
	recipe.NoneFailed: machine.NoneFailed, recipe.AllDone: machine.AllDone, recipe.AnySuccess: machine.AnySuccess,
}

func (s *stepCompiler) suggestStep(name string) string {
	return s.suggest.hint(name, func() []string {
		ids := make([]string, 0, len(s.steps))
		for i := range s.steps {
			ids = append(ids, s.steps[i].ID)
		}
		return ids
	})
}

// compileUse lowers what the step does.
func (s *stepCompiler) compileUse(src *recipe.Step, inner *expr.Scope) {
	switch {
	case src.Uses.Text == "set":
		s.node.Kind = machine.Set
		s.with(src.With, inner)
	case src.Uses.Text == "fail":
		s.node.Kind = machine.Fail
		s.with(src.With, inner)
	case src.Human != nil:
		s.compileHuman(src.Human, inner)
	case src.Wait != nil:
		s.compileWait(src.Wait, inner)
	case src.Loop != nil:
		s.compileLoop(src.Loop, inner)
	case src.Fork != nil:
		s.compileFork(src.Fork, inner)
	case src.Switch != nil:
		s.compileSwitch(src.Switch, inner)
	case src.Send != nil:
		s.compileSend(src.Send, inner)
	case src.Receive != nil:
		s.compileReceive(src.Receive, inner)
	case src.Retrieve != nil:
		s.compileRetrieve(src, inner)
	case src.Index != nil:
		s.compileIndex(src, inner)
	case src.Uses.Text == "say":
		s.node.Kind, s.node.Adapter = machine.Wait, WaitSaid
		s.with(src.With, inner)
	case src.Body != nil, src.Uses.Text == "recipe":
		s.compileBody(src.Body, inner)
	case src.Uses.Text == "agent":
		s.compileAgent(src, inner)
	case src.Uses.Text == "model":
		s.with(src.With, inner)
		s.compileCall(src, ModelCall, s.modelName(src), inner)
	case !strings.Contains(src.Uses.Text, "."): // reported when the recipe was read
		names := *inner
		names.Secrets = true
		s.with(src.With, &names)
	default:
		names := *inner
		names.Secrets = takesSecrets(src.Uses.Text)
		s.own = ownRulesOf(src.Uses, src.With)
		s.warnNoShell(s.own.argv)
		s.with(src.With, &names)
		s.need(useTool, src.Uses.Text, src.Uses.Pos, s.path()).called = true
		s.compileCall(src, ToolCall, src.Uses.Text, inner)
		s.compileKey(src, inner)
	}
}

// takesSecrets reports whether arguments of a tool may be secrets. What is kept between runs may not: it stands in the
// store as it is.
func takesSecrets(tool string) bool { return !runtime.IsState(tool) }

// compileKey lowers the recipe's part of the idempotency key of the call that was compiled last.
func (s *stepCompiler) compileKey(src *recipe.Step, inner *expr.Scope) {
	if key := src.IdempotencyKey; key != nil {
		t, refs := s.template(key, inner)
		s.calls[len(s.calls)-1].Key = t
		s.refer(refs)
	}
}

func (s *stepCompiler) with(v *recipe.Value, names *expr.Scope) {
	if v == nil {
		return
	}
	t, refs := s.template(v, names)
	s.node.With = t
	s.node.Bound()
	s.refer(refs)
}

// ownRules are the arguments of a call whose texts have rules of their own; nil: the call has none such.
type ownRules struct {
	argv *recipe.Value // of a program: braces in it are the program's
	url  *recipe.Value // of a request: what expressions put in is escaped
}

func ownRulesOf(tool recipe.Name, with *recipe.Value) (own ownRules) {
	if f := with.Field("argv"); f != nil && tool.Text == "exec.run" {
		own.argv = f.Value
	}
	if f := with.Field("url"); f != nil && tool.Text == "http.request" {
		own.url = f.Value
	}
	return own
}

// arguments makes the node's input of parts that are not written as one value.
func (s *stepCompiler) arguments(kind WaitKind, parts map[string]*expr.Template) {
	s.node.Kind, s.node.Adapter = machine.Wait, kind
	s.input(parts)
}

// input makes the node's input of parts.
func (s *stepCompiler) input(parts map[string]*expr.Template) {
	s.node.With = mapOf(parts)
	s.node.Bound()
}

// mapOf makes one template of parts.
func mapOf(parts map[string]*expr.Template) *expr.Template {
	keys := slices.Sorted(maps.Keys(parts))
	items := make([]*expr.Template, len(keys))
	for i, key := range keys {
		items[i] = parts[key]
	}
	return expr.Map(keys, items)
}

// part compiles a value, if it is given, as one of several parts.
func (s *stepCompiler) part(parts map[string]*expr.Template, key string, v *recipe.Value, names *expr.Scope) {
	if v != nil {
		t, refs := s.template(v, textNames(key, names))
		parts[key] = t
		s.refer(refs)
	}
}

// edge makes the step wait for another one; data says that it also reads it.
func (s *stepCompiler) edge(to int, data bool) { s.edges[to] = s.edges[to] || data }

// refer takes note of what the step's expressions refer to.
func (s *stepCompiler) refer(refs []expr.Ref) {
	s.body.addOuter(refs)
	for _, r := range refs {
		switch {
		case r.Kind == expr.RefSecret:
			s.need(useSecret, r.Name, r.Pos, s.path())
		case r.Kind == expr.RefStep && r.Step.Up == 0:
			s.edge(r.Step.Index, true)
			s.reads = append(s.reads, r)
		}
	}
}
