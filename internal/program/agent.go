package program

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
)

// AgentSet has the agents that a step may run.
type AgentSet struct {
	Defs    map[string]*agentDef       // "" is one that is written in the step
	IDs     []string                   // of the others, sorted
	InPlace bool                       // it runs defs[""]
	Given   bool                       // an expression names it
	Asked   string                     // the agent that the step names otherwise; "": none
	Retries map[CallKind]*retry.Layers // what step and recipe say about calling tools, memory and retriever again
}

// agentDef is a declared agent. What may hold expressions is not in loop.
type agentDef struct {
	Loop      agentloop.Loop
	delegates []string // ids

	instructions, thread, resource *expr.Template // read inputs, consts and run only
	until                          *expr.Program  // reads the progress, too; nil: none
}

// The names that an agent's until reads in addition to inputs, consts and run.
var untilVars = []expr.Var{{Name: "steps_done", Index: 0}, {Name: "text", Index: 1}, {Name: "calls", Index: 2},
	{Name: "usage", Index: 3}}

// compileAgent lowers a step that runs an agent.
func (s *stepCompiler) compileAgent(src *recipe.Step, inner *expr.Scope) {
	s.with(agentArguments(src.With), inner)
	s.compileCall(src, AgentCall, "")
	call := s.calls[len(s.calls)-1]
	call.Retry = layersOf(src.Retry, s.defaults.Retry[string(ModelCall)])
	set := &AgentSet{Defs: map[string]*agentDef{}, Retries: map[CallKind]*retry.Layers{}}
	for _, kind := range []CallKind{ToolCall, MemoryCall, RetrieverCall} {
		set.Retries[kind] = layersOf(src.Retry, s.defaults.Retry[string(kind)])
	}
	call.Agents = set
	asked, pos := src.With.Field("agent"), src.Uses.Pos
	inPlace := asked != nil && asked.Value.IsMap
	names := expr.Scope{Inputs: s.names.Inputs, Consts: s.names.Consts}
	for i, a := range s.recipe.AgentsOf(src) {
		if inPlace && i == 0 {
			set.Defs[""] = s.agent(s.recipe, &a, names)
			s.needOf(set.Defs[""], &a)
			continue
		}
		set.Defs[a.ID] = s.declared(s.recipe, a.ID, names)
		s.needOf(set.Defs[a.ID], &a)
		set.IDs = append(set.IDs, a.ID)
	}
	slices.Sort(set.IDs)
	switch {
	case inPlace:
		set.InPlace = true
	case asked != nil && asked.Value.HasExpression():
		set.Given = true
	case s.broken:
	default:
		if asked != nil {
			set.Asked, _ = asked.Value.Literal().(string)
			pos = asked.Value.Pos
		}
		s.chooses(set, pos)
	}
}

// chooses warns about a step that will not find its agent.
func (s *stepCompiler) chooses(set *AgentSet, pos diagnostics.Position) {
	_, found := agents.Select(set.IDs, set.Asked)
	for _, d := range found {
		d.Level, d.Position, d.Step = diagnostics.Warn, pos, s.path()
		if set.Asked != "" {
			d.Hint = s.suggestAgent(s.recipe, set.Asked)
		}
		s.list = append(s.list, d)
	}
}

// agentArguments are the parts of with that are evaluated with the step: not an agent that is written
// in place, nor one that is named.
func agentArguments(with *recipe.Value) *recipe.Value {
	if with == nil {
		return nil
	}
	parts := *with
	parts.Map = slices.DeleteFunc(slices.Clone(with.Map), func(f recipe.Field) bool {
		return f.Key == "agent" && (f.Value.IsMap || !f.Value.HasExpression())
	})
	return &parts
}

// agentKey is a declared agent.
type agentKey struct {
	file *recipe.Recipe
	id   string
}

