package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// ErrDrained is why a run ends early that was told to drain.
var ErrDrained = errors.New("the process drains its runs")

// Drain lets no more calls start. Calls in progress finish, but get no further attempts. Then the run is cancelled, and
// can be recovered. A call with an outside effect that waits for its next attempt, or for a slot, becomes a pause that
// is due at that time: so its record says that it is not in progress.
func (r *Run) Drain() {
	if r.todo.drains || r.ending.cancelled {
		return
	}
	r.todo.hold, r.todo.drains = true, true
	for _, p := range slices.Clone(r.calls.queue) {
		if p.canPutOff(r.o.Kept) {
			r.calls.queue = slices.DeleteFunc(r.calls.queue, func(q *pending) bool { return q == p })
			p.fail(r, p.putOff(r.now), p.last)
		}
	}
	for _, p := range waiting(r.m) {
		if p.stage == delayed && p.canPutOff(r.o.Kept) {
			r.todo.disarm(p.timer)
			p.fail(r, p.putOff(r.now), p.last)
		}
	}
	if p := r.undo.call; p != nil && p.stage == delayed && p.repeatable() {
		r.undo.stop(r)
	}
}

// waiting returns the calls of steps and agents that wait for something, in the order in which they began.
func waiting(m *machine.Machine) (list []*pending) {
	for _, t := range m.Calls() {
		p, ok := t.Driver.(*pending)
		switch {
		case !ok:
		case p.Kind == program.AgentCall:
			list = append(list, p.agent.jobs...)
		default:
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pending) int { return int(a.ID - b.ID) })
	return list
}

// canPutOff reports whether a call that waits must become a pause, as another process would take it for one that
// was cut off. kept: runs outlive the process.
func (p *pending) canPutOff(kept bool) bool { return kept && !p.repeatable() && p.mayPause(p) }

// putOff is the pause of a call that waits: it is due when the call is.
func (p *pending) putOff(now time.Time) *resume.Pause {
	due := p.due
	if due.Before(now) {
		due = now
	}
	return &resume.Pause{Kind: resume.System, Reason: "retry", RetryAt: due,
		Prompt: fmt.Sprintf("%s waits because its process drained; it is called in time, or on an answer", p.named())}
}

// endDrain ends the execution of a run that drains, once no call is in progress. It returns false while one is.
func (r *Run) endDrain() bool {
	if !r.todo.drains || r.ending.cancelled || len(r.calls.flying)+len(r.calls.blocked) > 0 {
		return false
	}
	r.Cancel(context.Canceled, ErrDrained)
	return true
}
