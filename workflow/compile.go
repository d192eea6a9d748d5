// Package workflow compiles recipes and runs them.
//
// [Compile] turns a recipe into a [Workflow], an immutable DAG; [Workflow.Run] executes it with a
// [runtime.Runtime] and returns an [Outcome], whatever happens.
package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Options are what Compile may know beside the recipe. A nil *Options is the zero Options.
type Options struct {
	// Tools describes the tools that runs will have: names and literal arguments are checked
	// against them. nil: both are checked when a run starts.
	Tools []runtime.ToolSpec
}

// Workflow is a compiled recipe. It is immutable and safe for concurrent runs.
type Workflow struct {
	// Diagnostics are the warnings of a good compile, the recipe's among them.
	Diagnostics diagnostics.List

	recipe *recipe.Recipe
	graph  *machine.Graph
	inputs *inputs
	steps  []PlanStep
	calls  []*call

	models  []use // by name, each once, sorted
	tools   []use
	secrets []use

	capabilities []use // that requires names
	ports        []use // retriever, memory, skills

	overlaps bool // some agent's calls may overlap

	stepBudgets, stepCosts, stepTimes bool // some step has limits of tokens, cost or time, which pause; of cost; of time

	checked atomic.Pointer[toolCheck] // the last check of the tools; nil before the first
	rooms   sync.Pool                 // of *room: what runs leave to later ones

	digest     string     // of the recipe
	about      trace.Data // of run.start
	definition func() (json.RawMessage, error)
}

// use is a name that a run needs from its runtime.
type use struct {
	name     string
	pos      diagnostics.Position
	step     string // the first step that needs it; "" when only requires names it
	required bool   // requires names it
	called   bool   // of a tool: a step or a rollback calls it, not only agents
}

// MaxSteps bounds the steps of a recipe, those of its bodies and sub-recipes counted at every
// place where they stand.
const MaxSteps = 100_000

// Compile turns a recipe into a Workflow:
//
//  1. index the names of each body
//  2. compile the expressions, which gives the edges: needs and references
//  3. put the steps in order, or print the cycle that prevents it
//  4. lower the steps to the machine's nodes
//  5. check what is known of the tools
//
// The error is a *diagnostics.Error that holds every finding, those of reading r and warnings
// included. A recipe that was not read without errors is compiled as far as it goes, for the
// findings, and refused.
func Compile(r *recipe.Recipe, opts *Options) (*Workflow, error) { return compile(r, opts, false) }

// compile is Compile; stored says that a run began with the recipe, which may have been checked for less then.
func compile(r *recipe.Recipe, opts *Options, stored bool) (*Workflow, error) {
	c := &compiler{stored: stored, files: map[*recipe.Recipe]*file{}, agents: map[agentKey]*agentDef{}, uses: [5]map[string]*use{{}, {}, {}, {}, {}}, broken: r.Diagnostics.HasErrors()}
	top := c.file(r)
	wf := &Workflow{
		recipe: r, graph: top.graph, inputs: top.inputs, steps: top.steps, calls: c.calls,
		models: c.sorted(useModel), tools: c.sorted(useTool), secrets: c.sorted(useSecret), capabilities: c.sorted(useCapability),
		ports: c.sorted(usePort), overlaps: c.overlaps, stepBudgets: c.stepBudgets, stepCosts: c.stepCosts, stepTimes: c.stepTimes,
	}
	for _, call := range c.calls {
		if call.kind == toolCall {
			call.index = indexOf(wf.tools, call.name)
		}
	}
	wf.definition = sync.OnceValues(r.Definition)
	if wf.digest = r.Digest; wf.digest == "" && !c.broken {
		var err error
		if wf.digest, err = r.ComputeDigest(); err != nil {
			return nil, err
		}
	}
	wf.about = trace.Data{{Key: "digest", Value: wf.digest}, {Key: "recipe", Value: r.Name}}
	if r.Version != "" {
		wf.about = append(wf.about, trace.Attr{Key: "version", Value: r.Version})
	}
	if opts != nil && opts.Tools != nil {
		c.list = append(c.list, wf.checkTools(opts.Tools, nil)...)
	}
	list := slices.Concat(r.Diagnostics, c.list)
	list.Sort()
	if err := list.Err(); err != nil {
		return nil, err
	}
	wf.Diagnostics = list
	return wf, nil
}

// Name returns the recipe's name.
func (wf *Workflow) Name() string { return wf.recipe.Name }

// Recipe returns the recipe that was compiled. Nobody may change it.
func (wf *Workflow) Recipe() *recipe.Recipe { return wf.recipe }

// indexOf returns the place of name in a sorted list; -1 when it is not there.
func indexOf(uses []use, name string) int {
	i, ok := slices.BinarySearchFunc(uses, name, func(u use, name string) int { return cmp.Compare(u.name, name) })
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
	uses   [5]map[string]*use
	calls  []*call
	broken bool // the recipe was not read without errors

	stepBudgets, stepCosts, stepTimes bool

	overlaps bool // some agent's calls may overlap

	suggest suggester
	full    bool // there are more than MaxSteps somewhere
	folded  int  // bytes of what expressions make of constants alone
}

// maxFolded bounds what expressions make of constants alone, which is kept with the workflow: each of
// many scalars may repeat a large constant.
const maxFolded = 16 << 20

// maxFindings is how many findings there may be before the inputs of further sub-recipes are not
// checked: many steps may each lack many inputs.
const maxFindings = 10_000

// suggester words hints for unknown names until it has compared maxCompared names: many unknown
// names may face many known ones.
type suggester struct{ compared int }

const maxCompared = 1_000_000

func (s *suggester) hint(name string, known func() []string) string {
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
	inputs *inputs
	steps  []PlanStep
	count  int // steps, those of bodies included
}

func (c *compiler) errorf(pos diagnostics.Position, code diagnostics.Code, hint, format string, args ...any) {
	c.list = append(c.list, diagnostics.Diagnostic{
		Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: code,
		Message: fmt.Sprintf(format, args...), Hint: hint, Position: pos,
	})
}

func (c *compiler) need(kind int, name string, pos diagnostics.Position, step string) *use {
	u := c.uses[kind][name]
	if u == nil {
		u = &use{name: name, pos: pos, step: step}
		c.uses[kind][name] = u
	}
	return u
}

func (c *compiler) require(r recipe.Requires) {
	for kind, list := range map[int][]recipe.Name{useTool: r.Tools, useSecret: r.Secrets, useCapability: r.Capabilities} {
		for _, n := range list {
			c.need(kind, n.Text, n.Pos, "").required = true
		}
	}
}

func (c *compiler) sorted(kind int) []use {
	var list []use
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
