package program

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

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

	Waits Waits
	Has

	StepLimits StepLimits

	Digest     string     // of the recipe
	About      trace.Data // of run.start
	Definition func() (json.RawMessage, error)
	Found      diagnostics.List  // the warnings of a successful compile, including the recipe's
	Archive    agentloop.Archive // of an agent in Go; nil: none
	OwnTools   []*Tool           // that recipes define, in the order of their files

	checked atomic.Pointer[toolCheck] // the last check of the tools; nil before the first
}

// Has says what occurs in a program.
type Has struct {
	rules  Rules
	others *ruled

	Overlaps bool // calls of some agent may overlap
	Reads    bool // some expression reads steps.ID.calls
	// Errors says that some expression reads why a call failed: when of a retry, or the error of a step. StepErrors
	// says that one reads the error of a step.
	Errors, StepErrors bool
	URLs               bool // some expression puts something into the URL of a request

	Retrieves bool // an agent retrieves documents, and does not say how many

	Options []Use // that models are given, each OPTION MODEL
	Open    []Use // models, skills and tools, where expressions may name others than are known
}

// StepLimits says what some step of a program limits, so that it pauses: anything, cost, time, calls of tools.
type StepLimits struct{ Any, Cost, Time, Tools bool }

// Waits are the first parts, by position, that a run may wait at; nil: none.
type Waits struct {
	Answer   *Use // anything that asks, approvals aside
	Approval *Use // an agent
}

// Use is a name that a run needs from its runtime.
type Use struct {
	Name     string
	Pos      diagnostics.Position
	Step     string // the first step that needs it; "" when only requires names it
	Required bool   // requires names it
	called   bool   // of a tool: a step or a rollback calls it, not only agents
}

// MaxSteps limits the steps of a recipe. Those of bodies and sub-recipes count once for each place that uses them.
const MaxSteps = 100_000

// Compile compiles a recipe. tools are those that runs will have; nil: not known. inGo are agents that the recipe may
// name. The error is a *diagnostics.Error that holds every diagnostic, or a *runtime.Error about an agent in Go.
func Compile(r *recipe.Recipe, tools []runtime.ToolSpec, inGo map[string]*agentloop.Loop) (*Program, error) {
	for _, id := range value.SortedKeys(inGo) {
		if l := inGo[id]; l == nil {
			return nil, ConfigError("agent.invalid", "agent %q in Go is nil", id)
		} else if err := l.Validate(); err != nil {
			return nil, ConfigError("agent.invalid", "%w", err)
		}
	}
	return compile(r, tools, outside{inGo: inGo, ran: map[string]string{}}, false, Now)
}

func (p *Program) hasAgents() bool {
	return slices.ContainsFunc(p.Calls, func(c *Call) bool { return c.Agents != nil })
}

// CompileStored compiles a recipe that a run began with, which an earlier version may have checked less strictly. Of
// agents in Go there are the names, see [Program.InGo].
func CompileStored(r *recipe.Recipe) (*Program, error) {
	inGo := map[string]*agentloop.Loop{}
	for id := range r.AgentsInGo() {
		inGo[id] = &agentloop.Loop{Name: id, Model: "?", Tools: agentloop.AllTools}
	}
	return compile(r, nil, outside{inGo: inGo, ran: map[string]string{}, recorded: r.AgentsInGo()}, true, Now)
}

func compile(
	r *recipe.Recipe, tools []runtime.ToolSpec, from outside, stored bool, rules Rules,
) (*Program, error) {
	c := &compiler{
		stored: stored, rules: rules, outside: from,
		files: map[*recipe.Recipe]*file{}, agents: map[agentKey]*agentDef{},
		shapes: map[*recipe.Value]shape{}, whens: map[*recipe.Retry]*expr.Program{},
		tools: map[*recipe.Tool]*Tool{},
		uses:  [7]map[string]*Use{{}, {}, {}, {}, {}, {}, {}}, broken: r.Diagnostics.HasErrors(),
	}
	top := c.file(r)
	c.has.Options, c.has.Open = c.sorted(useOption), c.sorted(useOpen)
	p := &Program{
		Recipe: r, Graph: top.graph, Inputs: top.inputs, Steps: top.steps, Calls: c.calls,
		Models: c.sorted(useModel), Tools: c.sorted(useTool), Secrets: c.sorted(useSecret),
		Capabilities: c.sorted(useCapability), Ports: c.sorted(usePort),
		Waits: c.waits, Has: c.has, StepLimits: c.stepLimits,
	}
	p.rules, p.others = rules, &ruled{
		matter: Rules{Listed: p.hasAgents(), Escaped: c.has.URLs, Retrieves: c.has.Retrieves,
			Errors: c.has.StepErrors, Skips: true},
		compile: func(rules Rules) (*Program, error) { return compile(r, nil, from, stored, rules) },
	}
	p.OwnTools = c.ownTools()
	for _, call := range c.calls {
		if call.Kind == ToolCall {
			call.Index = IndexOf(p.Tools, call.Name)
		}
	}
	var err error
	if r, err = c.withAgentsInGo(r); err != nil {
		return nil, err
	}
	p.Recipe, p.Definition = r, sync.OnceValues(r.Definition)
	if p.Digest = r.Digest; p.Digest == "" && !c.broken {
		if p.Digest, err = r.ComputeDigest(); err != nil {
			return nil, err
		}
	}
	p.About = trace.Data{{Key: "digest", Value: p.Digest}, {Key: "recipe", Value: r.Name}}
	if r.Version != "" {
		p.About = append(p.About, trace.Attr{Key: "version", Value: r.Version})
	}
	if tools != nil {
		c.list = append(c.list, p.FindInTools(tools, nil)...)
	}
	p.Found = slices.Concat(r.Diagnostics, c.list)
	p.Found.Sort()
	if err := p.Found.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// IndexOf returns the index of name in a sorted list; -1 if the list does not have it.
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
	useOption
	useOpen
)

