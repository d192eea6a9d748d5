// Package guard calls what others have written, ports and stores, so that nothing that they do holds up or ends those
// who call: a panic, a goroutine that ends, and a call that never returns are errors.
package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
)

// SettleTime is how long a call that was told to stop, or whose time is over, may take to return before it is
// left behind.
const SettleTime = 250 * time.Millisecond

// StoreTime is how long a call of a store may take.
const StoreTime = time.Minute

// Port calls a port; what is its name in messages. A panic, a goroutine that ends, and a call that continues long
// after ctx has ended become an error with the given category and code. Port passes on what the port itself returns.
func Port[T any](
	ctx context.Context, category runtime.Category, code, what string, f func() (T, error),
) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		returned := false
		defer func() {
			if p := recover(); p != nil {
				r.err = failed(category, code, "panic in %s: %v", what, p)
			} else if !returned {
				r.err = failed(category, code, "%s ended its goroutine", what)
			}
			done <- r
		}()
		r.value, r.err = f()
		returned = true
	}()
	r, ok := Settled(ctx, done)
	if !ok {
		r.err = failed(category, code, "%s ignored its context and was left behind: %w", what, context.Cause(ctx))
	}
	return r.value, r.err
}

// Settled returns what comes from done. When ctx has ended, it waits for SettleTime at most: ok says whether anything
// has come.
func Settled[T any](ctx context.Context, done <-chan T) (r T, ok bool) {
	select {
	case r := <-done:
		return r, true
	case <-ctx.Done():
	}
	settle := time.NewTimer(SettleTime)
	defer settle.Stop()
	select {
	case r := <-done:
		return r, true
	case <-settle.C:
		return r, false
	}
}

// Begun waits for a write that a [checkpoint.Cancellable] store has begun, and that says by done how it went. After
// ctx has ended it is left behind.
func Begun(ctx context.Context, done <-chan error) error {
	err, ok := Settled(ctx, done)
	if !ok {
		err = fmt.Errorf("a write does not end and was left behind, it may still happen: %w", context.Cause(ctx))
	}
	return err
}

// Recovered makes a panic the error of the function that defers it, a write of a [checkpoint.Cancellable] store.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic in a write: %v\n%s", p, debug.Stack())
	}
}

// failed returns the error of a call of a port that did not return.
func failed(category runtime.Category, code, format string, args ...any) error {
	return &runtime.Error{Category: category, Code: code, Err: fmt.Errorf(format, args...)}
}

// Store calls a store, by f. The call has ctx, for a minute at most: one that does not return then is left behind. So
// is a store that panics or ends its goroutine an error.
func Store[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	return unlimited(ctx, func() (T, error) { return f(ctx) })
}

// Write is Store for a write of s. It spares a [checkpoint.Cancellable] store the goroutine, and a ctx that ends within
// a minute another timer: each is a tenth of a small write.
func Write[T any](ctx context.Context, s checkpoint.Store, f func(context.Context) (T, error)) (T, error) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > StoreTime {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, StoreTime)
		defer cancel()
	}
	if c, ok := s.(checkpoint.Cancellable); ok && c.Cancellable() == s {
		return f(ctx)
	}
	return unlimited(ctx, func() (T, error) { return f(ctx) })
}

// unlimited is Store for a call that may take long.
func unlimited[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return Port(ctx, runtime.CategoryInfra, "store.failed", "the store", f)
}

// do is Store for what returns only an error.
func do(ctx context.Context, f func(context.Context) error) error {
	_, err := Store(ctx, func(ctx context.Context) (any, error) { return nil, f(ctx) })
	return err
}

// loader, definer and lister are what Load, Definition and List need of a store.
type (
	loader interface {
		Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error)
	}
	definer interface {
		Definition(ctx context.Context, digest string) (json.RawMessage, error)
	}
	lister interface {
		List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error)
	}
)

// Load is Load of a store, guarded.
func Load(
	ctx context.Context, store loader, runID string, after int64,
) (sum checkpoint.Summary, recs []checkpoint.Record, err error) {
	type loaded struct {
		sum  checkpoint.Summary
		recs []checkpoint.Record
	}
	l, err := Store(ctx, func(ctx context.Context) (l loaded, err error) {
		l.sum, l.recs, err = store.Load(ctx, runID, after)
		return l, err
	})
	return l.sum, l.recs, err
}

// Definition is Definition of a store, guarded.
func Definition(ctx context.Context, store definer, digest string) (json.RawMessage, error) {
	return Store(ctx, func(ctx context.Context) (json.RawMessage, error) { return store.Definition(ctx, digest) })
}

// List is List of a store, guarded.
func List(ctx context.Context, store lister, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	return Store(ctx, func(ctx context.Context) ([]checkpoint.Summary, error) { return store.List(ctx, f) })
}
