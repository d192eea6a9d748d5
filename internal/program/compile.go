// Package program compiles recipes to programs: bodies as graphs of nodes, the calls of steps with their policies, limits
// and templates, and what a run needs of its runtime. A program is immutable and shared by runs.
package program

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dominikbraun/graph"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

func (c *compiler) suggestAgent(r *recipe.Recipe, id string) string {
	return c.suggest.hint(id, func() []string {
		ids := make([]string, len(r.Agents))
		for i, a := range r.Agents {
			ids[i] = a.ID
		}
		return ids
	})
}

// declared compiles an agent of a file, once.
func (c *compiler) declared(r *recipe.Recipe, id string, names expr.Scope) *agentDef {
	key := agentKey{r, id}
	if def := c.agents[key]; def != nil {
		return def
	}
	i := slices.IndexFunc(r.Agents, func(a recipe.Agent) bool { return a.ID == id })
	def := c.agent(r, &r.Agents[i], names)
	c.agents[key] = def
	return def
}

// agent compiles an agent that stands in r. names are the file's inputs and consts.
func (c *compiler) agent(r *recipe.Recipe, a *recipe.Agent, names expr.Scope) *agentDef {
	spec, _ := a.Spec.Decoded().(map[string]any)
	def := &agentDef{Loop: agentloop.Loop{Name: a.ID, Description: a.Description, Model: a.Model}}
	l := &def.Loop
	if l.Model == "" {
		l.Model = r.Defaults.Model
	}
	l.Tools, l.Deny, l.Skills = wordsOf(spec["tools"]), wordsOf(spec["deny"]), wordsOf(spec["skills"])
	l.MaxSteps, l.ToolConcurrency, l.MaxTokens = whole(spec["max_steps"]), whole(spec["tool_concurrency"]), whole(spec["max_tokens"])
	l.FailAtLimit, l.ReportIndeterminate = spec["on_limit"] == "fail", spec["on_indeterminate"] == "report"
	c.overlaps = c.overlaps || l.ToolConcurrency > 1
	if t, ok := Number(spec["temperature"]); ok {
		l.Temperature = &t
	}
	switch approval := spec["approval"].(type) {
	case string:
		l.Approval = map[string]agentloop.Approval{"*": agentloop.Approval(approval)}
	case map[string]any:
		l.Approval = map[string]agentloop.Approval{}
		for tool, word := range approval {
			text, _ := word.(string)
			l.Approval[tool] = agentloop.Approval(text)
		}
	}
	switch most := spec["subagents"].(type) {
	case bool:
		l.MaxSubagents = -1
	case map[string]any:
		l.MaxSubagents = whole(most["max_active"])
	}
	if retrieve, ok := spec["retrieve"].(map[string]any); ok {
		l.TopK = whole(retrieve["top_k"])
	}
	for _, d := range a.Delegates() {
		def.delegates = append(def.delegates, d.Text)
	}
	if depth, given := spec["max_delegation_depth"]; given && whole(depth) == 0 { // it delegates to nobody
		l.MaxSubagents, def.delegates = -1, nil
	} else {
		l.MaxDelegationDepth = whole(depth)
	}
	def.instructions = expr.Literal(a.Instructions)
	if f := a.Spec.Field("instructions"); f != nil {
		def.instructions = c.lower(f.Value, &names)
	}
	if f := a.Spec.Field("memory"); f != nil {
		l.InheritMemory = f.Value.Scalar == "inherit" || f.Value.Field("inherit") != nil && f.Value.Field("inherit").Value.Scalar == true
		for key, t := range map[string]**expr.Template{"thread": &def.thread, "resource": &def.resource} {
			if part := f.Value.Field(key); part != nil {
				*t = c.lower(part.Value, &names)
			}
		}
	}
	if f := a.Spec.Field("until"); f != nil {
		names.Vars = untilVars
		text, _ := f.Value.Scalar.(string)
		p, list := names.Condition(source(text, f.Value.Pos, f.Value.Offset, f.Value.Indent))
		c.list = append(c.list, list...)
		def.until = p
	}
	tools := map[string]string{} // the delegate of each
	for _, d := range a.Delegates() {
		tool := "delegate_" + delegateName(d.Text)
		if other, taken := tools[tool]; taken && other != d.Text {
			c.errorf(d.Pos, diagnostics.CodeDuplicateName, "", "delegates %q and %q would both be the tool %q", other, d.Text, tool)
		}
		tools[tool] = d.Text
		if def.delegates != nil && !slices.ContainsFunc(r.Agents, func(a recipe.Agent) bool { return a.ID == d.Text }) && !c.broken {
			c.errorf(d.Pos, diagnostics.CodeUnknownName, c.suggestAgent(r, d.Text), "there is no agent %q", d.Text)
		}
	}
	c.checkNames(a, def)
	if l.Model == "" && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeMissingKey, "give model to the agent, or defaults.model for all", "agent %q names no model", a.ID)
		l.Model = "?" // for the check below, which would say so again
	}
	if err := l.Validate(); err != nil && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeInvalidValue, "", "%v", err)
	}
	return def
}

