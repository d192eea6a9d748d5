package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/recipe"
)

// LoadRecipe reads the recipe at path and the files that it names. The recipe's own folder is the
// wall: nothing outside it can be read, symbolic links included. Where path itself is a link, the
// folder is that of the file it leads to. Positions name files as path does, or as the link leads.
// The error is a *diagnostics.Error, or says that the folder cannot be opened.
func LoadRecipe(path string) (*recipe.Recipe, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
	}
	dir, name := filepath.Split(strings.TrimRight(filepath.ToSlash(path), "/"))
	root, err := os.OpenRoot(filepath.Join(dir, "."))
	if err != nil {
		list := diagnostics.List{{
			Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeFile,
			Message:  "the folder of the recipe cannot be read: " + cause(err).Error(),
			Position: diagnostics.Position{File: filepath.ToSlash(path)},
		}}
		return nil, list.Err()
	}
	defer root.Close()
	return recipe.Load(folder{regular.FS(root), strings.TrimPrefix(filepath.ToSlash(dir), "./")}, name)
}

// folder is a file system whose files have the names that the user knows.
type folder struct {
	fs.FS
	prefix string
}

// DisplayName implements recipe.NamedFS.
func (f folder) DisplayName(name string) string { return f.prefix + name }

// cause is an error of a file operation without the operation and the path.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
