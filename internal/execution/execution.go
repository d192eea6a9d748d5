package execution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/daily"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Run begins a run of a program and executes it. input is a map or a struct of the program's inputs; nil: none.
func Run(ctx context.Context, p *program.Program, input any, rt *runtime.Runtime) *local.End {
	n := &newRun{spec: specOf(p, rt, rt.By), input: input}
	return again(ctx, local.Drive(ctx, n.spec, n.begin), rt, Options{Program: p})
}

// newRun is a run that is no fork.
type newRun struct {
	spec  *local.Spec
	input any
	q     Queued
}

// begin checks the run and starts it.
func (n *newRun) begin(r *local.Run) error {
	inputs, err := openNew(r, n.spec, n.q.RunID, n.input)
	if err != nil {
		return err
	}
	r.Start()
	if err := n.q.complete(r, nil); err != nil {
		return err
	}
	return ledger.Error(begin(r, n.spec, inputs, n.q.run(""), nil))
}

// specOf begins the description of an execution of a program; by says who executes it. The caller adds the rest.
func specOf(p *program.Program, rt *runtime.Runtime, by string) *local.Spec {
	return &local.Spec{Program: p, Runtime: rt, About: p.About, Interrupt: rt.Interrupt, By: valid(by)}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// open prepares a new run before its first step: its id ("": a new one), its requirements, its inputs.
func open(r *local.Run, s *local.Spec, id string, input any) (map[string]any, error) {
	if err := call.Validate(r.Context(), s.Runtime); err != nil {
		r.ID = local.NewID()
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	if id == "" {
		var err error
		if id, err = newID(r.Context(), s.Runtime); err != nil {
			r.ID = local.NewID()
			return nil, err
		}
	}
	r.Name(id)
	if err := r.Bind(); err != nil {
		return nil, err
	}
	inputs, err := Admit(r.Caller, s.Program, s.Runtime, input)
	if err != nil {
		return nil, err
	}
	if err := limitDay(r, nil); err != nil {
		return nil, err
	}
	return inputs, r.Strict()
}

// newID returns the id of a new run.
func newID(ctx context.Context, rt *runtime.Runtime) (string, error) {
	if rt.NewRunID == nil {
		return local.NewID(), nil
	}
	return guard.Port(ctx, runtime.CategoryConfig, "runtime.invalid", "NewRunID",
		func() (string, error) { return rt.NewRunID(), nil })
}

// openNew is open for a run that is no fork: its breakpoints are those of the runtime.
func openNew(r *local.Run, s *local.Spec, id string, input any) (map[string]any, error) {
	s.Breakpoints = s.Runtime.Breakpoints
	inputs, err := open(r, s, id, input)
	if err != nil || len(s.Breakpoints) == 0 {
		return inputs, err
	}
	steps := map[string]*program.PlanStep{}
	indexSteps(steps, s.Program.Steps)
	for _, path := range s.Breakpoints {
		if steps[resume.DefinitionPath(path)] == nil || !numbered(steps, path) {
			return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "breakpoint.unknownStep",
				Err: unknownStep(s.Program, path, steps)}
		}
	}
	return inputs, nil
}

// numbered reports whether steps with these paths can be: only a foreach has items, and only a loop rounds.
func numbered(steps map[string]*program.PlanStep, path string) bool {
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' {
			continue
		}
		s, name := steps[resume.DefinitionPath(path[:end])], path[strings.LastIndexByte(path[:end], '/')+1:end]
		if strings.Contains(name, "[") && (s == nil || !s.Foreach) ||
			strings.Contains(name, "#") && (s == nil || s.Uses != "loop" || end == len(path)) {
			return false
		}
	}
	return true
}

// limitDay limits what the calls of a run with these labels may cost on a day.
func limitDay(r *local.Run, labels map[string]string) (err error) {
	rt := r.Caller.Offers.Runtime
	r.Caller.Day, err = daily.For(&rt.Budget, rt.Store, labels)
	return err
}