// checkNames checks the names under approval and deny, as far as they are known: an agent that lists its tools has no
// others. In a recipe that a run began with, what is wrong is a warning, and calls that no other key decides pause.
func (c *compiler) checkNames(a *recipe.Agent, def *agentDef) {
	for _, key := range []string{"tools", "approval", "deny"} {
		f := a.Spec.Field(key)
		if f == nil {
			continue
		}
		for _, entry := range f.Value.Map {
			c.noExpression(entry.Key, entry.Pos, key)
		}
		for _, entry := range f.Value.List {
			text, _ := entry.Scalar.(string)
			c.noExpression(text, entry.Pos, key)
		}
	}
	if def.Loop.Tools == nil || c.broken {
		return
	}
	known := slices.Concat(def.Loop.Tools, DelegateTools(def))
	approval, deny := def.Loop.Unmatched(known)
	at := func(key, name string) diagnostics.Position {
		v := a.Spec.Field(key).Value
		for _, entry := range v.Map {
			if entry.Key == name {
				return entry.Pos
			}
		}
		for _, entry := range v.List {
			if text, _ := entry.Scalar.(string); strings.TrimSpace(text) == name {
				return entry.Pos
			}
		}
		return v.Pos
	}
	for key, names := range map[string][]string{"approval": approval, "deny": deny} {
		for _, name := range names {
			if strings.Contains(name, "${{") {
				continue // said above
			}
			c.errorf(at(key, name), diagnostics.CodeUnknownTool, agentloop.SuggestTool(name, known), "%s names %q, which is no tool of the agent", key, name)
			if c.stored {
				c.list[len(c.list)-1].Level = diagnostics.Warn
			}
		}
	}
}

// noExpression refuses an expression where none is taken.
func (c *compiler) noExpression(text string, pos diagnostics.Position, key string) {
	if !strings.Contains(strings.ReplaceAll(text, "$${{", ""), "${{") {
		return
	}
	c.errorf(pos, diagnostics.CodeInvalidValue, "", "%q takes no expression", key)
	if c.stored {
		c.list[len(c.list)-1].Level = diagnostics.Warn
	}
}

func (c *compiler) body(src bodySource) body {
	index := make(map[string]expr.StepRef, len(src.steps))
	for i := range src.steps {
		index[src.steps[i].ID] = expr.StepRef{Index: i}
	}
	src.names.Steps = index

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
		c.warnSkipped(steps, skips, steps[i].reads, reader)
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
	return t, t.Refs()
}

func (c *compiler) lower(v *recipe.Value, names *expr.Scope) *expr.Template {
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
			keys[i], elems[i] = f.Key, c.lower(f.Value, names)
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
			c.errorf(v.Pos, diagnostics.CodeTooLarge, "", "expressions repeat constants of more than %d MiB", maxFolded>>20)
		}
	}
	return t
}

