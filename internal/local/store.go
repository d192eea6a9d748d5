package local

import (
	"log/slog"
	"sync"
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
)

// RecordTime is how long a record waits at most to share a commit with others. OpenTime is how long a call is in
// progress before others can see it. Tests change them.
var (
	RecordTime = 50 * time.Millisecond
	OpenTime   = 50 * time.Millisecond
)

// Journal is the record of a run, as its driver needs it.
type Journal struct {
	*ledger.Ledger
	timer *time.Timer    // writes pending events
	stop  chan struct{}  // ends the goroutine that renews the lease; nil: there is none
	ended sync.WaitGroup // it
}

// schedule makes sure that pending events are written soon. The beginning of a run waits for the next events.
func (j *Journal) schedule(r *Run) {
	waiting := len(r.Engine.Unsaved())
	if j.Seq == 0 { // it began, and so did its execution
		waiting -= 2
	}
	if waiting > 0 && j.Durable() && j.timer == nil {
		j.timer = time.AfterFunc(RecordTime, func() {
			r.happened(func() {
				r.Store.timer = nil
				r.flush()
			})
		})
	}
}

// flush writes the pending events, with the execution's span.
func (r *Run) flush() {
	if r.Store.Durable() && len(r.Engine.Unsaved()) > 0 {
		r.noteSpan()
		r.save()
	}
}

// save writes the pending events. After a failure the run is stopped, and its journal stays as it is.
func (r *Run) save() {
	j := &r.Store
	events := r.Engine.Unsaved()
	if !j.Durable() || len(events) == 0 {
		return
	}
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if err := r.write(events); err != nil {
		j.Fail(err)
		r.stopped(func() { r.Engine.Break(err) })
		return
	}
	r.Engine.Saved()
}

// noteSpan notes the span of the execution, once a sink has begun one.
func (r *Run) noteSpan() {
	if r.traced {
		return
	}
	if text := r.sinks.Traceparent(); text != "" {
		r.traced = true
		r.Engine.Note("", journal.Traced{Traceparent: text})
	}
}

// write writes events, and keeps the run that began with them.
func (r *Run) write(events []journal.Event) error {
	err := r.Store.Write(r.ctx, events)
	if err == nil {
		r.Hold()
	}
	return err
}

// Flush writes the pending events, before the run is driven. The error is the store's.
func (r *Run) Flush() error {
	r.save()
	return r.Store.Err()
}

// Hold keeps the lease of the run alive until let go, and meanwhile looks for signals. If nothing is held, nothing is
// done.
func (r *Run) Hold() {
	j := &r.Store
	if j.stop != nil || !j.Held() {
		return
	}
	stop := make(chan struct{})
	j.stop = stop
	j.ended.Go(func() { r.tend(stop) })
}

// tend renews the lease, and looks for signals, until stop is closed: at each renewal, and when there may be some.
func (r *Run) tend(stop chan struct{}) {
	j := &r.Store
	renewal := time.NewTicker(ledger.LeaseTime / 3)
	defer renewal.Stop()
	var long <-chan time.Time
	if r.inbox() != nil {
		timer := time.NewTimer(WatchAfter) // most runs are over by then
		defer timer.Stop()
		long = timer.C
	}
	wake := make(chan struct{}, 1)
	for {
		select {
		case <-stop:
			return
		case <-long:
			defer subscribe(j.Store, r.ID, wake)()
		case <-wake:
			r.look()
		case <-renewal.C:
			err := j.Renew(r.ctx)
			if lost := j.Lost(err); lost != nil {
				r.happened(func() { r.fence(lost) })
				return
			}
			if err == nil && r.inbox() != nil {
				r.look()
			}
		}
	}
}

// LetGo stops renewing the lease and releases the run.
func (r *Run) LetGo() {
	j := &r.Store
	if j.timer != nil {
		j.timer.Stop()
	}
	if j.stop != nil {
		close(j.stop)
		j.stop = nil
		j.ended.Wait()
	}
	if err := j.Release(r.ctx); err != nil && j.Err() == nil {
		r.warn("the run's lease was not released, it runs out by itself", slog.String("error", err.Error()))
	}
}
