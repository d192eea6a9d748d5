// Package scenariotest runs scenarios as Go tests, so that an app tests its recipes as this project tests its own.
// It uses package scenario, which is separate so that programs can check scenarios without package
// testing.
package scenariotest

import (
	"testing"

	"github.com/braise-run/braise/scenario"
)

// Run runs the scenarios in dir, each as a subtest if t is a *testing.T. It fails t for each that does not hold, and
// when there is none. A nil opts is the zero Options.
func Run(t testing.TB, dir string, opts *scenario.Options) {
	t.Helper()
	files, err := scenario.Find([]string{dir}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no scenario in %s", dir)
	}
	for _, file := range files {
		if parent, ok := t.(*testing.T); ok {
			parent.Run(scenario.Name(file), func(t *testing.T) { check(t, file, opts) })
		} else {
			check(t, file, opts)
		}
	}
}

func check(t testing.TB, file string, opts *scenario.Options) {
	t.Helper()
	r, err := scenario.Check(t.Context(), file, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s: %s", r.File, f)
	}
}
