// Package daily keeps what calls of models cost in a day, in the store of the runs: all of them together, and those of
// the runs with each value of a label. Processes that share a store share the sums.
//
// Before a call, what it may cost is reserved, if the limits leave that much; after it, the reservation becomes what it
// did cost. A process that dies in between leaves its reservation: the call may have been paid.
package daily

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Limits are those of a host, for the calls of one run.
type Limits struct {
	store  checkpoint.Documents
	names  checkpoint.Collections // nil: the sums of earlier days stay
	scopes []scope                // that of all runs first
}

// scope is what one limit is for.
type scope struct {
	name  string // of the document
	key   string // of the limit
	of    string // whose calls count, for messages
	limit int64  // millionths of a dollar
}

// For returns the limits of a budget that apply to a run with these labels; nil: there are none. The error says that
// the store cannot keep sums.
func For(b *runtime.Budget, store checkpoint.Store, labels map[string]string) (*Limits, error) {
	if !b.Daily() {
		return nil, nil
	}
	documents, ok := store.(checkpoint.Documents)
	if !ok {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "limit.noStore", Err: errors.New(
			"limits of a day need a store that outlives the run\n  hint: give store in braise.yaml, or Runtime.Store")}
	}
	l := &Limits{store: guard.Documented(documents)}
	l.names, _ = store.(checkpoint.Collections)
	if b.CostUSDPerDay > 0 {
		l.scopes = []scope{{"all", "limits.cost_usd_per_day", "all runs", value.Micros(b.CostUSDPerDay * 1e6)}}
	}
	for _, key := range value.SortedKeys(b.PerLabel) {
		if v, has := labels[key]; has {
			l.scopes = append(l.scopes, scope{
				name: "label " + url.QueryEscape(key) + "=" + url.QueryEscape(v), key: "limits.per_label." + key,
				of: fmt.Sprintf("runs with the label %s=%s", key, v), limit: value.Micros(b.PerLabel[key] * 1e6)})
		}
	}
	if l.scopes == nil { // the run has none of the labels
		return nil, nil
	}
	return l, nil
}

// Reservation is what one call may cost, on its day. The zero Reservation has reserved nothing.
type Reservation struct {
	day      string
	reserved int64 // millionths of a dollar
}

// Reserved is what a process has reserved at a time, as another one may settle it.
func Reserved(at time.Time, cost int64) Reservation {
	return Reservation{at.UTC().Format(time.DateOnly), max(cost, 0)}
}

// turn lets the calls of this process change the sums one after the other: they would meet in the same documents.
var turn sync.Locker = new(sync.Mutex)

// Reserve reserves what a call may cost, in millionths of a dollar. The error is a [*runtime.Error] with limit.day if
// a limit leaves less, and with limit.tooLow if it never could; nothing is reserved then. what names the call in
// messages.
func (l *Limits) Reserve(ctx context.Context, what string, cost int64) (Reservation, error) {
	r := Reservation{day: time.Now().UTC().Format(time.DateOnly)}
	if cost <= 0 {
		return r, nil
	}
	for _, s := range l.scopes {
		if cost > s.limit {
			return Reservation{}, &runtime.Error{Category: runtime.CategoryLimit, Code: "limit.tooLow", Err: fmt.Errorf(
				"%s is not called: it may cost $%s, and %s is %s in all\n  hint: raise the limit, or lower max_tokens",
				what, value.Dollars(cost), s.key, value.Dollars(s.limit))}
		}
	}
	turn.Lock()
	defer turn.Unlock()
	for i, s := range l.scopes {
		before, err := l.add(ctx, r.day, s.name, cost, s.limit)
		if errors.Is(err, errOver) {
			err = &runtime.Error{Category: runtime.CategoryLimit, Code: "limit.day", Err: fmt.Errorf(
				"%s is not called: it may cost $%s, and %s is %s, of which %s are used or reserved on %s (UTC) by %s",
				what, value.Dollars(cost), s.key, value.Dollars(s.limit), value.Dollars(before), r.day, s.of)}
		}
		if err != nil {
			for _, done := range l.scopes[:i] { // also if ctx has ended; what cannot be given back stays counted
				_, _ = l.add(context.WithoutCancel(ctx), r.day, done.name, -cost, 0)
			}
			return Reservation{}, err
		}
	}
	r.reserved = cost
	return r, nil
}

// Settle replaces a reservation by what the call has cost.
func (l *Limits) Settle(ctx context.Context, r Reservation, cost int64) error {
	if cost == r.reserved {
		return nil
	}
	turn.Lock()
	defer turn.Unlock()
	var errs []error
	for _, s := range l.scopes {
		_, err := l.add(ctx, r.day, s.name, cost-r.reserved, 0)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var errOver = errors.New("over the limit")

// add adds to a sum of a day, and returns what it was before. It is errOver if the sum would exceed the limit; 0: there
// is none.
func (l *Limits) add(ctx context.Context, day, name string, cost, limit int64) (before int64, err error) {
	for {
		text, there, err := l.store.Document(ctx, prefix+day, name)
		if err != nil {
			return 0, err
		}
		old := &text
		if !there {
			old, text = nil, "0"
		}
		before, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("what models have cost on %s: %w: it is %.40q", day, checkpoint.ErrCorrupt, text)
		}
		if limit > 0 && before > limit-cost {
			return before, errOver
		}
		sum := strconv.FormatInt(max(0, before+cost), 10)
		err = l.store.SwapDocument(ctx, prefix+day, name, old, &sum)
		if errors.Is(err, checkpoint.ErrConflict) {
			continue // another process was quicker
		}
		if err == nil && old == nil && name == l.scopes[0].name {
			l.forget(ctx, day)
		}
		return before, err
	}
}

// prefix is what all names of collections with sums begin with; a day follows.
const prefix = "cost/"

// forget removes the sums of earlier days, but for the day before: its last calls may still end. What fails is tried
// again on the next day.
func (l *Limits) forget(ctx context.Context, day string) {
	if l.names == nil {
		return
	}
	today, _ := time.Parse(time.DateOnly, day)
	kept := prefix + today.AddDate(0, 0, -1).Format(time.DateOnly)
	all, _ := guard.Store(ctx, func(ctx context.Context) ([]string, error) { return l.names.Collections(ctx, prefix) })
	for _, name := range all {
		if name < kept {
			_ = l.store.DeleteDocuments(ctx, name)
		}
	}
}