// Admit checks a new run that is bound to its runtime, and returns its inputs. The error says why it is refused; then
// the caller's diagnostics say more.
func Admit(c *call.Caller, p *program.Program, rt *runtime.Runtime, input any) (map[string]any, error) {
	err := p.FitsTools(c.Offers.ToolSpecs())
	if err == nil {
		err = unknownTools(p, c.Offers, rt)
	}
	if err == nil {
		err = c.Unpriced()
	}
	if err != nil {
		return nil, err
	}
	given, err := InputMap(input, rt.Limits.WithDefaults().MaxRunBytes)
	if err != nil {
		c.Diagnostics = append(c.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel,
			Kind: diagnostics.KindWorkflow, Code: diagnostics.CodeInput, Message: err.Error()})
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	inputs, err := p.Inputs.Check(given)
	if err != nil {
		for _, f := range p.Inputs.Faults(given, &program.Suggester{}, func(string) bool { return true }) {
			c.Diagnostics = append(c.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel,
				Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeInput, Message: f.Message, Hint: f.Hint})
		}
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	return inputs, nil
}

// begin starts a new run and its journal. If the host has chosen the run's id, the journal is written at once, so
// that no run uses an id that is taken. run has the members of the run that the runtime and the program do not tell:
// its parent, if it is a fork, and its queue. unknown are the calls of the parent whose outcome is unknown.
func begin(
	r *local.Run, s *local.Spec, inputs map[string]any, run checkpoint.Run, unknown []journal.UnknownCall,
) (err error) {
	if run.Queued {
		r.Engine.Record(inputs, unknown)
	} else {
		r.Engine.Begin(inputs, unknown)
	}
	run.ID, run.Recipe, run.Digest, run.StartedAt = r.ID, s.Program.Recipe.Name, s.Program.Digest, r.Began()
	run.By = s.By
	r.Store.Run = run
	if r.Store.Store = s.Runtime.Store; s.Runtime.Store == nil {
		return nil
	}
	if r.Store.Run.Definition, err = s.Program.Definition(); err != nil {
		return err
	}
	if s.Runtime.NewRunID != nil && run.Parent == "" && !run.Queued {
		return r.Flush()
	}
	return nil
}

// InputMap returns the inputs of a run as a map. It is a copy: the caller may change the original afterwards. What has
// more than most bytes, as JSON or in memory, is refused before it is copied.
func InputMap(input any, most int) (map[string]any, error) {
	v, extent, err := value.Take(input, most)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	if extent.Bytes > most || extent.Weight > most {
		return nil, fmt.Errorf("the inputs take more than the %d bytes of limits.max_run_bytes: "+
			"give the path of a file instead, and let a step read it", most)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return value.Clone(v).(map[string]any), nil
	}
	return nil, fmt.Errorf("the input must be a map from input names to values, not %s", value.TypeName(v))
}

// unknownTools refuses a run with an agent whose tools or approval name an unknown tool. If skills or the environment
// may add tools, the agent checks this when it begins.
func unknownTools(p *program.Program, offers *runtime.Resolution, rt *runtime.Runtime) error {
	for _, call := range p.Calls {
		if call.Agents == nil || rt.Env != nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(call.Agents.Defs)) {
			def := call.Agents.Defs[id]
			if def.Brings() {
				continue
			}
			known := slices.AppendSeq(program.ToolsToOthers(def), maps.Keys(call.Agents.Tools))
			for _, t := range slices.Concat(offers.Tools, def.Loop.Own) {
				known = append(known, t.Spec().Name)
			}
			if err := agents.UnknownTool(&def.Loop, known, def.ChoosesTools()); err != nil {
				return program.ConfigError(diagnostics.CodeUnknownTool, "%s: %w", call.Pos, err)
			}
		}
	}
	return nil
}
