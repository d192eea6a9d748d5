package recipe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// Library is where recipes find others that are not beside them. The zero Library, and nil, has none.
type Library struct {
	// Roots are looked in, one after the other, for what a ref names that does not begin with ./ or ../,
	// after the folder of the recipe that says so. Each is apart: nothing in it reads what is outside of it.
	Roots []fs.FS
	// Shipped has a folder for each recipe that braise:NAME stands for. nil: none.
	Shipped fs.FS
}

// What the names of files begin with that are not below the recipe's own root: braise:qa/recipe.yaml is of a shipped
// recipe, roots:1/lib/check.yaml in the first root.
const (
	shippedMark = "braise:"
	rootsMark   = "roots:"
)

// folderFile is the recipe that a folder stands for.
const folderFile = "recipe.yaml"

// Load is [Load] for a recipe that may name those of the library.
func (lib *Library) Load(fsys fs.FS, filename string) (*Recipe, error) {
	if lib == nil {
		lib = &Library{}
	}
	return load(tree{fsys, lib}, path.Clean(filename))
}

// NamedFS is a file system whose files have other names for the user: those that positions show.
type NamedFS interface {
	fs.FS
	DisplayName(name string) string
}

// files is where a loader finds files. Names are paths from its root, with slashes.
type files interface {
	// has reports whether there is such a file.
	has(name string) bool
	// read returns the text of a file; of one that is too large, only more than is allowed.
	read(name string) ([]byte, error)
	// markdown calls f for every file below a folder whose name ends in .md. That there is no such
	// folder is no error.
	markdown(dir string, f func(name string)) error
	// shown returns the name that the user knows a file by.
	shown(name string) string
	// roots is how many roots there are.
	roots() int
	// shipped lists the names of shipped recipes.
	shipped() []string
}

// tree is a file system, and a library, as files.
type tree struct {
	fs.FS
	lib *Library
}

// at returns the file system that a file is in, and its name there.
func (t tree) at(name string) (fs.FS, string, error) {
	mark, below, _ := strings.Cut(name, "/")
	switch root := mountOf(name); {
	case root == "":
		return t.FS, name, nil
	case strings.HasPrefix(root, shippedMark):
		if t.lib.Shipped != nil {
			return t.lib.Shipped, strings.TrimPrefix(name, shippedMark), nil
		}
	default:
		if n, err := strconv.Atoi(strings.TrimPrefix(mark, rootsMark)); err == nil && n >= 1 && n <= len(t.lib.Roots) {
			return t.lib.Roots[n-1], below, nil
		}
	}
	return nil, "", fs.ErrNotExist
}

func (t tree) has(name string) bool {
	fsys, name, err := t.at(name)
	if err != nil {
		return false
	}
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

func (t tree) shown(name string) string {
	fsys, below, err := t.at(name)
	if named, ok := fsys.(NamedFS); ok && err == nil {
		return named.DisplayName(below)
	}
	return name
}

func (t tree) markdown(dir string, f func(name string)) error {
	fsys, below, err := t.at(dir)
	if err != nil {
		return nil
	}
	mount := strings.TrimSuffix(dir, below)
	err = fs.WalkDir(fsys, below, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			f(mount + name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// read reads at most one byte more than is allowed. What is not a regular file is refused before it
// is opened: opening a pipe may wait forever.
func (t tree) read(name string) ([]byte, error) {
	fsys, name, err := t.at(name)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

func (t tree) roots() int { return len(t.lib.Roots) }

func (t tree) shipped() (names []string) {
	if t.lib.Shipped != nil {
		entries, _ := fs.ReadDir(t.lib.Shipped, ".") // for a hint
		for _, e := range entries {
			names = append(names, shippedMark+e.Name())
		}
	}
	return names
}

// mountOf is the part of a file's name that says which file system it is in; "" is the recipe's own. A shipped recipe
// cannot leave its folder, so that counts.
func mountOf(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if strings.HasPrefix(first, shippedMark) || strings.HasPrefix(first, rootsMark) {
		return first
	}
	return ""
}

// find turns what a ref in a file names into a file: braise:NAME is a shipped recipe, another name without
// ./ may also stand in a root. A name without a suffix may be that of a folder with a recipe.yaml.
func (l *loader) find(from string, name Name) (string, bool) {
	if below, ok := strings.CutPrefix(name.Text, shippedMark); ok {
		if fs.ValidPath(below) {
			if file, ok := l.recipeAt(shippedMark + below); ok {
				return file, true
			}
		}
		l.Errorf(name.Pos, diagnostics.CodeFile, diagnostics.DidYouMean(name.Text, l.shipped()),
			"no recipe %q is shipped", name.Text)
		return "", false
	}
	own, ok := l.resolve(from, name)
	if !ok {
		return "", false
	}
	if file, ok := l.recipeAt(own); ok {
		return file, true
	}
	below := path.Clean(name.Text)
	if strings.HasPrefix(name.Text, ".") || !fs.ValidPath(below) || l.roots() == 0 {
		return own, true // reading it says what is wrong
	}
	for i := range l.roots() {
		if file, ok := l.recipeAt(fmt.Sprintf("%s%d/%s", rootsMark, i+1, below)); ok {
			return file, true
		}
	}
	l.Errorf(name.Pos, diagnostics.CodeFile, "write ./ before the name of a file in this one's folder",
		"there is no recipe %q, neither in the folder of this file nor in the roots of braise.yaml", name.Text)
	return "", false
}

// recipeAt returns the file of that name, or the recipe of the folder.
func (l *loader) recipeAt(name string) (string, bool) {
	if l.has(name) {
		return name, true
	}
	inside := name + "/" + folderFile
	return inside, path.Ext(name) == "" && l.has(inside)
}
