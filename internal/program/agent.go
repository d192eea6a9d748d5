package program

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// AgentSet has the agents that a step may run.
type AgentSet struct {
	Defs     map[string]*agentDef // "" is one that is written in the step
	IDs      []string             // of the others, sorted
	InPlace  bool                 // it runs defs[""]
	Given    bool                 // an expression names it
	Asked    string               // the agent that the step names otherwise; "": none
	Tools    map[string]*Tool     // of the recipe, that they may call
	HandsOff bool                 // the agent that it begins with may; the output names the one that answered
	Retries  map[CallKind]*Retry  // what step and recipe say about calling tools, memory and retriever again
}

// agentDef is a declared agent. What may hold expressions is not in loop.
type agentDef struct {
	Loop                agentloop.Loop
	delegates, handoffs []string // ids; delegates those that it may have, if an expression chooses

	// instructions and the like read inputs, consts and run only; approvalTo nil: anybody
	instructions, thread, resource, cwd, approvalTo *expr.Template
	choices                                         []choice      // by expressions, likewise
	until                                           *expr.Program // reads the progress, too; nil: none
}

// compileAgent lowers a step that runs an agent.
func (s *stepCompiler) compileAgent(src *recipe.Step, inner *expr.Scope) {
	s.with(agentArguments(src.With), inner)
	s.compileCall(src, AgentCall, "", inner)
	call := s.calls[len(s.calls)-1]
	call.Retry = s.retryOf(s.defaults.Retry[string(ModelCall)], inner)
	set := &AgentSet{Defs: map[string]*agentDef{}, Retries: map[CallKind]*Retry{}}
	for _, kind := range []CallKind{ToolCall, MemoryCall, RetrieverCall} {
		set.Retries[kind] = s.retryOf(s.defaults.Retry[string(kind)], inner)
	}
	call.Agents = set
	asked, pos := src.With.Field("agent"), src.Uses.Pos
	inPlace := asked != nil && asked.Value.IsMap
	names := s.namesOfAgents(inner)
	for i, a := range s.recipe.AgentsOf(src) {
		id := a.ID
		if inPlace && i == 0 {
			id = ""
			set.Defs[id] = s.agent(s.recipe, withoutThem(a), names)
		} else {
			set.Defs[id] = s.declared(s.recipe, id, names)
			set.IDs = append(set.IDs, id)
		}
		models := s.needOfAgent(set.Defs[id], &a)
		if i == 0 || asked == nil || asked.Value.HasExpression() { // the step may begin with it
			s.needFiles(src.With, models...)
		}
		if i == 0 && inPlace || asked == nil || !asked.Value.HasExpression() && a.ID == asked.Value.Scalar {
			s.excludeMemory(src.With, set.Defs[id])
		}
	}
	s.toolsOf(set, src, s.agentsInGo(set, src))
	slices.Sort(set.IDs)
	set.HandsOff = s.handsOff(s.recipe, src)
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

// chooses reports a step that will not find its agent: an error if the step names one, unless a run began with the
// recipe, else a warning.
func (s *stepCompiler) chooses(set *AgentSet, pos diagnostics.Position) {
	_, found := agents.Select(set.IDs, set.Asked)
	for _, d := range found {
		d.Position, d.Step = pos, s.path()
		if set.Asked == "" || s.stored {
			d.Level = diagnostics.Warn
		}
		if set.Asked != "" {
			d.Hint = s.suggestAgent(s.recipe, set.Asked)
		}
		s.list = append(s.list, d)
	}
}

// agentKey is a declared agent.
type agentKey struct {
	file *recipe.Recipe
	id   string
}

// needOfAgent notes what an agent of the recipe needs of a run's runtime, as far as that is known, and returns the
// models that it may have.
func (s *stepCompiler) needOfAgent(def *agentDef, a *recipe.Agent) []string {
	at := func(key string, item int) diagnostics.Position {
		f := a.Spec.Field(key)
		switch {
		case key == "compact":
			return f.Value.Field("model").Value.Pos
		case f == nil:
			return a.Pos
		case item < len(f.Value.List) && def.choice(key) == nil:
			return f.Value.List[item].Pos
		}
		return f.Value.Pos
	}
	l, models := def.mayBe()
	for _, name := range models {
		if f := a.Spec.Field("tool_choice"); f != nil {
			s.need(useOption, "tool_choice "+name, f.Value.Pos, s.path())
		}
		s.need(useModel, name, at("model", 0), s.path())
	}
	for i := range def.choices {
		s.needOfChoice(&def.choices[i])
	}
	s.needOf(&l, def.thread != nil, at)
	return models
}

// needOf notes what an agent needs of a run's runtime. at is the position of a key's value, or of an item of it.
func (s *stepCompiler) needOf(l *agentloop.Loop, remembers bool, at func(key string, item int) diagnostics.Position) {
	if l.Model != "" {
		s.need(useModel, l.Model, at("model", 0), s.path())
	}
	if c := l.Compaction; c != nil && c.Model != "" {
		s.need(useModel, c.Model, at("compact", 0), s.path())
	}
	for _, word := range l.Approval {
		if word == agentloop.ApprovePause {
			earliest(&s.waits.Approval, at("approval", 0), s.path())
		}
	}
	for i, tool := range l.Tools {
		if tool == agentloop.AskHuman {
			earliest(&s.waits.Answer, at("tools", i), s.path())
		}
		if !agentloop.Reserved(tool) && tool != "" && tool != agentloop.AnyTool && s.recipe.Tool(tool) == nil {
			s.need(useTool, tool, at("tools", i), s.path())
		}
	}
	if l.TopK > 0 {
		s.need(usePort, defaultPlace, at("retrieve", 0), s.path())
	}
	if remembers {
		s.need(usePort, "memory", at("memory", 0), s.path())
	}
	if len(l.Skills) > 0 {
		s.need(usePort, "skills", at("skills", 0), s.path())
		for i, name := range l.Skills {
			s.need(usePort, SkillPort+name, at("skills", i), s.path())
		}
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

// nameOfOther is the part after delegate_ or handoff_ in the name of a tool: the path of a Markdown agent has slashes,
// which are not allowed in names of tools.
func nameOfOther(id string) string { return strings.ReplaceAll(id, "/", ".") }

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

func (e *agentEnv) Told(expr.StepRef, string) any { return nil }

// Var returns one of untilVars.
func (e *agentEnv) Var(_, index int) any {
	p := &e.progress
	switch index {
	case 0:
		return int64(p.StepsDone)
	case 1:
		return p.Text
	case 2:
		return agents.Told(p.Calls)
	}
	return map[string]any{"input_tokens": int64(p.Usage.InputTokens), "output_tokens": int64(p.Usage.OutputTokens)}
}

// LoopOf makes the agent of that id, and those that may get tasks or the conversation from it, with what their
// expressions say in env. schema is of its answer; nil: free text.
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
		}{{def.instructions, &l.Instructions}, {def.thread, &l.Memory.Thread}, {def.resource, &l.Memory.Resource},
			{def.cwd, &l.Cwd}} {
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
		delegates, err := def.choose(&l, &env)
		if err != nil {
			return nil, err
		}
		if def.cwd != nil && !filepath.IsLocal(l.Cwd) {
			return nil, fmt.Errorf("cwd is %q, which is not below the folder of the host", l.Cwd)
		}
		if def.approvalTo != nil {
			v, err := def.approvalTo.Eval(&env)
			if err == nil {
				l.ApprovalTo, err = PeopleOf("approval_to", v)
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
		for _, others := range []struct {
			ids  []string
			into *map[string]*agentloop.Loop
		}{{delegates, &l.Delegates}, {def.handoffs, &l.Handoffs}} {
			for _, id := range others.ids {
				other, err := one(id)
				if err != nil {
					return nil, err
				}
				if *others.into == nil {
					*others.into = map[string]*agentloop.Loop{}
				}
				(*others.into)[nameOfOther(id)] = other
			}
		}
		return &l, nil
	}
	first, err := one(id)
	if err != nil || schema == nil && first.Schema == nil {
		return first, err
	}
	l := *first // a delegate of the same definition answers as that says
	l.Schema = schema
	return &l, nil
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
	l.Tools, l.Deny, l.Skills = c.listedTools(a), wordsOf(spec["deny"]), wordsOf(spec["skills"])
	l.MaxSteps, l.ToolConcurrency, l.MaxTokens = whole(spec["max_steps"]), whole(spec["tool_concurrency"]),
		whole(spec["max_tokens"])
	l.OnRepetition, _ = spec["on_repetition"].(string)
	l.MaxCalls, l.MaxCallsPerAnswer = whole(spec["max_calls"]), whole(spec["max_calls_per_answer"])
	l.MaxHandoffs = whole(spec["max_handoffs"])
	l.FailAtLimit, l.ReportIndeterminate = spec["on_limit"] == "fail", spec["on_indeterminate"] == "report"
	c.has.Overlaps = c.has.Overlaps || l.ToolConcurrency > 1
	if t, ok := Number(spec["temperature"]); ok {
		l.Temperature = &t
	}
	l.Options.ToolChoice, _ = spec["tool_choice"].(string)
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
		if l.TopK = whole(retrieve["top_k"]); l.TopK == 0 {
			c.has.Retrieves = true
			if c.rules.Retrieves {
				l.TopK = recipe.DefaultTopK
			}
		}
	}
	l.Compaction = compaction(spec["compact"])
	def.delegates, def.handoffs = textsOf(a.Delegates()), textsOf(a.Handoffs())
	c.instructionsOf(def, a, &names)
	if f := a.Spec.Field("approval_to"); f != nil {
		def.approvalTo = c.lower(f.Value, &names)
	}
	c.placesOf(def, a, &names)
	c.choicesOf(r, def, a, &names)
	if depth, given := spec["max_delegation_depth"]; given && whole(depth) == 0 { // it does not delegate
		l.MaxSubagents, def.delegates = -1, nil
	} else {
		l.MaxDelegationDepth = whole(depth)
	}
	if f := a.Spec.Field("until"); f != nil {
		names.Vars = c.untilVars()
		text, _ := f.Value.Scalar.(string)
		p, list := names.Condition(source(text, f.Value.Pos, f.Value.Offset, f.Value.Indent))
		c.list = append(c.list, list...)
		def.until = p
	}
	c.checkOthers(r, a, def)
	c.checkNames(a, def)
	chosen := def.choice("model") != nil
	if l.Model == "" && !chosen && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeMissingKey, "give model to the agent, or defaults.model for all",
			"agent %q names no model", a.ID)
		chosen = true // the check below would say so again
	}
	checked := *l
	if chosen {
		checked.Model = "?"
	}
	if err := checked.Validate(); err != nil && !c.broken {
		c.errorf(a.Pos, diagnostics.CodeInvalidValue, "", "%v", err)
	}
	return def
}

// placesOf compiles where an agent works and what it remembers.
func (c *compiler) placesOf(def *agentDef, a *recipe.Agent, names *expr.Scope) {
	if f := a.Spec.Field("cwd"); f != nil {
		def.cwd = c.lower(f.Value, names)
		if text, ok := f.Value.Scalar.(string); ok && !f.Value.HasExpression() && !filepath.IsLocal(text) {
			c.errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "a path such as work/notes",
				"cwd is %q, which is not below the folder of the host", text)
		}
	}
	if f := a.Spec.Field("memory"); f != nil {
		def.Loop.InheritMemory = f.Value.Scalar == "inherit" || f.Value.Field("inherit") != nil &&
			f.Value.Field("inherit").Value.Scalar == true
		for key, t := range map[string]**expr.Template{"thread": &def.thread, "resource": &def.resource} {
			if part := f.Value.Field(key); part != nil {
				*t = c.lower(part.Value, names)
			}
		}
	}
}
