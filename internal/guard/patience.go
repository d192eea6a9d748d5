package guard

import (
	"context"
	"time"
)

// Patience is the context of many writes, one after the other: a timer for each would be a tenth of a small one. The
// zero Patience is ready. One goroutine at a time may use it.
type Patience struct {
	ctx context.Context // nil: there was none yet
	end context.CancelFunc
}

// Context returns a context with the values of ctx, or of that of an earlier call. It ends in half of StoreTime to
// StoreTime, or when End is called, and not with ctx.
func (p *Patience) Context(ctx context.Context) context.Context {
	if p.ctx != nil {
		if until, _ := p.ctx.Deadline(); p.ctx.Err() == nil && time.Until(until) > StoreTime/2 {
			return p.ctx
		}
		p.end()
	}
	p.ctx, p.end = context.WithTimeout(context.WithoutCancel(ctx), StoreTime)
	return p.ctx
}

// End ends the context. The next call of Context makes another one.
func (p *Patience) End() {
	if p.ctx != nil {
		p.end()
	}
}
