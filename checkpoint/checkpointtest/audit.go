package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// StartWithoutRights starts a command that may not write to read-only files, which root may otherwise.
func StartWithoutRights(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine, and the rights that it gave up with it
		err := dropRights()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

// MakeReadOnly takes the right to write to a file or folder, and all that is in it, from everybody until the test's
// end.
func MakeReadOnly(t *testing.T, place string) {
	t.Helper()
	var names []string
	err := filepath.WalkDir(place, func(name string, d fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	for _, name := range slices.Backward(names) {
		info, statErr := os.Stat(name)
		if err = errors.Join(err, statErr); err != nil {
			break
		}
		err = os.Chmod(name, info.Mode().Perm()&^0o222)
		t.Cleanup(func() { os.Chmod(name, info.Mode()) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// audit is the job of an auditor: to read what there is. It prints the records of "run", and what comes of writing.
func audit(ctx context.Context, s checkpoint.Store) error {
	all, err := s.List(ctx, checkpoint.Filter{})
	if err != nil || len(all) != 1 || all[0].ID != "run" {
		return fmt.Errorf("audit: List: %v, %w", all, err)
	}
	_, recs, err := s.Load(ctx, "run", 0)
	if err != nil {
		return fmt.Errorf("audit: Load: %w", err)
	}
	if _, err := s.Definition(ctx, digest); err != nil {
		return fmt.Errorf("audit: Definition: %w", err)
	}
	if _, err := s.(checkpoint.Documents).Documents(ctx, "c"); err != nil {
		return fmt.Errorf("audit: Documents: %w", err)
	}
	signals, querier := s.(checkpoint.Signals), s.(checkpoint.Querier)
	if all, err := signals.Signals(ctx, "run", true); err != nil || len(all) != 1 {
		return fmt.Errorf("audit: Signals: %v, %w", all, err)
	}
	err = signals.PutSignal(ctx, "run", cancelling("b"))
	fmt.Println("PutSignal failed:", err != nil && !errors.Is(err, checkpoint.ErrBusy))
	if all, err := querier.Pauses(ctx, checkpoint.PauseFilter{}); err != nil || len(all) != 1 {
		return fmt.Errorf("audit: Pauses: %v, %w", all, err)
	}
	if n, err := querier.Count(ctx, checkpoint.Filter{Signalled: true}, 0); err != nil || len(n) != 1 {
		return fmt.Errorf("audit: Count: %v, %w", n, err)
	}
	for _, r := range recs {
		fmt.Println(line(r))
	}
	_, err = s.Claim(ctx, "run", "me", long)
	fmt.Println("Claim failed:", err != nil && !errors.Is(err, checkpoint.ErrBusy))
	_, err = s.Create(ctx, makeRun("new", 0), "me", long)
	fmt.Println("Create failed:", err != nil)
	return nil
}

// RunReadOnly tests what an auditor can read of a store of files, who may not write to them or make any beside them:
// while the store is in use, and in a copy that nobody uses. place is a folder, or a file in a folder of its own; open
// is that of Main.
func RunReadOnly(t *testing.T, place string, open func(place string) (checkpoint.Store, error)) {
	h := begin(t, place, open)
	folder := place
	if info, err := os.Stat(place); err != nil || !info.IsDir() {
		folder = filepath.Dir(place)
	}
	l := h.claim("run", 0)
	h.append(l, 1, opened("p"))
	h.signal("run", cancelling("a"))
	h.want("PutDocument", h.s.(checkpoint.Documents).PutDocument(h.ctx, "c", checkpoint.Document{Name: "d"}), nil)
	want := func() []string {
		_, recs := h.load("run")
		all := []string{"PutSignal failed: true"}
		for _, r := range recs {
			all = append(all, line(r))
		}
		return append(all, "Claim failed: true", "Create failed: true")
	}
	t.Run("in use", func(t *testing.T) {
		MakeReadOnly(t, folder)
		h.same("what the auditor reads", startWith(t, StartWithoutRights, "audit", place).rest(t), want())
	})
	h.append(l, 2, note("b"))
	closed := want()
	h.want("Close", h.s.Close(), nil)
	t.Run("a copy", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "copy")
		h.want("CopyFS", os.CopyFS(copied, os.DirFS(folder)), nil)
		MakeReadOnly(t, copied)
		if folder != place {
			copied = filepath.Join(copied, filepath.Base(place))
		}
		h.same("what the auditor reads", startWith(t, StartWithoutRights, "audit", copied).rest(t), closed)
	})
}
