package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// BuiltinTool is an optional second interface of a Tool that exists whether a host asks for it or
// not. In Runtime.Tools it gives way to a plugin's tool of its name, as the host's own do not.
type BuiltinTool interface {
	Tool
	Builtin()
}

// Resolution is what a runtime offers once its plugins are taken in. It is read-only.
type Resolution struct {
	Runtime *Runtime         // what was resolved, with the ports of its plugins in place
	Plugins []Plugin         // that count, by their slots' order
	Models  map[string]Model // by the name that recipes use
	// Tools are the host's and then the plugins', in their order. Of two with one name the last
	// counts; both are of the host, or of one plugin.
	Tools       []Tool
	Diagnostics diagnostics.List // all of them warnings: those about providers, then those about plugins

	hooks    map[Point][]pluginHook
	declared map[string]any   // capabilities that plugins declare, reduced
	chosen   map[string]offer // by "model:NAME" and "tool:NAME"; nil without plugins
	secrets  Secrets
	noModels map[string]string // why models of the host cannot be used, by name

	there [len(ports)]bool // which of the ports are
}

type pluginHook struct {
	plugin string // its key
	call   Hook
}

// Capability is one thing that a runtime offers, as braise plan prints it.
type Capability struct {
	Key   string `json:"key"`
	Value any    `json:"value"` // decoded JSON; never nil, false, "" or an empty list
	From  string `json:"from"`  // host, plugin or builtin
}

// The providers that are no plugins, and From of what plugins give.
const (
	fromHost    = "host"
	fromPlugin  = "plugin"
	fromBuiltin = "builtin"
)

// scalars are the capabilities with a single value: the last plugin that declares it says what it
// is. Declarations of any other capability add up.
var scalars = append(ports[:], "model")

// Resolve folds the plugins into what the host gives. It is pure and deterministic, changes nothing
// in rt and shares with it what needs no change. rt is one that [Runtime.Validate] accepts.
//
//  1. plugins: the first of a slot has it; a later one that overrides takes its place, a later one
//     that extends is dropped
//  2. models, tools and ports: of several providers of one name the one that Runtime.Providers chooses,
//     else the one of the highest priority: the host, then plugins, then built-in tools. Among
//     plugins the first; that is a conflict, and reported. What a recipe has as defaults.model
//     chooses a name, not a provider.
//  3. capabilities: what plugins declare, the last word where there can be one value, else all
//     values in order
//  4. hooks, in the order of the plugins
//  5. what plugins require, secrets apart: see [Resolution.MissingSecrets]
func (rt *Runtime) Resolve() *Resolution {
	models, missing := apart(rt.Models)
	r := &Resolution{Runtime: rt, Models: models, Tools: rt.Tools, secrets: rt.Secrets, noModels: missing}
	defer r.look()
	if len(rt.Plugins) == 0 && len(rt.Providers) == 0 {
		return r
	}
	found := r.takeSlots(rt.Plugins)
	r.selectProviders(rt)
	r.Diagnostics = append(r.Diagnostics, found...)
	r.declared, r.hooks = map[string]any{}, map[Point][]pluginHook{}
	for _, p := range r.Plugins {
		r.declare(p.Capabilities)
		for point, hook := range p.Hooks {
			r.hooks[point] = append(r.hooks[point], pluginHook{p.Key, hook})
		}
	}
	for _, p := range r.Plugins {
		r.Diagnostics = append(r.Diagnostics, r.Unmet(fmt.Sprintf("plugin %q", p.Key), p.Requires)...)
	}
	return r
}

// look notes which ports are configured, and adds the tools that come with them.
func (r *Resolution) look() {
	rt := r.Runtime
	if own := rt.portTools(); own != nil {
		r.Tools = append(own, r.Tools...) // the first: another one of the name counts
	}
	r.there = [...]bool{rt.Approver != nil, rt.Cache != nil, rt.Env != nil, rt.Memory != nil, rt.Resume != nil,
		rt.Retriever != nil || len(rt.Searchers) > 0, rt.Secrets != nil, rt.Skills != nil, rt.Store != nil,
		len(rt.Trace) > 0}
}

// Unmet reports the requirements that are not met: who is how messages name the one that requires. Secrets
// are for [Resolution.MissingSecrets].
func (r *Resolution) Unmet(who string, needs []Requirement) (list diagnostics.List) {
	for _, need := range needs {
		if candidates, ok := r.offers(need); !ok {
			list = append(list, unmet(who, need, candidates))
		}
	}
	return list
}

