package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// bodySource is the text of one body: a file, or steps written in place.
type bodySource struct {
	steps    []recipe.Step
	output   *recipe.Value
	defaults recipe.Defaults
	names    expr.Scope        // what its expressions may name, its own steps apart
	channels []machine.Channel // of the file
	recipe   *recipe.Recipe    // the file
	prefix   string            // of its steps' paths, for messages
}

// body is a compiled body.
type body struct {
	graph *machine.Graph
	steps []PlanStep // in plan order, ids relative to the file
	outer []outerRef // what its expressions read of the steps around it
	count int
}

// outerRef is a reference to a step that is up bodies outwards.
type outerRef struct {
	up, index int
}

// compiledStep is one step on its way to a node.
type compiledStep struct {
	src   *recipe.Step
	node  machine.Node
	edges map[int]bool // by index of the other step: true for data, false for order
	reads []expr.Ref   // of outputs of other steps, without ?.
	sub   []PlanStep
	count int
}

func (b *body) addOuter(refs []expr.Ref) {
	for _, r := range refs {
		if r.Kind == expr.RefStep && r.Step.Up > 0 {
			b.outer = append(b.outer, outerRef{r.Step.Up, r.Step.Index})
		}
	}
}

// source tells where the text of a scalar stands: that of a block on the lines after pos.
func source(text string, pos diagnostics.Position, offset, indent int) expr.Source {
	if indent > 0 {
		pos.Line, pos.Column, offset = pos.Line+1, indent+1, 0
	}
	return expr.Source{Text: text, Pos: pos, Offset: offset, Indent: indent}
}

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
		} else {
			s.errorf(n.Pos, diagnostics.CodeUnknownName, s.suggestStep(n.Text), "step %q needs %q, which is no step here", src.ID, n.Text)
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
		inner.Vars = []expr.Var{{Name: f.As.Text, Index: 0}, {Name: "index", Index: 1}}
	}
	if set := src.OnError.Set; set != nil {
		t, refs := s.template(set, &s.names)
		s.node.OnError.Set = t
		s.refer(refs)
	}
	s.node.OnError.Continue = src.OnError.Continue
	s.compileUse(src, &inner)
	s.compileRollback(src, &inner)
	if s.node.Accept == nil {
		s.node.Accept = s.accept(src)
	}
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
	case src.Uses.Text == "recipe":
		s.compileBody(src.Body, inner)
	case src.Uses.Text == "agent":
		s.compileAgent(src, inner)
	case src.Uses.Text == "model":
		s.with(src.With, inner)
		s.compileCall(src, ModelCall, s.modelName(src))
	case !strings.Contains(src.Uses.Text, "."): // reported when the recipe was read
		names := *inner
		names.Secrets = true
		s.with(src.With, &names)
	default:
		names := *inner
		names.Secrets = true
		s.with(src.With, &names)
		s.need(useTool, src.Uses.Text, src.Uses.Pos, s.path()).called = true
		s.compileCall(src, ToolCall, src.Uses.Text)
		if key := src.IdempotencyKey; key != nil {
			t, refs := s.template(key, inner)
			s.calls[len(s.calls)-1].Key = t
			s.refer(refs)
		}
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

// arguments makes the node's input of parts that are not written as one value.
func (s *stepCompiler) arguments(kind WaitKind, parts map[string]*expr.Template) {
	keys := slices.Sorted(maps.Keys(parts))
	items := make([]*expr.Template, len(keys))
	for i, key := range keys {
		items[i] = parts[key]
	}
	s.node.Kind, s.node.Adapter = machine.Wait, kind
	s.node.With = expr.Map(keys, items)
	s.node.Bound()
}

// part compiles a value, if it is given, as one of several parts.
func (s *stepCompiler) part(parts map[string]*expr.Template, key string, v *recipe.Value, names *expr.Scope) {
	if v != nil {
		t, refs := s.template(v, names)
		parts[key] = t
		s.refer(refs)
	}
}

func (s *stepCompiler) compileHuman(h *recipe.Human, names *expr.Scope) {
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
		parts["event"] = expr.Literal(w.Event.Text)
	}
	if w.Timeout > 0 {
		parts["timeout"] = expr.Literal(w.Timeout.String())
	}
	s.arguments(WaitTime, parts)
}

