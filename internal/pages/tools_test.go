//go:build unix

package pages_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	diffs "github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
)

// docs/reference/tools.md has the arguments of the built-in tools as their specs have them, and the example of
// braise kinds.
func TestToolsPage(t *testing.T) {
	const page = "../../docs/reference/tools.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: builtin.Tools(builtin.Options{})}
	for _, tool := range rt.Resolve().Tools {
		spec := tool.Spec()
		example, err := os.ReadFile("../command/examples/" + spec.Name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		marked := regexp.MustCompile(`(?s)(<!-- generated: ` + regexp.QuoteMeta(spec.Name) + ` -->\n).*?(<!-- /generated -->)`)
		if !marked.MatchString(text) {
			t.Errorf("%s has no place for %s", page, spec.Name)
		}
		text = marked.ReplaceAllStringFunc(text, func(part string) string {
			m := marked.FindStringSubmatch(part)
			result, _, _ := strings.Cut(spec.Result, ";")
			return m[1] + spec.Description + " Result: `" + result + "`. Effect: " + effects(t, tool) + ".\n\n" + argumentTable(t, spec) +
				"\n```yaml\n" + string(example) + "```\n" + m[2]
		})
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := diffs.Diff(text, string(old)); diff != "" {
		t.Errorf("%s is out of date: run go generate ./internal/pages (-want +got)\n%s", page, diff)
	}
}

// effects says what the effect of a tool is, and of the calls that have another one.
func effects(t *testing.T, tool runtime.Tool) string {
	t.Helper()
	spec := tool.Spec()
	text := "`" + string(cmp.Or(spec.Effect, runtime.External)) + "`"
	for _, other := range []struct{ tool, arguments, says string }{
		{"http.request", `{"method": "GET", "url": "https://example.com"}`, "of GET and HEAD"},
		{"file.write", `{"path": "x", "content": "", "append": true}`, "with `append`"},
		{"exec.run", `{"argv": ["x"], "effect": "read_only"}`, "or `idempotent`, if the argument `effect` says so"},
	} {
		if other.tool == spec.Name {
			text += "; `" + string(spec.EffectFor(json.RawMessage(other.arguments))) + "` " + other.says
		}
	}
	return text
}

func argumentTable(t *testing.T, spec runtime.ToolSpec) string {
	t.Helper()
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Type        string
			Description string
			Enum        []string
			Default     any
			AnyOf       []struct{ Type string }
		}
	}
	if err := json.Unmarshal(spec.Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| argument | type | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		typ := cmp.Or(p.Type, "any")
		if p.Enum != nil {
			typ = "`" + strings.Join(p.Enum, "`, `") + "`"
		}
		for i, one := range p.AnyOf {
			if i == 0 {
				typ = one.Type
			} else {
				typ += " or " + one.Type
			}
		}
		meaning := p.Description
		if p.Default != nil {
			meaning += fmt.Sprintf("; `%v` if not given", p.Default)
		}
		if meaning == "" {
			t.Errorf("%s: the argument %s has no description", spec.Name, name)
		}
		star := ""
		if slices.Contains(schema.Required, name) {
			star = "*"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", name, star, typ, meaning)
	}
	return b.String()
}
