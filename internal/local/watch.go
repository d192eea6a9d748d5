package local

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// watches are the stores that this process watches for its runs: each once, while a run needs it.
var watches struct {
	sync.Mutex
	of map[checkpoint.Store]*watch
}

// watch tells runs that they may have signals in their store. What the store says has changed is mostly what the runs
// themselves have written, so the store is asked for all of them at once, and only those that have signals are woken.
type watch struct {
	store   checkpoint.Store
	runs    map[string]map[chan struct{}]bool // whom to wake, by run
	changed map[string]bool                   // runs that the next look is for
	wake    chan struct{}                     // has room for one: there are some
	stop    context.CancelFunc
}

const (
	fewRuns  = 4    // that are woken without a look: each looks for itself
	mostRuns = 1000 // with signals that a look finds; beyond, all are woken
)

// subscribe has wake receive something whenever there may be signals of a run, until the returned function is called.
// If the store cannot tell, nothing comes.
func subscribe(store checkpoint.Store, runID string, wake chan struct{}) (unsubscribe func()) {
	watcher, ok := store.(checkpoint.Watcher)
	if !ok || !reflect.TypeOf(store).Comparable() {
		return func() {}
	}
	watches.Lock()
	defer watches.Unlock()
	w := watches.of[store]
	if w == nil {
		w = &watch{store: store, runs: map[string]map[chan struct{}]bool{}, wake: make(chan struct{}, 1)}
		if watches.of == nil {
			watches.of = map[checkpoint.Store]*watch{}
		}
		watches.of[store] = w
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		go func() {
			defer w.ended()
			defer func() { _ = recover() }() // a renewal of the lease looks, too
			_ = watcher.Watch(ctx, w.change)
		}()
		go w.look(ctx)
	}
	if w.runs[runID] == nil {
		w.runs[runID] = map[chan struct{}]bool{}
	}
	w.runs[runID][wake] = true
	w.note(runID) // there may be some already
	return func() {
		watches.Lock()
		defer watches.Unlock()
		if delete(w.runs[runID], wake); len(w.runs[runID]) == 0 {
			delete(w.runs, runID)
		}
		if len(w.runs) == 0 {
			w.forget()
		}
	}
}

// change notes that a run has changed; "": any.
func (w *watch) change(runID string) {
	watches.Lock()
	defer watches.Unlock()
	if runID != "" {
		w.note(runID)
		return
	}
	for id := range w.runs {
		w.note(id)
	}
}

// note is change of a run, for who has locked the watches.
func (w *watch) note(runID string) {
	if w.runs[runID] == nil {
		return
	}
	if w.changed == nil {
		w.changed = map[string]bool{}
	}
	w.changed[runID] = true
	poke(w.wake)
}

// look wakes the runs that have changed and may have signals, until ctx ends.
func (w *watch) look(ctx context.Context) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		w.rouse(w.signalled(ctx))
		select {
		case <-time.After(LookEvery):
		case <-ctx.Done():
			return
		}
	}
}

// signalled returns the runs that have changed and may have signals.
func (w *watch) signalled(ctx context.Context) map[string]bool {
	watches.Lock()
	changed := w.changed
	w.changed = nil
	watches.Unlock()
	if len(changed) <= fewRuns {
		return changed
	}
	found, err := guard.List(ctx, w.store, checkpoint.Filter{Signalled: true, Limit: mostRuns})
	if err != nil || len(found) == mostRuns {
		return changed
	}
	have := map[string]bool{}
	for _, s := range found {
		have[s.ID] = true
	}
	maps.DeleteFunc(changed, func(id string, _ bool) bool { return !have[id] })
	return changed
}

// rouse wakes runs.
func (w *watch) rouse(runs map[string]bool) {
	watches.Lock()
	defer watches.Unlock()
	for id := range runs {
		for wake := range w.runs[id] {
			poke(wake)
		}
	}
}

// ended notes that the store tells nothing any more.
func (w *watch) ended() {
	watches.Lock()
	defer watches.Unlock()
	w.forget()
}

// forget ends the watch.
func (w *watch) forget() {
	w.stop()
	if watches.of[w.store] == w {
		delete(watches.of, w.store)
	}
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
