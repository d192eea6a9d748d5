package checkpoint_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// A run pauses; the holder of the token resumes it, once.
func Example() {
	ctx := context.Background()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	record := func(kind checkpoint.Kind, path string, data map[string]any) checkpoint.Record {
		rec, err := checkpoint.NewRecord(at, kind, path, data)
		if err != nil {
			log.Fatal(err)
		}
		return rec
	}
	hash := sha256.Sum256([]byte("the secret of the token"))

	store := &checkpoint.Memory{}
	defer store.Close()
	run := checkpoint.Run{ID: "run-1", Recipe: "refund", Digest: "d1", Definition: []byte(`{"steps":[]}`), StartedAt: at}
	lease, err := store.Create(ctx, run, checkpoint.NewOwner(), 15*time.Second,
		record(checkpoint.PauseOpened, "ask", map[string]any{"pause": "p1", "kind": "human", "prompt": "Pay?"}),
		record(checkpoint.TokenMinted, "", map[string]any{"pause": "p1", "hash": hex.EncodeToString(hash[:])}),
		record(checkpoint.RunPaused, "", nil))
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Release(ctx, lease); err != nil {
		log.Fatal(err)
	}

	// Later, maybe elsewhere.
	info, err := store.FindPause(ctx, "run-1", hash[:])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Pause.Step, string(info.Opened.Data))
	lease, err = store.Claim(ctx, "run-1", checkpoint.NewOwner(), 15*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	answer := record(checkpoint.PauseAnswered, "ask", map[string]any{"pause": "p1", "answer": "yes"})
	fmt.Println(store.AnswerPause(ctx, lease, info.Summary.Seq, hash[:], answer))
	_, err = store.FindPause(ctx, "run-1", hash[:])
	fmt.Println(errors.Is(err, checkpoint.ErrToken))

	sum, recs, err := store.Load(ctx, "run-1", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum.Status, len(recs))
	// Output:
	// ask {"kind":"human","pause":"p1","prompt":"Pay?"}
	// <nil>
	// true
	// running 5
}
