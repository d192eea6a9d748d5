package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/braise-run/braise/diagnostics"
	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func ExampleRuntime_Resolve() {
	audit := runtime.Plugin{
		Key:      "audit",
		Requires: []runtime.Requirement{{Kind: runtime.RequireModel, Name: "fast"}},
		Models:   map[string]runtime.Model{"slow": runtimetest.Texts("hello")},
		Hooks: runtime.Hooks{
			runtime.ToolBefore: func(_ context.Context, m runtime.Moment) error {
				if m.Name == "exec.run" {
					return errors.New("no programs here")
				}
				return nil
			},
		},
	}
	rt := runtime.Runtime{
		Tools:   []runtime.Tool{runtimetest.NewTool("crm.lookup", nil)},
		Plugins: []runtime.Plugin{audit},
	}
	if err := rt.Validate(); err != nil {
		fmt.Println(err)
	}

	res := rt.Resolve()
	for _, c := range res.Capabilities() {
		fmt.Println(c.Key, c.Value, c.From)
	}
	for _, d := range res.Diagnostics {
		fmt.Println(d)
	}
	fmt.Println(res.Fire(context.Background(), runtime.Moment{Point: runtime.ToolBefore, Name: "exec.run"}, nil))
	// Output:
	// model [slow] plugin
	// tools [crm.lookup] host
	// warning: plugin "audit" requires model "fast", which is not configured [plugin.requirement]
	//   hint: known here: slow
	// plugin "audit" denies the call of tool "exec.run": no programs here
}

// offered is a model and a tool that says whose it is.
type offered struct {
	runtime.Model
	*runtimetest.Tool
	by string
}

// builtin is a tool that is marked as one.
type builtin struct{ offered }

func (builtin) Builtin() {}

func toolOf(by, name string) runtime.Tool {
	return offered{Tool: runtimetest.NewTool(name, nil), by: by}
}

func builtinTool(name string) runtime.Tool {
	return builtin{offered{Tool: runtimetest.NewTool(name, nil), by: "builtin"}}
}

func modelsOf(by string, names ...string) map[string]runtime.Model {
	models := map[string]runtime.Model{}
	for _, name := range names {
		models[name] = offered{by: by, Model: runtimetest.Texts()}
	}
	return models
}

func toolsOf(by string, names ...string) (tools []runtime.Tool) {
	for _, name := range names {
		tools = append(tools, toolOf(by, name))
	}
	return tools
}

// whose lists what was resolved: "model NAME of PROVIDER", sorted, then "tool NAME of PROVIDER".
func whose(r *runtime.Resolution) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Models)) {
		lines = append(lines, "model "+name+" of "+r.Models[name].(offered).by)
	}
	for _, t := range r.Tools {
		by := "builtin"
		if t, ok := t.(offered); ok {
			by = t.by
		}
		lines = append(lines, "tool "+t.Spec().Name+" of "+by)
	}
	return lines
}

// said are the diagnostics without their levels and kinds.
func said(list diagnostics.List) (lines []string) {
	for _, d := range list {
		lines = append(lines, strings.TrimPrefix(d.String(), "warning: "))
	}
	return lines
}

func TestSlots(t *testing.T) {
	const (
		e = runtime.Extend
		o = runtime.Override
	)
	for _, tt := range []struct {
		name    string
		plugins []runtime.Plugin
		want    []string // the keys of those that count
		dropped string   // each dropped plugin, and whom its slot has
	}{
		{"none", nil, nil, ""},
		{"two slots", []runtime.Plugin{{Key: "a"}, {Key: "b"}}, []string{"a", "b"}, ""},
		{"an extend of a taken slot", []runtime.Plugin{{Key: "a"}, {Key: "b"}, {Key: "a", Mode: e}}, []string{"a", "b"}, "a:a"},
		{"an override takes the place", []runtime.Plugin{{Key: "a"}, {Key: "b"}, {Key: "c", Mode: o, OverrideKey: "a"}}, []string{"c", "b"}, ""},
		{"an override by its own key", []runtime.Plugin{{Key: "a"}, {Key: "b"}, {Key: "a", Mode: o}}, []string{"a", "b"}, ""},
		{"an override by a key of its own that is free", []runtime.Plugin{{Key: "c", Mode: o}, {Key: "b"}}, []string{"c", "b"}, ""},
		{"an override of an override", []runtime.Plugin{{Key: "a"}, {Key: "c", Mode: o, OverrideKey: "a"}, {Key: "d", Mode: o, OverrideKey: "a"}}, []string{"d"}, ""},
		{"an extend after an override", []runtime.Plugin{{Key: "a"}, {Key: "c", Mode: o, OverrideKey: "a"}, {Key: "a"}}, []string{"c"}, "a:c"},
		{"an override whose key is another's", []runtime.Plugin{{Key: "a"}, {Key: "b"}, {Key: "b", Mode: o, OverrideKey: "a"}}, []string{"b", "b"}, ""},
		{"an extend of a named slot that is free", []runtime.Plugin{{Key: "c", OverrideKey: "a"}, {Key: "a"}}, []string{"c"}, "a:c"},
		{"an extend of a named slot that is taken", []runtime.Plugin{{Key: "a"}, {Key: "c", OverrideKey: "a"}}, []string{"a"}, "c:a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := (&runtime.Runtime{Plugins: tt.plugins}).Resolve()
			var got []string
			for _, p := range r.Plugins {
				got = append(got, p.Key)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("plugins that count (-want +got)\n%s", diff)
			}
			if tt.dropped == "" {
				if r.Diagnostics != nil {
					t.Errorf("diagnostics: %v", r.Diagnostics)
				}
				return
			}
			key, holder, _ := strings.Cut(tt.dropped, ":")
			want := diagnostics.List{{
				Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodePluginDropped,
				Message: fmt.Sprintf(`plugin %q is dropped, the earlier plugin %q has its slot "a"`, key, holder),
				Hint:    "to have it in place of the other: Mode: runtime.Override",
			}}
			if diff := cmp.Diff(want, r.Diagnostics); diff != "" {
				t.Errorf("diagnostics (-want +got)\n%s", diff)
			}
		})
	}
}

