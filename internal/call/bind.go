package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// boundTool is a tool, ready to be called; zero: missing.
type boundTool struct {
	tool   runtime.Tool
	values runtime.ValueTool // nil: the tool takes JSON
	schema *schema.Schema    // of its arguments; nil: any object, or already checked
	spec   runtime.ToolSpec
}

// Bind binds the names in a program to what rt offers:
//
//  1. models with their prices and the other ports, and what they and the tools require
//  2. tools, with their literal arguments
//  3. secrets
//  4. capabilities that requires names, and the adapter for answers to pauses
//  5. plugins, and which of several offers counts
//
// Only the environment and secrets cause an error. The Caller is then non-nil all the same, for its Diagnostics.
func Bind(ctx context.Context, p *program.Program, rt *runtime.Runtime) (*Caller, error) {
	offers := rt.Resolve()
	c := &Caller{Offers: offers, Archive: p.Archive, rt: offers.Runtime, uses: p.Tools,
		tools: make([]boundTool, len(p.Tools)),
		most:  bounds{rt.Limits.WithDefaults().MaxOutputBytes, rt.Limits.WithDefaults().MaxRunBytes / 8}}
	for _, d := range p.Found {
		if d.Code != diagnostics.CodeMissingTool { // reported again below, if it still holds
			c.Diagnostics = append(c.Diagnostics, d)
		}
	}
	for _, u := range p.Models {
		if m := c.Offers.Models[u.Name]; m == nil {
			c.missing(u, "model", diagnostics.CodeMissingModel, slices.Collect(maps.Keys(c.Offers.Models)))
			c.because(c.Offers.WhyNoModel(u.Name))
		} else {
			c.checkRequired(fmt.Sprintf("model %q", u.Name), m)
		}
	}
	c.checkOptions(p)
	c.checkPrices(p)
	c.bindPorts(p.Ports)
	c.Diagnostics = append(c.Diagnostics, Unapproved(p, c.Offers)...)
	env, err := toolsOf(ctx, c.rt.Env)
	if err != nil {
		return c, err
	}
	c.env = env
	c.bindTools(p)
	err = c.readSecrets(ctx, p.Secrets)
	for _, u := range p.Capabilities {
		if !c.Offers.Has(u.Name) {
			c.missing(u, "capability", diagnostics.CodeMissingCapability, nil)
		}
	}
	c.checkResume(p)
	c.Diagnostics = append(c.Diagnostics, c.Offers.Diagnostics...)
	if err == nil && c.Hooked() {
		err = c.bindPlugins(ctx, p)
	}
	return c, err
}

// checkResume reports that answers to the pauses of a program would be refused.
func (c *Caller) checkResume(p *program.Program) {
	asks := p.Waits.Answer
	if asks == nil && c.rt.Approver == nil {
		asks = p.Waits.Approval
	}
	if c.rt.Resume != nil || asks == nil {
		return
	}
	c.note(diagnostics.CodeNoResume, *asks, "set Runtime.Resume, to resume.PassThrough{} for answers as they come",
		"the run may wait for an answer, and there is no resume adapter to take it")
}

// note adds a diagnostic about a name that a program uses.
func (c *Caller) note(code diagnostics.Code, u program.Use, hint, format string, args ...any) {
	c.Diagnostics = append(c.Diagnostics, warning(code, u, hint, format, args...))
}

func warning(code diagnostics.Code, u program.Use, hint, format string, args ...any) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
		Message: fmt.Sprintf(format, args...), Hint: hint, Position: u.Pos, Step: u.Step}
}

// missing reports a name that the runtime does not offer.
func (c *Caller) missing(u program.Use, what string, code diagnostics.Code, offered []string) {
	c.Diagnostics = append(c.Diagnostics, program.Missing(u, what, code, offered))
}

