package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// FindConfig returns the path of the braise.yaml that goes with a recipe: beside the recipe, else
// in the working folder, else "". Beside an agent in a folder agents is beside that folder. recipePath may be "".
func FindConfig(recipePath string) (string, error) {
	for _, dir := range configFolders(recipePath) {
		path := filepath.Join(dir, FileName)
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", err
		}
	}
	return "", nil
}

// configFolders are the folders that a configuration is looked for in.
func configFolders(recipePath string) []string {
	beside, _ := splitRecipe(recipePath)
	return slices.Compact([]string{filepath.Dir(beside + "x"), "."})
}

// NoConfig says that no configuration was found, and in which folders; "" if there is one, or none was looked for. One
// that was found and is not used is a warning of Open.
func (h *Host) NoConfig() string {
	if h.path != "" || h.opts.StoreOnly || notUsed(h.opts.Recipe) != "" {
		return ""
	}
	return noConfig(h.opts.Recipe)
}

// notUsed says why the configuration of a recipe is not used, where none is; "": there is none.
func notUsed(recipePath string) string {
	if path, err := FindConfig(recipePath); err == nil && path != "" {
		return untrusted(path)
	}
	return ""
}

func untrusted(path string) string {
	return path + " is not used: it is outside of the working folder, and allows programs; --config uses it"
}

// noConfig says where no configuration was found for a recipe.
func noConfig(recipePath string) string {
	var folders []string
	for _, dir := range configFolders(recipePath) {
		if abs, err := filepath.Abs(dir); err == nil {
			folders = append(folders, abs)
		}
	}
	return fmt.Sprintf("no %s was found in %s", FileName, strings.Join(slices.Compact(folders), ", nor in "))
}

// find is FindConfig for the options: a configuration beside a recipe that is outside of the working folder is used
// only if Trust says so.
func (o *Options) find(warn func(string)) (string, error) {
	path, err := FindConfig(o.Recipe)
	if err != nil || path == "" || filepath.Dir(path) == "." || vouches(filepath.Dir(path)) {
		return path, err
	}
	if o.Trust != nil && o.Trust(path) {
		return path, nil
	}
	warn(untrusted(path))
	return FindConfig("")
}

// vouches reports whether the working folder vouches for what stands in a folder: it is the working folder or below
// it, links followed. The home folder, and those above it, vouch for nothing below: people keep there what they have
// from others.
func vouches(dir string) bool {
	work, dir := real("."), real(dir)
	if work == "" || dir == "" {
		return false
	}
	home, err := os.UserHomeDir()
	if err == nil && real(home) != "" && holds(work, real(home)) {
		return dir == work
	}
	return holds(work, dir)
}

// real is the path of a folder, links followed; "" if there is none.
func real(dir string) string {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// holds reports whether a folder is another one, or below it.
func holds(outer, inner string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

// Untrusted names what c, which stands in a folder, allows beyond what an installation without a configuration does,
// sorted. nil: nothing, or the working folder vouches for the folder: it is the working folder or below it. The home
// folder, and those above it, vouch for nothing below them.
func (c *Config) Untrusted(dir string) []string {
	if vouches(dir) {
		return nil
	}
	var list []string
	if exec := c.Tools.Exec; exec != nil {
		for _, program := range exec.Allow {
			list = append(list, "program "+program)
		}
	}
	if file := c.Tools.File; file != nil && !filepath.IsLocal(file.Base) {
		list = append(list, "folder "+file.Base)
	}
	if folder := c.sources.files; folder != "" && !filepath.IsLocal(folder) {
		list = append(list, "secrets in "+folder)
	}
	if http := c.Tools.HTTP; http != nil && http.AllowPrivate {
		list = append(list, "private addresses")
	}
	for name, server := range c.MCP {
		if server.Command != nil {
			list = append(list, "MCP server "+name)
		}
	}
	slices.Sort(list)
	return list
}
