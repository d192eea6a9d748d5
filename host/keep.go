package host

import (
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// kept are the paths that file.write leaves alone: what says what runs do, and what keeps them.
type kept struct {
	mu    sync.Mutex
	paths map[string]bool // absolute
	runs  map[string]bool // whose recipes are among them; some are forgotten, and looked up again
}

// maxKeptRuns is how many runs a host remembers to have looked up.
const maxKeptRuns = 10_000

func (k *kept) add(paths ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paths == nil {
		k.paths = map[string]bool{}
	}
	for _, path := range paths {
		if whole, err := filepath.Abs(path); err == nil && path != "" {
			k.paths[whole] = true
		}
	}
}

// addRecipe adds the files of a recipe, whose names are relative to a folder, and the folders agents beside them: a new
// file there is an agent of the next run.
func (k *kept) addRecipe(r *recipe.Recipe, folder string) {
	for _, file := range r.Files() {
		path := within(folder, filepath.FromSlash(file))
		k.add(path, filepath.Join(filepath.Dir(path), "agents"))
	}
}

// knows reports whether the recipe of a run has been looked up.
func (k *kept) knows(runID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[runID]
}

// know notes that the recipe of a run has been looked up.
func (k *kept) know(runID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs == nil || len(k.runs) >= maxKeptRuns {
		k.runs = map[string]bool{}
	}
	k.runs[runID] = true
}

// list returns the paths so far, sorted.
func (k *kept) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.paths))
}

// Keep adds files that runs may not write with file.write, such as a cassette, and folders. The host keeps its
// configuration and what that names, its store, and the recipes that it loads.
func (h *Host) Keep(paths ...string) { h.kept.add(paths...) }

// keepRecipe keeps the files of a recipe that was read: those that it names, its agents and those of others that it
// calls, too. It returns what it is given.
func (h *Host) keepRecipe(r *recipe.Recipe, err error) (*recipe.Recipe, error) {
	if r != nil {
		h.kept.addRecipe(r, "")
	}
	return r, err
}

// keptFrom returns what the run that a call belongs to may not write.
func (h *Host) keptFrom(ctx context.Context) []string {
	if call, ok := runtime.CallOf(ctx); ok && !h.kept.knows(call.Run) {
		h.keepStored(ctx, call.Run)
	}
	return h.kept.list()
}

// keepStored keeps the files that the recipe of a run was read from, if the run began on this machine: their names are
// relative to the folder that it began in. Who resumes a run may have its recipe from the store only.
func (h *Host) keepStored(ctx context.Context, runID string) {
	h.mu.Lock()
	store := h.store
	h.mu.Unlock()
	if store == nil {
		return
	}
	origin, err := history.Origin(ctx, store, runID)
	if err != nil {
		return // also if the run is in another store
	}
	folder := origin[originFolder]
	if r := storedRecipe(ctx, store, runID); r != nil && folder != "" && origin[originHost] == here()[originHost] {
		h.kept.addRecipe(r, folder)
	}
	h.kept.know(runID)
}

// storedRecipe is the recipe of a run; nil when the store does not have it.
func storedRecipe(ctx context.Context, store checkpoint.Store, runID string) *recipe.Recipe {
	sum, _, err := guard.Load(ctx, store, runID, math.MaxInt64)
	if err != nil {
		return nil
	}
	text, err := guard.Definition(ctx, store, sum.Digest)
	if err != nil {
		return nil
	}
	r, err := recipe.FromDefinition(text)
	if err != nil {
		return nil
	}
	return r
}

// keepStore keeps what a store is in.
func (h *Host) keepStore(url, dir string) {
	u, err := parseStore(url)
	if err != nil || u.path == "" {
		return
	}
	path := within(dir, u.path)
	h.kept.add(path)
	if u.scheme == "sqlite" {
		h.kept.add(path+"-wal", path+"-shm", path+"-journal")
	}
}

// keep adds what the configuration names.
func (c *Config) keep(k *kept, path string) {
	if c == nil {
		return
	}
	dir := filepath.Dir(path)
	k.add(path)
	for _, file := range c.InstructionsFrom {
		k.add(within(dir, file))
	}
	for _, m := range c.Models {
		if m.File != "" {
			k.add(within(dir, m.File))
		}
	}
	k.add(c.secretFolder(dir))
	if c.Skills != "" {
		k.add(within(dir, c.Skills))
	}
}

// keepFrom has file.write leave alone what list returns.
func (c *Config) keepFrom(list func(context.Context) []string) {
	if c != nil && c.Tools.File != nil {
		file := *c.Tools.File
		file.Keep, c.Tools.File = list, &file
	}
}
