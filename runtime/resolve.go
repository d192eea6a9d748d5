package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// BuiltinTool is an optional second interface of a Tool that is there whether a host asks for it or
// not. In Runtime.Tools it gives way to a plugin's tool of its name, as the host's own do not.
type BuiltinTool interface {
	Tool
	Builtin()
}

// Resolution is what a runtime offers once its plugins are taken in. It is read-only.
type Resolution struct {
	Plugins []Plugin         // that count, by their slots' order
	Models  map[string]Model // by the name that recipes use
	// Tools are the host's and then the plugins', in their order. Of two with one name the last
	// counts; both are of the host, or of one plugin.
	Tools       []Tool
	Diagnostics diagnostics.List // all of them warnings: those about providers, then those about plugins

	hooks    map[Point][]pluginHook
	declared map[string]any  // capabilities that plugins declare, reduced
	plugged  map[string]bool // "model:NAME" and "tool:NAME" that a plugin provides
	secrets  Secrets
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

// scalars are the capabilities of which there is one: the last plugin that declares it says what it
// is. Declarations of any other capability add up.
var scalars = []string{
	"approver", "cache", "env", "memory", "model", "resume", "retriever", "secrets", "skills", "store", "trace",
}

// Resolve folds the plugins into what the host gives. It is pure and deterministic, changes nothing
// in rt and shares with it what needs no change. rt is one that [Runtime.Validate] accepts.
//
//  1. plugins: the first of a slot has it; a later one that overrides takes its place, a later one
//     that extends is dropped
//  2. models and tools: of several providers of one name the one that Runtime.Providers chooses,
//     else the one of the highest priority: the host, then plugins, then built-in tools. Among
//     plugins the first; that is a conflict, and reported. What a recipe has as defaults.model
//     chooses a name, not a provider.
//  3. capabilities: what plugins declare, the last word where there can be one value, else all
//     values in order
//  4. hooks, in the order of the plugins
//  5. what plugins require, secrets apart: see [Resolution.MissingSecrets]
func (rt *Runtime) Resolve() *Resolution {
	r := &Resolution{Models: rt.Models, Tools: rt.Tools, secrets: rt.Secrets}
	if len(rt.Plugins) == 0 && len(rt.Providers) == 0 {
		return r
	}
	dropped := r.takeSlots(rt.Plugins)
	s := &selection{Resolution: r, choices: rt.Providers, met: map[string]bool{}}
	s.selectModels(rt.Models)
	s.selectTools(rt.Tools)
	s.reportUnmet()
	r.Diagnostics = append(r.Diagnostics, dropped...)
	for _, p := range r.Plugins {
		r.declare(p.Capabilities)
		for point, hook := range p.Hooks {
			if r.hooks == nil {
				r.hooks = map[Point][]pluginHook{}
			}
			r.hooks[point] = append(r.hooks[point], pluginHook{p.Key, hook})
		}
	}
	for _, p := range r.Plugins {
		for _, need := range p.Requires {
			if candidates, ok := r.offers(need); !ok {
				r.Diagnostics = append(r.Diagnostics, unmet(p.Key, need, candidates))
			}
		}
	}
	return r
}

// takeSlots fills r.Plugins, and returns the findings about those that are dropped.
func (r *Resolution) takeSlots(plugins []Plugin) (dropped diagnostics.List) {
	for _, p := range plugins {
		i := slices.IndexFunc(r.Plugins, func(q Plugin) bool { return q.Slot() == p.Slot() })
		switch {
		case i < 0:
			r.Plugins = append(r.Plugins, p)
		case p.Mode == Override:
			r.Plugins[i] = p
		default:
			dropped = append(dropped, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: diagnostics.CodePluginDropped,
				Message: fmt.Sprintf("plugin %q is dropped, %q has the slot %q", p.Key, r.Plugins[i].Key, p.Slot()),
				Hint:    "to have it in place of the other: Mode: runtime.Override",
			})
		}
	}
	return dropped
}

// selection chooses providers.
type selection struct {
	*Resolution
	choices map[string]string
	met     map[string]bool // choices that were looked at
}

// offer is a provider of one name.
type offer struct {
	provider string // host, builtin, or a plugin's key
	priority int
	plugin   int // its index; -1: none
}

var (
	hostOffer    = offer{fromHost, 20, -1}
	builtinOffer = offer{fromBuiltin, 0, -1}
)

func pluginOffer(i int, p Plugin) offer { return offer{p.Key, 10, i} }

