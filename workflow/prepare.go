package workflow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
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
	p := &prepared{tools: make([]boundTool, len(wf.tools)), offers: rt.Resolve()}
	for _, d := range wf.Diagnostics {
		if d.Code != diagnostics.CodeMissingTool { // said again below, if it is still so
			p.list = append(p.list, d)
		}
	}
	for _, u := range wf.models {
		if m := p.offers.Models[u.name]; m == nil {
			p.missing(u, "model", diagnostics.CodeMissingModel, slices.Collect(maps.Keys(p.offers.Models)))
		} else if d, ok := m.(runtime.Described); ok {
			p.list = append(p.list, p.offers.Unmet(fmt.Sprintf("model %q", u.name), d.Metadata().Requires)...)
		}
	}
	p.checkPrices(wf, rt)
	p.bindPorts(wf.ports, rt)
	p.bindTools(wf, rt)
	err := p.readSecrets(ctx, wf, rt)
	for _, u := range wf.capabilities {
		if !p.offers.Has(u.name) {
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
	if len(wf.graph.Nodes) > 0 {
		points = append(points, runtime.StepBefore, runtime.StepAfter)
	}
	for _, c := range wf.calls {
		switch c.kind {
		case modelCall:
			points = append(points, runtime.ModelBefore, runtime.ModelAfter)
		case toolCall:
			points = append(points, runtime.ToolBefore, runtime.ToolAfter)
		case agentCall:
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
func (p *prepared) missing(u use, what string, code diagnostics.Code, offered []string) {
	p.list = append(p.list, missing(u, what, code, offered))
}

func missing(u use, what string, code diagnostics.Code, offered []string) diagnostics.Diagnostic {
	d := diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
		Message: fmt.Sprintf("%s %q is not there; step %q needs it", what, u.name, u.step),
		Hint:    diagnostics.DidYouMean(u.name, offered), Position: u.pos, Step: u.step,
	}
	if u.required {
		d.Kind, d.Message = diagnostics.KindRequirement, fmt.Sprintf("%s %q is not there; the recipe requires it", what, u.name)
	}
	return d
}

func (p *prepared) bindTools(wf *Workflow, rt *runtime.Runtime) {
	if len(wf.tools) == 0 {
		return
	}
	specs := p.offers.ToolSpecs()
	for n, spec := range specs {
		i := indexOf(wf.tools, spec.Name)
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
	for i, u := range wf.tools {
		if d, ok := p.tools[i].tool.(runtime.Described); ok {
			p.tools[i].about = d
			p.list = append(p.list, p.offers.Unmet(fmt.Sprintf("tool %q", u.name), d.Metadata().Requires)...)
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
	for i, u := range wf.tools {
		if u.required && p.tools[i].tool == nil && !u.ofAgents(agents) {
			p.missing(u, "tool", diagnostics.CodeMissingTool, toolNames(specs))
		}
	}
}

func toolNames(specs []runtime.ToolSpec) []string {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return names
}

// toolCheck is what checking the calls against some tools has found.
type toolCheck struct {
	specs  []runtime.ToolSpec
	agents []string
	list   diagnostics.List
}

// ofAgents reports whether a tool is one of those that only agents have, and nothing else calls it.
func (u *use) ofAgents(tools []string) bool { return !u.called && slices.Contains(tools, u.name) }

// checkTools checks the calls of tools against what is known of the tools: a name that is not
// there is a warning, arguments that cannot fit are an error. Most runs have the tools of the run
// before; what was found then stands.
func (wf *Workflow) checkTools(specs []runtime.ToolSpec, agents []string) diagnostics.List {
	last := wf.checked.Load()
	if last == nil || !slices.EqualFunc(specs, last.specs, sameParameters) || !slices.Equal(agents, last.agents) {
		last = &toolCheck{slices.Clone(specs), agents, wf.findInTools(specs, agents)}
		wf.checked.Store(last)
	}
	return last.list
}

func sameParameters(a, b runtime.ToolSpec) bool {
	return a.Name == b.Name && bytes.Equal(a.Parameters, b.Parameters)
}

func (wf *Workflow) findInTools(specs []runtime.ToolSpec, agents []string) diagnostics.List {
	var list diagnostics.List
	byName := make(map[string]runtime.ToolSpec, len(specs))
	for _, s := range specs {
		byName[s.Name] = s
	}
	for _, u := range wf.tools {
		if _, ok := byName[u.name]; !ok && u.step != "" && !u.required && !u.ofAgents(agents) {
			list = append(list, missing(u, "tool", diagnostics.CodeMissingTool, toolNames(specs)))
		}
	}
	var suggest suggester
	for _, call := range wf.calls {
		spec, ok := byName[call.name]
		if call.kind != toolCall || !ok || spec.Parameters == nil {
			continue
		}
		s, err := schema.Compile(spec.Parameters)
		if err != nil {
			continue // the tool's fault: Runtime.Validate reports it
		}
		for _, problem := range s.Check(argumentsAsWritten(call.with)) {
			if pos, known := locate(call.with, problem, call.pos); known {
				hint := ""
				if problem.Known != nil {
					tokens := value.Tokens(problem.Path)
					hint = suggest.hint(tokens[len(tokens)-1], func() []string { return problem.Known })
				}
				list = append(list, diagnostics.Diagnostic{
					Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeArguments,
					Message: fmt.Sprintf("arguments of %q: %s", call.name, schema.Describe([]schema.Problem{problem})),
					Hint:    cmp.Or(hint, "braise kinds "+call.name+" lists its arguments"), Position: pos, Step: call.step,
				})
			}
		}
	}
	return list
}

func argumentsAsWritten(v *recipe.Value) any {
	if v == nil {
		return map[string]any{}
	}
	return v.Literal()
}

// locate finds the place that a problem of literal arguments is about. It is not known when an
// expression will give the value there, a part of it, or what holds it.
func locate(v *recipe.Value, problem schema.Problem, whole diagnostics.Position) (pos diagnostics.Position, known bool) {
	if v == nil {
		return whole, true
	}
	pos = v.Pos
	tokens := value.Tokens(problem.Path)
	for i, token := range tokens {
		switch f := v.Field(token); {
		case v.IsMap && f == nil:
			return pos, true // a member that is missing
		case v.IsMap && problem.Known != nil && i == len(tokens)-1:
			return f.Pos, true // whatever its value will be
		case v.IsMap:
			v, pos = f.Value, f.Value.Pos
		case v.IsList:
			item, err := strconv.Atoi(token)
			if err != nil || item < 0 || item >= len(v.List) {
				return pos, true
			}
			v, pos = v.List[item], v.List[item].Pos
		default:
			return pos, !v.HasExpression()
		}
	}
	return pos, !v.HasExpression()
}

func (p *prepared) readSecrets(ctx context.Context, wf *Workflow, rt *runtime.Runtime) error {
	if len(wf.secrets) == 0 {
		return nil
	}
	p.secrets = make(map[string]string, len(wf.secrets))
	var texts []string
	for _, u := range wf.secrets {
		text, err := "", runtime.ErrNoSecret
		if rt.Secrets != nil {
			text, err = rt.Secrets.Secret(ctx, u.name)
		}
		switch {
		case errors.Is(err, runtime.ErrNoSecret):
			p.missing(u, "secret", diagnostics.CodeMissingSecret, nil)
		case err != nil:
			return &runtime.Error{Category: runtime.CategoryInfra, Code: "secret.failed", Err: fmt.Errorf("secret %q cannot be read: %w", u.name, err)}
		case len(text) < runtime.MinSecretBytes:
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "secret.tooShort",
				Err: fmt.Errorf("secret %q has under %d bytes, too few to keep it out of results", u.name, runtime.MinSecretBytes)}
		default:
			p.secrets[u.name] = text
			texts = append(texts, text)
		}
	}
	p.redact = value.NewRedactor(texts)
	return nil
}
