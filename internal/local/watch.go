package local

import (
	"context"
	"reflect"
	"sync"

	"github.com/braise-run/braise/checkpoint"
)

// watches are the stores that this process watches for its runs: each once, while a run needs it.
var watches struct {
	sync.Mutex
	of map[checkpoint.Store]*watch
}

// watch tells runs that something of them may have changed in their store.
type watch struct {
	runs map[string]map[chan struct{}]bool // whom to wake, by run
	stop context.CancelFunc
}

// subscribe has wake receive something whenever the journal or the signals of a run may have changed, until the
// returned function is called. If the store cannot tell, nothing comes.
func subscribe(store checkpoint.Store, runID string, wake chan struct{}) (unsubscribe func()) {
	watcher, ok := store.(checkpoint.Watcher)
	if !ok || !reflect.TypeOf(store).Comparable() {
		return func() {}
	}
	watches.Lock()
	defer watches.Unlock()
	w := watches.of[store]
	if w == nil {
		w = &watch{runs: map[string]map[chan struct{}]bool{}}
		if watches.of == nil {
			watches.of = map[checkpoint.Store]*watch{}
		}
		watches.of[store] = w
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		go func() {
			defer w.ended(store)
			defer func() { _ = recover() }() // a renewal of the lease looks, too
			_ = watcher.Watch(ctx, w.changed)
		}()
	}
	if w.runs[runID] == nil {
		w.runs[runID] = map[chan struct{}]bool{}
	}
	w.runs[runID][wake] = true
	poke(wake) // the store may have been watched before
	return func() {
		watches.Lock()
		defer watches.Unlock()
		if delete(w.runs[runID], wake); len(w.runs[runID]) == 0 {
			delete(w.runs, runID)
		}
		if len(w.runs) == 0 {
			w.forget(store)
		}
	}
}

// changed wakes those who wait for a change of a run; "": of any.
func (w *watch) changed(runID string) {
	watches.Lock()
	defer watches.Unlock()
	for id, wakes := range w.runs {
		if runID != "" && runID != id {
			continue
		}
		for wake := range wakes {
			poke(wake)
		}
	}
}

// ended notes that the store tells nothing any more.
func (w *watch) ended(store checkpoint.Store) {
	watches.Lock()
	defer watches.Unlock()
	w.forget(store)
}

// forget ends the watch.
func (w *watch) forget(store checkpoint.Store) {
	w.stop()
	if watches.of[store] == w {
		delete(watches.of, store)
	}
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
