package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// The codes of calls that gave the model an error result.
const (
	toolUnknown       = "tool.unknown"
	toolArguments     = "tool.arguments"
	toolDenied        = "tool.denied"
	toolLimit         = "tool.limit"
	toolChanged       = "mcp.changed"
	toolFailed        = "tool.failed"
	toolPanicked      = "tool.panic"
	toolIndeterminate = "tool.indeterminate"
	delegateFailed    = "delegate.failed"
	handoffSecond     = "handoff.second"
)

// toolset is what a loop may call in one execution.
type toolset struct {
	byName  map[string]*binding
	offered []runtime.ToolSpec // sorted by name
	denied  []string           // what may not be called, normalised
	unknown error              // a key of Approval, or an entry of Tools, that matches no tool; nil: all do
	vague   bool               // a key of Approval matches none
	missing error              // why a tool that the loop lists cannot be called; nil: all can, or it goes without
}

// binding is a tool that may be called.
type binding struct {
	runtime.ToolSpec
	scope  Scope           // "": one of the loop's own
	schema *schema.Schema  // of the arguments; nil: any object
	child  *agentloop.Loop // of a delegate

	nested bool    // it is a tool of the recipe
	calls  []Inner // that its steps may make
}

// toolset returns the tools of this execution, made when they are asked for first.
func (f *frame) toolset() *toolset {
	if f.tools == nil {
		f.tools = f.bindTools()
	}
	return f.tools
}

// bindTools looks through the scopes, and keeps what the lists allow.
func (f *frame) bindTools() *toolset {
	found := f.findTools()
	offer, own := f.execution.offer, f.loop.Listed()
	most, deny := value.Names(offer.Agents.Tools), value.Names(slices.Concat(offer.Deny, f.loop.Deny))
	has := func(list []string, name string) bool { _, ok := slices.BinarySearch(list, name); return ok }
	set := &toolset{byName: map[string]*binding{}, denied: deny}
	names := slices.Collect(maps.Keys(found))
	gone := map[string]string{} // why, by name
	for _, name := range names {
		if why := found[name].Missing; why != "" {
			gone[name] = why
			delete(found, name)
		}
	}
	add := func(b *binding, listed bool) {
		name := b.Name
		effect := runtime.Effect("")
		if b.scope != "" {
			effect = fixedEffect(&b.ToolSpec)
		}
		if denies(deny, name, effect) || b.innerDenied(offer) ||
			listed && len(most) > 0 && !denies(most, name, effect) ||
			listed && b.scope != OfAgent && !has(own, name) &&
				(!f.loop.HasAllTools() || offer.Listed[name] && b.scope == OfHost) ||
			listed && f.narrow != nil && !slices.Contains(f.narrow, name) {
			return
		}
		if name == agentloop.ExecTool {
			b.Parameters = without(b.Parameters, "effect")
		}
		if b.Parameters != nil {
			var err error
			if b.schema, err = schema.Compile(b.Parameters); err != nil {
				f.warn(diagnostics.CodeArguments,
					"tool %q is not offered, its parameters are not a schema: %v", name, err)
				return
			}
		}
		set.byName[name] = b
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		add(found[name], true)
	}
	for _, name := range own {
		set.missing = cmp.Or(set.missing, f.lacks(name, found, gone, set))
	}
	if has(own, agentloop.AskHuman) && (f.narrow == nil || slices.Contains(f.narrow, agentloop.AskHuman)) {
		add(&binding{ToolSpec: humanSpec}, false)
	}
	f.addOthers(add)
	for _, name := range value.SortedKeys(f.loop.Delegates) {
		names = append(names, agentloop.DelegatePrefix+name)
	}
	for _, name := range value.SortedKeys(f.loop.Handoffs) {
		names = append(names, agentloop.HandoffPrefix+name)
	}
	set.unknown = UnknownTool(f.loop, names, f.execution.terms.Earlier || f.narrow != nil)
	set.vague = UnknownTool(f.loop, names, true) != nil
	for _, name := range slices.Sorted(maps.Keys(set.byName)) {
		set.offered = append(set.offered, set.byName[name].shown())
	}
	return set
}

