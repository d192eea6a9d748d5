package history

import (
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
)

// Execution is what one process did of a run, from its start, or from a resume, until the run paused, stopped or ended.
type Execution struct {
	Owner string    `json:"owner"`        // the process, as leases name it
	By    string    `json:"by,omitempty"` // who executed the run, as the host named them; "": not known
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // of a process that died, its last record; zero: it goes on
}

// executions is what a journalLog knows of the executions of a run.
type executions struct {
	list   []Execution
	last   time.Time          // of the last record
	queued bool               // no execution has begun
	fresh  bool               // the last event is the run's beginning
	paused bool               // no event came since the run paused
	start  *checkpoint.Record // the beginning of an execution of which the next event tells how; nil: none
}

// execution notes what an event says about executions. Journals of earlier versions tell of a new one only behind a
// pause.
func (r *journalLog) execution(rec checkpoint.Record, e *journal.Event) {
	x := &r.executions
	switch what := e.What.(type) {
	case journal.Created:
		x.queued = what.Queued
	case journal.Execution:
		switch {
		case x.queued:
			r.emit(rec, trace.RunStart, r.about...)
		case !x.fresh:
			x.start = &rec
		}
		x.queued, x.paused = false, false
	default:
		if x.paused {
			x.start = &rec
		}
		kind := "recover"
		if what, ok := e.What.(journal.PauseAnswered); ok && what.Next == resume.Answered {
			kind = "resume"
		}
		r.started(kind)
	}
	if begins := e.Execution(); begins != nil {
		x.end(x.last)
		x.list = append(x.list, Execution{Owner: begins.Owner, By: e.By, From: rec.At})
	}
	switch e.What.(type) {
	case journal.Paused, journal.Stopped, journal.Ended:
		x.end(rec.At)
	}
	_, x.fresh = e.What.(journal.Begun)
	x.last = rec.At
}

// started tells of an execution that began before.
func (r *journalLog) started(kind string) {
	if x := &r.executions; x.start != nil {
		r.emitOf(*x.start, "", trace.RunStart, attrs(append(slices.Clip(r.about), kind, true)))
		x.start, x.paused = nil, false
	}
}

// end notes the end of the last execution, unless it is known.
func (x *executions) end(at time.Time) {
	if n := len(x.list); n > 0 && x.list[n-1].To.IsZero() {
		x.list[n-1].To = at
	}
}
