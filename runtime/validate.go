package runtime

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
)

// Validate reports programmer errors: what can be wrong with the value before anything runs, all
// at once, a line each. A run calls it first, and fails with runtime.invalid. It does no I/O.
func (rt *Runtime) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("runtime: "+format, args...)) }
	checkAdapters(rt.Models, rt.Tools, bad)
	checkMetadata(rt.Retriever, bad, "the retriever")
	checkMetadata(rt.Memory, bad, "the memory")
	checkSearchers(rt.Searchers, bad)
	for i := range rt.Plugins {
		p := &rt.Plugins[i]
		if p.Key == "" || p.Key == fromHost || p.Key == fromBuiltin {
			bad("plugin %d: its key is %q; it needs one of its own", i, p.Key)
		}
		p.check(func(format string, args ...any) {
			bad("plugin %q: "+format, append([]any{p.Key}, args...)...)
		})
	}
	if err := rt.Retry.Validate(); err != nil {
		bad("Retry: %w", err)
	}
	if err := rt.RetryDefaults.Validate(); err != nil {
		bad("RetryDefaults: %w", err)
	}
	if rt.Interrupt != "" && rt.Interrupt != resume.Continue && rt.Interrupt != resume.Restart {
		bad("unknown Interrupt %q, want %q or %q", rt.Interrupt, resume.Continue, resume.Restart)
	}
	checkFallbacks(rt.Fallbacks, bad)
	if rt.Agents.MaxCalls < 0 || rt.Agents.ApprovalExpires < 0 {
		bad("a limit of agents is negative: %+v", rt.Agents)
	}
	checkSinks(rt.Trace, rt.Prices, bad)
	for _, key := range value.SortedKeys(rt.Approval) {
		if a := rt.Approval[key]; !slices.Contains(approvals, a) {
			bad("approval of %q: unknown word %q, want never, pause, always or refuse", key, a)
		}
	}
	if l := rt.Limits; l.MaxParallel < 0 || l.Grace < 0 || l.InlineWait < 0 ||
		l.MaxItems < 0 || l.MaxSteps < 0 || l.MaxOutputBytes < 0 || l.MaxRunBytes < 0 {
		bad("a limit is negative: %+v", l)
	}
	if b := rt.Budget; b.Tokens < 0 || b.ToolCalls < 0 || b.WallTime < 0 ||
		!(b.CostUSD >= 0) || math.IsInf(b.CostUSD, 0) {
		bad("a budget is negative, or not a number: %+v", b)
	}
	if usd := rt.Budget.CostUSDPerDay; !(usd >= 0) || math.IsInf(usd, 0) {
		bad("Budget.CostUSDPerDay is %v, which is not an amount of money", usd)
	}
	for _, key := range value.SortedKeys(rt.Budget.PerLabel) {
		if usd := rt.Budget.PerLabel[key]; !(usd > 0) || math.IsInf(usd, 0) {
			bad("Budget.PerLabel[%q] is %v, which is not an amount of money", key, usd)
		}
	}
	return errors.Join(errs...)
}

// checkSinks reports what is wrong with the trace sinks and the prices of a host or a plugin.
func checkSinks(sinks []trace.Sink, prices map[string]Price, bad func(string, ...any)) {
	for i, s := range sinks {
		if s == nil {
			bad("trace sink %d is nil", i)
		}
	}
	for _, name := range value.SortedKeys(prices) {
		if p := prices[name]; !(p.Input >= 0 && p.Output >= 0) || math.IsInf(p.Input+p.Output, 0) {
			bad("the price of model %q is not an amount of money: %+v", name, p)
		}
	}
}

// approvals are the words for what an agent's call needs.
var approvals = []string{"", "never", "pause", "always", "refuse"}

