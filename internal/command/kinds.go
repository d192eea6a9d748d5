package command

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

func (a *app) kindsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the kinds of steps and the tools, or show one with its arguments, result and an example",
		Example: `  braise kinds
  braise kinds exec.run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("kinds takes one name, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd.Context(), host.Options{})
			if err != nil {
				return a.refuse(nil, err)
			}
			defer s.close()
			rt := s.host.Bare()
			rt.Store = &checkpoint.Memory{} // runs have one, and the tools that come with it
			if len(args) == 0 || strings.HasPrefix(args[0], mcp.Prefix) {
				if err := s.host.Connect(cmd.Context(), nil, rt); err != nil { // the list is good without them
					a.warn(err.Error())
				}
			}
			list := entries(rt)
			if len(args) == 1 {
				i := slices.IndexFunc(list, func(e entry) bool { return e.Name == args[0] })
				if i < 0 {
					names := make([]string, len(list))
					for i, e := range list {
						names[i] = e.Name
					}
					hint := diagnostics.DidYouMean(args[0], names)
					if hint == "" {
						hint = "braise kinds lists all"
					}
					s.sayNone(s.host.NoConfig())
					return usageError("no kind or tool is named %q\n  hint: %s", args[0], hint)
				}
				list = list[i : i+1]
			}
			if a.output != "human" {
				return a.printJSON(list)
			}
			a.printEntries(list, len(args) == 1)
			return nil
		},
	}
}

// kindsSchema is the JSON Schema of what kinds prints as JSON.
//
//go:embed kinds.schema.json
var kindsSchema []byte

// entry is a kind or tool as kinds prints it.
type entry struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"` // kind or tool
	Doc       string            `json:"doc"`
	Arguments []recipe.Argument `json:"arguments"`
	Output    string            `json:"output,omitempty"`
	Effect    runtime.Effect    `json:"effect,omitempty"`
	Example   string            `json:"example,omitempty"` // a whole recipe
}

// examples are recipes that show one kind or tool each, NAME.yaml.
//
//go:embed examples
var examples embed.FS

// example returns the recipe that shows a kind or tool, "" when there is none.
func example(name string) string {
	text, _ := examples.ReadFile("examples/" + name + ".yaml")
	return string(text)
}

func entries(rt *runtime.Runtime) []entry {
	var list []entry
	for _, k := range recipe.Kinds() {
		list = append(list, entry{Name: k.Name, Type: "kind", Doc: k.Doc,
			Arguments: append([]recipe.Argument{}, k.Args...), Output: k.Output,
			Example: example(k.Name)})
	}
	for _, spec := range rt.ToolSpecs() {
		effect := spec.Effect
		if effect == "" {
			effect = runtime.External
		}
		list = append(list, entry{Name: spec.Name, Type: "tool", Doc: spec.Description,
			Arguments: arguments(spec), Output: spec.Result, Effect: effect,
			Example: example(spec.Name)})
	}
	return list
}

// arguments reads a tool's arguments off its schema.
func arguments(spec runtime.ToolSpec) []recipe.Argument {
	v, _ := value.Decode(spec.Parameters)
	schema, _ := v.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	list := []recipe.Argument{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		typ, _ := p["type"].(string)
		doc, _ := p["description"].(string)
		needed := slices.Contains(required, any(name))
		list = append(list, recipe.Argument{Name: name, Type: typ, Required: needed, Doc: doc})
	}
	return list
}

func (a *app) printEntries(list []entry, whole bool) {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	for _, e := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Type, e.Doc)
		if !whole {
			continue
		}
		for _, arg := range e.Arguments {
			need := ""
			if arg.Required {
				need = "required"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", arg.Name, arg.Type, need, arg.Doc)
		}
		if e.Output != "" {
			fmt.Fprintf(w, "output\t%s\n", e.Output)
		}
		if e.Effect != "" {
			fmt.Fprintf(w, "effect\t%s\n", e.Effect)
		}
	}
	w.Flush()
	if whole && list[0].Example != "" {
		fmt.Fprintf(a.stdout, "\nexample:\n\n%s", list[0].Example) // as it is: to be copied
	}
}
