package worker_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	braise "github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
)

// brokenStore panics, ends the goroutine and hangs before it lists anything, and panics when it is watched first.
type brokenStore struct {
	*checkpoint.Memory
	lists, watches *atomic.Int64
	free           chan struct{}
}

func (s brokenStore) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	switch s.lists.Add(1) {
	case 1:
		panic("it is broken")
	case 2:
		runtime.Goexit()
	case 3:
		<-s.free
	}
	return s.Memory.List(ctx, f)
}

func (s brokenStore) Watch(ctx context.Context, changed func(string)) error {
	if s.watches.Add(1) == 1 {
		panic("it is broken")
	}
	return s.Memory.Watch(ctx, changed)
}

// trust 8.13: whatever a store does, a worker goes on working.
func TestStoresAreGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brokenStore{&checkpoint.Memory{}, new(atomic.Int64), new(atomic.Int64), make(chan struct{})}
		id := enqueue(t, store, "apiVersion: braise/v1\nname: one\nsteps:\n  a: {uses: set, with: 1}\n", "q")
		ctx, stop := context.WithCancel(t.Context())
		w := &worker.Worker{Runtime: &braise.Runtime{Store: store, Resume: resume.PassThrough{}}, Queues: []string{"q"}}
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		for range 60 {
			time.Sleep(time.Minute)
			if sum, _, err := store.Load(t.Context(), id, 0); err == nil && sum.Status.Ended() {
				break
			}
		}
		sum, _, err := store.Load(t.Context(), id, 0)
		if err != nil || !sum.Status.Ended() || store.lists.Load() < 4 || store.watches.Load() < 2 {
			t.Errorf("%s, %v, after %d lists and %d watches", sum.Status, err, store.lists.Load(), store.watches.Load())
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("the worker ended: %v", err)
		}
		close(store.free)
	})
}
