package checkpoint

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Watchers are those who watch a store: with it a store implements [Watcher]. The zero value is ready.
type Watchers struct {
	mu     sync.Mutex
	closed bool
	all    map[*watch]bool
}

// watch is one call of Watch.
type watch struct {
	wake chan struct{}   // has room for one: there are runs, or the store was closed
	runs map[string]bool // that have changed; Watchers.mu guards it
}

// maxChanged is how many changed runs are told one by one; beyond, it is "" instead.
const maxChanged = 1000

// Tell notes that a run has changed; "": any run. It waits for nobody.
func (w *Watchers) Tell(runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		one.add(runID)
	}
}

func (w *watch) add(runID string) {
	if runID == "" || len(w.runs) >= maxChanged {
		w.runs = map[string]bool{"": true}
	} else if !w.runs[""] {
		if w.runs == nil {
			w.runs = map[string]bool{}
		}
		w.runs[runID] = true
	}
	w.rouse()
}

func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// Close ends each Watch with an ErrClosed, now and later.
func (w *Watchers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for one := range w.all {
		one.rouse()
	}
}

// Watch is [Watcher.Watch]: it passes on what Tell is told. look, if not nil, finds out what others have changed. It
// returns the runs that may have changed since its last call; Watch calls it first of all, and then at intervals of
// every.
func (w *Watchers) Watch(
	ctx context.Context, changed func(runID string), every time.Duration, look func() []string,
) error {
	one := &watch{wake: make(chan struct{}, 1)}
	w.mu.Lock()
	if w.all == nil {
		w.all = map[*watch]bool{}
	}
	w.all[one] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, one)
	}()
	if err := w.err(ctx); err != nil {
		return err
	}
	var tick <-chan time.Time
	if look != nil {
		look()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for runs := []string{""}; ; {
		for _, id := range runs {
			if err := w.err(ctx); err != nil {
				return err
			}
			changed(id)
		}
		runs = nil
		select {
		case <-ctx.Done():
		case <-one.wake:
			runs = w.take(one)
		case <-tick:
			runs = look()
		}
		if err := w.err(ctx); err != nil {
			return err
		}
	}
}

// take returns the runs that have changed.
func (w *Watchers) take(one *watch) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := slices.Sorted(maps.Keys(one.runs))
	one.runs = nil
	return runs
}

// err says why a Watch ends.
func (w *Watchers) err(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	return ctx.Err()
}