// warnSkipped warns of outputs that are read as if the step that gives them always ran, where what
// reads them runs all the same.
func (c *compiler) warnSkipped(steps []compiledStep, skips []skip, refs []expr.Ref, reader machine.Trigger) {
	for _, r := range refs {
		if r.Kind != expr.RefStep || r.Step.Up > 0 || r.Field != "output" || r.Optional {
			continue
		}
		target := skips[r.Step.Index]
		switch reader {
		case machine.AllSuccess: // skipped together with what it reads
			continue
		case machine.NoneFailed:
			target.upstream = false // as above
		}
		if id := steps[r.Step.Index].src.ID; target.byCondition || target.upstream {
			c.list = append(c.list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeMaybeSkipped,
				Message: fmt.Sprintf("step %q may be skipped, then its output is null and this fails", id),
				Hint:    fmt.Sprintf("write steps.%s.output?.…", id), Position: r.Pos,
			})
		}
	}
}

// Program is a compiled recipe, as a run executes it. It is immutable and shared by runs.
type Program struct {
	Recipe *recipe.Recipe
	Graph  *machine.Graph
	Inputs *InputSet
	Steps  []PlanStep
	Calls  []*Call

	Models  []Use // by name, each once, sorted
	Tools   []Use
	Secrets []Use

	Capabilities []Use // that requires names
	Ports        []Use // retriever, memory, skills

	Overlaps bool // some agent's calls may overlap

	StepBudgets, StepCosts, StepTimes bool // some step has limits of tokens, cost or time, which pause; of cost; of time

	Digest     string     // of the recipe
	About      trace.Data // of run.start
	Definition func() (json.RawMessage, error)
}

// Use is a name that a run needs from its runtime.
type Use struct {
	Name     string
	Pos      diagnostics.Position
	Step     string // the first step that needs it; "" when only requires names it
	Required bool   // requires names it
	called   bool   // of a tool: a step or a rollback calls it, not only agents
}

// MaxSteps bounds the steps of a recipe, those of its bodies and sub-recipes counted at every place where they stand.
const MaxSteps = 100_000

// Compile compiles a recipe. tools are those that runs will have; nil: they are not known. stored says that a run
// began with the recipe, which may have been checked for less then. The list has the warnings of a good compile; the
// error is a *diagnostics.Error that holds every finding.
func Compile(r *recipe.Recipe, tools []runtime.ToolSpec, stored bool) (*Program, diagnostics.List, error) {
	c := &compiler{
		stored: stored, files: map[*recipe.Recipe]*file{}, agents: map[agentKey]*agentDef{},
		uses: [5]map[string]*Use{{}, {}, {}, {}, {}}, broken: r.Diagnostics.HasErrors(),
	}
	top := c.file(r)
	p := &Program{
		Recipe: r, Graph: top.graph, Inputs: top.inputs, Steps: top.steps, Calls: c.calls,
		Models: c.sorted(useModel), Tools: c.sorted(useTool), Secrets: c.sorted(useSecret),
		Capabilities: c.sorted(useCapability), Ports: c.sorted(usePort),
		Overlaps: c.overlaps, StepBudgets: c.stepBudgets, StepCosts: c.stepCosts, StepTimes: c.stepTimes,
	}
	for _, call := range c.calls {
		if call.Kind == ToolCall {
			call.Index = IndexOf(p.Tools, call.Name)
		}
	}
	p.Definition = sync.OnceValues(r.Definition)
	if p.Digest = r.Digest; p.Digest == "" && !c.broken {
		var err error
		if p.Digest, err = r.ComputeDigest(); err != nil {
			return nil, nil, err
		}
	}
	p.About = trace.Data{{Key: "digest", Value: p.Digest}, {Key: "recipe", Value: r.Name}}
	if r.Version != "" {
		p.About = append(p.About, trace.Attr{Key: "version", Value: r.Version})
	}
	if tools != nil {
		c.list = append(c.list, p.FindInTools(tools, nil)...)
	}
	list := slices.Concat(r.Diagnostics, c.list)
	list.Sort()
	return p, list, list.Err()
}

