package program

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// bodySource is the text of one body: a file, or steps written in place.
type bodySource struct {
	steps    []recipe.Step
	output   *recipe.Value
	defaults recipe.Defaults
	names    expr.Scope        // what its expressions may name, without its own steps
	channels []machine.Channel // of the file
	recipe   *recipe.Recipe    // the file
	prefix   string            // of its steps' paths, for messages
}

// body is a compiled body.
type body struct {
	graph *machine.Graph
	steps []PlanStep // in plan order, ids relative to the file
	outer []expr.Ref // what its expressions read of the steps around it
	count int
}

// compiledStep is a step that is being compiled to a node.
type compiledStep struct {
	src    *recipe.Step
	node   machine.Node
	edges  map[int]bool // by index of the other step: true for data, false for order
	listed []int32      // the steps in needs
	reads  []expr.Ref   // of outputs of other steps, without ?.

	inside []expr.Ref // the same, in its bodies
	sub    []PlanStep
	count  int
}

func (b *body) addOuter(refs []expr.Ref) {
	for _, r := range refs {
		if r.Kind == expr.RefStep && r.Step.Up > 0 {
			b.outer = append(b.outer, r)
		}
	}
}

// source returns the position of the text of a scalar; that of a block is on the lines after pos.
func source(text string, pos diagnostics.Position, offset, indent int) expr.Source {
	if indent > 0 {
		pos.Line, pos.Column, offset = pos.Line+1, indent+1, 0
	}
	return expr.Source{Text: text, Pos: pos, Offset: offset, Indent: indent}
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
			s.errorf(src.Ref.Pos, diagnostics.CodeFile, "read the recipe with recipe.Load",
				"sub-recipe %q was not loaded", src.Ref.Text)
		}
	case src.Ref.Text != "":
		return s.fileBody(src, inner, label)
	default:
		names := expr.Scope{Inputs: s.names.Inputs, Consts: s.names.Consts, Stored: s.stored, Outer: inner}
		b := s.compiler.body(bodySource{
			steps: src.Steps, output: src.Output, defaults: s.defaults, names: names,
			channels: s.channels, recipe: s.recipe, prefix: s.path() + label + "/",
		})
		b.graph.Consts = s.names.Consts
		s.sub, s.count = append(s.sub, b.steps...), s.count+b.count
		for i := range b.outer { // as if the step itself read it
			b.outer[i].Step.Up--
		}
		own := len(s.reads)
		s.refer(b.outer)
		s.inside, s.reads = append(s.inside, s.reads[own:]...), s.reads[:own]
		return machine.Body{Graph: b.graph}
	}
	return machine.Body{Graph: &machine.Graph{}}
}

// fileBody is bodyOf for a file, which sees its inputs only.
func (s *stepCompiler) fileBody(src *recipe.Body, inner *expr.Scope, label string) machine.Body {
	sub := s.file(src.Recipe)
	s.in.files = append(s.in.files, sub)
	s.count += sub.count
	if !s.full && s.body.count+s.count <= MaxSteps { // else the recipe is refused
		s.sub = append(s.sub, Prefixed(sub.steps, s.path()+label+"/")...)
	}
	where, what := src.Ref.Pos, "sub-recipe"
	if src.Tool != nil {
		what = "tool"
	}
	given := expr.Literal(nil)
	if src.Inputs != nil {
		where = src.Inputs.Pos
		var refs []expr.Ref
		given, refs = s.template(src.Inputs, inner)
		s.refer(refs)
	}
	if len(s.list) < maxDiagnostics {
		s.list = append(s.list, sub.inputs.checkWritten(src.Inputs, what, src.Ref, &s.suggest)...)
	}
	check := func(given any) (map[string]any, error) {
		inputs, ok := given.(map[string]any)
		if !ok && given != nil {
			return nil, fmt.Errorf("%s: inputs of %s %q must be a map, not %s",
				where, what, src.Ref.Text, value.TypeName(given))
		}
		checked, err := sub.inputs.Check(inputs)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %q: %w", where, what, src.Ref.Text, err)
		}
		return checked, nil
	}
	return machine.Body{Graph: sub.graph, Given: given, Inputs: check, Around: sub.around()}
}

