package workflow

import (
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
)

// stamp puts the clock, and how many calls there may be at once, into the first event after a resume.
func (r *run) stamp(events []journal.Event) {
	if r.leg != nil && !r.stamped {
		r.stamped = true
		e := &events[0]
		e.Resumed, e.Worked, e.Parallel = true, r.clock.At(e.At), r.maxParallel()
	}
}

// timeOf is the time that the timers of a task go by when the run is gone on with. Whoever waits for a value
// waits while nobody works on the run, too; a call that is made again has its whole time again; and the
// run's own time is taken off when its timer starts.
func (r *run) timeOf(t *machine.Task) time.Duration {
	switch n := t.Node(); {
	case n == nil || n.Kind == machine.Call:
		return 0
	case n.Kind == machine.Receive:
		return r.events.now.Sub(r.events.began)
	}
	return r.clock.At(r.events.now)
}
