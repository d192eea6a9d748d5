package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FindConfig returns the path of the braise.yaml that goes with a recipe: beside the recipe, else
// in the working folder, else "". Beside an agent in a folder agents is beside that folder. recipePath may be "".
func FindConfig(recipePath string) (string, error) {
	beside, _ := splitRecipe(recipePath)
	for _, dir := range []string{filepath.Dir(beside + "x"), "."} {
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

// find is FindConfig for the options: a configuration beside a recipe that is outside of the working folder is used
// only if Trust says so.
func (o *Options) find(warn func(string)) (string, error) {
	path, err := FindConfig(o.Recipe)
	if err != nil || path == "" || filepath.Dir(path) == "." || inWorkingFolder(filepath.Dir(path)) {
		return path, err
	}
	if o.Trust != nil && o.Trust(path) {
		return path, nil
	}
	warn(path + " is not used: it is outside of the working folder, and allows programs; --config uses it")
	return FindConfig("")
}

// inWorkingFolder reports whether a folder is the working folder or below it, links followed.
func inWorkingFolder(dir string) bool {
	work, err := os.Getwd()
	if err == nil {
		work, err = filepath.EvalSymlinks(work)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(work, dir)
	return err == nil && filepath.IsLocal(rel)
}