// IndexOf returns the place of name in a sorted list; -1 when it is not there.
func IndexOf(uses []Use, name string) int {
	i, ok := slices.BinarySearchFunc(uses, name, func(u Use, name string) int { return cmp.Compare(u.Name, name) })
	if !ok {
		return -1
	}
	return i
}

const (
	useModel = iota
	useTool
	useSecret
	useCapability
	usePort
)

// compiler is the state of one Compile.
type compiler struct {
	list   diagnostics.List
	files  map[*recipe.Recipe]*file
	agents map[agentKey]*agentDef
	stored bool // see compile
	uses   [5]map[string]*Use
	calls  []*Call
	broken bool // the recipe was not read without errors

	stepBudgets, stepCosts, stepTimes bool

	overlaps bool // some agent's calls may overlap

	suggest Suggester
	full    bool // there are more than maxSteps somewhere
	folded  int  // bytes of what expressions make of constants alone
}

// maxFolded bounds what expressions make of constants alone, which is kept with the workflow: each of
// many scalars may repeat a large constant.
const maxFolded = 16 << 20

// maxFindings is how many findings there may be before the inputs of further sub-recipes are not
// checked: many steps may each lack many inputs.
const maxFindings = 10_000

// Suggester words hints for unknown names until it has compared maxCompared names: many unknown
// names may face many known ones.
type Suggester struct{ compared int }

const maxCompared = 1_000_000

func (s *Suggester) hint(name string, known func() []string) string {
	if s.compared > maxCompared {
		return ""
	}
	names := known()
	s.compared += len(names)
	return diagnostics.DidYouMean(name, names)
}

// file is one compiled recipe file.
type file struct {
	graph  *machine.Graph
	inputs *InputSet
	steps  []PlanStep
	count  int // steps, those of bodies included
}

func (c *compiler) errorf(pos diagnostics.Position, code diagnostics.Code, hint, format string, args ...any) {
	c.list = append(c.list, diagnostics.Diagnostic{
		Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: code,
		Message: fmt.Sprintf(format, args...), Hint: hint, Position: pos,
	})
}

func (c *compiler) need(kind int, name string, pos diagnostics.Position, step string) *Use {
	u := c.uses[kind][name]
	if u == nil {
		u = &Use{Name: name, Pos: pos, Step: step}
		c.uses[kind][name] = u
	}
	return u
}

func (c *compiler) require(r recipe.Requires) {
	for kind, list := range map[int][]recipe.Name{useTool: r.Tools, useSecret: r.Secrets, useCapability: r.Capabilities} {
		for _, n := range list {
			c.need(kind, n.Text, n.Pos, "").Required = true
		}
	}
}

func (c *compiler) sorted(kind int) []Use {
	var list []Use
	for _, name := range slices.Sorted(maps.Keys(c.uses[kind])) {
		list = append(list, *c.uses[kind][name])
	}
	return list
}

// file compiles a recipe file, once however often it is used.
func (c *compiler) file(r *recipe.Recipe) *file {
	if f := c.files[r]; f != nil {
		return f
	}
	f := &file{inputs: c.compileInputs(r.Inputs)}
	c.files[r] = f
	consts := map[string]any{}
	for _, k := range r.Consts {
		consts[k.Key] = k.Value.Decoded()
	}
	schemas := map[string]any{}
	for _, in := range r.Inputs {
		schemas[in.Name] = in.SchemaJSON
	}
	names := expr.Scope{Inputs: schemas, Consts: consts}
	b := c.body(bodySource{steps: r.Steps, output: r.Output, defaults: r.Defaults, names: names, channels: channelsOf(r), recipe: r})
	for _, a := range r.Agents { // also those that no step runs
		c.declared(r, a.ID, names)
	}
	c.require(r.Requires) // after the steps, whose places are more to the point
	f.graph, f.steps, f.count = b.graph, b.steps, b.count
	f.graph.Consts, f.graph.Channels = consts, channelsOf(r)
	if f.count > MaxSteps {
		c.errorf(diagnostics.Position{File: r.File, Line: 1, Column: 1}, diagnostics.CodeTooLarge,
			"split the recipe, or use foreach", "recipe %q has %d steps with those of its sub-recipes, the most is %d", r.Name, f.count, MaxSteps)
		f.steps = nil
	}
	return f
}

