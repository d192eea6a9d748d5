package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

// lookAgain is how often test --watch looks whether a file has changed.
const lookAgain = 300 * time.Millisecond

// watchTests runs scenarios at once, and again whenever a file beside them or below their folders changes, until the
// command is interrupted. What is wrong with the command line ends it only the first time.
func (a *app) watchTests(paths []string, test func() error) error {
	for first := true; ; first = false {
		seen := stateOf(paths)
		err := test()
		ended, ok := errors.AsType[*exitError](err)
		switch {
		case err == nil:
		case !ok:
			return err
		case ended.code == host.ExitFailed: // which is printed
		case first, ended.code == host.ExitInterrupt, ended.code == host.ExitCancelled:
			return err
		case ended.err != nil:
			fmt.Fprintln(a.stderr, "braise:", terminal.Visible(ended.err.Error()))
		}
		if a.output == "human" && !a.quiet {
			fmt.Fprintln(a.stderr, "waiting for a change; Ctrl-C ends")
		}
		for maps.Equal(seen, stateOf(paths)) {
			time.Sleep(lookAgain)
		}
	}
}

// fileState tells a file from what it was before.
type fileState struct {
	size    int64
	changed time.Time
}

// stateOf returns the files in and below folders, and beside files; hidden folders are left out. What cannot be read is
// not there.
func stateOf(paths []string) map[string]fileState {
	files := map[string]fileState{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			path = filepath.Dir(path)
		}
		_ = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if d.IsDir() {
				if file != path && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
					return fs.SkipDir
				}
				return nil
			}
			if info, err := d.Info(); err == nil {
				files[file] = fileState{info.Size(), info.ModTime()}
			}
			return nil
		})
	}
	return files
}