// modelName returns the model that a model step names; "" when an expression will say.
func (s *stepCompiler) modelName(src *recipe.Step) string {
	name, pos := s.defaults.Model, src.Uses.Pos
	if f := src.With.Field("model"); f != nil {
		v := f.Value
		text, ok := v.Literal().(string)
		if !ok || v.HasExpression() {
			return ""
		}
		name, pos = text, v.Pos
	}
	if name == "" {
		s.errorf(pos, diagnostics.CodeMissingKey, "give model in with, or defaults.model for all steps", "step %q names no model", src.ID)
		return ""
	}
	s.need(useModel, name, pos, s.path())
	return name
}

func (s *stepCompiler) compileCall(src *recipe.Step, kind CallKind, name string) {
	call := &Call{Kind: kind, Name: name, Step: s.path(), Pos: src.Uses.Pos, With: src.With}
	call.Retry = layersOf(src.Retry, s.defaults.Retry[string(kind)])
	if name != "" {
		call.Event = CallData(kind, name)
	}
	if s.node.With != nil {
		call.Secrets = s.node.With.HasSecrets()
	}
	if o := src.Output; o != nil {
		call.MaxBytes = o.MaxBytes
		if o.SchemaJSON != nil {
			call.AnswerJSON, _ = value.JSON(o.SchemaJSON)
			call.Answer = s.schema(o)
		}
	}
	if s.node.Timeout == 0 {
		s.node.Timeout = s.defaults.Timeout
	}
	s.node.Kind, s.node.Adapter = machine.Call, call
	s.calls = append(s.calls, call)
}

// compileRollback lowers how the step is undone. What that reads has ended by then: it draws no edges.
func (s *stepCompiler) compileRollback(src *recipe.Step, inner *expr.Scope) {
	r := src.Rollback
	if r == nil || r.Uses.Text == "" {
		return // the latter was reported when the recipe was read
	}
	c := &Call{Kind: ToolCall, Name: r.Uses.Text, Step: s.path(), Pos: r.Uses.Pos, With: r.With, Event: CallData(ToolCall, r.Uses.Text)}
	c.Retry = layersOf(src.Retry, s.defaults.Retry[string(ToolCall)])
	s.node.Rollback = &machine.Rollback{Timeout: cmp.Or(src.Timeout, s.defaults.Timeout, rollbackTime), Adapter: c}
	if r.With != nil {
		names := *inner
		names.Secrets = true
		t, refs := s.template(r.With, &names)
		s.node.Rollback.With, c.Secrets = t, t.HasSecrets()
		for _, ref := range refs {
			if ref.Kind == expr.RefSecret {
				s.need(useSecret, ref.Name, ref.Pos, s.path())
			}
		}
	}
	s.need(useTool, r.Uses.Text, r.Uses.Pos, s.path()).called = true
	s.calls = append(s.calls, c)
}

func (s *stepCompiler) schema(o *recipe.Output) *schema.Schema {
	compiled, err := schema.CompileValue(o.SchemaJSON)
	if err != nil && !s.broken {
		s.errorf(o.Pos, diagnostics.CodeBadSchema, "", "output.schema of step %q: %v", s.src.ID, err)
	}
	return compiled
}

// accept makes the check of a step's output; nil when nothing is asked.
func (s *stepCompiler) accept(src *recipe.Step) func(any) error {
	o := src.Output
	if o == nil || s.node.Kind == machine.Call {
		return nil
	}
	var want *schema.Schema
	if o.SchemaJSON != nil {
		if want = s.schema(o); want == nil {
			return nil
		}
	}
	return func(v any) error { return CheckOutput(v, want, o.MaxBytes, o.Pos) }
}

// CheckOutput reports an output that does not match its schema or is too large. want may be nil
// and maxBytes 0: then that check is left out.
func CheckOutput(v any, want *schema.Schema, maxBytes int, where diagnostics.Position) error {
	if maxBytes > 0 {
		text, err := value.JSON(v)
		if err != nil {
			return fmt.Errorf("%s: the output is not JSON: %w", where, err)
		}
		if len(text) > maxBytes {
			return fmt.Errorf("%s: the output has %d bytes, output.max_bytes is %d", where, len(text), maxBytes)
		}
	}
	if want != nil {
		if problems := want.Check(v); problems != nil {
			return fmt.Errorf("%s: the output does not match output.schema: %s", where, schema.Describe(problems))
		}
	}
	return nil
}

