package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// prepared is what a run has found out about its runtime before the first step.
type prepared struct {
	tools   []boundTool // by index in Workflow.tools
	secrets map[string]string
	redact  *value.Redactor
	list    diagnostics.List
	offers  *runtime.Resolution // what the runtime and its plugins offer
}

// boundTool is a tool that the recipe uses, ready to be called; zero: missing.
type boundTool struct {
	tool   runtime.Tool
	values runtime.ValueTool // nil: the tool takes JSON
	schema *schema.Schema    // of its arguments; nil: any object
	effect runtime.Effect    // "" is External
	about  runtime.Described // nil: it says nothing about itself
}

// Check reports what a run with rt would find before its first step, in the mode of rt: the
// warnings of the compile, requirements that are not met, tools that are missing, shadowed or
// called with arguments that do not fit. It calls nothing but rt.Secrets and the tools' Spec.
func (wf *Workflow) Check(ctx context.Context, rt *runtime.Runtime) (diagnostics.List, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := rt.Validate(); err != nil {
		return nil, err
	}
	p, err := wf.prepare(ctx, rt)
	if err != nil {
		return nil, err
	}
	return rt.Diagnostics.Apply(p.list), nil
}

// prepare binds what the recipe uses to what rt offers:
//
//  1. models with their prices and the other ports, and what they and the tools require
//  2. tools, with the arguments that are written out
//  3. secrets
//  4. capabilities that requires names
//  5. plugins
//
// With an error, which only secrets cause, the findings are there all the same.
func (wf *Workflow) prepare(ctx context.Context, rt *runtime.Runtime) (*prepared, error) {
	p := &prepared{tools: make([]boundTool, len(wf.program.Tools)), offers: rt.Resolve()}
	for _, d := range wf.Diagnostics {
		if d.Code != diagnostics.CodeMissingTool { // said again below, if it is still so
			p.list = append(p.list, d)
		}
	}
	for _, u := range wf.program.Models {
		if m := p.offers.Models[u.Name]; m == nil {
			p.missing(u, "model", diagnostics.CodeMissingModel, slices.Collect(maps.Keys(p.offers.Models)))
		} else if d, ok := m.(runtime.Described); ok {
			p.list = append(p.list, p.offers.Unmet(fmt.Sprintf("model %q", u.Name), d.Metadata().Requires)...)
		}
	}
	p.checkPrices(wf, rt)
	p.bindPorts(wf.program.Ports, rt)
	p.bindTools(wf, rt)
	err := p.readSecrets(ctx, wf, rt)
	for _, u := range wf.program.Capabilities {
		if !p.offers.Has(u.Name) {
			p.missing(u, "capability", diagnostics.CodeMissingCapability, nil)
		}
	}
	if err == nil && len(p.offers.Plugins) > 0 {
		err = p.plugins(ctx, wf)
	}
	return p, err
}

// plugins adds what there is to say about plugins.
func (p *prepared) plugins(ctx context.Context, wf *Workflow) error {
	p.list = append(p.list, p.offers.Diagnostics...)
	missing, err := p.offers.MissingSecrets(ctx)
	p.list = append(p.list, missing...)
	points := []runtime.Point{runtime.RunInit, runtime.RunFinish}
	if len(wf.program.Graph.Nodes) > 0 {
		points = append(points, runtime.StepBefore, runtime.StepAfter)
	}
	for _, c := range wf.program.Calls {
		switch c.Kind {
		case program.ModelCall:
			points = append(points, runtime.ModelBefore, runtime.ModelAfter)
		case program.ToolCall:
			points = append(points, runtime.ToolBefore, runtime.ToolAfter)
		case program.AgentCall:
			points = append(points, runtime.ModelBefore, runtime.ModelAfter, runtime.ToolBefore, runtime.ToolAfter)
		}
	}
	p.list = append(p.list, p.offers.NotScheduled(points...)...)
	if err != nil {
		return &runtime.Error{Category: runtime.CategoryInfra, Code: "secret.failed", Err: err}
	}
	return nil
}

