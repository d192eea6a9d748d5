package main

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE…",
		Short: "Report everything that is wrong with recipes; nothing runs",
		Args:  atLeastOne("validate takes recipe files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := diagnostics.List{}
			for _, path := range args {
				list = append(list, a.validate(cmd, path)...)
			}
			if a.output == "human" {
				a.printFindings(list)
				if !list.HasErrors() && !a.quiet {
					fmt.Fprintf(a.stdout, "%s: valid\n", strings.Join(args, ", "))
				}
			} else if err := a.printJSON(validity{!list.HasErrors(), list}); err != nil {
				return err
			}
			if list.HasErrors() {
				return exit(exitInvalid)
			}
			return nil
		},
	}
}

// validity is what validate prints as JSON.
type validity struct {
	Valid       bool             `json:"valid"`
	Diagnostics diagnostics.List `json:"diagnostics"`
}

func (a *app) validate(cmd *cobra.Command, path string) diagnostics.List {
	rt, err := a.runtimeFor(path)
	if err != nil {
		return findings(err)
	}
	wf, err := compile(path, rt)
	if err != nil {
		return findings(err)
	}
	list, err := wf.Check(cmd.Context(), rt)
	if err != nil {
		return findings(err)
	}
	return list
}

func atLeastOne(sentence string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError("%s", sentence)
		}
		return nil
	}
}

func (a *app) fmtCommand() *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Bring recipes into canonical layout, comments kept",
		Args:  atLeastOne("fmt takes recipe files"),
		RunE: func(_ *cobra.Command, args []string) error {
			changed := false
			for _, path := range args {
				differs, err := a.format(path, check)
				if err != nil {
					a.printFindings(findings(err))
					return exit(exitInvalid)
				}
				changed = changed || differs
			}
			if check && changed {
				return exit(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a file would change")
	return cmd
}

// format rewrites one file, unless check is set, and names it if it was not canonical.
func (a *app) format(path string, check bool) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	text, err := recipe.Format(path, old)
	if err != nil || string(text) == string(old) {
		return false, err
	}
	fmt.Fprintln(a.stdout, path)
	if check {
		return true, nil
	}
	return true, replaceFile(path, text)
}

// replaceFile gives a file new content at once: a crash leaves the old or the new text.
func replaceFile(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp := path + ".braise-fmt"
	if err := os.WriteFile(temp, text, info.Mode().Perm()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

func (a *app) planCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print what a run would do: steps in order, edges, needs; nothing is called",
		Args:  exactly(1, "plan takes one recipe file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, "text", "json", "mermaid", "dot"); err != nil {
				return err
			}
			if a.output != "human" && !cmd.Flags().Changed("format") {
				format = "json"
			}
			rt, err := a.runtimeFor(args[0])
			if err != nil {
				return a.refuse(err)
			}
			wf, err := compile(args[0], rt)
			if err != nil {
				return a.refuse(err)
			}
			plan := wf.Plan()
			switch format {
			case "json":
				return a.printJSON(planWithCapabilities{plan, capabilities(rt)})
			case "mermaid":
				fmt.Fprint(a.stdout, plan.Mermaid())
			case "dot":
				fmt.Fprint(a.stdout, plan.DOT())
			default:
				a.printFindings(wf.Diagnostics)
				fmt.Fprint(a.stdout, plan.Text())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "text, json, mermaid or dot")
	return cmd
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "schema [recipe]",
		Short:     "Print the JSON Schema of the recipe format",
		ValidArgs: []string{"recipe"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "recipe" {
				return usageError("schema %s: this version has the schema of: recipe", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(recipe.Schema())
			return err
		},
	}
}

func (a *app) kindsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the step kinds and tools, or the arguments of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			rt, err := a.runtimeFor("")
			if err != nil {
				return a.refuse(err)
			}
			list := entries(rt)
			if len(args) == 1 {
				i := slices.IndexFunc(list, func(e entry) bool { return e.Name == args[0] })
				if i < 0 {
					names := make([]string, len(list))
					for i, e := range list {
						names[i] = e.Name
					}
					return usageError("no kind or tool is named %q\n  hint: %s", args[0], diagnostics.DidYouMean(args[0], names))
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

// entry is a kind or tool as kinds prints it.
type entry struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"` // kind or tool
	Built     bool              `json:"built"`
	Doc       string            `json:"doc"`
	Arguments []recipe.Argument `json:"arguments"`
	Output    string            `json:"output,omitempty"`
	Effect    runtime.Effect    `json:"effect,omitempty"`
}

func entries(rt *runtime.Runtime) []entry {
	var list []entry
	for _, k := range recipe.Kinds() {
		list = append(list, entry{Name: k.Name, Type: "kind", Built: k.Built, Doc: k.Doc, Arguments: k.Args, Output: k.Output})
	}
	for _, spec := range toolSpecs(rt) {
		effect := spec.Effect
		if effect == "" {
			effect = runtime.External
		}
		list = append(list, entry{Name: spec.Name, Type: "tool", Built: true, Doc: spec.Description, Arguments: arguments(spec), Effect: effect})
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
		list = append(list, recipe.Argument{Name: name, Type: typ, Required: slices.Contains(required, any(name)), Doc: doc})
	}
	return list
}

func (a *app) printEntries(list []entry, whole bool) {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	defer w.Flush()
	for _, e := range list {
		doc := e.Doc
		if !e.Built {
			doc = "(not in this version) " + doc
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Type, doc)
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
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if a.output != "human" {
				return a.printJSON(v)
			}
			fmt.Fprintf(a.stdout, "braise %s (%s, recipe format %s)\n", v.Version, v.Go, v.Format)
			return nil
		},
	}
}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Format  string `json:"format"`
}

func version() versionInfo {
	v := versionInfo{Version: "(devel)", Format: recipe.APIVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
	}
	return v
}
