// Package scenario tests recipes by example. A scenario is a readable txtar file with
// a description, a recipe and the files that it needs, the answers of its
// models, and the expected outcome. docs/scenarios.md describes the file.
//
// [Find] and [Check] are for the command, package scenariotest is for Go tests. Every scenario runs four times, each
// time in a new folder: twice with one adapter call at a time, and twice with up to eight. A difference
// between these runs is a failure.
package scenario

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// Options change how scenarios run. A nil *Options is the zero Options.
type Options struct {
	// Runtime is what the recipes of an app run with: its tools, models and secrets. A scenario's
	// own braise.yaml and script.yaml go over it. nil: what an installation without a braise.yaml
	// has.
	Runtime *runtime.Runtime
	// Update rewrites the expectations that do not hold. A scenario without any gets an
	// outcome.json.
	Update bool
	// Run selects scenarios by name. nil: all.
	Run *regexp.Regexp
	// Trust says whether what the braise.yaml of a scenario outside of the working folder allows may be used: see
	// [host.Config.Untrusted]. It is asked only if there is something. After a no the scenario fails. nil: it may.
	Trust func(file string, allows []string) bool
}

// Result says how one scenario went.
type Result struct {
	Name     string   // see Name
	File     string   // its path
	Failures []string // each may have several lines; nil: the scenario passed
	Updated  bool     // the file was rewritten
}

const extension = ".txtar"

// Find returns the scenario files at paths, sorted within each: a file stands for itself, a folder
// for the *.txtar files in it and below, hidden folders left out. Options.Run applies.
func Find(paths []string, opts *Options) ([]string, error) {
	var files []string
	for _, path := range paths {
		var found []string
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case !d.IsDir() && (file == path || filepath.Ext(file) == extension):
				found = append(found, file)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(file string) bool {
		return opts != nil && opts.Run != nil && !opts.Run.MatchString(Name(file))
	}), nil
}

// Name is the name of a scenario by its file: the base name without .txtar.
func Name(file string) string { return strings.TrimSuffix(filepath.Base(file), extension) }

// parallelism is max_parallel in the runs of a scenario. Expectations are about the first.
var parallelism = []int{1, 1, 8, 8}

// Check runs one scenario:
//
//  1. read the file
//  2. run the recipe, again and again
//  3. compare the runs with each other
//  4. compare the first with the expectations, or update those
//
// What is wrong with the scenario or its outcome is in the result. The error says that the file or
// a temporary folder cannot be read or written, or that ctx ended.
func Check(ctx context.Context, path string, opts *Options) (*Result, error) {
	if opts == nil {
		opts = &Options{}
	}
	result := &Result{Name: Name(path), File: path}
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	archive := txtar.Parse(text)
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := read(result.Name, archive, regular.FS(root))
	if err != nil {
		result.Failures = []string{err.Error()}
		return result, nil
	}
	if opts.Trust != nil {
		if allows := s.untrusted(filepath.Dir(path)); allows != nil && !opts.Trust(path, allows) {
			result.Failures = []string{"scenario.untrusted: its braise.yaml allows " + strings.Join(allows, ", ") +
				", and is outside of the working folder\n  hint: read it, then test in its folder or with --config"}
			return result, nil
		}
	}
	var first *attempt
	for i, n := range parallelism {
		a, err := s.attempt(ctx, opts.Runtime, n)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if i == 0 {
			first = a
		} else if d := difference(first.fingerprint(s.same), a.fingerprint(s.same)); d != "" {
			result.Failures = append(result.Failures, fmt.Sprintf(
				"run %d (max_parallel %d, +) differs from run 1 (max_parallel %d, -):\n%s", i+1, n, parallelism[0], d))
			break
		}
	}
	result.Updated = s.expect(first, opts.Update, func(format string, args ...any) {
		result.Failures = append(result.Failures, fmt.Sprintf(format, args...))
	})
	if result.Updated {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			return nil, err
		}
	}
	return result, nil
}