// checkAdapters reports what is wrong with the models and tools of a host or a plugin.
func checkAdapters(models map[string]Model, tools []Tool, bad func(string, ...any)) {
	for _, name := range value.SortedKeys(models) {
		switch {
		case name == "":
			bad("a model without a name")
		case models[name] == nil:
			bad("model %q is nil", name)
		default:
			checkMetadata(models[name], bad, "model %q", name)
		}
	}
	for i, t := range tools {
		if t == nil {
			bad("tool %d is nil", i)
			continue
		}
		spec := t.Spec()
		if !strings.Contains(strings.Trim(spec.Name, "."), ".") {
			bad("tool %q: a tool's name contains a dot, like %q", spec.Name, "crm.lookup")
		}
		switch spec.Effect {
		case "", ReadOnly, Idempotent, External:
		default:
			bad("tool %q: unknown effect %q", spec.Name, spec.Effect)
		}
		if !slices.Contains(approvals, spec.Approval) {
			bad("tool %q: unknown approval %q, want never, pause, always or refuse", spec.Name, spec.Approval)
		}
		checkMetadata(t, bad, "tool %q", spec.Name)
		if b, ok := t.(broken); ok && b.constructionError() != nil {
			bad("%w", b.constructionError())
		} else if err := checkParameters(spec); err != nil { // compiled once per text, see internal/schema
			bad("tool %q: %w", spec.Name, err)
		}
	}
}

// checkSearchers reports what is wrong with the searchers of a host.
func checkSearchers(searchers map[string]Searcher, bad func(string, ...any)) {
	for _, name := range value.SortedKeys(searchers) {
		switch {
		case name == "":
			bad("a searcher without a name")
		case searchers[name] == nil:
			bad("searcher %q is nil", name)
		default:
			checkMetadata(searchers[name], bad, "searcher %q", name)
		}
	}
}

// checkMetadata reports what is wrong with what an adapter says of itself.
func checkMetadata(adapter any, bad func(string, ...any), what string, name ...any) {
	if d, ok := adapter.(Described); ok {
		if own := d.Metadata().Retry; own != nil {
			if err := own.Policy.Validate(); err != nil {
				bad(what+": retry: %w", append(name, err)...)
			}
		}
	}
}

// check reports what is wrong with the plugin, its key apart.
func (p *Plugin) check(bad func(string, ...any)) {
	if p.Mode != Extend && p.Mode != Override {
		bad("unknown mode %q, want %q (Extend) or %q", p.Mode, Extend, Override)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Capabilities)) {
		if key == "" {
			bad("a capability without a name")
		}
		if _, err := value.Normalise(p.Capabilities[key]); err != nil {
			bad("capability %q is no JSON: %w", key, err)
		}
	}
	for i, need := range p.Requires {
		switch need.Kind {
		case RequireCapability, RequireModel, RequireTool, RequireSecret, RequirePlugin:
		default:
			bad("requirement %d: unknown kind %q", i, need.Kind)
		}
		if need.Name == "" {
			bad("requirement %d has no name", i)
		}
	}
	checkAdapters(p.Models, p.Tools, bad)
	checkMetadata(p.Retriever, bad, "the retriever")
	checkMetadata(p.Memory, bad, "the memory")
	checkSinks(p.Trace, p.Prices, bad)
	for _, point := range slices.Sorted(maps.Keys(p.Hooks)) {
		if !slices.Contains(points, point) {
			names := make([]string, len(points))
			for i := range points {
				names[i] = string(points[i])
			}
			bad("hook at the unknown point %q\n  hint: %s", point, diagnostics.DidYouMean(string(point), names))
		} else if p.Hooks[point] == nil {
			bad("hook %q is nil", point)
		}
	}
}

// checkParameters reports a schema of arguments that does not compile, or that describes anything
// but an object.
func checkParameters(spec ToolSpec) error {
	if spec.Parameters == nil {
		return nil
	}
	s, err := schema.Compile(spec.Parameters)
	switch {
	case err != nil:
		return fmt.Errorf("parameters: %w", err)
	case !s.OfObjects():
		return errors.New(`parameters: the schema of a tool's arguments says "type": "object"`)
	}
	return nil
}