// because adds a reason to the last diagnostic; "" adds nothing.
func (c *Caller) because(why string) {
	if why != "" {
		d := &c.Diagnostics[len(c.Diagnostics)-1]
		why, d.Hint, _ = strings.Cut(why, "\n  hint: ")
		d.Message += ": " + why
	}
}

// checkRequired reports the missing requirements of an adapter. who is its name in messages.
func (c *Caller) checkRequired(who string, adapter any) {
	if d, ok := adapter.(runtime.Described); ok {
		c.Diagnostics = append(c.Diagnostics, c.Offers.Unmet(who, d.Metadata().Requires)...)
	}
}

// checkOptions reports options that models do not take.
func (c *Caller) checkOptions(p *program.Program) {
	for _, u := range p.Options {
		option, name, _ := strings.Cut(u.Name, " ")
		m, ok := c.Model(name)
		option, media, _ := strings.Cut(option, ":")
		takes := slices.Contains(m.Options, option)
		if media != "" {
			option, takes = runtime.FilesOf(media), !takes || runtime.TakesType(m.Options, media)
		}
		if ok && !takes {
			c.note(diagnostics.CodeModelOption, u, "",
				"model %q does not take %s; step %q gives it", name, option, u.Step)
		}
	}
}

// checkPrices reports models without a price, if any limit of cost applies in a run.
func (c *Caller) checkPrices(p *program.Program) {
	if p.Recipe.Limits.CostUSD <= 0 && !p.StepLimits.Cost && c.rt.Budget.CostUSD <= 0 && !c.rt.Budget.Daily() {
		return
	}
	for _, u := range p.Models {
		if _, ok := c.rt.Prices[u.Name]; !ok && c.Offers.Models[u.Name] != nil {
			c.unpriced(u)
		}
	}
	for _, u := range p.Ports {
		kind, place := u.Place()
		d, _ := c.rt.Searcher(place).(runtime.Described)
		if kind == program.RerankerPort {
			d, _ = c.rt.Rerankers[place].(runtime.Described)
		}
		if d == nil {
			continue
		}
		for _, name := range d.Metadata().Spends {
			if _, ok := c.rt.Prices[name]; !ok {
				c.unpriced(program.Use{Name: name, Pos: u.Pos, Step: u.Step})
			}
		}
	}
}

// unpriced reports a model without a price.
func (c *Caller) unpriced(u program.Use) {
	d := warning(diagnostics.CodeMissingPrice, u, "give it under prices in braise.yaml",
		"model %q has no price; a limit of cost_usd needs one", u.Name)
	d.Level = diagnostics.ErrorLevel
	c.Diagnostics = append(c.Diagnostics, d)
}

// Unpriced is the error of a run that lacks prices; nil: it has them.
func (c *Caller) Unpriced() error {
	i := slices.IndexFunc(c.Diagnostics,
		func(d diagnostics.Diagnostic) bool { return d.Code == diagnostics.CodeMissingPrice })
	if i < 0 {
		return nil
	}
	d := c.Diagnostics[i]
	return program.ConfigError(diagnostics.CodeMissingPrice, "%s: %s\n  hint: %s", d.Position, d.Message, d.Hint)
}

// Strict is the error of a run with diagnostics, if the mode is strict; nil: it may begin. In any case the mode is
// applied to Diagnostics.
func (c *Caller) Strict(mode diagnostics.Mode) error {
	c.Diagnostics = mode.Apply(c.Diagnostics)
	if mode == diagnostics.Strict && c.Diagnostics.HasErrors() {
		return program.ConfigError(diagnostics.CodeStrict, "strict diagnostics failure: %w", c.Diagnostics.Err())
	}
	return nil
}