// UnknownTool is the error of a loop that names a tool which is none of these, nor its own or built-in; nil: it names
// none. Where only approvals count, names in its Tools do not.
func UnknownTool(l *agentloop.Loop, tools []string, onlyApprovals bool) error {
	what, unknown := "approval", l.Unknown(tools)
	if approval, _ := l.Unmatched(slices.Concat(tools, l.Listed())); len(approval) > 0 {
		unknown = approval
	} else if what = "tools"; onlyApprovals || l.NeedsTools {
		unknown = nil
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("%s of agent %q names %q, which is not a tool%s", what, l.Name, unknown[0],
		hintLine(agentloop.SuggestTool(unknown[0], tools)))
}

// lacks is the error of a loop that lists a tool which cannot be called. It is nil, with a warning, for one that is not
// configured, if the loop can go without.
func (f *frame) lacks(name string, found map[string]*binding, gone map[string]string, set *toolset) error {
	if b, ok := found[name]; ok || agentloop.Reserved(name) {
		return f.barred(name, b, set)
	}
	group := prefixOf(name, func(key string) bool { return gone[key] != "" })
	if why := cmp.Or(gone[name], gone[group]); why != "" {
		return f.noTool("no tool named %q is configured: %s", name, why)
	}
	if f.loop.NeedsTools {
		return f.noTool("agent %q is to have tool %.60q, but no tool of that name is configured%s", f.loop.Name, name,
			hintLine(diagnostics.DidYouMean(name, value.SortedKeys(found))))
	}
	f.warn(diagnostics.CodeMissingTool,
		"agent %q lists tool %q, but no tool of that name is configured", f.loop.Name, name)
	return nil
}

// noTool is the error of a loop that lists a tool which it cannot call.
func (f *frame) noTool(format string, args ...any) error {
	return f.outside(runtime.CategoryConfig, string(diagnostics.CodeMissingTool), fmt.Errorf(format, args...))
}

// barred is the error of a loop that needs its tools and lists one which it may not call, for it is denied, beyond the
// limits of the installation, or not switched on; nil: it may. b is nil for one of the loop's own.
func (f *frame) barred(name string, b *binding, set *toolset) error {
	switch {
	case !f.loop.NeedsTools || f.narrow != nil:
	case b != nil && b.Off != "":
		return f.noTool("agent %q is to have tool %q, which is not allowed here%s", f.loop.Name, name, hintLine(b.Off))
	case b != nil && set.byName[name] == nil || b == nil && denies(set.denied, name, ""):
		return f.outside(runtime.CategoryConfig, toolDenied,
			fmt.Errorf("agent %q is to have tool %q, which it may not call%s", f.loop.Name, name,
				hintLine("deny of the agent, or deny or agents.tools of braise.yaml, leave it out")))
	}
	return nil
}

// hintLine is a hint as the last line of an error; "" for no hint.
func hintLine(hint string) string {
	if hint == "" {
		return ""
	}
	return "\n  hint: " + hint
}

// findTools looks through the scopes: the first that has a name wins, within one the last of the name.
func (f *frame) findTools() map[string]*binding {
	found, shadowed := f.execution.recipeTools(), map[string]Scope{}
	offer := f.execution.offer
	var own []runtime.ToolSpec
	for _, t := range f.loop.Own {
		if t != nil {
			own = append(own, offer.Describe(t))
		}
	}
	for _, scope := range []struct {
		name  Scope
		tools []runtime.ToolSpec
	}{{OfAgent, own}, {OfHost, offer.Host}, {OfSkill, f.skills}, {OfEnv, offer.Env}} {
		last := map[string]*runtime.ToolSpec{}
		for i := range scope.tools {
			last[scope.tools[i].Name] = &scope.tools[i]
		}
		for _, name := range value.SortedKeys(last) {
			t := last[name]
			if _, ok := found[name]; ok || agentloop.Reserved(name) {
				shadowed[name] = scope.name
				continue
			}
			found[name] = &binding{ToolSpec: *t, scope: scope.name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shadowed)) {
		by := "another one"
		if agentloop.Reserved(name) {
			by = "the loop's own: its name is reserved"
		}
		f.warn(diagnostics.CodeShadowedTool, "tool %q of %s is shadowed by %s", name, shadowed[name], by)
	}
	return found
}

// without leaves out parameters that are for the authors of steps: what a command does to the world, as a model's value
// must not cause a lost call to be repeated, and whose conversation it is.
func without(parameters json.RawMessage, names ...string) json.RawMessage {
	v, err := value.Decode(parameters)
	m, _ := v.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	if err != nil {
		return parameters // bad for other reasons, too
	}
	for _, name := range names {
		delete(properties, name)
	}
	if required, ok := m["required"].([]any); ok {
		m["required"] = slices.DeleteFunc(required, func(name any) bool {
			text, _ := name.(string)
			return slices.Contains(names, text)
		})
	}
	rest, err := value.JSON(v)
	if err != nil {
		return parameters
	}
	return rest
}

var humanSpec = runtime.ToolSpec{Name: agentloop.AskHuman, Description: "Ask a person, and wait for the answer.",
	Parameters: object("question", `"question":{"type":"string"}`)}

// shown is what a model gets of the tool, and data.
func (b *binding) shown() runtime.ToolSpec {
	spec := b.ToolSpec
	spec.EffectOf, spec.Approval = nil, ""
	return spec
}

// effect is what a second call would do to the world. What is the loop's own, does nothing itself.
func (b *binding) effect(args json.RawMessage) runtime.Effect {
	if b.scope == "" {
		return runtime.ReadOnly
	}
	return b.EffectFor(args)
}

// own reports whether the tool is one of the loop's own, or of its recipe.
func (b *binding) own() bool { return b != nil && (b.scope == "" || b.nested) }

// fault decodes arguments, and says what is wrong with them; "" if they are fit.
func (b *binding) fault(args json.RawMessage) (v any, fault string) {
	v, err := value.Decode(args)
	if text, ok := v.(string); ok { // so normalCalls keeps what is not JSON, or would change
		if _, err = value.Decode([]byte(text)); err == nil {
			if _, err := value.DecodeStrict([]byte(text)); err != nil {
				return v, err.Error()
			}
		}
	}
	if err != nil {
		return v, "they are not JSON: " + err.Error()
	}
	if _, ok := v.(map[string]any); !ok {
		return v, "they must be a JSON object, not " + value.TypeName(v)
	}
	if b.schema != nil {
		if problems := b.schema.Check(v); problems != nil {
			return v, schema.Describe(problems)
		}
	}
	return v, ""
}

// cut returns what the model sees of a result that is too long: its beginning, and that it is cut.
func (f *frame) cut(text string) string {
	text = valid(text)
	most := cmp.Or(f.loop.MaxResultBytes, agentloop.DefaultMaxResultBytes)
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s\n[cut: the first %d of %d bytes]", runes(text, most), len(runes(text, most)), len(text))
}

// runes returns the beginning of a text, of at most so many bytes, without half a rune.
func runes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// forModel words what a tool returned: nothing as "", a string as it is, the rest as JSON, without data.
func (f *frame) forModel(tool string, out json.RawMessage) (string, error) {
	switch {
	case len(out) == 0:
		return "", nil
	case len(out) > f.execution.offer.Limits.MaxOutputBytes:
		return "", fmt.Errorf("tool %q returned %d bytes, the limit is %d",
			tool, len(out), f.execution.offer.Limits.MaxOutputBytes)
	case (out[0] == '{' || out[0] == '[') && value.IsCanonical(out) && !bytes.Contains(out, []byte(`"type":`)):
		return string(out), nil
	}
	v, err := value.Decode(out)
	if err != nil {
		return "", fmt.Errorf("tool %q returned what is not JSON: %w", tool, err)
	}
	return asText(withoutData(v)), nil
}

// asText words decoded JSON for the model.
func asText(v any) string {
	text, err := value.Text(v)
	if err != nil {
		return err.Error()
	}
	return text
}

// Decoded returns arguments for people to look at.
func Decoded(args json.RawMessage) any {
	v, err := value.Decode(args)
	if err != nil {
		return string(args)
	}
	return v
}