// compiler is the state of one Compile.
type compiler struct {
	list   diagnostics.List
	files  map[*recipe.Recipe]*file
	agents map[agentKey]*agentDef
	tools  map[*recipe.Tool]*Tool
	in     *file // that is being compiled
	stored bool  // see CompileStored
	rules  Rules
	outside
	uses   [7]map[string]*Use
	calls  []*Call
	shapes map[*recipe.Value]shape         // of values as written
	whens  map[*recipe.Retry]*expr.Program // of the defaults of files
	broken bool                            // the recipe was not read without errors

	waits      Waits
	has        Has
	stepLimits StepLimits

	suggest Suggester
	own     ownRules // of the call that is being compiled
	full    bool     // there are more than maxSteps somewhere
	folded  int      // bytes of what expressions make of constants alone
}

// maxFolded limits the values of expressions of constants alone, which are kept with the workflow: each
// of many scalars may repeat a large constant.
const maxFolded = 16 << 20

// maxDiagnostics is the number of diagnostics after which the inputs of further sub-recipes are not
// checked: many steps may each lack many inputs.
const maxDiagnostics = 10_000

// Suggester makes hints for unknown names until it has compared maxCompared names, because there may
// be many unknown and many known names.
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
	recipe *recipe.Recipe
	name   string // of the recipe in the file: a tool that stands in place has none of its own
	graph  *machine.Graph
	inputs *InputSet
	steps  []PlanStep
	count  int // steps, those of bodies included

	calls []*Call // of its steps, those of bodies in place included
	files []*file // that its steps and agents run

	messages map[string]*bool // by id: whether expressions read those of a step
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

// earliest notes a use at pos, unless one before it is known.
func earliest(u **Use, pos diagnostics.Position, step string) {
	if *u == nil || pos.Compare((*u).Pos) < 0 {
		*u = &Use{Pos: pos, Step: step}
	}
}

func (c *compiler) require(r recipe.Requires) {
	for kind, list := range map[int][]recipe.Name{useTool: r.Tools, useSecret: r.Secrets,
		useCapability: r.Capabilities} {
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
	f := &file{recipe: r, name: r.Name, inputs: c.compileInputs(r.Inputs)}
	c.files[r] = f
	outer := c.in
	if c.in = f; outer != nil {
		defer func() { c.in = outer }()
		if r.ToolOf() != nil {
			f.name = outer.name
		}
	}
	consts := map[string]any{}
	for _, k := range r.Consts {
		consts[k.Key] = k.Value.Decoded()
	}
	schemas := map[string]any{}
	for _, in := range slices.Concat(inputsAround(r), r.Inputs) {
		schemas[in.Name] = in.SchemaJSON
	}
	names := expr.Scope{Inputs: schemas, Consts: consts, Stored: c.stored}
	names.Hints = knownElsewhere
	if r.ToolOf() == nil { // else its file has done it
		c.defaultWhens(r, names)
	}
	src := bodySource{steps: r.Steps, output: r.Output, defaults: r.Defaults, names: names,
		channels: channelsOf(r), recipe: r}
	b := c.body(src)
	c.finally(r.Finally, src, &b)
	if r.ToolOf() == nil {
		for _, a := range r.Agents { // also those that no step runs
			c.declared(r, a.ID, names)
		}
		for _, t := range r.Tools() { // likewise
			c.tool(t)
		}
	}
	if r.Limits.Pause {
		earliest(&c.waits.Answer, r.Limits.Pos, "")
	}
	c.require(r.Requires) // after the steps, whose positions are more useful
	f.graph, f.steps, f.count = b.graph, b.steps, b.count
	f.graph.Consts, f.graph.Channels = consts, channelsOf(r)
	if f.count > MaxSteps {
		c.errorf(diagnostics.Position{File: r.File, Line: 1, Column: 1}, diagnostics.CodeTooLarge,
			"split the recipe, or use foreach", "recipe %q has %d steps with those of its sub-recipes, the limit is %d",
			r.Name, f.count, MaxSteps)
		f.steps = nil
	}
	return f
}