// bindPorts reports ports that are not configured, or that lack a requirement.
func (c *Caller) bindPorts(ports []program.Use) {
	for _, u := range ports {
		switch kind, place := u.Place(); {
		case kind == program.RerankerPort:
			c.bindPort(u, c.rt.Rerankers[place], fmt.Sprintf("reranker %q", place), diagnostics.CodeMissingReranker)
		case kind == program.SkillPort:
		case kind != "":
			c.bindPlace(u, place, kind == program.IndexPort)
		case u.Name == program.FilesPort && c.rt.Files == nil:
			c.note(diagnostics.CodeNoFiles, u, filesHint, "no files may be read here; step %q reads some", u.Step)
		case u.Name == "memory":
			c.bindPort(u, c.rt.Memory, u.Name, diagnostics.CodeMissingCapability)
		case u.Name == "skills":
			c.bindPort(u, c.rt.Skills, "skill loader", diagnostics.CodeMissingCapability)
		}
	}
}

// bindPlace reports a retriever that is not configured, or that nothing can be put into.
func (c *Caller) bindPlace(u program.Use, place string, writes bool) {
	s, name := c.rt.Searcher(place), "retriever"
	if place != runtime.DefaultSearcher {
		name = fmt.Sprintf("retriever %q", place)
	}
	c.bindPort(u, s, name, diagnostics.CodeMissingRetriever)
	switch _, index := s.(runtime.Index); {
	case s == nil && len(c.rt.Searchers) > 0:
		names := slices.Sorted(maps.Keys(c.rt.Searchers))
		hint := diagnostics.DidYouMean(place, names)
		if place == runtime.DefaultSearcher {
			hint = "name one of them: " + strings.Join(names, ", ")
		}
		c.Diagnostics[len(c.Diagnostics)-1].Hint = hint
	case s != nil && writes && !index && missingOf(s) == "":
		c.note(diagnostics.CodeReadOnly, u, storeHint, "nothing can be put into the %s; step %q does", name, u.Step)
	}
}

// missingOf says why a port cannot be used; "": it can.
func missingOf(port any) string {
	if d, ok := port.(runtime.Described); ok {
		return d.Metadata().Missing
	}
	return ""
}

// bindPort reports a port that is not configured, or that lacks a requirement.
func (c *Caller) bindPort(u program.Use, port any, name string, code diagnostics.Code) {
	why := missingOf(port)
	if port != nil && why == "" {
		c.checkRequired("the "+name, port)
		return
	}
	c.note(code, u, "", "there is no %s; step %q needs it", name, u.Step)
	c.because(why)
}

// bindTools finds the tools, and checks the literal arguments of their calls.
func (c *Caller) bindTools(p *program.Program) {
	if len(p.Tools) == 0 {
		return
	}
	specs := c.Offers.ToolSpecs()
	for n, spec := range specs {
		i := program.IndexOf(p.Tools, spec.Name)
		if i < 0 {
			continue
		}
		if c.tools[i].tool != nil {
			c.note(diagnostics.CodeShadowedTool, program.Use{}, "",
				"tool %q is configured twice; the last one is used", spec.Name)
		}
		if spec.Missing != "" {
			continue
		}
		c.tools[i] = c.bound(c.Offers.Tools[n], spec)
		if spec.Parameters != nil {
			c.tools[i].schema, _ = schema.Compile(spec.Parameters) // good: Runtime.Validate has seen it
		}
	}
	for i, u := range p.Tools {
		c.checkRequired(fmt.Sprintf("tool %q", u.Name), c.tools[i].tool)
	}
	var agents []string // tools that only agents call
	for _, t := range c.env {
		if t != nil {
			agents = append(agents, t.Spec().Name)
		}
	}
	for _, d := range p.CheckTools(specs, agents) {
		d.Level, d.Kind = diagnostics.Warn, diagnostics.KindContract
		c.Diagnostics = append(c.Diagnostics, d)
	}
	for i, u := range p.Tools {
		switch t := c.tools[i]; {
		case u.OfAgents(agents):
		case t.spec.Off != "":
			c.Off = append(c.Off, warning(diagnostics.CodeMissingTool, u, t.spec.Off,
				"tool %q is not allowed here; step %q needs it", u.Name, u.Step))
		case u.Required && t.tool == nil:
			c.Diagnostics = append(c.Diagnostics, program.MissingTool(u, specs))
		}
	}
	c.missingForAgents(p, specs)
}

