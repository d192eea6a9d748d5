package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// soon is when a test gives up to wait for a change.
const soon = 20 * time.Second

// watcher is a Watch of a test.
type watcher struct {
	h     *harness
	stop  context.CancelFunc
	ended chan error

	mu   sync.Mutex
	told map[string]int // how often, by run
	more chan struct{}  // closed and replaced with each call
}

// watch begins to watch the store, and returns when that is ready. hold, if not nil, is called in each call of
// changed.
func (h *harness) watch(hold func()) *watcher {
	h.Helper()
	s := need[checkpoint.Watcher](h)
	ctx, stop := context.WithCancel(h.ctx)
	h.Cleanup(stop)
	w := &watcher{h: h, stop: stop, ended: make(chan error, 1), told: map[string]int{}, more: make(chan struct{})}
	ready := w.mark()
	var calls atomic.Int32
	go func() {
		w.ended <- s.Watch(ctx, func(runID string) {
			if calls.Add(1) > 1 {
				h.Error("changed is called twice at the same time")
			}
			defer calls.Add(-1)
			w.mu.Lock()
			if len(w.told) == 0 && runID != "" {
				h.Errorf("the first call is for %q", runID)
			}
			w.told[runID]++
			close(w.more)
			w.more = make(chan struct{})
			w.mu.Unlock()
			if hold != nil {
				hold()
			}
		})
	}()
	w.wait(ready, "")
	return w
}

// mark returns how often each run was told so far.
func (w *watcher) mark() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark := map[string]int{}
	for id, n := range w.told {
		mark[id] = n
	}
	return mark
}

// wait waits until a run, or any, was told since the mark was made.
func (w *watcher) wait(mark map[string]int, runID string) {
	w.h.Helper()
	for late := time.After(soon); ; {
		w.mu.Lock()
		told := w.told[runID] > mark[runID] || w.told[""] > mark[""]
		more := w.more
		w.mu.Unlock()
		if told {
			return
		}
		select {
		case <-more:
		case err := <-w.ended:
			w.h.Fatalf("Watch ended: %v", err)
		case <-late:
			w.h.Fatalf("no change of %q was told in %v", runID, soon)
		}
	}
}

// end waits for the end of Watch.
func (w *watcher) end(want error) {
	w.h.Helper()
	select {
	case err := <-w.ended:
		w.h.want("Watch", err, want)
	case <-time.After(soon):
		w.h.Fatal("Watch did not end")
	}
}

// testWatch has changes of each kind, by way of the store itself and of a second one.
func testWatch(h *harness) {
	w := h.watch(nil)
	writers := []*harness{h}
	if h.opts.Reopen != nil {
		writers = append(writers, h.other())
	}
	for i, by := range writers {
		id := fmt.Sprint("run-", i)
		var l checkpoint.Lease
		for _, change := range []struct {
			what string
			make func()
		}{
			{"create", func() { l = by.create(id) }},
			{"append", func() { by.append(l, 1, opened("p"), minted("p", "one")) }},
			{"answer", func() {
				by.want("AnswerPause", by.s.AnswerPause(by.ctx, l, 3, []byte("one"), answer("p", 0)), nil)
			}},
			{"signal", func() { by.signal(id, cancelling("a")) }},
			{"release", func() { by.want("Release", by.s.Release(by.ctx, l), nil) }},
		} {
			mark := w.mark()
			change.make()
			h.Logf("store %d: %s", i, change.what)
			w.wait(mark, id)
		}
	}
	select {
	case err := <-w.ended:
		h.Fatalf("Watch ended: %v", err)
	default:
	}
	w.stop()
	w.end(context.Canceled)
	h.create("afterwards")
}

// testWatchEnds ends the context and the store.
func testWatchEnds(h *harness) {
	s := need[checkpoint.Watcher](h)
	done, cancel := context.WithCancelCause(h.ctx)
	cancel(errors.New("the cause"))
	none := func(string) { h.Error("changed was called") }
	h.want("Watch with a context that has ended", s.Watch(done, none), context.Canceled)
	late, stop := context.WithTimeout(h.ctx, time.Millisecond)
	defer stop()
	h.want("Watch until a deadline", s.Watch(late, func(string) {}), context.DeadlineExceeded)
	first, second := h.watch(nil), h.watch(nil)
	first.stop()
	first.end(context.Canceled)
	mark := second.mark()
	h.create("run")
	second.wait(mark, "run")
	h.want("Close", h.s.Close(), nil)
	second.end(checkpoint.ErrClosed)
	h.want("Watch of a closed store", s.Watch(h.ctx, none), checkpoint.ErrClosed)
}

// testSlowWatcher has one who takes its time: nobody waits for it, and it misses nothing.
func testSlowWatcher(h *harness) {
	held := make(chan struct{})
	slow, quick := h.watch(func() { <-held }), h.watch(nil)
	mark := slow.mark()
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprint("run-", i))
		before := quick.mark()
		h.create(ids[i])
		if i%10 == 0 {
			quick.wait(before, ids[i])
		}
	}
	close(held)
	for _, id := range ids {
		slow.wait(mark, id)
	}
	slow.stop()
	slow.end(context.Canceled)
	quick.stop()
	quick.end(context.Canceled)
}
