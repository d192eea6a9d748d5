package jsonl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
)

// trust 6.10: a pipe where the store has its files is an error, and nobody waits for its other side.
func TestPipesInTheFolder(t *testing.T) {
	dir := t.TempDir()
	store, err := jsonl.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := syscall.Mkfifo(filepath.Join(dir, "r1.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	if _, err := store.Create(t.Context(), checkpoint.Run{ID: "r2", Digest: "d", StartedAt: at}, "me", 0); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "r2.signals"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(context.Context) error{
		"list":    func(ctx context.Context) error { _, err := store.List(ctx, checkpoint.Filter{}); return err },
		"load":    func(ctx context.Context) error { _, _, err := store.Load(ctx, "r1", 0); return err },
		"count":   func(ctx context.Context) error { _, err := store.Count(ctx, checkpoint.Filter{}, 0); return err },
		"pauses":  func(ctx context.Context) error { _, err := store.Pauses(ctx, checkpoint.PauseFilter{}); return err },
		"signals": func(ctx context.Context) error { _, err := store.Signals(ctx, "r2", true); return err },
		"signal": func(ctx context.Context) error {
			return store.PutSignal(ctx, "r2", checkpoint.Signal{ID: "a", Kind: checkpoint.SignalTake, At: at})
		},
		"claim": func(ctx context.Context) error { _, err := store.Claim(ctx, "r1", "me", 1e9); return err },
	} {
		err := do(t.Context())
		if _, ok := errors.AsType[*os.PathError](err); !ok || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
