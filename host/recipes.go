package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/workflow"
)

// Recipes are the recipes of files and folders, for programs that serve them. It is safe for concurrent use.
type Recipes struct {
	host  *Host
	paths []string

	mu   sync.Mutex
	list []Served
	seen map[string]uint64 // what files looked like, by path of the recipe
}

// Served is a recipe that is served.
type Served struct {
	Name string // of the recipe, or of its file while the recipe cannot be read
	Path string // of its file
	// Workflow is the newest version without errors; nil: there was none.
	Workflow *workflow.Workflow
	// Diagnostics are those of the file as it is. If they have errors, Workflow is of an earlier version.
	Diagnostics diagnostics.List
	Source      string // the text of the file as it is
}

// Recipes finds the recipes of files and folders, and compiles them. Of a folder it takes the recipe.yaml; if there is
// none, every *.yaml file that looks like a recipe, and the recipe.yaml of each folder in it. A recipe with errors is
// served without a workflow. The error says that a path does not exist or has no recipe, or that two recipes have one
// name.
func (h *Host) Recipes(ctx context.Context, paths []string) (*Recipes, error) {
	r := &Recipes{host: h, paths: slices.Clone(paths), seen: map[string]uint64{}}
	for _, path := range paths {
		if found, err := recipeFiles(path); err != nil {
			return nil, err
		} else if len(found) == 0 {
			return nil, fmt.Errorf("there is no recipe in %s\n  hint: a recipe is a file recipe.yaml, or another file "+
				"that begins with apiVersion: braise/v1", path)
		}
	}
	twice := r.Refresh(ctx)
	return r, twice
}

// List returns the recipes, sorted by name.
func (r *Recipes) List() []Served {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

// Find returns the recipe of a name.
func (r *Recipes) Find(name string) (Served, bool) {
	list := r.List()
	i := slices.IndexFunc(list, func(s Served) bool { return s.Name == name })
	if i < 0 {
		return Served{}, false
	}
	return list[i], true
}

// Watch calls Refresh every two seconds until ctx ends. Problems go to warn, each once.
func (r *Recipes) Watch(ctx context.Context, warn func(error)) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := r.Refresh(ctx)
		if err != nil && err.Error() != last && ctx.Err() == nil {
			warn(err)
		}
		if last = ""; err != nil {
			last = err.Error()
		}
	}
}