// takeSlots fills r.Plugins, and returns the diagnostics about those that are dropped, and those that override nothing.
func (r *Resolution) takeSlots(plugins []Plugin) (found diagnostics.List) {
	for _, p := range plugins {
		i := slices.IndexFunc(r.Plugins, func(q Plugin) bool { return q.Slot() == p.Slot() })
		switch {
		case i < 0 && p.Mode == Override && p.OverrideKey != "":
			slots := make([]string, len(r.Plugins))
			for i := range r.Plugins {
				slots[i] = r.Plugins[i].Slot()
			}
			found = append(found, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodeNoOverride,
				Message: fmt.Sprintf("plugin %q overrides the slot %q, which no earlier plugin has", p.Key, p.Slot()),
				Hint:    diagnostics.DidYouMean(p.Slot(), slots),
			})
			r.Plugins = append(r.Plugins, p)
		case i < 0:
			r.Plugins = append(r.Plugins, p)
		case p.Mode == Override:
			r.Plugins[i] = p
		default:
			found = append(found, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodePluginDropped,
				Message: fmt.Sprintf("plugin %q is dropped, the earlier plugin %q has its slot %q",
					p.Key, r.Plugins[i].Key, p.Slot()),
				Hint: "to have it in place of the other: Mode: runtime.Override",
			})
		}
	}
	return found
}

// selectProviders fills r.Models, r.Tools and r.chosen.
func (r *Resolution) selectProviders(rt *Runtime) {
	offers := map[string][]offer{} // by "model:NAME" and "tool:NAME"
	for name := range r.Models {
		offers["model:"+name] = []offer{hostOffer(nil)}
	}
	for _, t := range rt.Tools {
		offers["tool:"+t.Spec().Name] = []offer{hostOffer(t)} // the last one's
	}
	for i, p := range r.Plugins {
		own := map[string]bool{}
		for name := range p.Models {
			own["model:"+name] = true
		}
		for _, t := range p.Tools {
			own["tool:"+t.Spec().Name] = true
		}
		for key := range own {
			offers[key] = append(offers[key], offer{fromPlugin, p.Key, i})
		}
	}
	r.chosen = make(map[string]offer, len(offers))
	for _, key := range slices.Sorted(maps.Keys(offers)) {
		choice, explicit := rt.Providers[key]
		r.chosen[key] = r.choose(key, offers[key], choice, explicit)
	}
	r.Runtime = r.equip(rt)
	for _, key := range slices.Sorted(maps.Keys(rt.Providers)) {
		if _, ok := r.chosen[key]; !ok {
			r.warn(diagnostics.CodeUnknownProvider, diagnostics.DidYouMean(key, slices.Collect(maps.Keys(r.chosen))),
				"a provider is chosen for %q, which no provider offers", key)
		}
	}
	models := r.Models
	r.Models, r.Tools = map[string]Model{}, nil
	for name, m := range models {
		if r.chosen["model:"+name].from != fromPlugin {
			r.Models[name] = m
		}
	}
	for _, t := range rt.Tools {
		if r.chosen["tool:"+t.Spec().Name].from != fromPlugin {
			r.Tools = append(r.Tools, t)
		}
	}
	for i, p := range r.Plugins {
		this := offer{fromPlugin, p.Key, i}
		for name, m := range p.Models {
			if r.chosen["model:"+name] == this {
				r.Models[name] = m
			}
		}
		for _, t := range p.Tools {
			if r.chosen["tool:"+t.Spec().Name] == this {
				r.Tools = append(r.Tools, t)
			}
		}
	}
}

func (r *Resolution) warn(code diagnostics.Code, hint, format string, args ...any) {
	r.Diagnostics = append(r.Diagnostics, diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// declare adds the capabilities of one more plugin.
func (r *Resolution) declare(capabilities map[string]any) {
	for key, v := range capabilities {
		v, _ = value.Normalise(v) // what is no JSON counts as nil: Validate reports it
		old := r.declared[key]
		switch {
		case slices.Contains(scalars, key):
			r.declared[key] = v
		case missing(v):
			r.declared[key] = old
		case missing(old) && key != "tools":
			r.declared[key] = v
		default:
			r.declared[key] = slices.Concat(list(old), list(v))
		}
	}
}

// list is v as a list; one value is a list of one.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if missing(v) {
		return nil
	}
	return []any{v}
}

// missing reports whether v says that a capability is missing.
func missing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}

