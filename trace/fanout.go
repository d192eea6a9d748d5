package trace

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Fanout hands events on to sinks, each in its own goroutine, so that none can slow, change or
// stop its caller or another sink. A nil Fanout has no sinks.
type Fanout struct{ outlets []*outlet }

// Failure is what went wrong with one sink.
type Failure struct {
	Index int // of the sink, in the list given to NewFanout
	Err   error
}

// NewFanout starts a goroutine for each sink; nil for no sinks. Close ends them.
func NewFanout(sinks []Sink) *Fanout {
	if len(sinks) == 0 {
		return nil
	}
	f := &Fanout{}
	for _, s := range sinks {
		o := &outlet{sink: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
		f.outlets = append(f.outlets, o)
		go o.run()
	}
	return f
}

// Emit queues the event for every sink and returns at once. Every sink gets its own copy of the
// data, made later: whoever calls Emit must not change them. After Close it does nothing.
func (f *Fanout) Emit(e Event) {
	if f == nil {
		return
	}
	for _, o := range f.outlets {
		o.put(e)
	}
}

// Close lets the sinks take what is queued, all together for as long as wait, and returns what
// went wrong, in the order of the sinks: one that panicked, reports an error by Err, or did not
// finish. One that did not finish is left behind: when its Emit returns it gets nothing more and
// its goroutine ends.
func (f *Fanout) Close(wait time.Duration) []Failure {
	if f == nil {
		return nil
	}
	for _, o := range f.outlets {
		o.close()
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	var failures []Failure
	late := false
	for i, o := range f.outlets {
		if !late {
			select {
			case <-o.done:
			case <-timeout.C:
				late = true
			}
		}
		if err := o.result(wait); err != nil {
			failures = append(failures, Failure{i, err})
		}
	}
	return failures
}

// outlet is one sink and what waits for it:
//
//	open ──Close──▶ draining ──queue empty──▶ done
//	 │                 ├──time is up, Emit returns──▶ done
//	 └──────panic──────┴──▶ done
type outlet struct {
	sink Sink
	wake chan struct{} // holds a token when there may be something to do
	done chan struct{} // closed when the goroutine ends; err is final then
	err  error         // of the sink

	mu        sync.Mutex
	queue     []Event
	closed    bool // nothing more is queued
	abandoned bool // nothing more is handed on
}

func (o *outlet) put(e Event) {
	o.mu.Lock()
	if !o.closed {
		o.queue = append(o.queue, e)
	}
	o.mu.Unlock()
	o.poke()
}

func (o *outlet) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.poke()
}

func (o *outlet) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// result returns what went wrong with a sink that had as long as wait to finish.
func (o *outlet) result(wait time.Duration) error {
	select {
	case <-o.done:
		return o.err
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = true
	return fmt.Errorf("trace sink %T did not finish within %v", o.sink, wait)
}

func (o *outlet) run() {
	normal := false
	defer func() {
		if r := recover(); r != nil {
			o.err = fmt.Errorf("trace sink %T panicked: %v", o.sink, r)
		} else if !normal {
			o.err = fmt.Errorf("trace sink %T ended its goroutine", o.sink)
		}
		o.mu.Lock()
		o.closed, o.queue = true, nil
		o.mu.Unlock()
		close(o.done)
	}()
	for more := true; more; {
		<-o.wake
		var batch []Event
		batch, more = o.take()
		for _, e := range batch {
			if o.left() {
				more = false
				break
			}
			e.Data = slices.Clone(e.Data)
			for i := range e.Data {
				e.Data[i].Value = value.Clone(e.Data[i].Value)
			}
			o.sink.Emit(e)
		}
	}
	if s, ok := o.sink.(interface{ Err() error }); ok && !o.left() {
		if err := s.Err(); err != nil {
			o.err = fmt.Errorf("trace sink %T: %w", o.sink, err)
		}
	}
	normal = true
}

// take returns what is queued and whether there may be more.
func (o *outlet) take() (batch []Event, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, o.queue = o.queue, nil
	return batch, !o.closed
}

// left reports whether nobody waits for this sink any more.
func (o *outlet) left() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.abandoned
}