// needOf notes what an agent needs of a run's runtime.
func (s *stepCompiler) needOf(def *agentDef, a *recipe.Agent) {
	at := func(key string, item int) diagnostics.Position { // of a key's value, or of an item of it
		f := a.Spec.Field(key)
		switch {
		case f == nil:
			return a.Pos
		case item < len(f.Value.List):
			return f.Value.List[item].Pos
		}
		return f.Value.Pos
	}
	s.need(useModel, def.Loop.Model, at("model", 0), s.path())
	if c := def.Loop.Compaction; c != nil && c.Model != "" {
		s.need(useModel, c.Model, a.Spec.Field("compact").Value.Field("model").Value.Pos, s.path())
	}
	for _, word := range def.Loop.Approval {
		if word == agentloop.ApprovePause {
			earliest(&s.waits.Approval, at("approval", 0), s.path())
		}
	}
	for i, tool := range def.Loop.Tools {
		if tool == agentloop.AskHuman {
			earliest(&s.waits.Answer, at("tools", i), s.path())
		}
		if !agentloop.Reserved(tool) && tool != "" {
			s.need(useTool, tool, at("tools", i), s.path())
		}
	}
	if def.Loop.TopK > 0 {
		s.need(usePort, "retriever", at("retrieve", 0), s.path())
	}
	if def.thread != nil {
		s.need(usePort, "memory", at("memory", 0), s.path())
	}
	if len(def.Loop.Skills) > 0 {
		s.need(usePort, "skills", at("skills", 0), s.path())
	}
}

func wordsOf(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	words := make([]string, len(list))
	for i, e := range list {
		word, _ := e.(string)
		words[i] = strings.TrimSpace(word)
	}
	return words
}

func whole(v any) int {
	n, _ := v.(int64)
	return int(n)
}

// delegateName is the part after delegate_ in the name of a delegate's tool: the path of a Markdown
// agent has slashes, which are not allowed in names of tools.
func delegateName(id string) string { return strings.ReplaceAll(id, "/", ".") }

// agentEnv is the environment of an agent's expressions.
type agentEnv struct {
	inputs, consts, run map[string]any
	progress            agentloop.Progress
}

// EnvOf returns the environment of the expressions of an agent that runs in t.
func EnvOf(t *machine.Task) agentEnv {
	return agentEnv{inputs: t.Inputs(), consts: t.Consts(), run: t.Run()}
}

func (e *agentEnv) Inputs() map[string]any { return e.inputs }

func (e *agentEnv) Consts() map[string]any { return e.consts }

func (e *agentEnv) Run() map[string]any { return e.run }

func (e *agentEnv) Step(expr.StepRef) (status string, _, _ any) { return "", nil, nil } // they name none

func (e *agentEnv) Models(expr.StepRef) (_, _ any) { return nil, nil }

// Var returns one of untilVars.
func (e *agentEnv) Var(_, index int) any {
	p := &e.progress
	switch index {
	case 0:
		return int64(p.StepsDone)
	case 1:
		return p.Text
	case 2:
		calls := make([]any, len(p.Calls))
		for i, c := range p.Calls {
			args, _ := value.Decode(c.Arguments)
			call := map[string]any{"tool": c.Name, "arguments": args, "result": c.Result, "error": nil}
			if c.Code != "" {
				call["error"] = c.Code
			}
			calls[i] = call
		}
		return calls
	}
	return map[string]any{"input_tokens": int64(p.Usage.InputTokens), "output_tokens": int64(p.Usage.OutputTokens)}
}