// missingForAgents warns that agents which do not list their tools go without some.
func (c *Caller) missingForAgents(p *program.Program, specs []runtime.ToolSpec) {
	for _, spec := range specs {
		if !strings.HasSuffix(spec.Name, ".*") || spec.Missing == "" {
			continue
		}
		for _, call := range p.Calls {
			if call.Agents != nil && call.Agents.Unrestricted() {
				c.note(diagnostics.CodeMissingTool, program.Use{Pos: call.Pos, Step: call.Step}, "",
					"the agent goes without the tools %s: %s", spec.Name, spec.Missing)
			}
		}
	}
}

// bound prepares a tool for calls, without its schema.
func (c *Caller) bound(t runtime.Tool, spec runtime.ToolSpec) boundTool {
	if c.remote == nil && spec.EffectOf != nil { // what asks another process keeps to one goroutine
		spec.EffectOf = alone(spec.EffectOf)
	}
	values, _ := t.(runtime.ValueTool)
	return boundTool{tool: t, values: values, spec: spec}
}

// readSecrets reads the secrets that the recipe names, and makes the Redactor.
func (c *Caller) readSecrets(ctx context.Context, names []program.Use) error {
	if len(names) == 0 {
		return nil
	}
	c.secrets, c.noSecret = make(map[string]string, len(names)), map[string]string{}
	var texts []string
	for _, u := range names {
		text, err := "", runtime.ErrNoSecret
		if c.rt.Secrets != nil {
			text, err = guard.Port(ctx, runtime.CategoryInfra, "secret.failed", "the secrets",
				func() (string, error) { return c.rt.Secrets.Secret(ctx, u.Name) })
		}
		switch {
		case errors.Is(err, runtime.ErrNoSecret):
			c.missing(u, "secret", diagnostics.CodeMissingSecret, nil)
			_, c.noSecret[u.Name], _ = strings.Cut(err.Error(), runtime.ErrNoSecret.Error()+": ")
			c.because(c.noSecret[u.Name])
		case err != nil:
			return &runtime.Error{Category: runtime.CategoryInfra, Code: "secret.failed",
				Err: fmt.Errorf("secret %q cannot be read: %w", u.Name, err)}
		case len(text) < runtime.MinSecretBytes:
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "secret.tooShort",
				Err: fmt.Errorf("secret %q has under %d bytes, too few to keep it out of results",
					u.Name, runtime.MinSecretBytes)}
		default:
			c.secrets[u.Name] = text
			texts = append(texts, text)
		}
	}
	c.Redact = value.NewRedactor(texts)
	return nil
}

// bindPlugins adds the diagnostics about plugins.
func (c *Caller) bindPlugins(ctx context.Context, p *program.Program) error {
	missing, err := c.Offers.MissingSecrets(ctx)
	c.Diagnostics = append(c.Diagnostics, missing...)
	points := []runtime.Point{runtime.RunInit, runtime.RunFinish}
	if len(p.Graph.Nodes) > 0 {
		points = append(points, runtime.StepBefore, runtime.StepAfter)
	}
	for _, call := range p.Calls {
		if call.Kind == program.ModelCall || call.Kind == program.AgentCall {
			points = append(points, runtime.ModelBefore, runtime.ModelAfter)
		}
		if call.Kind == program.ToolCall || call.Kind == program.AgentCall {
			points = append(points, runtime.ToolBefore, runtime.ToolAfter)
		}
	}
	c.Diagnostics = append(c.Diagnostics, c.Offers.NotScheduled(points...)...)
	if err != nil {
		return &runtime.Error{Category: runtime.CategoryInfra, Code: "secret.failed", Err: err}
	}
	return nil
}