// Refresh reads the recipes again whose files have changed, finds new ones and forgets those that are gone. If two have
// one name, the one that was there first stays, and the error names both; so does a warning of the one that stays.
func (r *Recipes) Refresh(ctx context.Context) error {
	r.mu.Lock()
	old, seen := r.list, r.seen
	r.mu.Unlock()
	var list []Served
	var failed []error
	now := map[string]uint64{}
	lib := r.host.lookRoots()
	for _, path := range r.paths {
		files, err := recipeFiles(path)
		if err != nil {
			failed = append(failed, err)
		}
		for _, file := range files {
			if _, twice := now[file]; twice || ctx.Err() != nil {
				continue
			}
			now[file] = look(filepath.Dir(file)) ^ lib
			i := slices.IndexFunc(old, func(s Served) bool { return s.Path == file })
			switch {
			case i < 0:
				list = append(list, r.read(ctx, Served{Path: file}))
			case seen[file] != now[file]:
				list = append(list, r.read(ctx, old[i]))
			default:
				list = append(list, old[i].alone())
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known := func(s Served) bool {
		return slices.ContainsFunc(old, func(o Served) bool { return o.Path == s.Path && o.Name == s.Name })
	}
	slices.SortStableFunc(list, func(a, b Served) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || known(a) == known(b) {
			return c
		} else if known(a) {
			return -1
		}
		return 1
	})
	for i := 1; i < len(list); {
		if a, b := list[i-1], list[i]; a.Name == b.Name {
			failed = append(failed, fmt.Errorf("two recipes have the name %q: %s and %s\n  hint: a name says which "+
				"recipe is started, so give one of them another", a.Name, a.Path, b.Path))
			list[i-1] = a.twice(b)
			list = slices.Delete(list, i, i+1)
			continue
		}
		i++
	}
	r.mu.Lock()
	r.list, r.seen = list, now
	r.mu.Unlock()
	return errors.Join(failed...)
}

// twice adds the warning that another recipe has the name, too.
func (s Served) twice(other Served) Served {
	s.Diagnostics = append(slices.Clone(s.Diagnostics), diagnostics.Diagnostic{Level: diagnostics.Warn,
		Kind: diagnostics.KindRecipe, Code: diagnostics.CodeDuplicateName,
		Message:  fmt.Sprintf("%s has the name %q, too, and is not served", filepath.ToSlash(other.Path), s.Name),
		Hint:     "give one of the two recipes another name",
		Position: diagnostics.Position{File: filepath.ToSlash(s.Path)}})
	return s
}

// alone takes off what twice has added.
func (s Served) alone() Served {
	s.Diagnostics = slices.DeleteFunc(slices.Clone(s.Diagnostics), func(d diagnostics.Diagnostic) bool {
		return d.Code == diagnostics.CodeDuplicateName && d.Level == diagnostics.Warn
	})
	return s
}

// read reads a recipe. What was there before stays if it has errors.
func (r *Recipes) read(ctx context.Context, was Served) Served {
	now := Served{Path: was.Path, Name: cmp.Or(was.Name, nameOfFile(was.Path)), Workflow: was.Workflow}
	if text, err := regular.ReadFile(was.Path); err == nil {
		now.Source = string(text)
	}
	wf, err := r.host.Load(ctx, was.Path)
	wrong, _ := errors.AsType[*diagnostics.Error](err)
	switch {
	case err == nil:
		if now.Diagnostics = wf.Diagnostics; was.Workflow == nil || was.Workflow.Recipe().Digest != wf.Recipe().Digest {
			now.Workflow = wf
		}
		now.Name = cmp.Or(wf.Recipe().Name, now.Name)
	case wrong != nil:
		now.Diagnostics = wrong.List
	default:
		now.Diagnostics = diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe,
			Code: diagnostics.CodeFile, Message: err.Error(),
			Position: diagnostics.Position{File: filepath.ToSlash(was.Path)}}}
	}
	return now
}

// nameOfFile is the name for a recipe that cannot be read: of its file, or of its folder.
func nameOfFile(path string) string {
	if base := filepath.Base(path); base != recipeFile {
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		return filepath.Base(dir)
	}
	return path
}

const recipeFile = "recipe.yaml"

// recipeFiles finds the recipes of a file or folder.
func recipeFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("recipes: %s: %w", path, cause(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	if isFile(filepath.Join(path, recipeFile)) {
		return []string{filepath.Join(path, recipeFile)}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("recipes: %s: %w", path, cause(err))
	}
	var found []string
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case isFile(filepath.Join(name, recipeFile)):
			found = append(found, filepath.Join(name, recipeFile))
		case filepath.Ext(name) == ".yaml" && isFile(name) && looksLikeRecipe(name):
			found = append(found, name)
		}
	}
	return found, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// looksLikeRecipe reports whether a line of a file says that it is a recipe: a folder may have other YAML files.
func looksLikeRecipe(path string) bool {
	text, err := regular.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiVersion:") && strings.Contains(line, "braise/") {
			return true
		}
	}
	return false
}

// maxLooked is how many files of a recipe's folder are looked at for changes.
const maxLooked = 2_000

// lookRoots is look for the folders with recipes that others name.
func (h *Host) lookRoots() (sum uint64) {
	if h.config != nil {
		for _, root := range h.config.Roots {
			sum ^= look(within(h.dir, root))
		}
	}
	return sum
}

// look returns a number that changes when a file in a folder does.
func look(dir string) uint64 {
	sum, n := fnv.New64a(), 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read cannot change
		}
		if n++; n > maxLooked {
			return fs.SkipAll
		}
		if d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			fmt.Fprintf(sum, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return sum.Sum64()
}
