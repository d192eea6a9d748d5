package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// guard makes a call so that it always returns: a panic is an error, and a call that ignores its
// context is left behind after the grace, its result dropped. what, with the name that it may have,
// is what messages call it.
func guard[T any](ctx context.Context, d *driver, timeout time.Duration, what, name string,
	call func(context.Context) (T, error)) (T, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			fmt.Errorf("%s took longer than %v: %w", named(what, name), timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if ctx.Done() == nil {
		c := guarded[T]{ctx: ctx, what: what, name: name, call: call}
		c.make()
		return c.v, c.err
	}
	var none T
	c := &guarded[T]{ctx: ctx, what: what, name: name, call: call}
	m := d.crew.take()
	m.jobs <- c
	over := func(alive bool) (T, error) {
		if !alive {
			return none, &PanicError{named(what, name) + " ended its goroutine"}
		}
		d.crew.put(m)
		return c.v, c.err
	}
	select {
	case _, alive := <-m.done:
		return over(alive)
	case <-ctx.Done():
	}
	late := time.NewTimer(d.limits.Grace)
	defer late.Stop()
	select {
	case _, alive := <-m.done:
		v, err := over(alive)
		if errors.Is(err, context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		return v, err
	case <-late.C:
		close(m.jobs)
		return none, context.Cause(ctx)
	}
}

// guarded is a call, and what came of it: not to be looked at while it is made.
type guarded[T any] struct {
	ctx        context.Context // of the call
	what, name string
	call       func(context.Context) (T, error)
	v          T
	err        error
}

func (c *guarded[T]) make() {
	defer func() {
		if p := recover(); p != nil {
			var none T
			c.v, c.err = none, &PanicError{fmt.Sprintf("panic in %s: %v", named(c.what, c.name), p)}
		}
	}()
	if c.v, c.err = c.call(c.ctx); c.err != nil {
		_ = c.err.Error() // one that panics does so here
	}
}

func named(what, name string) string {
	if name == "" {
		return what
	}
	return fmt.Sprintf("%s %q", what, name)
}

// crew are the goroutines that make the calls of a loop and its children. A member makes one call
// after the other: so its stack need not grow for each.
type crew struct {
	mu   sync.Mutex
	free []*member
}

type member struct {
	jobs chan interface{ make() } // closed when nothing more comes
	done chan struct{}            // has a token after each job; closed when the goroutine ends
}

func (m *member) work() {
	defer close(m.done)
	for job := range m.jobs {
		job.make()
		m.done <- struct{}{}
	}
}

// take returns a member that has nothing to do.
func (c *crew) take() *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		m := c.free[n-1]
		c.free = c.free[:n-1]
		return m
	}
	m := &member{jobs: make(chan interface{ make() }, 1), done: make(chan struct{}, 1)}
	go m.work()
	return m
}

// put takes back a member that has done its job.
func (c *crew) put(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, m)
}

// dismiss ends the goroutines, those apart that are left behind: they end with their call.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.free {
		close(m.jobs)
	}
	c.free = nil
}