// Of an overridden or dropped plugin nothing counts.
func TestPluginsThatDoNotCount(t *testing.T) {
	fired := ""
	full := func(key string, mode runtime.PluginMode) runtime.Plugin {
		return runtime.Plugin{
			Key: key, OverrideKey: "slot", Mode: mode,
			Capabilities: map[string]any{"made_by": key},
			Requires:     []runtime.Requirement{{Kind: runtime.RequirePlugin, Name: "no" + key}},
			Models:       modelsOf(key, key),
			Tools:        toolsOf(key, "tool."+key),
			Hooks: runtime.Hooks{runtime.RunInit: func(context.Context, runtime.Moment) error {
				fired += key
				return nil
			}},
		}
	}
	r := (&runtime.Runtime{Plugins: []runtime.Plugin{full("a", ""), full("b", runtime.Override), full("c", "")}}).Resolve()
	if diff := cmp.Diff([]string{"model b of b", "tool tool.b of b"}, whose(r)); diff != "" {
		t.Errorf("adapters (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"plugin \"c\" is dropped, the earlier plugin \"b\" has its slot \"slot\" [plugin.dropped]\n  hint: to have it in place of the other: Mode: runtime.Override",
		"plugin \"b\" requires plugin \"nob\", which is not configured [plugin.requirement]\n  hint: known here: b, slot",
	}, said(r.Diagnostics)); diff != "" {
		t.Errorf("diagnostics (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]runtime.Capability{
		{Key: "made_by", Value: "b", From: "plugin"},
		{Key: "model", Value: []any{"b"}, From: "plugin"},
		{Key: "tools", Value: []any{"tool.b"}, From: "plugin"},
	}, r.Capabilities()); diff != "" {
		t.Errorf("capabilities (-want +got)\n%s", diff)
	}
	if err := r.Fire(t.Context(), runtime.Moment{Point: runtime.RunInit}, nil); err != nil || fired != "b" {
		t.Errorf("fired %q, %v; want b", fired, err)
	}
}