// Has reports whether the capability exists: what plugins declare takes precedence over what there is to be
// seen, so that a plugin that declares false hides it.
func (r *Resolution) Has(key string) bool {
	if v, ok := r.declared[key]; ok {
		return !missing(v)
	}
	switch key {
	case "model":
		return len(r.Models) > 0
	case "tools":
		return len(r.Tools) > 0
	}
	i := slices.Index(ports[:], key)
	return i >= 0 && r.there[i]
}

// present are the keys that Has knows without a declaration.
var present = append(ports[:], "model", "tools")

// ports are those capabilities that have no names.
var ports = [...]string{
	"approver", "cache", "env", "memory", "resume", "retriever", "secrets", "skills", "store", "trace",
}

// Capabilities lists the capabilities, by key. The models and tools that can be seen are
// listed by name, sorted, once for each place they are from: host, plugin, builtin. Of a port that
// has no names the value is true.
func (r *Resolution) Capabilities() []Capability {
	list := []Capability{}
	for _, key := range r.keys() {
		switch v, declared := r.declared[key]; {
		case !r.Has(key):
		case declared:
			list = append(list, Capability{key, value.Clone(v), fromPlugin})
		case slices.Contains(ports[:], key):
			list = append(list, Capability{key, true, cmp.Or(r.chosen[key], hostOffer(nil)).from})
		default:
			list = append(list, r.named(key)...)
		}
	}
	return list
}

// keys are those of all capabilities that may be there, sorted.
func (r *Resolution) keys() []string {
	keys := slices.AppendSeq(slices.Clone(present), maps.Keys(r.declared))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// named lists the models or the tools.
func (r *Resolution) named(key string) (list []Capability) {
	from := map[string]offer{} // by name
	if key == "model" {
		for name := range r.Models {
			from[name] = cmp.Or(r.chosen["model:"+name], hostOffer(nil))
		}
	} else {
		for _, t := range r.Tools {
			name := t.Spec().Name
			from[name] = cmp.Or(r.chosen["tool:"+name], hostOffer(t))
		}
	}
	for _, place := range []string{fromHost, fromPlugin, fromBuiltin} {
		var names []any
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if from[name].from == place {
				names = append(names, name)
			}
		}
		if names != nil {
			list = append(list, Capability{key, names, place})
		}
	}
	return list
}

// ToolSpecs describes the tools, in their order.
func (r *Resolution) ToolSpecs() []ToolSpec {
	specs := make([]ToolSpec, len(r.Tools))
	for i, t := range r.Tools {
		specs[i] = t.Spec()
	}
	return specs
}

// offers reports whether a requirement is met, and when not what names there are. Secrets count as
// met: only asking tells.
func (r *Resolution) offers(need Requirement) (candidates []string, ok bool) {
	switch need.Kind {
	case RequireSecret:
		return nil, true
	case RequireCapability:
		if r.Has(need.Name) {
			return nil, true
		}
		return slices.DeleteFunc(r.keys(), func(key string) bool { return !r.Has(key) }), false
	case RequireModel:
		return slices.Collect(maps.Keys(r.Models)), r.Models[need.Name] != nil
	case RequireTool:
		for _, spec := range r.ToolSpecs() {
			candidates = append(candidates, spec.Name)
		}
	case RequirePlugin:
		for _, p := range r.Plugins {
			candidates = append(candidates, p.Key, p.Slot())
		}
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	return candidates, slices.Contains(candidates, need.Name)
}

func unmet(who string, need Requirement, candidates []string) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindRequirement, Code: diagnostics.CodePluginRequirement,
		Message: fmt.Sprintf("%s requires %s %q, which is not configured", who, need.Kind, need.Name),
		Hint:    diagnostics.DidYouMean(need.Name, candidates),
	}
}

// MissingSecrets asks for the secrets that plugins require, and reports those that are not configured.
// The error is one of the Secrets that says something else than ErrNoSecret.
func (r *Resolution) MissingSecrets(ctx context.Context) (diagnostics.List, error) {
	var list diagnostics.List
	for _, p := range r.Plugins {
		for _, need := range p.Requires {
			if need.Kind != RequireSecret {
				continue
			}
			err := ErrNoSecret
			if r.secrets != nil {
				_, err = r.secrets.Secret(ctx, need.Name)
			}
			switch {
			case errors.Is(err, ErrNoSecret):
				list = append(list, unmet(fmt.Sprintf("plugin %q", p.Key), need, nil))
			case err != nil:
				return list, fmt.Errorf("secret %q, which plugin %q requires, cannot be read: %w",
					need.Name, p.Key, err)
			}
		}
	}
	return list, nil
}
