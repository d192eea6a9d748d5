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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
)

func (a *app) initCommand() *cobra.Command {
	template := "starter"
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a recipe that runs without keys, with a scenario and a braise.yaml",
		Long: "Init writes a recipe, and everything that it needs, to DIR (default: the working folder): sample\n" +
			"data, scripts in place of models, scenarios, a braise.yaml and JSON Schemas for editors. It never\n" +
			"changes an existing file.",
		Example: `  braise init demo
  braise init tickets --template triage`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("init takes one folder, not %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			names := recipes.Names()
			if !slices.Contains(names, template) {
				return usageError("no template is named %q\n  hint: %s",
					template, cmp.Or(diagnostics.DidYouMean(template, names), "they are: "+strings.Join(names, ", ")))
			}
			return a.init(filepath.Clean(dir), template)
		},
	}
	cmd.Flags().StringVar(&template, "template", template, strings.Join(recipes.Names(), ", "))
	return cmd
}

// written is what init prints as JSON.
type written struct {
	Template string   `json:"template"`
	Dir      string   `json:"dir"`
	Files    []string `json:"files"` // below Dir, sorted
}

// init writes a template into dir: all of its files, or none if one of them exists.
func (a *app) init(dir, template string) error {
	files, err := templateFiles(template)
	if err != nil {
		return &exitError{host.ExitInternal, err}
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
		return a.printJSON(written{template, filepath.ToSlash(dir), names})
	}
	for _, name := range names {
		fmt.Fprintln(a.stdout, filepath.Join(dir, name))
	}
	fmt.Fprintf(a.stdout, "\nNow try:\n  braise test %s\n  braise run %s%s\n",
		quoted(dir), quoted(dir), tryWith[template])
	return nil
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
