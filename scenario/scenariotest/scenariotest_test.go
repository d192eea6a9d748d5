package scenariotest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/scenario"
	"github.com/braise-run/braise/scenario/scenariotest"
)

const four = `The output is computed.
-- recipe.yaml --
apiVersion: braise/v1
name: four
version: "1"
steps:
  a: {uses: set, with: 4}
output: ${{ steps.a.output }}
-- outcome.json --
{"output": %d}
`

// write puts a scenario that expects an output into a new folder, and returns the path of the file.
func write(t *testing.T, output int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "four.txtar")
	if err := os.WriteFile(path, fmt.Appendf(nil, four, output), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// recorder is a testing.TB that keeps what it is told, and is no *testing.T.
type recorder struct {
	testing.TB
	told []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.told = append(r.told, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

func TestRun(t *testing.T) {
	scenariotest.Run(t, filepath.Dir(write(t, 4)), nil)
}

func TestRunTellsWhatDoesNotHold(t *testing.T) {
	path := write(t, 5)
	r := &recorder{TB: t}
	scenariotest.Run(r, filepath.Dir(path), &scenario.Options{})
	want := []string{path + ": outcome.json: output is 4, want 5"}
	if diff := cmp.Diff(want, r.told); diff != "" {
		t.Errorf("errors (-want +got)\n%s", diff)
	}
}

func TestRunWithoutScenarios(t *testing.T) {
	dir := t.TempDir()
	r := &recorder{TB: t}
	defer func() {
		if recover() != any(r) {
			t.Error("Run did not fail")
		}
		if diff := cmp.Diff([]string{"no scenario in " + dir}, r.told); diff != "" {
			t.Errorf("errors (-want +got)\n%s", diff)
		}
	}()
	scenariotest.Run(r, dir, nil)
}
