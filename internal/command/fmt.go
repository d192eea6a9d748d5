package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/recipe"
)

func (a *app) fmtCommand() *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Format recipes in the canonical layout, with their comments",
		Example: `  braise fmt recipe.yaml
  braise fmt --check recipes/*.yaml`,
		Args: atLeastOne("fmt takes recipe files"),
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
		path = recipePath(path)
		changed, err := format(path, check)
		if err != nil {
			result.Diagnostics = append(result.Diagnostics, diagnosed(err)...)
		} else if changed {
			result.Changed = append(result.Changed, path)
		}
	}
	a.printDiagnostics(result.Diagnostics)
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
		return exit(host.ExitInvalid)
	case check && len(result.Changed) > 0:
		return exit(host.ExitFailed)
	}
	return nil
}

// format rewrites one file, unless check is set or it is canonical.
func format(path string, check bool) (changed bool, err error) {
	old, err := regular.ReadFile(path)
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
