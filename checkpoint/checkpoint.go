// Package checkpoint defines the journal of a run, and the [Store] interface for keeping journals.
//
// A journal is an append-only list of records, numbered from 1 without a gap. The first record describes what
// runs, the others what happened. Everything that a store has about a run, except for its holder and its signals
// (see [Signal]), is a function of its journal. [Summary] is that function, and the kinds of
// records that it uses are the constants of [Kind]. Records of other kinds are opaque to this package.
//
// A process that works on a run holds it with a [Lease]. When a lease has expired, another owner may take the
// run, and from then on the store refuses writes by the old one. Until another owner takes it, a lease remains
// valid for writing, however old it is: the epoch guards the journal, and time only determines who
// may take it. Leases expire by the clock of a server or by a [Clock], not by the wall clock
// of the caller.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What can go wrong, for errors.Is. A store wraps them with the run and the cause.
var (
	ErrExists   = errors.New("the run already exists")
	ErrNotFound = errors.New("not in the store")
	ErrBusy     = errors.New("another process works on the run")
	ErrFenced   = errors.New("the lease was lost")
	ErrConflict = errors.New("another writer came first")
	ErrToken    = errors.New("the token is unknown, used or expired")
	ErrInvalid  = errors.New("not fit for the store")
	ErrCorrupt  = errors.New("the data is damaged")
	ErrVersion  = errors.New("the data has a format that this version does not know")
	ErrClosed   = errors.New("the store is closed")
)

// Run says what runs. All but Definition is in the first record of its journal.
type Run struct {
	ID     string `json:"id"`     // of letters, digits and - _ . (which it does not begin with), at most 128 bytes
	Recipe string `json:"recipe"` // the recipe's name
	Digest string `json:"digest"` // names the Definition; like ID, but with : too
	// Definition is the self-contained recipe, a canonical JSON object. A store keeps one for each
	// digest, the first that it got, and gives it out by Store.Definition only. nil: this run
	// brings none.
	Definition json.RawMessage `json:"-"`
	StartedAt  time.Time       `json:"startedAt"`
	Parent     string          `json:"parent,omitempty"` // the run that this one was forked from; "": none
	// Queue says which workers take the run: UTF-8 of at most 64 bytes without NUL; "": no worker takes it by itself.
	Queue string `json:"queue,omitempty"`
	// Labels are for people and lists: at most 16, with keys of 1 to 64 bytes and values of at most 256, all UTF-8
	// without NUL; nil: none.
	Labels map[string]string `json:"labels,omitempty"`
	By     string            `json:"by,omitempty"`     // who began it, as the host names them; "": not known
	Queued bool              `json:"queued,omitempty"` // it begins without an execution
}

// Lease says who holds a run. Each Claim makes a new epoch, and so does each Release; only the
// newest may write. A store compares epoch and owner, never the time: an id may come back after
// Delete, and epochs then restart from 1.
type Lease struct {
	RunID string
	Owner string    // see NewOwner
	Epoch int64     // from 1
	Until time.Time // by the clock of the store; from then on others may claim the run

	// For the Clock of a store of files, see Clock.Give. With a server's clock, only Length may be set.
	Clock  string        // names the clock; "": the lease is of a version that knew Until only
	Ends   time.Duration // what that clock shows when the lease ends
	Length time.Duration // from when it was given until then; 0: unknown, or over at once
}

// Newest reports whether l is the lease that a store has now.
func (l Lease) Newest(now Lease) bool { return l.Epoch == now.Epoch && l.Owner == now.Owner }

// Lost is the ErrFenced for l where a store has another lease now.
func (l Lease) Lost(now Lease) error {
	if now.Owner == "" {
		return fmt.Errorf("run %q: %w: the run was given back", l.RunID, ErrFenced)
	}
	return fmt.Errorf("run %q: %w to %q", l.RunID, ErrFenced, now.Owner)
}

// Held reports whether the lease of a store with one clock keeps others from the run: now, by that clock, it has
// neither been released nor run out, and its owner is not surely gone.
func (l Lease) Held(now time.Time) bool {
	return now.Before(l.Until) && !OwnerGone(l.Owner)
}