// choose returns the offer that counts for a model or a tool. offers has one at least, in order.
func (s *selection) choose(port, name string, offers []offer) offer {
	key := port + ":" + name
	chosen, explicit := s.choices[key]
	if explicit {
		s.met[key] = true
		for _, o := range offers {
			if o.provider == chosen {
				return s.note(key, o)
			}
		}
		s.report(diagnostics.CodeUnknownProvider, diagnostics.DidYouMean(chosen, providers(offers)),
			"%q is chosen for %s %q and does not offer it", chosen, port, name)
	}
	best := offers[0]
	for _, o := range offers[1:] {
		if o.priority > best.priority {
			best = o
		}
	}
	for _, o := range offers {
		switch {
		case o == best:
		case o.priority == best.priority:
			s.report(diagnostics.CodeProviderConflict, fmt.Sprintf("choose: Providers: map[string]string{%q: %q}", key, best.provider),
				"plugins %q and %q both offer %s %q, the first one's is used", best.provider, o.provider, port, name)
		case port == "tool":
			s.report(diagnostics.CodeShadowedTool, "", "tool %q of %s is hidden by that of %s", name, o, best)
		}
	}
	return s.note(key, best)
}

// String names the provider in a message.
func (o offer) String() string {
	switch {
	case o.plugin >= 0:
		return fmt.Sprintf("plugin %q", o.provider)
	case o.provider == fromHost:
		return "the host"
	}
	return "Braise itself"
}

func (s *selection) note(key string, o offer) offer {
	if o.plugin >= 0 {
		if s.plugged == nil {
			s.plugged = map[string]bool{}
		}
		s.plugged[key] = true
	}
	return o
}