// compileBody lowers a step that owns a body.
func (s *stepCompiler) compileBody(src *recipe.Body, inner *expr.Scope) {
	s.node.Kind = machine.Sub
	body := s.bodyOf(src, inner, "")
	s.node.Body = &body
}

// bodyOf compiles a body of the step. label is what its steps' paths have between the step's and
// their own.
func (s *stepCompiler) bodyOf(src *recipe.Body, inner *expr.Scope, label string) machine.Body {
	switch {
	case src == nil: // reported when the recipe was read
	case src.Ref.Text != "" && src.Recipe == nil:
		if !s.broken {
			s.errorf(src.Ref.Pos, diagnostics.CodeFile, "read the recipe with recipe.Load", "sub-recipe %q was not loaded", src.Ref.Text)
		}
	case src.Ref.Text != "":
		return s.fileBody(src, inner, label)
	default:
		names := expr.Scope{Inputs: s.names.Inputs, Consts: s.names.Consts, Outer: inner}
		b := s.compiler.body(bodySource{
			steps: src.Steps, output: src.Output, defaults: s.defaults, names: names, channels: s.channels, recipe: s.recipe, prefix: s.path() + label + "/",
		})
		b.graph.Consts = s.names.Consts
		s.sub, s.count = append(s.sub, b.steps...), s.count+b.count
		for _, r := range b.outer {
			if r.up == 1 {
				s.edge(r.index, true)
			} else {
				s.body.outer = append(s.body.outer, outerRef{r.up - 1, r.index})
			}
		}
		return machine.Body{Graph: b.graph}
	}
	return machine.Body{Graph: &machine.Graph{}}
}

// fileBody is bodyOf for a file, which sees its inputs only.
func (s *stepCompiler) fileBody(src *recipe.Body, inner *expr.Scope, label string) machine.Body {
	sub := s.file(src.Recipe)
	s.count += sub.count
	if !s.full && s.body.count+s.count <= MaxSteps { // else the recipe is refused
		s.sub = append(s.sub, Prefixed(sub.steps, s.path()+label+"/")...)
	}
	where := src.Ref.Pos
	given := expr.Literal(nil)
	if src.Inputs != nil {
		where = src.Inputs.Pos
		var refs []expr.Ref
		given, refs = s.template(src.Inputs, inner)
		s.refer(refs)
	}
	if len(s.list) < maxFindings {
		s.list = append(s.list, sub.inputs.checkWritten(src.Inputs, src.Ref, &s.suggest)...)
	}
	return machine.Body{Graph: sub.graph, Given: given, Inputs: func(given any) (map[string]any, error) {
		inputs, ok := given.(map[string]any)
		if !ok && given != nil {
			return nil, fmt.Errorf("%s: inputs of sub-recipe %q must be a map, not %s", where, src.Ref.Text, value.TypeName(given))
		}
		checked, err := sub.inputs.Check(inputs)
		if err != nil {
			return nil, fmt.Errorf("%s: sub-recipe %q: %w", where, src.Ref.Text, err)
		}
		return checked, nil
	}}
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

// skip says how a step may be skipped.
type skip struct {
	byCondition bool // its when is false
	upstream    bool // what it needs was skipped, so that its trigger cannot hold
}

// findSkips works out which steps may be skipped in a run that goes well.
func findSkips(g *machine.Graph, steps []compiledStep) []skip {
	skips := make([]skip, len(steps))
	for _, i := range g.Order {
		s := &steps[i]
		skips[i].byCondition = s.src.When.Text != ""
		needed, skippable := 0, 0
		for from := range s.edges {
			needed++
			if from := skips[from]; from.upstream || from.byCondition && s.node.Trigger != machine.NoneFailed {
				skippable++
			}
		}
		switch s.node.Trigger {
		case machine.AllSuccess, machine.NoneFailed:
			skips[i].upstream = skippable > 0
		case machine.AnySuccess:
			skips[i].upstream = needed > 0 && skippable == needed
		}
	}
	return skips
}

// sortedEdges returns the steps that s waits for, in declaration order.
func (s *compiledStep) sortedEdges() []int {
	list := make([]int, 0, len(s.edges))
	for i := range s.edges {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}
