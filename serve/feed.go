package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/trace"
)

// hub tells who waits for a run that its journal may have grown. It watches the store only while somebody waits.
type hub struct {
	store  store
	reader *history.Reader
	logger *slog.Logger

	mu      sync.Mutex
	waiting map[*waiter]bool
	stop    context.CancelFunc // of the watch; nil: nobody waits
	feeds   map[string]*feed
}

// waiter is somebody who waits.
type waiter struct {
	run  string       // "": any run
	wake func(string) // gets the id of a run that may have changed, "" for any; returns at once
}

func newHub(s store, reader *history.Reader, logger *slog.Logger) *hub {
	return &hub{store: s, reader: reader, logger: logger, waiting: map[*waiter]bool{}, feeds: map[string]*feed{}}
}

// wait calls wake whenever a run may have changed, until stop is called.
func (h *hub) wait(run string, wake func(string)) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &waiter{run, wake}
	h.waiting[w] = true
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop = cancel
		go h.watch(ctx)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, w)
		if len(h.waiting) == 0 && h.stop != nil {
			h.stop()
			h.stop = nil
		}
	}
}

// watchRetry is when a store that failed is read again.
const watchRetry = time.Second

// watch passes on what the store says.
func (h *hub) watch(ctx context.Context) {
	for {
		err := h.store.Watch(ctx, h.changed)
		if ctx.Err() != nil {
			return
		}
		h.logger.Warn("the store cannot be watched", "error", err, "again", watchRetry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchRetry):
			h.changed("")
		}
	}
}

// changed wakes who waits for a run.
func (h *hub) changed(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting {
		if run == "" || w.run == "" || w.run == run {
			w.wake(run)
		}
	}
}

// errStopped is the error of until if it was stopped.
var errStopped = errors.New("the server is about to end")

// until asks enough at once, and again whenever a run may have changed, until it says yes. The error is that of enough
// or the context, or errStopped if stop was closed.
func (h *hub) until(ctx context.Context, stop <-chan struct{}, run string, enough func() (bool, error)) error {
	wake := make(chan struct{}, 1)
	defer h.wait(run, func(string) { poke(wake) })()
	for {
		if yes, err := enough(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return errStopped
		case <-wake:
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// maxBehind is how many events of a run are kept for viewers.
const maxBehind = 10_000

// feed is what all viewers of a run share: its last events, as they are sent. One goroutine reads them.
type feed struct {
	run     string
	viewers int                // guarded by the hub
	stop    context.CancelFunc // of who reads

	mu     sync.Mutex
	more   chan struct{}      // closed, and replaced, when something below has changed
	ready  bool               // the journal was read
	lines  [][]byte           // the last events, as JSON
	last   int64              // the number of the last event
	sum    checkpoint.Summary // when they were read
	failed error              // why there are no more events; nil: there may be
	live   map[chan []byte]bool
}

// view returns the feed of a run. The viewer must leave it.
func (h *hub) view(run string) *feed {
	h.mu.Lock()
	f := h.feeds[run]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{run: run, stop: cancel, more: make(chan struct{}), live: map[chan []byte]bool{}}
		h.feeds[run] = f
		defer func() { go f.read(ctx, h) }()
	}
	f.viewers++
	h.mu.Unlock()
	return f
}

// leave is the end of a viewer.
func (h *hub) leave(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.viewers--; f.viewers == 0 {
		f.stop()
		delete(h.feeds, f.run)
	}
}

// read reads the events of the run until it has ended or nobody views it.
func (f *feed) read(ctx context.Context, h *hub) {
	wake := make(chan struct{}, 1)
	defer h.wait(f.run, func(string) { poke(wake) })()
	beat := time.NewTicker(beatTime) // a store does not tell that a run was deleted
	defer beat.Stop()
	for tail := h.reader.Tail(f.run); ; {
		sum, events, err := tail.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, checkpoint.ErrNotFound) || !f.isReady() && err != nil:
			f.fail(err)
			return
		case err != nil:
			h.logger.Warn("a run cannot be read", "run", f.run, "error", err, "again", watchRetry)
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchRetry):
			}
			continue
		}
		if f.add(sum, events); sum.Status.Ended() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-beat.C:
		}
	}
}

func (f *feed) isReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready
}

// tell lets the viewers look.
func (f *feed) tell() {
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed, f.ready = err, true
	f.tell()
}

// add adds events that were recorded.
func (f *feed) add(sum checkpoint.Summary, events []trace.Event) {
	lines := make([][]byte, 0, len(events))
	for _, e := range events {
		line, err := e.MarshalJSON()
		if err != nil { // not of what a journal holds
			line = []byte(`{}`)
		}
		lines = append(lines, line)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, lines...)
	f.last += int64(len(lines))
	if n := len(f.lines) - maxBehind; n > maxBehind/10 {
		f.lines = append([][]byte(nil), f.lines[n:]...)
	}
	f.sum, f.ready = sum, true
	f.tell()
}

// part is what a viewer has not seen.
type part struct {
	lines  [][]byte // the events behind the one with the number that was asked for
	last   int64    // the number of the last event of the run
	behind bool     // there are too many: lines has none of them
	ended  bool     // there will be no more
	phase  checkpoint.Phase
	failed error
	more   chan struct{} // closed when there may be more
	ready  bool
}

// after returns what follows the event with a number.
func (f *feed) after(n int64) part {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := part{last: f.last, ended: f.sum.Status.Ended() || f.failed != nil, phase: f.sum.Phase(), failed: f.failed,
		more: f.more, ready: f.ready}
	switch left := f.last - n; {
	case left > maxBehind || left > int64(len(f.lines)):
		p.behind = true
	case left > 0:
		p.lines = f.lines[int64(len(f.lines))-left:]
	}
	return p
}

// maxLive is how many pieces of answers a viewer may be behind; then it misses some.
const maxLive = 256

// listen returns what the run emits in this process beside its journal, until hush.
func (f *feed) listen() (live chan []byte, hush func()) {
	live = make(chan []byte, maxLive)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[live] = true
	return live, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.live, live)
	}
}

// emit passes a piece of an answer to the viewers of a run.
func (h *hub) emit(run string, e trace.Event) {
	h.mu.Lock()
	f := h.feeds[run]
	h.mu.Unlock()
	if f == nil {
		return
	}
	e.Seq, e.Run = 0, ""
	line, err := e.MarshalJSON()
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for live := range f.live {
		select {
		case live <- line:
		default:
		}
	}
}

// Sink returns a sink for Runtime.Trace of the workers in this process: the pieces of the answers of models that it
// gets are in the streams of runs. Without it, streams have whole answers only.
func (s *Server) Sink() trace.Sink { return &s.sink }

// sink passes pieces of answers on to the handlers of the server.
type sink struct {
	mu   sync.Mutex
	hubs []*hub
}

func (s *sink) add(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hubs = append(s.hubs, h)
}

// Emit implements trace.Sink.
func (s *sink) Emit(e trace.Event) {
	if e.Kind != trace.ModelDelta {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hubs {
		h.emit(e.Run, e)
	}
}

// Detail implements trace.Detailed.
func (s *sink) Detail() trace.Detail { return trace.Detail{Deltas: true} }
