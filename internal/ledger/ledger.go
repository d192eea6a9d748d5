package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/runtime"
)

// Memory keeps the runs that paused without a store, as long as the process lives.
var Memory checkpoint.Memory

// Ledger is the journal of one run in a store. Without a store nothing is recorded. The zero Ledger has none.
//
// One goroutine at a time may use it; Renew, Owned and Lease may be called meanwhile.
type Ledger struct {
	Store checkpoint.Store // nil: there is none
	Run   checkpoint.Run
	Seq   int64 // of the last record in the store; 0: the store does not have the run yet

	err error // the first failure of the store: nothing is written any more

	patience guard.Patience // of writes; Release ends it
	lease
}

// Open returns the ledger of a run that the runtime's store has, or without a store its cache or this process.
func Open(ctx context.Context, rt *runtime.Runtime, runID string) (*Ledger, error) {
	l := &Ledger{Store: rt.Store, Run: checkpoint.Run{ID: runID}}
	if rt.Store != nil {
		return l, nil
	}
	l.Spare(rt.Cache)
	if c, ok := l.Store.(*cached); ok {
		return l, c.Read(ctx)
	}
	return l, nil
}

// Spare gives a run without a store one: in the cache, or without that in this process.
func (l *Ledger) Spare(cache checkpoint.Cache) {
	if l.Store = &Memory; cache != nil {
		l.Store = newCached(cache, l.Run.ID)
	}
}

// Durable reports whether events are recorded before they take effect.
func (l *Ledger) Durable() bool { return l.Store != nil && l.err == nil }

// Fail notes a failure of the store; nil is none.
func (l *Ledger) Fail(err error) { l.err = errors.Join(l.err, err) }

// Err is the first failure of the store, and those that were noted; nil: there was none.
func (l *Ledger) Err() error { return l.err }

// Load reads what the store has of the run: its summary, and the records behind the one with the number after.
func (l *Ledger) Load(ctx context.Context, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	return guard.Load(ctx, l.Store, l.Run.ID, after)
}

// Find finds the pending pause that has a token with the hash.
func (l *Ledger) Find(ctx context.Context, hash []byte) (checkpoint.PauseInfo, error) {
	return guard.Store(ctx, func(ctx context.Context) (checkpoint.PauseInfo, error) {
		return l.Store.FindPause(ctx, l.Run.ID, hash)
	})
}

// Write encodes events and appends them, or begins the journal with them. Then this process holds the run, unless no
// process has to: its execution is over already, or another one will execute it.
func (l *Ledger) Write(ctx context.Context, events []journal.Event) error {
	recs, err := Encode(events)
	if err != nil {
		return err
	}
	if l.Seq == 0 {
		return l.create(ctx, recs)
	}
	failpoint.Reached(failpoint.BeforeAppend)
	if err := l.append(ctx, recs); err != nil {
		return err
	}
	failpoint.Reached(failpoint.AfterAppend)
	return nil
}

func (l *Ledger) append(ctx context.Context, recs []checkpoint.Record) error {
	_, err := guard.Write(l.patience.Context(ctx), l.Store, func(ctx context.Context) (any, error) {
		return nil, l.Store.Append(ctx, l.Lease(), l.Seq, recs...)
	})
	if err == nil {
		l.Seq += int64(len(recs))
	}
	return err
}

// create begins the journal.
func (l *Ledger) create(ctx context.Context, recs []checkpoint.Record) error {
	last := recs[len(recs)-1].Kind
	over := last == checkpoint.RunEnded || last == checkpoint.RunPaused || l.Run.Queued
	failpoint.Reached(failpoint.BeforeCreate)
	ttl := LeaseTime
	if over { // no process has to hold the run, and one write is enough
		ttl = 0
	}
	asked := time.Now()
	if !l.Run.Queued { // else nothing is lost but a run that has not begun
		ctx = l.patience.Context(ctx)
	}
	held, err := guard.Write(ctx, l.Store, func(ctx context.Context) (checkpoint.Lease, error) {
		return l.Store.Create(ctx, l.Run, Owner(), ttl, recs...)
	})
	failpoint.Reached(failpoint.AfterCreate)
	if err != nil {
		return err
	}
	if l.Seq = 1 + int64(len(recs)); !over {
		l.keep(held, asked)
	}
	return nil
}

// Answer writes events from outside, in one write that consumes the token with the hash; nil: there is none.
func (l *Ledger) Answer(ctx context.Context, hash []byte, events []journal.Event) error {
	recs, err := Encode(events)
	if err != nil {
		return err
	}
	failpoint.Reached(failpoint.BeforeAnswer)
	ctx = context.WithoutCancel(ctx)
	if hash == nil {
		err = l.append(ctx, recs)
	} else if _, err = guard.Write(l.patience.Context(ctx), l.Store, func(ctx context.Context) (any, error) {
		return nil, l.Store.AnswerPause(ctx, l.Lease(), l.Seq, hash, recs...)
	}); err == nil {
		l.Seq += int64(len(recs))
	}
	if c, ok := l.Store.(*cached); ok && err == nil {
		err = c.Keep(ctx, PauseTime)
	}
	if err != nil {
		return err
	}
	failpoint.Reached(failpoint.AfterAnswer)
	return nil
}

// Keep keeps a run for so long that has no store: in the cache, or in this process.
func (l *Ledger) Keep(ctx context.Context, ttl time.Duration) error {
	if c, ok := l.Store.(*cached); ok {
		return c.Keep(ctx, ttl)
	}
	id, seq := l.Run.ID, l.Seq
	time.AfterFunc(ttl, func() {
		ctx := context.Background()
		if sum, _, err := Memory.Load(ctx, id, math.MaxInt64); err == nil && sum.Seq == seq {
			_ = Memory.Delete(ctx, id) // nobody has resumed it; if somebody does now, it stays
		}
	})
	return nil
}

// Forget removes a run that has ended from the cache, if it is there.
func (l *Ledger) Forget(ctx context.Context) error {
	if c, ok := l.Store.(*cached); ok {
		return c.Forget(ctx)
	}
	return nil
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

// Error returns the error of a run for a failure of the store; nil for none.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
}
