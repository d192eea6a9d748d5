package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/runtime"
)

// LeaseTime is how long a process that died keeps its runs. RecordTime is how long a record waits at most
// to share a commit with others. OpenTime is how long a call is in progress before others can see it. Tests change
// them.
var (
	LeaseTime  = 15 * time.Second
	RecordTime = 50 * time.Millisecond
	OpenTime   = 50 * time.Millisecond
)

// Memory keeps the runs that paused without a store, as long as the process lives.
var Memory checkpoint.Memory

// Journal is the record of a run in a store. Without a store nothing is recorded until the run pauses.
type Journal struct {
	Store checkpoint.Store // nil: there is none
	Run   checkpoint.Run
	Seq   int64 // of the last record in the store; 0: the store does not have the run yet

	timer *time.Timer // writes pending events
	err   error       // the first failure of the store: nothing is written any more
	lease
}

// lease is the right to write. A separate goroutine renews it.
type lease struct {
	mu      sync.Mutex // guards held and renewed
	held    checkpoint.Lease
	renewed time.Time     // at most when the store renewed it, by the monotonic clock; zero: nothing is held
	stop    chan struct{} // ends that goroutine; nil: there is none
	ended   sync.WaitGroup
	let     bool // it was given back, or the run is over
	renew   func() error
}

// durable reports whether events are recorded before they take effect.
func (j *Journal) durable() bool { return j.Store != nil && j.err == nil }

// fail notes a failure of the store.
func (j *Journal) fail(err error) { j.err = errors.Join(j.err, err) }

// schedule makes sure that pending events are written soon. The beginning of a run waits for the next events.
func (j *Journal) schedule(r *Run) {
	waiting := len(r.Engine.Unsaved())
	if j.Seq == 0 { // it began, and so did its execution
		waiting -= 2
	}
	if waiting > 0 && j.durable() && j.timer == nil {
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
	if r.Store.durable() && len(r.Engine.Unsaved()) > 0 {
		r.noteSpan()
		r.save()
	}
}

// save writes the pending events. After a failure the run is stopped, and its journal stays as it is.
func (r *Run) save() {
	j := &r.Store
	events := r.Engine.Unsaved()
	if !j.durable() || len(events) == 0 {
		return
	}
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if err := r.write(events); err != nil {
		j.err = err
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

// write encodes events and appends them, or begins the journal with them.
func (r *Run) write(events []journal.Event) error {
	j := &r.Store
	recs, err := Encode(events)
	if err != nil {
		return err
	}
	ctx := r.ctx
	if !j.Run.Queued { // else nothing is lost but a run that has not begun
		ctx = context.WithoutCancel(ctx)
	}
	if j.Seq > 0 {
		Reached(BeforeAppend)
		if _, err := guard.Store(ctx, func(ctx context.Context) (any, error) {
			return nil, j.Store.Append(ctx, j.lease.now(), j.Seq, recs...)
		}); err != nil {
			return err
		}
		Reached(AfterAppend)
		j.Seq += int64(len(recs))
		return nil
	}
	last := recs[len(recs)-1].Kind
	over := last == checkpoint.RunEnded || last == checkpoint.RunPaused || j.Run.Queued
	Reached(BeforeCreate)
	ttl := LeaseTime
	if over { // no process has to hold the run, and one write is enough
		ttl = 0
	}
	asked := time.Now()
	held, err := guard.Store(ctx, func(ctx context.Context) (checkpoint.Lease, error) {
		return j.Store.Create(ctx, j.Run, Owner(), ttl, recs...)
	})
	Reached(AfterCreate)
	if err != nil {
		return err
	}
	if j.Seq = 1 + int64(len(recs)); !over {
		r.Hold(held, asked)
	}
	return nil
}

// Flush writes the pending events, before the run is driven. The error is the store's.
func (r *Run) Flush() error {
	r.save()
	return r.Store.err
}

// Owner names this process in leases.
var Owner = sync.OnceValue(checkpoint.NewOwner)

// Hold keeps a lease alive until let go, and meanwhile looks for signals. asked is when the store was asked for the
// lease.
func (r *Run) Hold(held checkpoint.Lease, asked time.Time) {
	j := &r.Store
	if j.stop != nil {
		return
	}
	stop := make(chan struct{})
	j.stop, j.renew = stop, r.renew
	j.keep(held, asked)
	j.ended.Go(func() { r.tend(stop) })
}

// tend renews the lease, and looks for signals, until stop is closed: at each renewal, and when the store says that
// something has changed.
func (r *Run) tend(stop chan struct{}) {
	j := &r.Store
	renewal := time.NewTicker(LeaseTime / 3)
	defer renewal.Stop()
	var pause <-chan time.Time // no look until then
	if r.inbox() != nil {
		timer := time.NewTimer(WatchAfter) // most runs are over by then
		defer timer.Stop()
		pause = timer.C
	}
	wake := make(chan struct{}, 1)
	var changed <-chan struct{} // wake, but not in a pause
	watched := false
	for {
		select {
		case <-stop:
			return
		case <-pause:
			if changed = wake; !watched {
				watched = true
				defer subscribe(j.Store, r.ID, wake)()
			}
		case <-changed:
			changed, pause = nil, time.After(LookEvery)
			r.look()
		case <-renewal.C:
			err := r.renew()
			switch lost := errors.Is(err, checkpoint.ErrFenced) || errors.Is(err, checkpoint.ErrNotFound) ||
				errors.Is(err, checkpoint.ErrClosed); {
			case lost || err != nil && j.overdue():
				if !lost {
					err = j.ranOut(err)
				}
				r.happened(func() { r.fence(err) })
				return
			case err == nil && r.inbox() != nil:
				r.look()
			}
		}
	}
}

// renew renews the lease.
func (r *Run) renew() error {
	j := &r.Store
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), LeaseTime/3)
	defer cancel()
	asked := time.Now()
	next, err := guard.Store(ctx, func(ctx context.Context) (checkpoint.Lease, error) {
		return j.Store.Renew(ctx, j.lease.now(), LeaseTime)
	})
	if err == nil {
		j.keep(next, asked)
	}
	return err
}

// owned makes sure that this process still holds the run. If the store has not confirmed the lease for LeaseTime,
// another process may hold the run: the error is [checkpoint.ErrFenced]. It is nil if nothing is held.
func (j *Journal) owned() error {
	if j.Store == nil || !j.overdue() {
		return nil
	}
	if err := j.renew(); err != nil {
		return j.ranOut(err)
	}
	return nil
}

// overdue reports whether a lease is held that was not renewed for as long as it lasts, by the monotonic clock.
func (l *lease) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) >= LeaseTime
}

