package command

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder is watched itself, whatever its name; a file with what stands beside it.
func TestWatchedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "v1.2/b.txtar", "v1.2/in/c", "v1.2/.git/d"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "v1.2"))
	for path, want := range map[string]int{".": 2, "..": 3, "../v1.2": 2, "b.txtar": 2, "in": 1, "nowhere": 0} {
		if got := stateOf([]string{path}); len(got) != want {
			t.Errorf("%s: %d files, want %d: %v", path, len(got), want, got)
		}
	}
}