// missing reports a name that the runtime does not offer.
func (p *prepared) missing(u program.Use, what string, code diagnostics.Code, offered []string) {
	p.list = append(p.list, program.Missing(u, what, code, offered))
}

func (p *prepared) bindTools(wf *Workflow, rt *runtime.Runtime) {
	if len(wf.program.Tools) == 0 {
		return
	}
	specs := p.offers.ToolSpecs()
	for n, spec := range specs {
		i := program.IndexOf(wf.program.Tools, spec.Name)
		if i < 0 {
			continue
		}
		if p.tools[i].tool != nil {
			p.list = append(p.list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodeShadowedTool,
				Message: fmt.Sprintf("tool %q is there twice, the last one is used", spec.Name),
			})
		}
		p.tools[i] = boundTool{tool: p.offers.Tools[n], effect: spec.Effect}
		p.tools[i].values, _ = p.tools[i].tool.(runtime.ValueTool)
		if spec.Parameters != nil {
			p.tools[i].schema, _ = schema.Compile(spec.Parameters) // good: Runtime.Validate has seen it
		}
	}
	for i, u := range wf.program.Tools {
		if d, ok := p.tools[i].tool.(runtime.Described); ok {
			p.tools[i].about = d
			p.list = append(p.list, p.offers.Unmet(fmt.Sprintf("tool %q", u.Name), d.Metadata().Requires)...)
		}
	}
	var agents []string // tools that only agents have
	if rt.Env != nil {
		for _, t := range rt.Env.Tools() {
			if t != nil {
				agents = append(agents, t.Spec().Name)
			}
		}
	}
	for _, d := range wf.checkTools(specs, agents) {
		d.Level, d.Kind = diagnostics.Warn, diagnostics.KindContract
		p.list = append(p.list, d)
	}
	for i, u := range wf.program.Tools {
		if u.Required && p.tools[i].tool == nil && !u.OfAgents(agents) {
			p.missing(u, "tool", diagnostics.CodeMissingTool, program.ToolNames(specs))
		}
	}
}

// toolCheck is what checking the calls against some tools has found.
type toolCheck struct {
	specs  []runtime.ToolSpec
	agents []string
	list   diagnostics.List
}

// checkTools checks the calls of tools against what is known of the tools: a name that is not
// there is a warning, arguments that cannot fit are an error. Most runs have the tools of the run
// before; what was found then stands.
func (wf *Workflow) checkTools(specs []runtime.ToolSpec, agents []string) diagnostics.List {
	last := wf.checked.Load()
	if last == nil || !slices.EqualFunc(specs, last.specs, sameParameters) || !slices.Equal(agents, last.agents) {
		last = &toolCheck{slices.Clone(specs), agents, wf.program.FindInTools(specs, agents)}
		wf.checked.Store(last)
	}
	return last.list
}

func sameParameters(a, b runtime.ToolSpec) bool {
	return a.Name == b.Name && bytes.Equal(a.Parameters, b.Parameters)
}

func (p *prepared) readSecrets(ctx context.Context, wf *Workflow, rt *runtime.Runtime) error {
	if len(wf.program.Secrets) == 0 {
		return nil
	}
	p.secrets = make(map[string]string, len(wf.program.Secrets))
	var texts []string
	for _, u := range wf.program.Secrets {
		text, err := "", runtime.ErrNoSecret
		if rt.Secrets != nil {
			text, err = rt.Secrets.Secret(ctx, u.Name)
		}
		switch {
		case errors.Is(err, runtime.ErrNoSecret):
			p.missing(u, "secret", diagnostics.CodeMissingSecret, nil)
		case err != nil:
			return &runtime.Error{Category: runtime.CategoryInfra, Code: "secret.failed",
				Err: fmt.Errorf("secret %q cannot be read: %w", u.Name, err)}
		case len(text) < runtime.MinSecretBytes:
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "secret.tooShort",
				Err: fmt.Errorf("secret %q has under %d bytes, too few to keep it out of results",
					u.Name, runtime.MinSecretBytes)}
		default:
			p.secrets[u.Name] = text
			texts = append(texts, text)
		}
	}
	p.redact = value.NewRedactor(texts)
	return nil
}
