package call

import (
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/runtime"
)

// Guard calls a port; what is its name in messages. A panic, a goroutine that ends, and a call that continues long
// after ctx has ended become an error with the given category and code. Guard passes on what the port itself returns.
func Guard[T any](
	ctx context.Context, category runtime.Category, code, what string, f func() (T, error),
) (T, error) {
	type result struct {
		value T
		err   error
	}
	failed := func(format string, args ...any) result {
		return result{err: &runtime.Error{Category: category, Code: code, Err: fmt.Errorf(format, args...)}}
	}
	done := make(chan result, 1)
	go func() {
		r := failed("%s ended its goroutine", what)
		defer func() {
			if p := recover(); p != nil {
				r = failed("panic in %s: %v", what, p)
			}
			done <- r
		}()
		v, err := f()
		r = result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	settle := time.NewTimer(SettleTime)
	defer settle.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-settle.C:
		r := failed("%s ignored its context and was left behind: %w", what, context.Cause(ctx))
		return r.value, r.err
	}
}
