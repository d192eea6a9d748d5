package local

import (
	"context"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
)

// group is a context for calls that cannot be stopped one by one: calls of the recipe's own steps
// without a timeout that began before the same failure. Any other call has a context of its own.
type group struct {
	id     int64
	lone   bool
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// flight is a call with its context; zero: none.
type flight struct {
	*engine.Call
	*group
}

// launch gives a call its context.
func (r *Run) launch(c *engine.Call) flight {
	if r.watch == nil && r.Store.Durable() {
		r.watchCalls(OpenTime)
	}
	if !lone(c) {
		return flight{c, r.together(c)}
	}
	g := &group{lone: true}
	switch {
	case c.Rollback:
		g.ctx, g.cancel = r.graceful()
	case c.Dispose:
		g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(r.ctx))
		r.bound(c)
	default:
		g.ctx, g.cancel = context.WithCancelCause(r.ctx)
	}
	if r.lone == nil {
		r.lone = map[int64]*group{}
	}
	r.lone[c.ID] = g
	return flight{c, g}
}

// bound abandons a call after the grace period if the end of the run, or of its agent, does not stop it.
func (r *Run) bound(c *engine.Call) {
	id := c.ID
	time.AfterFunc(r.limits.Grace, func() {
		r.happened(func() {
			i := slices.IndexFunc(r.Engine.View().Flying(), func(flying *engine.Call) bool { return flying.ID == id })
			switch {
			case i < 0:
			case r.Engine.View().Stopped(id) || r.Engine.View().Standing().Cancelled:
				r.groupOf(c).cancel(context.Canceled)
				r.leave(call.LeftBehind, func(flying *engine.Call) bool { return flying.ID == id })
			default:
				r.bound(c)
			}
		})
	})
}

// together returns the group of a call that begins now with others.
func (r *Run) together(c *engine.Call) *group {
	if n := len(r.groups); n > 0 && r.groups[n-1].id == c.Group {
		return r.groups[n-1]
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	g := &group{id: c.Group, ctx: ctx, cancel: cancel}
	r.groups = append(r.groups, g)
	return g
}

// lone reports whether a call has a context of its own.
func lone(c *engine.Call) bool { return c.Alone || c.Rollback || c.Dispose }

// groupOf returns the group of a call; nil: it had a context of its own, and has returned.
func (r *Run) groupOf(c *engine.Call) *group {
	if lone(c) {
		return r.lone[c.ID]
	}
	return r.groups[slices.IndexFunc(r.groups, func(g *group) bool { return g.id == c.Group })]
}

// graceful makes the context of a rollback. When the run's context ends, the rollback has the grace period to
// finish.
func (r *Run) graceful() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	stop := context.AfterFunc(r.ctx, func() {
		grace := time.NewTimer(r.limits.Grace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel(engine.ErrGrace)
			r.leaveSoon("a rollback ignored its context and was left behind",
				func(c *engine.Call) bool { return c.Rollback })
		case <-ctx.Done():
		}
	})
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}