// LoopOf makes the agent of that id, and those that may get tasks from it, with what their expressions
// say in env. schema is of its answer; nil: free text.
func (a *AgentSet) LoopOf(id string, env agentEnv, schema json.RawMessage) (*agentloop.Loop, error) {
	made := map[string]*agentloop.Loop{}
	var one func(id string) (*agentloop.Loop, error)
	one = func(id string) (*agentloop.Loop, error) {
		if l := made[id]; l != nil {
			return l, nil
		}
		def := a.Defs[id]
		l := def.Loop
		made[id] = &l
		for _, part := range []struct {
			t    *expr.Template
			into *string
		}{{def.instructions, &l.Instructions}, {def.thread, &l.Memory.Thread}, {def.resource, &l.Memory.Resource}} {
			if part.t == nil {
				continue
			}
			v, err := part.t.Eval(&env)
			if err == nil {
				*part.into, err = value.Text(v)
			}
			if err != nil {
				return nil, err
			}
		}
		if def.until != nil {
			l.Until = func(p agentloop.Progress) (bool, error) {
				at := env
				at.progress = p
				return def.until.Bool(&at)
			}
		}
		for _, other := range def.delegates {
			d, err := one(other)
			if err != nil {
				return nil, err
			}
			if l.Delegates == nil {
				l.Delegates = map[string]*agentloop.Loop{}
			}
			l.Delegates[delegateName(other)] = d
		}
		return &l, nil
	}
	first, err := one(id)
	if err != nil || schema == nil {
		return first, err
	}
	l := *first // a delegate of the same definition answers with text
	l.Schema = schema
	return &l, nil
}

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

// compaction reads compact of an agent; nil if there is none.
func compaction(spec any) *agentloop.Compaction {
	m, ok := spec.(map[string]any)
	if !ok {
		return nil
	}
	c := &agentloop.Compaction{Above: whole(m["above"]), Keep: whole(m["keep"])}
	c.Model, _ = m["model"].(string)
	c.Prompt, _ = m["prompt"].(string)
	return c
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
	l.MaxSteps, l.ToolConcurrency, l.MaxTokens = whole(spec["max_steps"]), whole(spec["tool_concurrency"]),
		whole(spec["max_tokens"])
	l.OnRepetition, _ = spec["on_repetition"].(string)
	l.MaxCalls, l.MaxCallsPerAnswer = whole(spec["max_calls"]), whole(spec["max_calls_per_answer"])
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
	l.Compaction = compaction(spec["compact"])
	for _, d := range a.Delegates() {
		def.delegates = append(def.delegates, d.Text)
	}
	if depth, given := spec["max_delegation_depth"]; given && whole(depth) == 0 { // it does not delegate
		l.MaxSubagents, def.delegates = -1, nil
	} else {
		l.MaxDelegationDepth = whole(depth)
	}
	def.instructions = expr.Literal(a.Instructions)
	if f := a.Spec.Field("instructions"); f != nil {
		def.instructions = c.lower(f.Value, &names)
	}
	if f := a.Spec.Field("memory"); f != nil {
		l.InheritMemory = f.Value.Scalar == "inherit" || f.Value.Field("inherit") != nil &&
			f.Value.Field("inherit").Value.Scalar == true
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
	c.checkDelegates(r, a, def)
	c.checkNames(a, def)
	if l.Model == "" && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeMissingKey, "give model to the agent, or defaults.model for all",
			"agent %q names no model", a.ID)
		l.Model = "?" // for the check below, which would say so again
	}
	if err := l.Validate(); err != nil && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeInvalidValue, "", "%v", err)
	}
	return def
}

// checkDelegates reports unknown delegates, and delegates that would share a tool.
func (c *compiler) checkDelegates(r *recipe.Recipe, a *recipe.Agent, def *agentDef) {
	tools := map[string]string{} // the delegate of each
	for _, d := range a.Delegates() {
		tool := "delegate_" + delegateName(d.Text)
		if other, taken := tools[tool]; taken && other != d.Text {
			c.errorf(d.Pos, diagnostics.CodeDuplicateName, "", "delegates %q and %q would both be the tool %q",
				other, d.Text, tool)
		}
		tools[tool] = d.Text
		if def.delegates != nil && !slices.ContainsFunc(r.Agents,
			func(a recipe.Agent) bool { return a.ID == d.Text }) && !c.broken {
			c.errorf(d.Pos, diagnostics.CodeUnknownName, c.suggestAgent(r, d.Text), "there is no agent %q", d.Text)
		}
	}
}
