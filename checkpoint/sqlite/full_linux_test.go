package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
)

// Where no file can grow, as on a full disk, a store that a process left can still be read, what is in its log with it.
// The process that reads is one of its own: the limit holds for all of it.
func TestFullDisk(t *testing.T) {
	const inside = "BRAISE_TEST_FULL_DISK"
	if path := os.Getenv(inside); path != "" {
		readFull(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	store, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run := checkpoint.Run{ID: "r1", Recipe: "r", Digest: "sha256:0a1b", Definition: []byte(`{}`),
		StartedAt: time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)}
	if _, err := store.Create(t.Context(), run, "gone", -1); err != nil {
		t.Fatal(err)
	}
	// what a process leaves that is killed: the file and its log, without the index of the log
	left := filepath.Join(t.TempDir(), "runs.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(left+suffix, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+left)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "has read 1 run") {
		t.Errorf("%v\n%s", err, out)
	}
}

func readFull(t *testing.T, path string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: 0}); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	runs, err := store.List(ctx, checkpoint.Filter{})
	if err != nil || len(runs) != 1 || runs[0].ID != "r1" {
		t.Fatalf("runs %v, %v", runs, err)
	}
	if _, recs, err := store.Load(ctx, "r1", 0); err != nil || len(recs) != 1 {
		t.Fatalf("%v, %v", recs, err)
	}
	if _, err := store.Claim(ctx, "r1", "me", time.Minute); err == nil || !strings.Contains(err.Error(), "hint: the file or its folder is protected, or the disk is full") {
		t.Fatalf("a write on a full disk: %v", err)
	}
	t.Log("has read 1 run")
}
