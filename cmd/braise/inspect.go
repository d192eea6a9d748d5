package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func (a *app) validateCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Report everything that is wrong with recipes; nothing runs",
		Args:  atLeastOne("validate takes recipe files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, "text", "github", "sarif"); err != nil {
				return err
			}
			if a.output != "human" && cmd.Flags().Changed("format") {
				return usageError("--format and --output %s exclude each other", a.output)
			}
			list := diagnostics.List{}
			for _, path := range args {
				list = append(list, a.validate(cmd.Context(), path)...)
			}
			list.Sort()
			if err := a.printValidity(list, format, args); err != nil {
				return err
			}
			if list.HasErrors() {
				return exit(exitInvalid)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "text, github (workflow annotations) or sarif")
	return cmd
}

// printValidity prints what validate found: for people on stderr, for machines on stdout.
func (a *app) printValidity(list diagnostics.List, format string, paths []string) error {
	switch {
	case format == "github":
		diagnostics.WriteGitHub(a.stdout, list) // a failed write is remembered
	case format == "sarif":
		diagnostics.WriteSARIF(a.stdout, list, "braise", version().Version)
	case a.output != "human":
		return a.printJSON(validity{!list.HasErrors(), list})
	default:
		a.printFindings(list)
		if !list.HasErrors() && !a.quiet {
			fmt.Fprintf(a.stdout, "%s: valid\n", strings.Join(paths, ", "))
		}
	}
	return nil
}

// validity is what validate prints as JSON.
type validity struct {
	Valid       bool             `json:"valid"`
	Diagnostics diagnostics.List `json:"diagnostics"`
}

// validate returns what is wrong with a recipe and its configuration.
func (a *app) validate(ctx context.Context, path string) diagnostics.List {
	rt, err := a.runtimeFor(path)
	if err != nil {
		list := findings(err)
		if _, err := a.compile(path, nil); err != nil {
			list = append(list, findings(err)...)
		}
		return list
	}
	wf, err := a.compile(path, rt)
	if err != nil {
		return findings(err)
	}
	list, err := wf.Check(ctx, rt)
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
			return a.fmt(args, check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a file would change")
	return cmd
}

// formatted is what fmt prints as JSON.
type formatted struct {
	Changed     []string         `json:"changed"` // files that were not canonical
	Diagnostics diagnostics.List `json:"diagnostics"`
}

// fmt formats files, and names those that were not canonical. One that cannot be formatted does
// not keep the others from it.
func (a *app) fmt(paths []string, check bool) error {
	result := formatted{[]string{}, diagnostics.List{}}
	for _, path := range paths {
		changed, err := format(path, check)
		if err != nil {
			result.Diagnostics = append(result.Diagnostics, findings(err)...)
		} else if changed {
			result.Changed = append(result.Changed, path)
		}
	}
	a.printFindings(result.Diagnostics)
	if a.output != "human" {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else {
		for _, path := range result.Changed {
			fmt.Fprintln(a.stdout, path)
		}
	}
	switch {
	case result.Diagnostics.HasErrors():
		return exit(exitInvalid)
	case check && len(result.Changed) > 0:
		return exit(exitFailed)
	}
	return nil
}

// format rewrites one file, unless check is set or it is canonical.
func format(path string, check bool) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return false, fileError(path, err)
	}
	text, err := recipe.Format(path, old)
	if err != nil || string(text) == string(old) {
		return false, err
	}
	if check {
		return true, nil
	}
	if err := replaceFile(path, text); err != nil {
		return false, fileError(path, err)
	}
	return true, nil
}

// fileError says that something is wrong with a file as a whole.
func fileError(path string, err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeFile,
		Message: err.Error(), Position: diagnostics.Position{File: filepath.ToSlash(path)}}}.Err()
}

// replaceFile gives a file, or the one that a link leads to, new content at once: a crash leaves
// the old or the new text.
func replaceFile(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".braise-fmt-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

// choosers are the paths of the steps whose model an expression names: the plan cannot list it.
func choosers(steps []recipe.Step, prefix string) []string {
	var paths []string
	for _, s := range steps {
		if f := s.With.Field("model"); f != nil && s.Uses.Text == "model" {
			if f.Value.HasExpression() {
				paths = append(paths, prefix+s.ID)
			}
		}
		for name, b := range s.Bodies() {
			inside := prefix + s.ID + "/"
			if name != "" {
				inside += name + "/"
			}
			paths = append(paths, choosers(b.All(), inside)...)
		}
	}
	return paths
}

// schemas are the JSON Schemas by the names that the command gives them.
var schemas = map[string]func() []byte{
	"recipe":   recipe.Schema,
	"outcome":  workflow.OutcomeSchema,
	"event":    trace.EventSchema,
	"snapshot": trace.SnapshotSchema,
	"config":   host.ConfigSchema,
}

func (a *app) schemaCommand() *cobra.Command {
	names := []string{"recipe", "outcome", "event", "snapshot", "config"}
	return &cobra.Command{
		Use:       "schema [NAME]",
		Short:     "Print a JSON Schema: of recipes, outcomes, events, snapshots of agents or braise.yaml",
		Long:      "Schema prints the JSON Schema of recipes, or of what NAME says: " + strings.Join(names, ", ") + ".",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError("schema takes one name, not %d", len(args))
			case len(args) == 1 && schemas[args[0]] == nil:
				return usageError("no schema is named %q\n  hint: %s", args[0], diagnostics.DidYouMean(args[0], names))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := "recipe"
			if len(args) == 1 {
				name = args[0]
			}
			a.stdout.Write(schemas[name]())
			return nil
		},
	}
}

func (a *app) kindsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the step kinds and tools, or one with its arguments and an example",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("kinds takes one name, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.runtimeFor("")
			if err != nil {
				return a.refuse(nil, err)
			}
			if len(args) == 0 || strings.HasPrefix(args[0], mcp.Prefix) {
				disconnect, err := a.host.Connect(cmd.Context(), a.hostDir, nil, rt)
				defer disconnect()
				if err != nil && !a.quiet { // the list is good without them
					fmt.Fprintf(a.stderr, "braise: warning: %s\n", visible(err.Error()))
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
		list = append(list, entry{Name: k.Name, Type: "kind", Doc: k.Doc, Arguments: append([]recipe.Argument{}, k.Args...), Output: k.Output,
			Example: example(k.Name)})
	}
	for _, spec := range rt.ToolSpecs() {
		effect := spec.Effect
		if effect == "" {
			effect = runtime.External
		}
		list = append(list, entry{Name: spec.Name, Type: "tool", Doc: spec.Description, Arguments: arguments(spec), Effect: effect,
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
		list = append(list, recipe.Argument{Name: name, Type: typ, Required: slices.Contains(required, any(name)), Doc: doc})
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
	}
	w.Flush()
	if whole && list[0].Example != "" {
		fmt.Fprintf(a.stdout, "\nexample:\n\n%s", list[0].Example) // as it is: to be copied
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(0, "version takes no arguments"),
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
