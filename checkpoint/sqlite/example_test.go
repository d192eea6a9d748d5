package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	run := checkpoint.Run{ID: "run-1", Recipe: "greet", Digest: "sha256:0a1b", StartedAt: at}
	lease, err := store.Create(ctx, run, checkpoint.NewOwner(), 15*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	end, err := checkpoint.NewRecord(at.Add(time.Second), checkpoint.RunEnded, "", map[string]any{"status": "ok"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Append(ctx, lease, 1, end); err != nil {
		log.Fatal(err)
	}
	all, err := store.List(ctx, checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseOK}})
	if err != nil {
		log.Fatal(err)
	}
	for _, sum := range all {
		fmt.Println(sum.ID, sum.Recipe, sum.Status, sum.EndedAt.Format(time.TimeOnly))
	}
	// Output: run-1 greet ok 12:00:01
}

// The process that works on a run is told of what others want of it.
func ExampleStore_Watch() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, err := sqlite.Open(ctx, filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	run := checkpoint.Run{ID: "run-1", Recipe: "greet", Digest: "sha256:0a1b", StartedAt: at}
	if _, err := store.Create(ctx, run, checkpoint.NewOwner(), 15*time.Second); err != nil {
		log.Fatal(err)
	}

	err = store.Watch(ctx, func(runID string) {
		if runID == "" { // now it watches
			signal := checkpoint.Signal{ID: "cancel:ada", Kind: checkpoint.SignalCancel, By: "ada", At: at}
			if err := store.PutSignal(ctx, "run-1", signal); err != nil {
				log.Fatal(err)
			}
			return
		}
		open, err := store.Signals(ctx, runID, true)
		fmt.Println(runID, open[0].Kind, open[0].By, err)
		cancel()
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// run-1 cancel ada <nil>
	// true
}
