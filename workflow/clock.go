package workflow

import (
	"time"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
)

// clock is how long a run has been worked on. It stands still while the run is paused or interrupted.
//
// A journal keeps it in the times of its records, and in a member "worked" of the first record of each leg
// that goes on: what the clock showed then, in nanoseconds.
type clock struct {
	used  time.Duration // at since
	since time.Time
}

// at is what the clock shows at a time of the present leg.
func (c *clock) at(now time.Time) time.Duration { return c.used + max(0, now.Sub(c.since)) }

// read takes the first event after a resume.
func (c *clock) read(e *journal.Event) {
	if e.Resumed {
		c.used, c.since = e.Worked, e.At
	}
}

// clockOf reads the clock of a run at its last event.
func clockOf(events []journal.Event) time.Duration {
	var c clock
	for i := len(events) - 1; i >= 0; i-- {
		c.since = events[i].At
		if c.read(&events[i]); events[i].Resumed {
			break
		}
	}
	return c.at(events[len(events)-1].At)
}

// stamp puts the clock into the first event after a resume.
func (r *run) stamp(events []journal.Event) {
	if r.leg != nil && !r.stamped {
		r.stamped = true
		events[0].Resumed, events[0].Worked = true, r.clock.at(events[0].At)
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
	return r.clock.at(r.events.now)
}
