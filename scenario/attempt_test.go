package scenario

import (
	"os"
	"testing"

	"github.com/braise-run/braise/workflow"
)

// Whatever the random part of their names is, the folders of attempts have names of one length.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	length := 0
	for range 300 {
		dir, err := tempDir()
		if err != nil {
			t.Fatal(err)
		}
		if length == 0 {
			length = len(dir)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || len(dir) != length {
			t.Fatalf("%s: %v, %v, want %d bytes", dir, info, err, length)
		}
	}
}

// Runs of a scenario begin at different times: a step that has run.started_at does not make them differ.
func TestBegan(t *testing.T) {
	at := func(began, event string) string {
		a := &attempt{outcome: map[string]any{"status": "ok", "output": event}, plan: &workflow.Plan{}, began: began}
		return a.fingerprint("")
	}
	const first, second = "2026-01-31T12:00:00Z", "2026-01-31T12:00:01Z"
	if one, other := at(first, "began "+first), at(second, "began "+second); one != other {
		t.Errorf("got %s and %s", one, other)
	}
	if one, other := at(first, "at "+first), at(second, "at "+first); one == other {
		t.Errorf("a time of its own is taken for that of the run: %s", one)
	}
}
