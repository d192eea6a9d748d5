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

// Somebody asks for the end of a run that another process holds. Whoever holds it finds the signal, carries it out and
// says so.
func ExampleSignals() {
	ctx := context.Background()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	store := &checkpoint.Memory{}
	defer store.Close()
	run := checkpoint.Run{ID: "run-1", Recipe: "refund", Digest: "d1", StartedAt: at}
	lease, err := store.Create(ctx, run, checkpoint.NewOwner(), 15*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	ask := checkpoint.Signal{ID: "cancel:ada", Kind: checkpoint.SignalCancel, By: "ada", At: at,
		Data: []byte(`{"reason":"a mistake"}`)}
	fmt.Println(store.PutSignal(ctx, "run-1", ask))
	err = store.PutSignal(ctx, "run-1", ask)
	fmt.Println(errors.Is(err, checkpoint.ErrExists))

	// The holder of the run, now or later.
	open, err := store.Signals(ctx, "run-1", true)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range open {
		fmt.Println(s.By, s.Kind, string(s.Data))
		end, err := checkpoint.NewRecord(at, checkpoint.RunEnded, "", map[string]any{"status": "cancelled"})
		if err == nil {
			err = store.Append(ctx, lease, 1, end)
		}
		if err == nil {
			err = store.EndSignals(ctx, lease, s.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	open, err = store.Signals(ctx, "run-1", true)
	fmt.Println(len(open), err)
	// Output:
	// <nil>
	// true
	// ada cancel {"reason":"a mistake"}
	// 0 <nil>
}

// A list is read by pages: each begins behind the last run of the one before.
func ExampleFilter() {
	ctx := context.Background()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	store := &checkpoint.Memory{}
	defer store.Close()
	for i := range 5 {
		run := checkpoint.Run{ID: fmt.Sprint("run-", i), Recipe: "refund", Digest: "d1", StartedAt: at,
			Queue: "default", Queued: true, Labels: map[string]string{"customer": "4711"}}
		if _, err := store.Create(ctx, run, "", 0); err != nil {
			log.Fatal(err)
		}
	}

	page := checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued}, Oldest: true,
		Labels: map[string]string{"customer": "4711"}, Limit: 2}
	for number := 1; ; number++ {
		runs, err := store.List(ctx, page)
		if err != nil {
			log.Fatal(err)
		}
		if len(runs) == 0 {
			break
		}
		for _, run := range runs {
			fmt.Println(number, run.ID)
		}
		page.After = runs[len(runs)-1].Cursor()
	}
	n, err := store.Count(ctx, page, 1000)
	fmt.Println(n, err)
	// Output:
	// 1 run-0
	// 1 run-1
	// 2 run-2
	// 2 run-3
	// 3 run-4
	// map[queued:5] <nil>
}