// ranOut is the error of a lease that could not be renewed in time.
func (j *Journal) ranOut(err error) error {
	return fmt.Errorf("run %q: %w: its lease of %v ran out, and was not renewed: %w",
		j.Run.ID, checkpoint.ErrFenced, LeaseTime, err)
}

func (l *lease) keep(held checkpoint.Lease, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = held; asked.After(l.renewed) {
		l.renewed = asked
	}
}

func (l *lease) now() checkpoint.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Held reports whether the run has to be given back.
func (r *Run) Held() bool { return r.Store.stop != nil }

// Let reports whether the run was released at the end of its execution.
func (r *Run) Let() bool { return r.Store.let }

// LetGo stops renewing the lease and releases the run.
func (r *Run) LetGo() {
	j := &r.Store
	if j.timer != nil {
		j.timer.Stop()
	}
	j.let = true
	if j.stop == nil {
		return
	}
	close(j.stop)
	j.stop = nil
	j.ended.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), LeaseTime/3)
	defer cancel()
	Reached(BeforeRelease)
	defer Reached(AfterRelease)
	release := func(ctx context.Context) (any, error) { return nil, j.Store.Release(ctx, j.held) }
	_, err := guard.Store(ctx, release)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && ctx.Err() == nil {
		_, err = guard.Store(ctx, release) // a connection may have been lost; if it was released, it is fenced now
	}
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && j.err == nil {
		r.warn("the run's lease was not released, it runs out by itself", slog.String("error", err.Error()))
	}
}

// Encode makes records of events.
func Encode(events []journal.Event) ([]checkpoint.Record, error) {
	recs := make([]checkpoint.Record, 0, len(events))
	for i := range events {
		rec, err := journal.Encode(events[i])
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", events[i].Path, err)
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// Decode reads the events of records. A record of a kind that this version does not know is an error: nobody can go on
// with a run of which something is not understood.
func Decode(recs []checkpoint.Record) (events []journal.Event, err error) {
	events = make([]journal.Event, len(recs))
	for i := range recs {
		if events[i], err = journal.Decode(recs[i]); err != nil {
			return nil, err
		}
		if events[i].What == nil {
			return nil, &runtime.Error{Category: runtime.CategoryInfra, Code: "journal.newer",
				Err: fmt.Errorf("record %d is of kind %q, which this version does not know"+
					"\n  hint: a newer version wrote it; leave the run to that one", recs[i].Seq, recs[i].Kind)}
		}
	}
	return events, nil
}

// StoreError returns the error of a run for a failure of the store; nil for none.
func StoreError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
}
