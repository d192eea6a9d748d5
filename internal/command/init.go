package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
)

func (a *app) initCommand() *cobra.Command {
	template, name := "starter", ""
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a recipe that runs without keys, with a scenario and a braise.yaml",
		Long: "Init writes a recipe, and everything that it needs, to DIR (default: the working folder): sample\n" +
			"data, scripts in place of models, scenarios, a braise.yaml and JSON Schemas for editors. With\n" +
			"--provider, models of that provider take the place of the scripts. It never changes an existing file.",
		Example: `  braise init demo
  braise init demo --provider openai
  braise init tickets --template triage`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("init takes one folder, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			names := recipes.Names()
			if !slices.Contains(names, template) {
				return usageError("no template is named %q\n  hint: %s",
					template, cmp.Or(diagnostics.DidYouMean(template, names), "they are: "+strings.Join(names, ", ")))
			}
			var p *provider
			if cmd.Flags().Changed("provider") {
				var err error
				if p, err = providerNamed(name); err != nil {
					return err
				}
			}
			return a.init(filepath.Clean(dir), template, p)
		},
	}
	cmd.Flags().StringVar(&template, "template", template, strings.Join(recipes.Names(), ", "))
	cmd.Flags().StringVar(&name, "provider", "", "the provider of the models: "+strings.Join(providerNames(), ", ")+
		" (default scripts, which need no key)")
	return cmd
}

// providerNames are those that init knows.
func providerNames() (names []string) {
	for _, p := range providers {
		names = append(names, p.Name)
	}
	return names
}

func providerNamed(name string) (*provider, error) {
	for i := range providers {
		if providers[i].Name == name {
			return &providers[i], nil
		}
	}
	hint := "they are: " + strings.Join(providerNames(), ", ")
	if near := diagnostics.DidYouMean(name, providerNames()); near != "" {
		hint = near + " " + hint
	}
	return nil, usageError("no provider is named %q\n  hint: %s", name, hint)
}

// written is what init prints as JSON.
type written struct {
	Template string   `json:"template"`
	Provider string   `json:"provider,omitempty"` // "": scripts answer
	Dir      string   `json:"dir"`
	Files    []string `json:"files"` // below Dir, sorted
}

// init writes a template into dir: all of its files, or none if one of them exists. p answers in it; nil: scripts do.
func (a *app) init(dir, template string, p *provider) error {
	files, err := templateFiles(template)
	if err != nil {
		return &exitError{host.ExitInternal, err}
	}
	result := written{Template: template, Dir: filepath.ToSlash(dir)}
	if p != nil {
		if result.Provider = p.Name; !useProvider(files, p) {
			return usageError("the template %q asks no model\n  hint: leave out --provider", template)
		}
	}
	names := slices.Sorted(maps.Keys(files))
	var taken []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			taken = append(taken, path)
		case !errors.Is(err, fs.ErrNotExist):
			return &exitError{host.ExitFailed, err}
		}
	}
	if taken != nil {
		return &exitError{host.ExitFailed, fmt.Errorf("nothing was written, because there is already: %s\n"+
			"  hint: braise init DIR writes into another folder", strings.Join(taken, ", "))}
	}
	for _, name := range names {
		if err := writeNew(filepath.Join(dir, name), files[name]); err != nil {
			return &exitError{host.ExitFailed, err}
		}
	}
	if a.output != "human" {
		result.Files = names
		return a.printJSON(result)
	}
	for _, name := range names {
		fmt.Fprintln(a.stdout, filepath.Join(dir, name))
	}
	fmt.Fprintln(a.stdout, "\nNow try:")
	if p != nil && p.Key != "" && os.Getenv(p.Key) == "" {
		fmt.Fprintf(a.stdout, "  export %s=…\n", p.Key)
	}
	if p != nil {
		fmt.Fprintf(a.stdout, "  braise doctor --call --config %s\n", quoted(filepath.Join(dir, host.FileName)))
	}
	fmt.Fprintf(a.stdout, "  braise test %s\n  braise run %s%s\n", quoted(dir), quoted(dir), tryWith[template])
	return nil
}

// scripted matches a model of a template's braise.yaml that a script answers for.
var scripted = regexp.MustCompile(`\{provider: script, file: ([^}]*)\}`)

// useProvider replaces the scripts of a template by models of a provider. It is false if there are none.
func useProvider(files map[string][]byte, p *provider) bool {
	config := files[host.FileName]
	scripts := scripted.FindAllSubmatch(config, -1)
	for _, script := range scripts {
		delete(files, string(script[1]))
	}
	files[host.FileName] = scripted.ReplaceAllLiteral(config, []byte(p.yaml()))
	return scripts != nil
}

// quoted returns a word as it is typed into a shell.
func quoted(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\r\n\"'`$&|;<>(){}*?[]#~\\!^%") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// tryWith are inputs with which a template runs anywhere.
var tryWith = map[string]string{"changelog": " --input log_file=data/log.txt"}

// The JSON Schemas of recipes and of braise.yaml, which schemaLine makes editors find.
const (
	recipeSchema = "recipe.schema.json"
	configSchema = "braise.schema.json"
	schemaLine   = "# yaml-language-server: $schema=./"
)

// templateFiles are the files that a template consists of, by slash-separated path.
func templateFiles(template string) (map[string][]byte, error) {
	sub, err := fs.Sub(recipes.FS, template)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{recipeSchema: recipe.Schema(), configSchema: host.ConfigSchema()}
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sub, name)
		switch {
		case bytes.HasPrefix(text, []byte("apiVersion: ")):
			text = append([]byte(schemaLine+recipeSchema+"\n"), text...)
		case name == host.FileName: // recipes here may look at the repository, new ones at a folder of their own
			text = bytes.ReplaceAll(text, []byte("../.."), []byte("./work"))
			text = append([]byte(schemaLine+configSchema+"\n"), text...)
		}
		files[name] = text
		return err
	})
	return files, err
}

// writeNew writes a file that must not be there yet, and the folders above it.
func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