func (s *selection) report(code diagnostics.Code, hint, format string, args ...any) {
	s.Diagnostics = append(s.Diagnostics, diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: code, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func providers(offers []offer) (names []string) {
	for _, o := range offers {
		names = append(names, o.provider)
	}
	return names
}

func (s *selection) selectModels(own map[string]Model) {
	offers := map[string][]offer{}
	for name := range own {
		offers[name] = []offer{hostOffer}
	}
	for i, p := range s.Plugins {
		for name := range p.Models {
			offers[name] = append(offers[name], pluginOffer(i, p))
		}
	}
	s.Models = make(map[string]Model, len(offers))
	for _, name := range slices.Sorted(maps.Keys(offers)) {
		if o := s.choose("model", name, offers[name]); o.plugin < 0 {
			s.Models[name] = own[name]
		} else {
			s.Models[name] = s.Plugins[o.plugin].Models[name]
		}
	}
}

func (s *selection) selectTools(own []Tool) {
	var names []string // in order
	offers := map[string][]offer{}
	for _, t := range own {
		name, o := t.Spec().Name, hostOffer
		if _, ok := t.(BuiltinTool); ok {
			o = builtinOffer
		}
		if offers[name] == nil {
			names = append(names, name)
		}
		offers[name] = []offer{o} // the last one's
	}
	for i, p := range s.Plugins {
		for _, t := range p.Tools {
			name, o := t.Spec().Name, pluginOffer(i, p)
			switch before := offers[name]; {
			case before == nil:
				names = append(names, name)
				offers[name] = []offer{o}
			case before[len(before)-1] != o: // not twice in one plugin
				offers[name] = append(before, o)
			}
		}
	}
	winners := make(map[string]int, len(offers)) // the plugins
	for _, name := range names {
		winners[name] = s.choose("tool", name, offers[name]).plugin
	}
	s.Tools = nil
	keep := func(tools []Tool, plugin int) {
		for _, t := range tools {
			if winners[t.Spec().Name] == plugin {
				s.Tools = append(s.Tools, t)
			}
		}
	}
	keep(own, -1)
	for i, p := range s.Plugins {
		keep(p.Tools, i)
	}
}

// reportUnmet reports the choices for what nobody offers.
func (s *selection) reportUnmet() {
	for _, key := range slices.Sorted(maps.Keys(s.choices)) {
		if s.met[key] {
			continue
		}
		var known []string
		for name := range s.Models {
			known = append(known, "model:"+name)
		}
		for _, spec := range s.ToolSpecs() {
			known = append(known, "tool:"+spec.Name)
		}
		slices.Sort(known)
		s.report(diagnostics.CodeUnknownProvider, diagnostics.DidYouMean(key, slices.Compact(known)),
			"a provider is chosen for %q, which nobody offers", key)
	}
}

// declare adds the capabilities of one more plugin.
func (r *Resolution) declare(capabilities map[string]any) {
	for key, v := range capabilities {
		if r.declared == nil {
			r.declared = map[string]any{}
		}
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
			r.declared[key] = append(list(old), list(v)...)
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

// missing reports whether v says that a capability is not there.
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

// Has reports whether the capability is there: what plugins declare goes before what is there to be
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
	case "secrets":
		return r.secrets != nil
	}
	return false
}

// present are the keys that Has knows without a declaration.
var present = []string{"model", "secrets", "tools"}

// Capabilities lists what is there, by key. The models and tools that are there to be seen are
// listed by name, sorted, once for each place they are from: host, plugin, builtin. Of a port that
// has no names the value is true.
func (r *Resolution) Capabilities() []Capability {
	list := []Capability{}
	for _, key := range r.keys() {
		switch v, declared := r.declared[key]; {
		case !r.Has(key):
		case declared:
			list = append(list, Capability{key, value.Clone(v), fromPlugin})
		case key == "secrets":
			list = append(list, Capability{key, true, fromHost})
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
	names := map[string][]any{}
	add := func(from, port, name string) {
		if r.plugged[port+":"+name] {
			from = fromPlugin
		}
		if l := names[from]; len(l) == 0 || l[len(l)-1] != name {
			names[from] = append(l, name)
		}
	}
	if key == "model" {
		for _, name := range slices.Sorted(maps.Keys(r.Models)) {
			add(fromHost, "model", name)
		}
	} else {
		from := make(map[string]string, len(r.Tools))
		for _, t := range r.Tools {
			_, builtin := t.(BuiltinTool)
			from[t.Spec().Name] = map[bool]string{true: fromBuiltin, false: fromHost}[builtin]
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			add(from[name], "tool", name)
		}
	}
	for _, from := range []string{fromHost, fromPlugin, fromBuiltin} {
		if names[from] != nil {
			list = append(list, Capability{key, names[from], from})
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

func unmet(plugin string, need Requirement, candidates []string) diagnostics.Diagnostic {
	return diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindRequirement, Code: diagnostics.CodePluginRequirement,
		Message: fmt.Sprintf("plugin %q requires %s %q, which is not there", plugin, need.Kind, need.Name),
		Hint:    diagnostics.DidYouMean(need.Name, candidates),
	}
}

// MissingSecrets asks for the secrets that plugins require, and reports those that are not there.
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
				list = append(list, unmet(p.Key, need, nil))
			case err != nil:
				return list, fmt.Errorf("secret %q, which plugin %q requires, cannot be read: %w", need.Name, p.Key, err)
			}
		}
	}
	return list, nil
}

// points are all points, in order.
var points = []Point{RunInit, StepBefore, ModelBefore, ModelAfter, ToolBefore, ToolAfter, StepAfter, RunFinish}

// NotScheduled reports the hooks that are never called in a workflow that only ever comes by the
// points in scheduled: plugins in order, and the points of each in order.
func (r *Resolution) NotScheduled(scheduled ...Point) diagnostics.List {
	var list diagnostics.List
	for _, p := range r.Plugins {
		for _, point := range points {
			if p.Hooks[point] == nil || slices.Contains(scheduled, point) {
				continue
			}
			why := ""
			if port, _, _ := strings.Cut(string(point), "."); port == "model" || port == "tool" {
				why = ", no step calls a " + port
			}
			list = append(list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: diagnostics.CodeNotScheduled,
				Message: fmt.Sprintf("hook %q of plugin %q is never called%s", point, p.Key, why),
			})
		}
	}
	return list
}

// Fire calls the hooks of m.Point, one after the other in the order of the plugins. At
// [ModelBefore] and [ToolBefore] the first error or panic is returned, and no further hook is
// called: the call is denied. At any other point each is given to report, and Fire returns nil.
func (r *Resolution) Fire(ctx context.Context, m Moment, report func(diagnostics.Diagnostic)) error {
	for _, h := range r.hooks[m.Point] {
		err := h.fire(ctx, m)
		switch {
		case err == nil:
		case m.Point == ModelBefore || m.Point == ToolBefore:
			port, _, _ := strings.Cut(string(m.Point), ".")
			return fmt.Errorf("plugin %q denies the call of %s %q: %w", h.plugin, port, m.Name, err)
		default:
			report(diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: diagnostics.CodeHookFailed, Step: m.Step,
				Message: fmt.Sprintf("hook %q of plugin %q failed: %v", m.Point, h.plugin, err),
			})
		}
	}
	return nil
}

func (h pluginHook) fire(ctx context.Context, m Moment) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return h.call(ctx, m)
}
