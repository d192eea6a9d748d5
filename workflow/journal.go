package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/runtime"
)

// leaseTime is how long a process that died keeps its runs, and recordTime how long a record waits
// at most for others to share a commit with (semantics 7.3, 7.5). Tests change them.
var (
	leaseTime  = 15 * time.Second
	recordTime = 50 * time.Millisecond
)

// recorder is what a run keeps so that somebody can go on with it: entries, and behind a store's back
// the records that they become. Without a store the entries stay here until the run pauses.
type recorder struct {
	store   checkpoint.Store
	run     checkpoint.Run
	inputs  map[string]any
	seq     int64 // of the last record in the store; 0: the store does not have the run yet
	entries []journal.Event
	urgent  bool // an entry must be in the store before any further call
	armed   *time.Timer
	err     error // the first failure of the store: nothing is written any more

	mu      sync.Mutex // guards lease and renewed, which a goroutine of its own renews
	lease   checkpoint.Lease
	renewed time.Time     // not after the store gave lease, by the monotonic clock; zero: nothing is held
	stop    chan struct{} // ends that goroutine; nil: there is none
	ended   sync.WaitGroup
}

// durable reports whether what happens is written down before it counts.
func (j *recorder) durable() bool { return j.store != nil && j.err == nil }

// note keeps an event that happened now.
func (r *run) note(path string, what journal.What) { r.noteAfter(r.m.Decided(), path, what) }

// noteAfter keeps an event that happened now, when the machine had decided so much.
func (r *run) noteAfter(n int64, path string, what journal.What) {
	r.noteEvent(journal.Event{At: r.events.now, Path: path, After: n, What: what})
}

// noteEvent keeps an event.
func (r *run) noteEvent(e journal.Event) {
	j := &r.journal
	r.m.Tell(e.At) // as whoever replays the journal will
	j.entries = append(j.entries, e)
	if j.durable() && j.armed == nil {
		j.armed = time.AfterFunc(recordTime, func() { r.happened(func() { r.journal.armed = nil; r.flush() }) })
	}
}

// flush writes what is waiting. After a failure the run is stopped, and its journal stays as it is.
func (r *run) flush() {
	j := &r.journal
	if !j.durable() || len(j.entries) == 0 && j.seq > 0 {
		return
	}
	if j.armed != nil {
		j.armed.Stop()
		j.armed = nil
	}
	if err := r.write(); err != nil {
		j.err = err
		if !r.cancelled {
			r.stopAll(err)
		}
		return
	}
	j.entries, j.urgent = j.entries[:0], false
}

// write encodes the entries and appends them, or begins the journal with them.
func (r *run) write() error {
	j := &r.journal
	events := j.entries
	if j.seq == 0 {
		begun := journal.Event{At: j.run.StartedAt, What: journal.Begun{
			Inputs: j.inputs, Interrupt: r.interrupt, Parallel: r.maxParallel()}}
		events = slices.Insert(events, 0, begun)
	} else {
		r.stamp(events)
	}
	recs, err := encode(events)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.ctx)
	if j.seq == 0 {
		last := recs[len(recs)-1].Kind
		over := last == checkpoint.RunEnded || last == checkpoint.RunPaused
		reached(beforeCreate)
		ttl := leaseTime
		if over { // nobody has to hold the run, and one write is enough
			ttl = 0
		}
		asked := time.Now()
		lease, err := j.store.Create(ctx, j.run, owner(), ttl, recs...)
		reached(afterCreate)
		if err != nil {
			return err
		}
		if j.seq = 1 + int64(len(recs)); !over {
			r.hold(lease, asked)
		}
		return nil
	}
	reached(beforeAppend)
	if err := j.store.Append(ctx, j.held(), j.seq, recs...); err != nil {
		return err
	}
	reached(afterAppend)
	j.seq += int64(len(recs))
	return nil
}

// owner names this process in leases.
var owner = sync.OnceValue(checkpoint.NewOwner)

// hold keeps a lease alive until let go. asked is when the store was asked for it.
func (r *run) hold(lease checkpoint.Lease, asked time.Time) {
	j := &r.journal
	stop := make(chan struct{})
	j.stop = stop
	j.keep(lease, asked)
	j.ended.Go(func() {
		ticker := time.NewTicker(leaseTime / 3)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			err := r.renew()
			if errors.Is(err, checkpoint.ErrFenced) || errors.Is(err, checkpoint.ErrNotFound) ||
				errors.Is(err, checkpoint.ErrClosed) {
				r.happened(func() { r.fence(err) })
				return
			}
		}
	})
}

// renew renews the lease.
func (r *run) renew() error {
	j := &r.journal
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaseTime/3)
	defer cancel()
	asked := time.Now()
	next, err := j.store.Renew(ctx, j.held(), leaseTime)
	if err == nil {
		j.keep(next, asked)
	}
	return err
}

// owned makes sure that the run is still this process's, as long as a lease lasts: without a word of the
// store for that long, somebody else may have it. The error is [checkpoint.ErrFenced]. Nil where nothing is held.
func (r *run) owned() error {
	j := &r.journal
	j.mu.Lock()
	renewed := j.renewed
	j.mu.Unlock()
	if renewed.IsZero() || time.Since(renewed) < leaseTime {
		return nil
	}
	if err := r.renew(); err != nil {
		return fmt.Errorf("run %q: %w: its lease of %v ran out, and was not renewed: %w",
			r.id, checkpoint.ErrFenced, leaseTime, err)
	}
	return nil
}

func (j *recorder) keep(lease checkpoint.Lease, asked time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lease = lease; asked.After(j.renewed) {
		j.renewed = asked
	}
}

func (j *recorder) held() checkpoint.Lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease
}

// letGo ends the renewing and gives the run back.
func (r *run) letGo() {
	j := &r.journal
	if j.armed != nil {
		j.armed.Stop()
	}
	if j.stop == nil {
		return
	}
	close(j.stop)
	j.stop = nil
	j.ended.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaseTime/3)
	defer cancel()
	reached(beforeRelease)
	defer reached(afterRelease)
	err := j.store.Release(ctx, j.lease)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) {
		err = j.store.Release(ctx, j.lease) // a connection may have been lost; if it was released, it is fenced now
	}
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && j.err == nil {
		r.warn("the run's lease was not released, it runs out by itself", slog.String("error", err.Error()))
	}
}

// encode makes records of events.
func encode(events []journal.Event) ([]checkpoint.Record, error) {
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

// decode reads events.
func decode(recs []checkpoint.Record) ([]journal.Event, error) {
	events := make([]journal.Event, len(recs))
	for i := range recs {
		var err error
		if events[i], err = journal.Decode(recs[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// storeError words a failure of the store as the error of a run.
func storeError(err error) *runtime.Error {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
}
