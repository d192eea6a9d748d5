package trace

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Fanout hands events on to sinks, each in its own goroutine, so that none can slow, change or
// stop its caller or another sink. A nil Fanout has no sinks.
type Fanout struct {
	outlets []*outlet
	wants   Detail
	runID   string
}

// Failure is what went wrong with one sink.
type Failure struct {
	Index int // of the sink, in the list given to NewFanout
	Err   error
}

// NewFanout starts a goroutine for each sink; nil for no sinks. Close ends them. runID is what a
// PerRun is told.
func NewFanout(sinks []Sink, runID string) *Fanout {
	if len(sinks) == 0 {
		return nil
	}
	f := &Fanout{runID: runID}
	for _, s := range sinks {
		o := &outlet{sink: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
		o.open(runID)
		f.wants.Content = f.wants.Content || o.wants.Content
		f.wants.Deltas = f.wants.Deltas || o.wants.Deltas
		f.outlets = append(f.outlets, o)
		go o.run()
	}
	return f
}

// Wants returns what any of the sinks wants to have in detail.
func (f *Fanout) Wants() Detail {
	if f == nil {
		return Detail{}
	}
	return f.wants
}

// Traceparent returns the span of this execution of the run as a W3C traceparent: that of the first sink which has a
// method Traceparent() string and has begun the span. "": none has. A sink must answer at once.
func (f *Fanout) Traceparent() string {
	if f == nil {
		return ""
	}
	for _, o := range f.outlets {
		if text := o.traceparent(); text != "" {
			return text
		}
	}
	return ""
}

// Emit queues the event, with the run's id, for every sink and returns at once. Every sink gets its own copy of the
// data, made later: the caller of Emit must not change them. content, unless it is nil, is for
// sinks that want it. After Close it does nothing.
func (f *Fanout) Emit(e Event, content any) {
	if f == nil {
		return
	}
	e.Run = f.runID
	for _, o := range f.outlets {
		if e.Kind == ModelDelta && !o.wants.Deltas {
			continue
		}
		if content != nil && o.wants.Content {
			detailed := e
			detailed.Data = e.Data.with("content", content)
			o.put(queued{Event: detailed})
			continue
		}
		o.put(queued{Event: e})
	}
}

// with returns a copy of d that has one more attribute.
func (d Data) with(key string, v any) Data {
	i, _ := slices.BinarySearchFunc(d, key, func(a Attr, key string) int { return strings.Compare(a.Key, key) })
	return slices.Insert(slices.Clone(d), i, Attr{key, v})
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

// outlet is one sink and its queue:
//
//	open ──Close──▶ draining ──queue empty──▶ done
//	 │                 ├──time is up, Emit returns──▶ done
//	 └──────panic──────┴──▶ done
type outlet struct {
	sink   Sink
	wants  Detail
	broken any           // what the sink panicked with before the first event; nil: it did not
	wake   chan struct{} // holds a token when there may be something to do
	done   chan struct{} // closed when the goroutine ends; err is final then
	err    error         // of the sink
	late   atomic.Bool   // it owes a span that a call no longer waits for

	mu        sync.Mutex
	queue     []queued
	closed    bool // nothing more is queued
	abandoned bool // nothing more is handed on
}

// open asks the sink what it wants.
func (o *outlet) open(runID string) {
	defer func() {
		if r := recover(); r != nil {
			o.broken = r
		}
	}()
	if s, ok := o.sink.(PerRun); ok {
		o.sink = s.ForRun(runID)
	}
	if s, ok := o.sink.(Detailed); ok {
		o.wants = s.Detail()
	}
}

// traceparent asks the sink for its span; one that panics has none.
func (o *outlet) traceparent() (text string) {
	defer func() { _ = recover() }()
	if s, ok := o.sink.(interface{ Traceparent() string }); ok && o.broken == nil {
		text = s.Traceparent()
	}
	return text
}

// queued is an event, or a question about the events before it.
type queued struct {
	Event
	ask func() // nil: it is an event
}

func (o *outlet) put(q queued) {
	o.mu.Lock()
	if !o.closed {
		o.queue = append(o.queue, q)
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
	if o.broken != nil {
		panic(o.broken)
	}
	for more := true; more; {
		<-o.wake
		var batch []queued
		batch, more = o.take()
		for _, q := range batch {
			if o.left() {
				more = false
				break
			}
			if q.ask != nil {
				q.ask()
				continue
			}
			e := q.Event
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
func (o *outlet) take() (batch []queued, more bool) {
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