// Store keeps journals. It is safe for concurrent use; how many processes may share one, its
// package says.
//
// A store is made of Begin, Summary.Next and Answer, Record.AppendLine and ParseLine, Fold, Lease.Held or a
// Clock, and a medium that can replace a little and add a lot in one go. What it can do besides, its optional
// interfaces say: [Documents], [Querier], [Signals], [Watcher], [Cancellable] and [Repairer]; Filter.Match,
// PauseFilter.Match, Summary.Unanswered and [Watchers] help with them.
//
// A write is atomic and durable when it returns without an error; after an error nothing of it is in
// the journal, except where the error is of a lost connection, or the context ended while the medium wrote: then Load
// tells. A context that is done before a write begins stops it.
//
// Of several reasons to refuse, the first of this order is the error: ErrClosed, the context's
// error, ErrNotFound, ErrFenced or ErrBusy, ErrConflict, ErrToken, ErrInvalid (for a record that no
// journal could take, see [Record.Check], or that cannot follow on this one, see [Summary.Apply]).
type Store interface {
	// Create begins a journal with the record of the run, which it makes (see [Begin]), and recs
	// behind it, from seq 2 on; all in one write. ErrExists when the store has a run of that id.
	// A ttl of 0 or less is a lease that has run out already.
	Create(ctx context.Context, run Run, owner string, ttl time.Duration, recs ...Record) (Lease, error)

	// Claim takes a run that nobody holds: whose lease was released, has run out, or belongs to an
	// owner that is gone (see [OwnerGone]). Otherwise ErrBusy, for the same owner too. Where a lease has
	// to be watched to know, see [Clock], Claim does so, for as long as that lease lasts; so do Delete and Repair.
	Claim(ctx context.Context, runID, owner string, ttl time.Duration) (Lease, error)

	// Renew makes a lease last for ttl from now. ErrFenced when the lease is not the newest.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)

	// Release gives a run back. ErrFenced when the lease is not the newest.
	Release(ctx context.Context, l Lease) error

	// Append adds records behind the one with the number after. A Seq of 0 is filled in. ErrFenced
	// when the lease is not the newest; ErrConflict when the journal does not end at after, has
	// ended for good, or a Seq does not follow. No records: nothing is checked but the lease.
	Append(ctx context.Context, l Lease, after int64, recs ...Record) error

	// AnswerPause is Append of an answer by token: the first record, or the one behind a RunExecution, is a
	// PauseAnswered, or it is ErrInvalid. ErrToken unless, within the same write, tokenHash is live at the time of
	// that PauseAnswered and belongs to the pause that it names.
	AnswerPause(ctx context.Context, l Lease, after int64, tokenHash []byte, recs ...Record) error

	// FindPause returns the open pause that a token belongs to. ErrToken when the token is not live now, whatever the
	// reason: an unknown run is one, an answer among the open signals of the run another.
	FindPause(ctx context.Context, runID string, tokenHash []byte) (PauseInfo, error)

	// Load returns a run and its records behind the one with the number after: 0 for all of
	// them, the last one seen to wait for more, math.MaxInt64 for the summary alone. ErrCorrupt
	// and ErrVersion when what was read is not a whole journal; nothing changes then.
	Load(ctx context.Context, runID string, after int64) (Summary, []Record, error)

	// Definition returns the recipe of a digest, byte for byte as it was given. ErrNotFound when
	// no run brought one.
	Definition(ctx context.Context, digest string) (json.RawMessage, error)

	// List returns the runs that a filter lets through, in the order of [Filter.Compare]. Runs that cannot be read
	// do not hide the others: they are left out, and the error joins what is wrong with them.
	List(ctx context.Context, f Filter) ([]Summary, error)

	// Delete removes a run. ErrBusy while somebody holds it, as for Claim.
	Delete(ctx context.Context, runID string) error

	// Prune removes the runs of the given statuses that nobody holds and whose last record is
	// older than before, and the definitions that no run refers to any more. No statuses: ok,
	// error and cancelled. It returns how many runs went.
	Prune(ctx context.Context, before time.Time, statuses ...Status) (int, error)

	// Close lets go of what the store holds open. Leases stay as they are. Afterwards every call
	// fails with ErrClosed, but for Close.
	Close() error
}

// Cancellable is an optional interface of a Store whose writes end with their context, whatever the medium does: soon
// after ctx has ended, Create, Claim, Renew, Release, Append and AnswerPause have returned, and what had begun may
// still happen. None of them panics or ends its goroutine. Writes of other stores are made on goroutines of their own,
// to be left behind if need be, which a small write notices.
type Cancellable interface {
	Store
	// Cancellable returns the store itself; nil, or another store, promises nothing. So has a store that embeds
	// another one and has its method.
	Cancellable() Store
}

// Repairer is an optional interface of a Store whose medium can lose the end of the last write.
type Repairer interface {
	// Repair cuts off the unfinished write at a journal's end and returns how many bytes went, 0
	// when there was none. ErrBusy while somebody holds the run, as for Claim; ErrCorrupt, and
	// nothing changes, when more is wrong than the end.
	Repair(ctx context.Context, runID string) (int64, error)
}

// Cache keeps small values for a while; it is where pauses live when there is no Store. It is safe
// for concurrent use.
type Cache interface {
	// Get returns a value and whether it exists. Callers must not change the value.
	Get(ctx context.Context, key string) ([]byte, bool, error)
	// Set keeps a value for ttl; 0 or less means for good.
	Set(ctx context.Context, key string, val []byte, ttl time.Duration) error
	// Delete removes a value and reports whether it was there. Of several that delete one value
	// at the same time, exactly one is told true.
	Delete(ctx context.Context, key string) (bool, error)
}
