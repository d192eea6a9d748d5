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
	"github.com/braise-run/braise/recipes"
)

// LoadRecipe reads the recipe at path and the files that it names; it may name shipped recipes, braise:NAME. The
// recipe's own folder is the wall: nothing outside it can be read, symbolic links included. Where path itself is a
// link, the folder is that of the file it leads to. Positions name files as path does, or as the link leads. The
// error is a *diagnostics.Error, or says that the folder cannot be opened.
//
// A Markdown file is an agent, and stands for a recipe that asks it, see [recipe.Library.LoadAgent]. If it is in a
// folder agents, or in a folder of that, what is around the folder agents is the wall.
func LoadRecipe(path string) (*recipe.Recipe, error) { return (*Config)(nil).loadRecipe(path, "") }

// loadRecipe is LoadRecipe for a recipe that may also name those in the roots of the configuration, which start at dir.
func (c *Config) loadRecipe(path, dir string) (*recipe.Recipe, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
	}
	beside, name := splitRecipe(path)
	root, err := os.OpenRoot(filepath.Join(beside, "."))
	if err != nil {
		return nil, noFolder("the folder of the recipe", filepath.ToSlash(path), err)
	}
	defer root.Close()
	return c.Recipe(folder{regular.FS(root), strings.TrimPrefix(filepath.ToSlash(beside), "./")}, name, dir)
}

// Recipe reads a recipe as [recipe.Load] does; it may name shipped recipes, braise:NAME, and those in the roots of
// the configuration, which start at dir. Each root is a wall of its own.
func (c *Config) Recipe(fsys fs.FS, file, dir string) (*recipe.Recipe, error) {
	lib := recipe.Library{Shipped: recipes.FS}
	if c != nil {
		for _, path := range c.Roots {
			at := within(dir, path)
			root, err := os.OpenRoot(at)
			if err != nil {
				return nil, noFolder("a folder of recipes.roots", filepath.ToSlash(at), err)
			}
			defer root.Close()
			lib.Roots = append(lib.Roots, folder{regular.FS(root), filepath.ToSlash(at) + "/"})
		}
	}
	if filepath.Ext(file) == agentSuffix {
		return lib.LoadAgent(fsys, file)
	}
	return lib.Load(fsys, file)
}

// agentSuffix is what the names of agents' files end in.
const agentSuffix = ".md"

// splitRecipe splits the path of a recipe into its folder, which ends in a slash or is "", and what is below that: the
// name of the file, or for an agent in a folder agents, or in a folder of that, the path from there.
func splitRecipe(path string) (dir, name string) {
	path = strings.TrimRight(filepath.ToSlash(path), "/")
	dir, name = filepath.Split(path)
	whole, err := filepath.Abs(path) // the folder agents may be the working folder
	if err != nil || filepath.Ext(name) != agentSuffix {
		return dir, name
	}
	whole = filepath.ToSlash(whole)
	for _, depth := range []int{2, 3} {
		parts := strings.Split(whole, "/")
		if len(parts) <= depth || parts[len(parts)-depth] != "agents" {
			continue
		}
		below := strings.Join(parts[len(parts)-depth:], "/")
		if rest, ok := strings.CutSuffix(path, below); ok {
			return rest, below
		}
		return strings.TrimSuffix(whole, below), below
	}
	return dir, name
}

// noFolder is the diagnostic about a folder that cannot be opened.
func noFolder(what, path string, err error) error {
	return diagnostics.List{{
		Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeFile,
		Message:  what + " cannot be read: " + cause(err).Error(),
		Position: diagnostics.Position{File: path},
	}}.Err()
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
