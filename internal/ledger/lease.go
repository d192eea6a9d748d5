package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/guard"
)

// LeaseTime is how long a process that died keeps its runs. Tests change it.
var LeaseTime = 15 * time.Second

// Owner names this process in leases.
var Owner = sync.OnceValue(checkpoint.NewOwner)

// lease is the right to write.
type lease struct {
	mu      sync.Mutex // guards held and renewed
	held    checkpoint.Lease
	renewed time.Time // at most when the store renewed it, by the monotonic clock; zero: nothing is held
}

// Claim takes the run from the store.
func (l *Ledger) Claim(ctx context.Context) error {
	failpoint.Reached(failpoint.BeforeClaim)
	asked := time.Now()
	held, err := guard.Write(ctx, l.Store, func(ctx context.Context) (checkpoint.Lease, error) {
		return l.Store.Claim(ctx, l.Run.ID, Owner(), LeaseTime)
	})
	if err != nil {
		return err
	}
	l.keep(held, asked)
	failpoint.Reached(failpoint.AfterClaim)
	return nil
}

// Renew renews the lease.
func (l *Ledger) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaseTime/3)
	defer cancel()
	asked := time.Now()
	next, err := guard.Write(ctx, l.Store, func(ctx context.Context) (checkpoint.Lease, error) {
		return l.Store.Renew(ctx, l.Lease(), LeaseTime)
	})
	if err == nil {
		l.keep(next, asked)
	}
	return err
}

// Owned makes sure that this process still holds the run. If the store has not confirmed the lease for LeaseTime,
// another process may hold the run: the error is [checkpoint.ErrFenced]. It is nil if nothing is held.
func (l *Ledger) Owned(ctx context.Context) error {
	if !l.overdue() {
		return nil
	}
	if err := l.Renew(ctx); err != nil {
		return l.ranOut(err)
	}
	return nil
}

// Lost returns the error of a run that this process no longer holds; nil: it holds it. err is that of a renewal.
func (l *Ledger) Lost(err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrNotFound),
		errors.Is(err, checkpoint.ErrClosed):
		return err
	case err != nil && l.overdue():
		return l.ranOut(err)
	}
	return nil
}

// Held reports whether this process holds the run.
func (l *Ledger) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero()
}

// Lease is what the store gave for the run; zero: nothing.
func (l *Ledger) Lease() checkpoint.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Release gives the run back, if this process holds it. Of what remains then, the store keeps a lease that expires.
func (l *Ledger) Release(ctx context.Context) error {
	l.patience.End()
	if !l.Held() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaseTime/3)
	defer cancel()
	failpoint.Reached(failpoint.BeforeRelease)
	defer failpoint.Reached(failpoint.AfterRelease)
	release := func(ctx context.Context) (any, error) { return nil, l.Store.Release(ctx, l.Lease()) }
	_, err := guard.Write(ctx, l.Store, release)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && ctx.Err() == nil {
		// A connection may have been lost; if the run was released, it is fenced now.
		_, err = guard.Write(ctx, l.Store, release)
	}
	l.mu.Lock()
	l.renewed = time.Time{}
	l.mu.Unlock()
	if errors.Is(err, checkpoint.ErrFenced) {
		return nil
	}
	return err
}

// overdue reports whether a lease is held that was not renewed for as long as it lasts, by the monotonic clock.
func (l *lease) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) >= LeaseTime
}

// ranOut is the error of a lease that could not be renewed in time.
func (l *Ledger) ranOut(err error) error {
	return fmt.Errorf("run %q: %w: its lease of %v ran out, and was not renewed: %w",
		l.Run.ID, checkpoint.ErrFenced, LeaseTime, err)
}

func (l *lease) keep(held checkpoint.Lease, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = held; asked.After(l.renewed) {
		l.renewed = asked
	}
}