func (c *compiler) compileInputs(declared []recipe.Input) *InputSet {
	in := &InputSet{ByName: make(map[string]int, len(declared))}
	for i, d := range declared {
		compiled, err := schema.CompileValue(d.SchemaJSON)
		if err != nil && !c.broken { // else reported when the recipe was read
			c.errorf(d.Pos, diagnostics.CodeBadSchema, "", "schema of input %q: %v", d.Name, err)
		}
		in.List = append(in.List, input{d, compiled})
		in.ByName[d.Name] = i
	}
	return in
}

// order freezes the steps of a body into the machine's index slices and puts them in plan order:
// Kahn's algorithm, the ready step of the least rank first. What is left over is on a cycle, or
// behind one.
func (c *compiler) order(g *machine.Graph, steps []compiledStep) {
	n := len(steps)
	g.Nodes = make([]machine.Node, n)
	g.Succ = make([][]int32, n)
	g.Preds = make([]int32, n)
	g.Rank = ranks(steps)
	for i := range steps {
		s := &steps[i]
		g.Nodes[i] = s.node
		g.Preds[i] = int32(len(s.edges))
		for _, from := range s.sortedEdges() {
			g.Succ[from] = append(g.Succ[from], int32(i))
		}
	}
	waits := slices.Clone(g.Preds)
	ready := &byRank{rank: g.Rank}
	for i := range steps {
		if waits[i] == 0 {
			heap.Push(ready, int32(i))
		}
	}
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int32)
		g.Order = append(g.Order, i)
		for _, next := range g.Succ[i] {
			if waits[next]--; waits[next] == 0 {
				heap.Push(ready, next)
			}
		}
	}
	if len(g.Order) < n {
		c.reportCycles(g, steps, waits)
	}
}

// reportCycles reports one shortest cycle for each group of steps that wait for each other.
func (c *compiler) reportCycles(g *machine.Graph, steps []compiledStep, waits []int32) {
	// Vertices count from 1: v0.23.0 of the library loses the component of a zero key.
	left := graph.New(graph.IntHash, graph.Directed())
	for i := range steps {
		if waits[i] > 0 {
			_ = left.AddVertex(i + 1) // cannot exist already
		}
	}
	for from, succ := range g.Succ {
		for _, to := range succ {
			if waits[from] > 0 && waits[to] > 0 && from != int(to) {
				_ = left.AddEdge(from+1, int(to)+1) // both ends exist, each edge once
			}
		}
	}
	groups, err := graph.StronglyConnectedComponents(left)
	if err != nil {
		c.errorf(steps[0].src.Pos, diagnostics.CodeCycle, "", "steps wait for each other: %v", err)
		return
	}
	for _, group := range groups { // the list is sorted by position in the end
		for i := range group {
			group[i]--
		}
		first := slices.Min(group)
		if _, self := steps[first].edges[first]; self || len(group) > 1 {
			c.reportCycle(shortestCycle(g, group, first), steps)
		}
	}
}

func (c *compiler) reportCycle(cycle []int, steps []compiledStep) {
	const most = 20           // steps of a cycle that are printed
	slices.Reverse(cycle[1:]) // against the order of execution: each needs the one after it
	var path, where []string
	for _, i := range cycle[:min(most, len(cycle))] {
		path = append(path, steps[i].src.ID)
		where = append(where, fmt.Sprintf("%s at %s", steps[i].src.ID, steps[i].src.Pos))
	}
	if len(cycle) > most {
		path = append(path, fmt.Sprintf("(%d more)", len(cycle)-most))
	}
	first := steps[cycle[0]].src
	c.errorf(first.Pos, diagnostics.CodeCycle, "remove one of these needs or references: "+strings.Join(where, ", "),
		"steps need each other: %s", strings.Join(append(path, first.ID), " → "))
}