// sortedEdges returns the steps that s waits for, in order of declaration.
func (s *compiledStep) sortedEdges() []int {
	list := make([]int, 0, len(s.edges))
	for i := range s.edges {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// nameSteps makes the steps of a body known to its expressions.
func (c *compiler) nameSteps(src *bodySource) {
	src.names.Steps = make(map[string]expr.StepRef, len(src.steps))
	for i := range src.steps {
		src.names.Steps[src.steps[i].ID] = expr.StepRef{Index: i}
	}
	src.names.Outputs = c.outputs(src.steps)
}

func (c *compiler) body(src bodySource) body {
	c.nameSteps(&src)
	b := body{graph: &machine.Graph{}}
	steps := make([]compiledStep, len(src.steps))
	for i := range src.steps {
		s := &stepCompiler{compiler: c, bodySource: &src, compiledStep: &steps[i], body: &b}
		s.compile(&src.steps[i])
		b.count += 1 + steps[i].count
		c.full = c.full || b.count > MaxSteps
	}
	c.order(b.graph, steps)
	for _, n := range b.graph.Order {
		b.steps = append(b.steps, planStep(&steps[n], steps, src.prefix))
	}
	skips := findSkips(b.graph, steps)
	for i := range steps {
		reader := steps[i].node.Trigger
		if reader == machine.AnySuccess && len(steps[i].edges) == 1 {
			reader = machine.AllSuccess // any of one is all
		}
		c.warnNever(&steps[i], reader)
		c.warnSkipped(steps, skips, steps[i].reads, reader)
		if !skips[i].upstream { // else it may be skipped together with what its bodies read
			c.warnSkipped(steps, skips, steps[i].inside, reader)
		}
	}
	if src.output != nil {
		t, refs := c.template(src.output, &src.names)
		b.graph.Output = t
		b.addOuter(refs)
		c.warnSkipped(steps, skips, refs, machine.AllDone) // it is read however the steps end
	}
	return b
}

// template lowers a value as written. The references are those of all its expressions.
func (c *compiler) template(v *recipe.Value, names *expr.Scope) (*expr.Template, []expr.Ref) {
	t := c.lower(v, names)
	refs := t.Refs()
	c.noteReads(refs)
	return t, refs
}

// noteReads notes whether the calls of an agent are read and the error of a step that fails.
func (c *compiler) noteReads(refs []expr.Ref) {
	for i := range refs {
		if refs[i].Kind == expr.RefStep {
			c.has.Reads = c.has.Reads || refs[i].Field == "calls"
			if refs[i].Field == "messages" {
				*c.readsMessages(refs[i].Name) = true
			}
			c.has.StepErrors = c.has.StepErrors || refs[i].Field == "error"
		}
		c.has.Errors = c.has.Errors || c.has.StepErrors && c.rules.Errors ||
			refs[i].Kind == expr.RefVar && refs[i].Name == errorVar
	}
}

// proseKeys are the keys whose texts are for readers: models and people.
var proseKeys = []string{"prompt", "system", "instructions", "text", "message"}

// textNames are the names for the text of a key.
func textNames(key string, names *expr.Scope) *expr.Scope {
	if !slices.Contains(proseKeys, key) {
		return names
	}
	prose := *names
	prose.Prose = true
	return &prose
}

func (c *compiler) lower(v *recipe.Value, names *expr.Scope) *expr.Template {
	if v != nil && v == c.own.argv {
		braces := *names
		braces.Braces, names = true, &braces
	}
	if v != nil && v == c.own.url && v.HasExpression() {
		url := *names
		url.URL, names, c.has.URLs = c.rules.Escaped, &url, true
	}
	switch {
	case v == nil:
		return expr.Literal(nil)
	case v.IsList:
		elems := make([]*expr.Template, len(v.List))
		for i, e := range v.List {
			elems[i] = c.lower(e, names)
		}
		return expr.List(elems)
	case v.IsMap:
		keys, elems := make([]string, len(v.Map)), make([]*expr.Template, len(v.Map))
		for i, f := range v.Map {
			keys[i], elems[i] = f.Key, c.lower(f.Value, textNames(f.Key, names))
		}
		return expr.Map(keys, elems)
	}
	text, ok := v.Scalar.(string)
	if !ok || c.folded > maxFolded {
		return expr.Literal(v.Scalar)
	}
	t, list := names.Text(source(text, v.Pos, v.Offset, v.Indent))
	c.list = append(c.list, list...)
	if t == nil {
		return expr.Literal(nil)
	}
	if t.IsLiteral() && v.HasExpression() {
		size, _ := value.Size(t.Literal(), maxFolded) // of consts, which are JSON
		if c.folded += size; c.folded > maxFolded {
			c.errorf(v.Pos, diagnostics.CodeTooLarge, "", "expressions repeat constants of more than %d MiB",
				maxFolded>>20)
		}
	}
	return t
}
