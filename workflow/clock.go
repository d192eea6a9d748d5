package workflow

import (
	"time"

	"github.com/braise-run/braise/checkpoint"
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

// read takes a record of an earlier leg.
func (c *clock) read(rec checkpoint.Record, data map[string]any) {
	if n, ok := data["worked"].(int64); ok {
		c.used, c.since = time.Duration(n), rec.At
	}
}

// clockOf reads the clock of a run at its last record.
func clockOf(recs []checkpoint.Record) (time.Duration, error) {
	var c clock
	for i := len(recs) - 1; i >= 0; i-- {
		data, err := dataOf(recs[i])
		if err != nil {
			return 0, err
		}
		c.since = recs[i].At
		if c.read(recs[i], data); data["worked"] != nil {
			break
		}
	}
	return c.at(recs[len(recs)-1].At), nil
}

// stamp puts the clock into the first record of a leg that goes on.
func (r *run) stamp(recs []checkpoint.Record) (err error) {
	if r.leg == nil || r.stamped {
		return nil
	}
	r.stamped = true
	recs[0], err = withMembers(recs[0], map[string]any{"worked": int64(r.clock.at(recs[0].At))})
	return err
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
