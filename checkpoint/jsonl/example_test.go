package jsonl_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
)

// A journal is a file that people can read.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := jsonl.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	lease, err := store.Create(ctx, checkpoint.Run{ID: "run-1", Recipe: "greet", Digest: "d1", StartedAt: at},
		checkpoint.NewOwner(), 15*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	end, err := checkpoint.NewRecord(at.Add(time.Second), checkpoint.RunEnded, "", map[string]any{"status": "ok"})
	if err == nil {
		err = store.Append(ctx, lease, 1, end)
	}
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "run-1.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// {"seq":1,"at":"2026-01-31T12:00:00Z","kind":"run.created","data":{"digest":"d1","format":1,"recipe":"greet","run":"run-1"},"sum":"c71add67"}
	// {"seq":2,"at":"2026-01-31T12:00:01Z","kind":"run.ended","data":{"status":"ok"},"sum":"5de8501c"}
}