func TestProviders(t *testing.T) {
	plugin := func(key string, models []string, tools ...string) runtime.Plugin {
		return runtime.Plugin{Key: key, Models: modelsOf(key, models...), Tools: toolsOf(key, tools...)}
	}
	type choices = map[string]string
	for _, tt := range []struct {
		name string
		rt   runtime.Runtime
		want []string
		said []string
	}{
		{"one provider of each", runtime.Runtime{Models: modelsOf("host", "m"), Tools: toolsOf("host", "t.x"),
			Plugins: []runtime.Plugin{plugin("a", []string{"n"}, "t.y")}},
			[]string{"model m of host", "model n of a", "tool t.x of host", "tool t.y of a"}, nil},
		{"tools keep their order, the host's first", runtime.Runtime{Tools: toolsOf("host", "t.z", "t.y"),
			Plugins: []runtime.Plugin{plugin("b", nil, "t.d", "t.c"), plugin("a", nil, "t.b", "t.a")}},
			[]string{"tool t.z of host", "tool t.y of host", "tool t.d of b", "tool t.c of b", "tool t.b of a", "tool t.a of a"}, nil},
		{"the host before a plugin", runtime.Runtime{Models: modelsOf("host", "m"), Tools: toolsOf("host", "t.x"),
			Plugins: []runtime.Plugin{plugin("a", []string{"m"}, "t.x")}},
			[]string{"model m of host", "tool t.x of host"},
			[]string{`tool "t.x" of plugin "a" is hidden by that of the host [tool.shadowed]`}},
		{"a plugin before what is built in", runtime.Runtime{Tools: []runtime.Tool{builtinTool("t.x"), builtinTool("t.y")},
			Plugins: []runtime.Plugin{plugin("a", nil, "t.x")}},
			[]string{"tool t.y of builtin", "tool t.x of a"},
			[]string{`tool "t.x" of Braise itself is hidden by that of plugin "a" [tool.shadowed]`}},
		{"of the host's own the last", runtime.Runtime{Tools: []runtime.Tool{builtinTool("t.x"), toolOf("host", "t.x")},
			Plugins: []runtime.Plugin{plugin("a", nil, "t.x")}},
			[]string{"tool t.x of builtin", "tool t.x of host"},
			[]string{`tool "t.x" of plugin "a" is hidden by that of the host [tool.shadowed]`}},
		{"two of one plugin, as two of the host", runtime.Runtime{Plugins: []runtime.Plugin{plugin("a", nil, "t.x", "t.x")}},
			[]string{"tool t.x of a", "tool t.x of a"}, nil},
		{"two plugins tie", runtime.Runtime{Plugins: []runtime.Plugin{plugin("b", []string{"m"}, "t.x"), plugin("a", []string{"m"}, "t.x")}},
			[]string{"model m of b", "tool t.x of b"},
			[]string{
				"plugins \"b\" and \"a\" both offer model \"m\", the first one's is used [provider.conflict]\n  hint: choose one: Runtime.Providers[\"model:m\"] = \"b\"",
				"plugins \"b\" and \"a\" both offer tool \"t.x\", the first one's is used [provider.conflict]\n  hint: choose one: Runtime.Providers[\"tool:t.x\"] = \"b\"",
			}},
		{"two plugins behind the host do not", runtime.Runtime{Models: modelsOf("host", "m"),
			Plugins: []runtime.Plugin{plugin("b", []string{"m"}), plugin("a", []string{"m"})}},
			[]string{"model m of host"}, nil},
		{"three plugins", runtime.Runtime{Plugins: []runtime.Plugin{plugin("c", []string{"m"}), plugin("b", []string{"m"}), plugin("a", []string{"m"})}},
			[]string{"model m of c"},
			[]string{
				"plugins \"c\" and \"b\" both offer model \"m\", the first one's is used [provider.conflict]\n  hint: choose one: Runtime.Providers[\"model:m\"] = \"c\"",
				"plugins \"c\" and \"a\" both offer model \"m\", the first one's is used [provider.conflict]\n  hint: choose one: Runtime.Providers[\"model:m\"] = \"c\"",
			}},
		{"a choice before the priority, in silence", runtime.Runtime{Models: modelsOf("host", "m"), Tools: toolsOf("host", "t.x"),
			Plugins:   []runtime.Plugin{plugin("a", []string{"m"}, "t.x"), plugin("b", []string{"m"}, "t.x")},
			Providers: choices{"model:m": "b", "tool:t.x": "b"}},
			[]string{"model m of b", "tool t.x of b"}, nil},
		{"a choice of the host", runtime.Runtime{Models: modelsOf("host", "m"), Plugins: []runtime.Plugin{plugin("a", []string{"m"})},
			Providers: choices{"model:m": "host"}},
			[]string{"model m of host"}, nil},
		{"a choice of what is built in", runtime.Runtime{Tools: []runtime.Tool{builtinTool("t.x")}, Plugins: []runtime.Plugin{plugin("a", nil, "t.x")},
			Providers: choices{"tool:t.x": "builtin"}},
			[]string{"tool t.x of builtin"}, nil},
		{"a choice without plugins", runtime.Runtime{Models: modelsOf("host", "m"), Providers: choices{"model:m": "host"}},
			[]string{"model m of host"}, nil},
		{"an unknown provider", runtime.Runtime{Plugins: []runtime.Plugin{plugin("acme", []string{"m"})}, Providers: choices{"model:m": "acm"}},
			[]string{"model m of acme"},
			[]string{"\"acm\" is chosen for model \"m\" and does not offer it [provider.unknown]\n  hint: did you mean \"acme\"?"}},
		{"a provider that offers something else", runtime.Runtime{Models: modelsOf("host", "m"), Plugins: []runtime.Plugin{plugin("a", []string{"n"})},
			Providers: choices{"model:m": "a"}},
			[]string{"model m of host", "model n of a"},
			[]string{"\"a\" is chosen for model \"m\" and does not offer it [provider.unknown]\n  hint: known here: host"}},
		{"a plugin that was dropped", runtime.Runtime{Plugins: []runtime.Plugin{plugin("a", []string{"m"}), {Key: "b", OverrideKey: "a", Models: modelsOf("b", "m")}},
			Providers: choices{"model:m": "b"}},
			[]string{"model m of a"},
			[]string{
				"\"b\" is chosen for model \"m\" and does not offer it [provider.unknown]\n  hint: known here: a",
				"plugin \"b\" is dropped, the earlier plugin \"a\" has its slot \"a\" [plugin.dropped]\n  hint: to have it in place of the other: Mode: runtime.Override",
			}},
		{"a choice for an unknown name", runtime.Runtime{Models: modelsOf("host", "fast"), Tools: toolsOf("host", "crm.lookup"),
			Providers: choices{"model:fats": "host", "fast": "host", "tool:crm.lokup": "host"}},
			[]string{"model fast of host", "tool crm.lookup of host"},
			[]string{
				"a provider is chosen for \"fast\", which no provider offers [provider.unknown]\n  hint: known here: model:fast, tool:crm.lookup",
				"a provider is chosen for \"model:fats\", which no provider offers [provider.unknown]\n  hint: did you mean \"model:fast\"?",
				"a provider is chosen for \"tool:crm.lokup\", which no provider offers [provider.unknown]\n  hint: did you mean \"tool:crm.lookup\"?",
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.rt.Resolve()
			if diff := cmp.Diff(tt.want, whose(r)); diff != "" {
				t.Errorf("providers (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.said, said(r.Diagnostics)); diff != "" {
				t.Errorf("diagnostics (-want +got)\n%s", diff)
			}
			for _, d := range r.Diagnostics {
				if d.Level != diagnostics.Warn || d.Kind != diagnostics.KindContract { // trust 4.1
					t.Errorf("%v is of level %s and kind %s", d, d.Level, d.Kind)
				}
			}
		})
	}
}

// What plugins declare is reduced by key.
func TestDeclaredCapabilities(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		values    []any // one plugin after the other
		want      any   // nil: missing
	}{
		{"a scalar", "memory", []any{"sqlite"}, "sqlite"},
		{"the last scalar", "memory", []any{"sqlite", "postgres"}, "postgres"},
		{"a scalar that is a list is one value", "retriever", []any{[]string{"a"}, []string{"b"}}, []any{"b"}},
		{"the last scalar says that it is missing", "memory", []any{"sqlite", false}, nil},
		{"and that it is, after all", "memory", []any{false, true}, true},
		{"tools", "tools", []any{[]any{"a", "b"}, []any{"c"}}, []any{"a", "b", "c"}},
		{"one tool is a list of one", "tools", []any{"a"}, []any{"a"}},
		{"tools and a tool", "tools", []any{[]string{"a"}, "b", []string{}}, []any{"a", "b"}},
		{"tools twice", "tools", []any{"a", "a"}, []any{"a", "a"}},
		{"an unknown key, once", "region", []any{"eu"}, "eu"},
		{"an unknown key", "region", []any{"eu", "us"}, []any{"eu", "us"}},
		{"an unknown key of lists", "region", []any{[]any{"eu"}, "us", []any{"af", "as"}}, []any{"eu", "us", "af", "as"}},
		{"what is missing adds nothing", "region", []any{nil, "eu", false, "", []any{}}, "eu"},
		{"maps add up as values", "region", []any{map[string]any{"eu": 1}, map[string]any{}}, []any{map[string]any{"eu": int64(1)}, map[string]any{}}},
		{"nil", "region", []any{nil}, nil},
		{"false", "region", []any{false}, nil},
		{"an empty string", "region", []any{""}, nil},
		{"an empty list", "region", []any{[]int{}}, nil},
		{"an empty list of tools", "tools", []any{[]any{}}, nil},
		{"zero counts", "region", []any{0}, int64(0)},
		{"an empty map counts", "region", []any{map[string]any{}}, map[string]any{}},
		{"a space counts", "region", []any{" "}, " "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rt runtime.Runtime
			for i, v := range tt.values {
				rt.Plugins = append(rt.Plugins, runtime.Plugin{Key: fmt.Sprint(i), Capabilities: map[string]any{tt.key: v}})
			}
			if err := rt.Validate(); err != nil {
				t.Fatal(err)
			}
			r := rt.Resolve()
			want := []runtime.Capability{}
			if tt.want != nil {
				want = append(want, runtime.Capability{Key: tt.key, Value: tt.want, From: "plugin"})
			}
			if diff := cmp.Diff(want, r.Capabilities()); diff != "" {
				t.Errorf("capabilities (-want +got)\n%s", diff)
			}
			if got := r.Has(tt.key); got != (tt.want != nil) {
				t.Errorf("Has: %t", got)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	for _, tt := range []struct {
		name string
		rt   runtime.Runtime
		want string
	}{
		{"nothing", runtime.Runtime{}, `[]`},
		{"empty ports", runtime.Runtime{Models: modelsOf("host"), Tools: []runtime.Tool{}}, `[]`},
		{"the host's", runtime.Runtime{Models: modelsOf("host", "slow", "fast"), Tools: toolsOf("host", "t.b", "t.a", "t.b"), Secrets: runtime.SecretMap{}},
			`[{"key":"model","value":["fast","slow"],"from":"host"},{"key":"secrets","value":true,"from":"host"},{"key":"tools","value":["t.a","t.b"],"from":"host"}]`},
		{"ports of agents", runtime.Runtime{Memory: agentMemory{}, Skills: agentSkills{}, Env: agentEnv{}, Approver: agentApprover{}},
			`[{"key":"approver","value":true,"from":"host"},{"key":"env","value":true,"from":"host"},{"key":"memory","value":true,"from":"host"},{"key":"skills","value":true,"from":"host"}]`},
		{"a retriever, with its tool", runtime.Runtime{Retriever: eager{}}, `[{"key":"retriever","value":true,"from":"host"},{"key":"tools","value":["docs.search"],"from":"builtin"}]`},
		{"each place apart", runtime.Runtime{Models: modelsOf("host", "fast"), Tools: []runtime.Tool{builtinTool("t.c"), toolOf("host", "t.b")},
			Plugins: []runtime.Plugin{{Key: "a", Models: modelsOf("a", "slow"), Tools: toolsOf("a", "t.a")}}},
			`[{"key":"model","value":["fast"],"from":"host"},{"key":"model","value":["slow"],"from":"plugin"},` +
				`{"key":"tools","value":["t.b"],"from":"host"},{"key":"tools","value":["t.a"],"from":"plugin"},{"key":"tools","value":["t.c"],"from":"builtin"}]`},
		{"built in, without plugins", runtime.Runtime{Tools: []runtime.Tool{builtinTool("t.c"), builtinTool("t.a"), toolOf("host", "t.a")}},
			`[{"key":"tools","value":["t.a"],"from":"host"},{"key":"tools","value":["t.c"],"from":"builtin"}]`},
		{"declared before present", runtime.Runtime{Models: modelsOf("host", "fast"), Tools: toolsOf("host", "t.b"),
			Plugins: []runtime.Plugin{{Key: "a", Capabilities: map[string]any{"model": "hosted", "tools": "t.x"}}}},
			`[{"key":"model","value":"hosted","from":"plugin"},{"key":"tools","value":["t.x"],"from":"plugin"}]`},
		{"declared before present, in any order", runtime.Runtime{
			Plugins: []runtime.Plugin{{Key: "a", Capabilities: map[string]any{"model": "hosted"}}, {Key: "b", Models: modelsOf("b", "m")}}},
			`[{"key":"model","value":"hosted","from":"plugin"}]`},
		{"declared missing hides what is present", runtime.Runtime{Models: modelsOf("host", "fast"), Tools: toolsOf("host", "t.b"), Secrets: runtime.SecretMap{}, Retriever: eager{},
			Plugins: []runtime.Plugin{{Key: "a", Capabilities: map[string]any{"model": false, "tools": []any{}, "secrets": nil, "retriever": false}}}},
			`[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.rt.Resolve().Capabilities())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("capabilities (-want +got)\n%s", diff)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	for _, tt := range []struct {
		kind runtime.RequirementKind
		name string
		want string // "": it is met
	}{
		{runtime.RequireModel, "fast", ""},
		{runtime.RequireModel, "own", ""},
		{runtime.RequireModel, "fats", "plugin \"a\" requires model \"fats\", which is not configured [plugin.requirement]\n  hint: did you mean \"fast\"?"},
		{runtime.RequireTool, "crm.lookup", ""},
		{runtime.RequireTool, "own.tool", ""},
		{runtime.RequireTool, "crm.lokup", "plugin \"a\" requires tool \"crm.lokup\", which is not configured [plugin.requirement]\n  hint: did you mean \"crm.lookup\"?"},
		{runtime.RequireCapability, "model", ""},
		{runtime.RequireCapability, "region", ""},
		{runtime.RequireCapability, "zone", "plugin \"a\" requires capability \"zone\", which is not configured [plugin.requirement]\n  hint: known here: model, region, tools"},
		{runtime.RequireCapability, "off", "plugin \"a\" requires capability \"off\", which is not configured [plugin.requirement]\n  hint: known here: model, region, tools"},
		{runtime.RequirePlugin, "a", ""},
		{runtime.RequirePlugin, "b", ""},
		{runtime.RequirePlugin, "slot", ""},
		{runtime.RequirePlugin, "gone", "plugin \"a\" requires plugin \"gone\", which is not configured [plugin.requirement]\n  hint: known here: a, b, slot"},
		{runtime.RequireSecret, "KEY", ""}, // only asking tells
	} {
		t.Run(string(tt.kind)+" "+tt.name, func(t *testing.T) {
			rt := runtime.Runtime{
				Models: modelsOf("host", "fast"), Tools: toolsOf("host", "crm.lookup"),
				Plugins: []runtime.Plugin{
					{Key: "a", Requires: []runtime.Requirement{{Kind: tt.kind, Name: tt.name}}, Models: modelsOf("a", "own"), Tools: toolsOf("a", "own.tool")},
					{Key: "gone", OverrideKey: "slot"},
					{Key: "b", OverrideKey: "slot", Mode: runtime.Override, Capabilities: map[string]any{"region": "eu", "off": false}},
				},
			}
			if err := rt.Validate(); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			list := rt.Resolve().Diagnostics
			if diff := cmp.Diff(want, said(list)); diff != "" {
				t.Errorf("diagnostics (-want +got)\n%s", diff)
			}
			if strict := diagnostics.Strict.Apply(list); strict.HasErrors() != (tt.want != "") {
				t.Errorf("in strict mode: %v", strict)
			}
		})
	}
}

type brokenSecrets struct{ err error }

func (s brokenSecrets) Secret(context.Context, string) (string, error) { return "", s.err }

func TestMissingSecrets(t *testing.T) {
	plugins := []runtime.Plugin{
		{Key: "a", Requires: []runtime.Requirement{{Kind: runtime.RequireSecret, Name: "A"}, {Kind: runtime.RequirePlugin, Name: "b"}}},
		{Key: "b", Requires: []runtime.Requirement{{Kind: runtime.RequireSecret, Name: "B"}}},
	}
	a, b := `plugin "a" requires secret "A", which is not configured [plugin.requirement]`, `plugin "b" requires secret "B", which is not configured [plugin.requirement]`
	for _, tt := range []struct {
		name    string
		secrets runtime.Secrets
		want    []string
	}{
		{"all", runtime.SecretMap{"A": "1", "B": "2"}, nil},
		{"one", runtime.SecretMap{"A": "1"}, []string{b}},
		{"none", runtime.SecretMap{}, []string{a, b}},
		{"no secrets", nil, []string{a, b}},
	} {
		list, err := (&runtime.Runtime{Plugins: plugins, Secrets: tt.secrets}).Resolve().MissingSecrets(t.Context())
		if diff := cmp.Diff(tt.want, said(list)); err != nil || diff != "" {
			t.Errorf("%s: error %v, diagnostics (-want +got)\n%s", tt.name, err, diff)
		}
		for _, d := range list {
			if d.Kind != diagnostics.KindRequirement {
				t.Errorf("%s: kind %s", tt.name, d.Kind)
			}
		}
	}
	down := errors.New("vault is down")
	_, err := (&runtime.Runtime{Plugins: plugins, Secrets: brokenSecrets{down}}).Resolve().MissingSecrets(t.Context())
	if !errors.Is(err, down) || !strings.HasPrefix(err.Error(), `secret "A", which plugin "a" requires, cannot be read: `) {
		t.Errorf("broken secrets: %v", err)
	}
}

func TestNotScheduled(t *testing.T) {
	hook := func(context.Context, runtime.Moment) error { return nil }
	r := (&runtime.Runtime{Plugins: []runtime.Plugin{
		{Key: "b", Hooks: runtime.Hooks{runtime.ToolAfter: hook, runtime.ToolBefore: hook, runtime.StepBefore: hook}},
		{Key: "a", Hooks: runtime.Hooks{runtime.ModelBefore: hook, runtime.RunFinish: hook}},
	}}).Resolve()
	got := r.NotScheduled(runtime.RunInit, runtime.StepBefore, runtime.StepAfter, runtime.RunFinish)
	if diff := cmp.Diff([]string{
		`hook "tool.before" of plugin "b" is never called, no step calls a tool [plugin.lifecycleNotScheduled]`,
		`hook "tool.after" of plugin "b" is never called, no step calls a tool [plugin.lifecycleNotScheduled]`,
		`hook "model.before" of plugin "a" is never called, no step calls a model [plugin.lifecycleNotScheduled]`,
	}, said(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if d := got[0]; d.Level != diagnostics.Warn || d.Kind != diagnostics.KindPlugin {
		t.Errorf("level %s, kind %s", d.Level, d.Kind)
	}
	if got := (&runtime.Runtime{}).Resolve().NotScheduled(); got != nil {
		t.Errorf("without plugins: %v", got)
	}
}

func TestFire(t *testing.T) {
	refused := errors.New("refused")
	for _, tt := range []struct {
		point    runtime.Point
		second   string // what the second of three hooks does
		called   string
		denied   string // "": it is not
		reported []string
	}{
		{runtime.RunInit, "ok", "123", "", nil},
		{runtime.RunInit, "error", "123", "", []string{`hook "run.init" of plugin "2" failed: refused [plugin.hookFailed]`}},
		{runtime.StepBefore, "error", "12", `plugin "2" denies the step: refused`, nil},
		{runtime.StepBefore, "panic", "12", `plugin "2" denies the step: panic: boom`, nil},
		{runtime.StepAfter, "panic", "123", "", []string{`hook "step.after" of plugin "2" failed: panic: boom [plugin.hookFailed]`}},
		{runtime.RunFinish, "panic", "123", "", []string{`hook "run.finish" of plugin "2" failed: panic: boom [plugin.hookFailed]`}},
		{runtime.ModelBefore, "ok", "123", "", nil},
		{runtime.ModelBefore, "error", "12", `plugin "2" denies the call of model "x": refused`, nil},
		{runtime.ModelAfter, "error", "123", "", []string{`hook "model.after" of plugin "2" failed: refused [plugin.hookFailed]`}},
		{runtime.ToolBefore, "error", "12", `plugin "2" denies the call of tool "x": refused`, nil},
		{runtime.ToolBefore, "panic", "12", `plugin "2" denies the call of tool "x": panic: boom`, nil},
		{runtime.ToolAfter, "error", "123", "", []string{`hook "tool.after" of plugin "2" failed: refused [plugin.hookFailed]`}},
	} {
		t.Run(string(tt.point)+" "+tt.second, func(t *testing.T) {
			var called string
			var moments []runtime.Moment
			hook := func(key string, err error) runtime.Plugin {
				return runtime.Plugin{Key: key, Hooks: runtime.Hooks{tt.point: func(_ context.Context, m runtime.Moment) error {
					called += key
					moments = append(moments, m)
					if key == "2" && tt.second == "panic" {
						panic("boom")
					}
					return err
				}}}
			}
			second := hook("2", nil)
			if tt.second == "error" {
				second = hook("2", refused)
			}
			r := (&runtime.Runtime{Plugins: []runtime.Plugin{hook("1", nil), second, hook("3", nil)}}).Resolve()
			m := runtime.Moment{Point: tt.point, Run: "r", Step: "s", Name: "x"}
			var reported diagnostics.List
			err := r.Fire(t.Context(), m, func(d diagnostics.Diagnostic) { reported = append(reported, d) })
			if called != tt.called {
				t.Errorf("called %s, want %s", called, tt.called)
			}
			if got := fmt.Sprint(err); tt.denied == "" && err != nil || tt.denied != "" && got != tt.denied {
				t.Errorf("denied: %s, want %q", got, tt.denied)
			}
			if tt.denied != "" && tt.second == "error" && !errors.Is(err, refused) {
				t.Error("errors.Is does not reach the hook's error")
			}
			if diff := cmp.Diff(tt.reported, said(reported)); diff != "" {
				t.Errorf("reported (-want +got)\n%s", diff)
			}
			for _, d := range reported {
				if d.Step != "s" || d.Kind != diagnostics.KindPlugin || d.Level != diagnostics.Warn {
					t.Errorf("reported as %+v", d)
				}
			}
			for _, got := range moments {
				if diff := cmp.Diff(m, got); diff != "" {
					t.Errorf("moment (-want +got)\n%s", diff)
				}
			}
		})
	}
}

func TestValidatePlugins(t *testing.T) {
	hook := func(context.Context, runtime.Moment) error { return nil }
	for _, tt := range []struct {
		name   string
		plugin runtime.Plugin
		want   string // "": nothing is wrong
	}{
		{"a key", runtime.Plugin{Key: "a"}, ""},
		{"no key", runtime.Plugin{}, `runtime: plugin 0: its key is ""; it needs one of its own`},
		{"the host's key", runtime.Plugin{Key: "host"}, `runtime: plugin 0: its key is "host"; it needs one of its own`},
		{"the key of what is built in", runtime.Plugin{Key: "builtin"}, `runtime: plugin 0: its key is "builtin"; it needs one of its own`},
		{"an override by key", runtime.Plugin{Key: "a", Mode: runtime.Override}, ""},
		{"an extend of a slot", runtime.Plugin{Key: "a", OverrideKey: "b"}, ""},
		{"a mode", runtime.Plugin{Key: "a", Mode: "replace"}, `runtime: plugin "a": unknown mode "replace", want "" (Extend) or "override"`},
		{"a percent sign", runtime.Plugin{Key: "%d", Mode: "%s"}, `runtime: plugin "%d": unknown mode "%s", want "" (Extend) or "override"`},
		{"a capability without a name", runtime.Plugin{Key: "a", Capabilities: map[string]any{"": 1}}, `runtime: plugin "a": a capability without a name`},
		{"a capability that is no JSON", runtime.Plugin{Key: "a", Capabilities: map[string]any{"x": make(chan int)}}, `runtime: plugin "a": capability "x" is no JSON: `},
		{"a requirement", runtime.Plugin{Key: "a", Requires: []runtime.Requirement{{Kind: "sky", Name: "x"}}}, `runtime: plugin "a": requirement 0: unknown kind "sky"`},
		{"a requirement of nothing", runtime.Plugin{Key: "a", Requires: []runtime.Requirement{{Kind: runtime.RequireTool}}}, `runtime: plugin "a": requirement 0 has no name`},
		{"a nil model", runtime.Plugin{Key: "a", Models: map[string]runtime.Model{"m": nil}}, `runtime: plugin "a": model "m" is nil`},
		{"a nil tool", runtime.Plugin{Key: "a", Tools: []runtime.Tool{nil}}, `runtime: plugin "a": tool 0 is nil`},
		{"a tool without a dot", runtime.Plugin{Key: "a", Tools: toolsOf("a", "x")}, `runtime: plugin "a": tool "x": a tool's name contains a dot`},
		{"hooks", runtime.Plugin{Key: "a", Hooks: runtime.Hooks{runtime.RunInit: hook, runtime.StepAfter: hook}}, ""},
		{"an unknown point", runtime.Plugin{Key: "a", Hooks: runtime.Hooks{"tool.befor": hook}}, `runtime: plugin "a": hook at the unknown point "tool.befor"` + "\n  hint: did you mean \"tool.before\"?"},
		{"a nil hook", runtime.Plugin{Key: "a", Hooks: runtime.Hooks{runtime.RunInit: nil}}, `runtime: plugin "a": hook "run.init" is nil`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := (&runtime.Runtime{Plugins: []runtime.Plugin{tt.plugin}}).Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A run resolves its runtime. Without plugins that shares everything and makes next to nothing.
func TestResolveWithoutPlugins(t *testing.T) {
	rt := &runtime.Runtime{Models: modelsOf("host", "m"), Tools: toolsOf("host", "t.x", "t.x")}
	r := rt.Resolve()
	if reflect.ValueOf(r.Models).UnsafePointer() != reflect.ValueOf(rt.Models).UnsafePointer() || &r.Tools[0] != &rt.Tools[0] || len(r.Tools) != 2 {
		t.Error("models or tools were copied")
	}
	if n := testing.AllocsPerRun(10, func() {
		r := rt.Resolve()
		_ = r.Fire(context.Background(), runtime.Moment{Point: runtime.StepBefore}, nil)
		_, _ = r.MissingSecrets(context.Background())
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestToolSpecsHaveThoseOfPlugins(t *testing.T) {
	rt := &runtime.Runtime{Tools: toolsOf("host", "t.b"), Plugins: []runtime.Plugin{{Key: "a", Tools: toolsOf("a", "t.b", "t.a")}}}
	want := []runtime.ToolSpec{{Name: "t.b"}, {Name: "t.a"}}
	if diff := cmp.Diff(want, rt.ToolSpecs()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Resolve says the same each time, whatever the order of maps, and leaves what it is given as it was.
func TestResolveIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(of ...string) []string { return rapid.SliceOfN(rapid.SampledFrom(of), 0, 4).Draw(t, "some") }
		drawn := func() runtime.Runtime {
			rt := runtime.Runtime{Models: modelsOf("host", some("l", "m", "n")...), Tools: toolsOf("host", some("t.x", "t.y")...), Providers: map[string]string{}}
			for _, name := range some("t.x", "t.z") {
				rt.Tools = append(rt.Tools, builtinTool(name))
			}
			for _, key := range some("a", "b", "c", "d") {
				p := runtime.Plugin{Key: key, Models: modelsOf(key, some("l", "m", "n")...), Tools: toolsOf(key, some("t.x", "t.y", "t.z")...), Capabilities: map[string]any{}}
				p.Mode = rapid.SampledFrom([]runtime.PluginMode{runtime.Extend, runtime.Override}).Draw(t, "mode")
				p.OverrideKey = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "slot")
				for _, c := range some("model", "tools", "region", "zone") {
					list := make([]any, 1, 8) // room to spare: an append that does not copy would show
					list[0] = key
					p.Capabilities[c] = list
				}
				for _, name := range some("l", "q", "region") {
					p.Requires = append(p.Requires, runtime.Requirement{Kind: runtime.RequireModel, Name: name}, runtime.Requirement{Kind: runtime.RequireCapability, Name: name})
				}
				rt.Plugins = append(rt.Plugins, p)
			}
			for _, key := range some("model:l", "model:m", "tool:t.x", "tool:q.q", "odd") {
				rt.Providers[key] = rapid.SampledFrom([]string{"a", "b", "host", "builtin", "q"}).Draw(t, "choice")
			}
			return rt
		}
		rt := drawn()
		before := dump(&rt)
		first := resolved(rt.Resolve())
		for range 3 {
			if diff := cmp.Diff(first, resolved(rt.Resolve())); diff != "" {
				t.Fatalf("two resolutions differ\n%s", diff)
			}
		}
		if diff := cmp.Diff(before, dump(&rt)); diff != "" {
			t.Fatalf("Resolve changed what it was given\n%s", diff)
		}
		slots := map[string]bool{}
		for _, p := range rt.Resolve().Plugins {
			if slots[p.Slot()] {
				t.Fatalf("slot %q appears twice", p.Slot())
			}
			slots[p.Slot()] = true
		}
	})
}

// resolved is all that can be seen of a resolution.
func resolved(r *runtime.Resolution) []string {
	var lines []string
	for _, p := range r.Plugins {
		lines = append(lines, p.Key)
	}
	lines = append(lines, whose(r)...)
	for _, c := range r.Capabilities() {
		lines = append(lines, fmt.Sprint(c))
	}
	return append(lines, said(r.Diagnostics)...)
}

// dump is a runtime as text, its lists up to their capacity.
func dump(rt *runtime.Runtime) []string {
	own := &runtime.Resolution{Models: rt.Models, Tools: rt.Tools}
	lines := append(whose(own), fmt.Sprint(rt.Providers))
	for _, p := range rt.Plugins {
		lines = append(lines, p.Key, string(p.Mode), p.OverrideKey, fmt.Sprint(p.Requires))
		lines = append(lines, whose(&runtime.Resolution{Models: p.Models, Tools: p.Tools})...)
		for _, key := range slices.Sorted(maps.Keys(p.Capabilities)) {
			list := p.Capabilities[key].([]any)
			lines = append(lines, fmt.Sprint(key, list[:cap(list)]))
		}
	}
	return lines
}

// The ports that agents have.
type (
	agentMemory   struct{ runtime.Memory }
	agentSkills   struct{ runtime.SkillLoader }
	agentEnv      struct{ runtime.Env }
	agentApprover struct{ runtime.Approver }
)

// A plugin that overrides a slot that nobody has yet counts beside the others, and is told of: the name may be misspelt.
func TestOverrideOfNothing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		plugins []runtime.Plugin
		want    []string
		found   []string
	}{
		{"a name that is misspelt", []runtime.Plugin{{Key: "crm"}, {Key: "b", Mode: runtime.Override, OverrideKey: "cmr"}}, []string{"crm", "b"},
			[]string{`warning: plugin "b" overrides the slot "cmr", which no earlier plugin has [plugin.overridesNothing]` + "\n" + `  hint: did you mean "crm"?`}},
		{"the first", []runtime.Plugin{{Key: "c", Mode: runtime.Override, OverrideKey: "a"}, {Key: "b"}}, []string{"c", "b"},
			[]string{`warning: plugin "c" overrides the slot "a", which no earlier plugin has [plugin.overridesNothing]`}},
		{"one that is early", []runtime.Plugin{{Key: "c", Mode: runtime.Override, OverrideKey: "a"}, {Key: "a"}}, []string{"c"},
			[]string{`warning: plugin "c" overrides the slot "a", which no earlier plugin has [plugin.overridesNothing]`,
				`warning: plugin "a" is dropped, the earlier plugin "c" has its slot "a" [plugin.dropped]` + "\n" +
					`  hint: to have it in place of the other: Mode: runtime.Override`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := (&runtime.Runtime{Plugins: tt.plugins}).Resolve()
			var keys, found []string
			for _, p := range r.Plugins {
				keys = append(keys, p.Key)
			}
			for _, d := range r.Diagnostics {
				found = append(found, d.String())
			}
			if diff := cmp.Diff([][]string{tt.want, tt.found}, [][]string{keys, found}); diff != "" {
				t.Errorf("plugins and diagnostics (-want +got)\n%s", diff)
			}
		})
	}
}
