package workflow

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/trace"
)

// replay brings the machine to where the journal ends. What ended in it counts as replayed; calls
// that it does not know the end of are made again when the run is driven.
func (r *run) replay(l *leg) error {
	r.replaying = true
	r.clock = engine.Clock{Since: l.past[l.from].At}
	known := map[string]*machine.Task{}
	advance := func(n int64) error {
		for r.m.Decided() < n || r.m.Queued() {
			c := r.m.Next()
			if c.Op == machine.None && r.m.Decided() < n {
				return fmt.Errorf("the run never came to decision %d", n)
			}
			r.replayed(c, known)
		}
		return nil
	}
	for i := l.from; i < len(l.past); i++ {
		e := &l.past[i]
		if what, ok := e.What.(journal.Redefined); ok {
			r.begunAnew(&what)
		}
		r.recallParallel(e)
		var err error
		if e.Ordered() { // what it had decided by then, it decided at the time of the event before
			err = advance(e.After)
		}
		r.clock.Read(e)
		r.events.now = e.At
		r.m.Tell(e.At)
		if err == nil {
			err = r.applyAgain(e, known)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w: %w", i+1, checkpoint.ErrCorrupt, err)
		}
	}
	r.journal.seq = int64(len(l.past))
	if err := advance(0); err != nil { // what the last event led to
		return err
	}
	r.clock = engine.Clock{Used: r.clock.At(r.events.now), Since: r.events.began}
	r.events.tick()
	r.atEnd = r.atEnd || r.forGood != nil || l.cancel != nil
	for (l.ended || r.atEnd) && r.m.Result() == nil { // to its end, which has no record of its own
		c := r.m.Next()
		if c.Op == machine.None {
			break // it was cancelled
		}
		r.replayed(c, known)
	}
	r.m.SetMaxParallel(r.maxParallel())
	r.replaying = false
	return nil
}

// recallParallel gives the machine as many slots as the run had from an event on: what it decided depends on them.
// Journals of earlier versions do not have the number; then it must still be the same.
func (r *run) recallParallel(e *journal.Event) {
	n := e.Parallel
	if begun, ok := e.What.(journal.Begun); ok {
		n = begun.Parallel
	}
	if n > 0 {
		r.m.SetMaxParallel(n)
	}
}

// replayed is drive for a command that was executed in an earlier leg.
func (r *run) replayed(c machine.Command, known map[string]*machine.Task) {
	switch c.Op {
	case machine.Began:
		known[c.Task.Path()] = c.Task
		r.beginTime(c.Task)
	case machine.Ended:
		r.closePauses(c.Task)
		if k := c.Task.Node().Kind; k == machine.Wait || k == machine.Receive { // it may never have come to a pause
			r.settled(c.Task)
		}
		r.again = append(r.again, c.Task)
	case machine.Start, machine.Open:
		r.pending = append(r.pending, c)
	case machine.Stop:
		r.halted = append(r.halted, c.Task)
	case machine.Arm:
		c.Wait += r.timeOf(c.Task)
		r.armed = append(r.armed, c)
	case machine.Disarm:
		r.armed = slices.DeleteFunc(r.armed,
			func(a machine.Command) bool { return a.Task == c.Task && a.Timer == c.Timer })
	}
}

// tellReplayed tells what was not done again.
func (r *run) tellReplayed() {
	for _, t := range r.again {
		r.events.emit(t, trace.StepReplayed, t.Path(), nil, nil)
	}
	r.again = nil
}

// settled forgets that a task is under way.
func (r *run) settled(t *machine.Task) {
	r.pending = slices.DeleteFunc(r.pending, func(c machine.Command) bool { return c.Task == t })
	delete(r.unsure, t)
}

func (r *run) pauseByID(id string) *openPause {
	for _, p := range r.pauses {
		if p.ID == id {
			return p
		}
	}
	return nil
}
