// Package engine decides how a run continues: the state that the events of its journal lead to, which of them still
// apply under another definition, and what must be asked again. It is pure: no goroutine, clock, I/O, randomness or
// map order.
package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// GenerationOf counts the generations of a run: how often it has started from its first step.
func GenerationOf(events []journal.Event) int {
	n := 1
	for i := range events {
		switch what := events[i].What.(type) {
		case journal.Redefined:
			n = max(n, what.Generation)
		case journal.PauseAnswered:
			n = max(n, what.Generation)
		case journal.Restarted:
			n = max(n, what.Generation)
		}
	}
	return n
}

// Clock is how long a run has been worked on. It stands still while the run is paused or interrupted.
//
// A journal has it in the times of its records, and in each [journal.Execution].
type Clock struct {
	Used  time.Duration // at since
	Since time.Time
}

// At returns the clock at a time of the present execution.
func (c *Clock) At(now time.Time) time.Duration { return c.Used + max(0, now.Sub(c.Since)) }

// Read reads the next event.
func (c *Clock) Read(e *journal.Event) {
	if x := e.Execution(); x != nil {
		c.Used, c.Since = x.Worked, e.At
	}
}

// ClockOf reads the clock of a run at its last event.
func ClockOf(events []journal.Event) time.Duration {
	var c Clock
	for i := len(events) - 1; i >= 0; i-- {
		c.Since = events[i].At
		if c.Read(&events[i]); events[i].Execution() != nil {
			break
		}
	}
	return c.At(events[len(events)-1].At)
}

// BegunOf returns what a run was started with.
func BegunOf(events []journal.Event) (journal.Begun, error) {
	for i := range events {
		if what, ok := events[i].What.(journal.Begun); ok {
			return what, nil
		}
	}
	return journal.Begun{}, fmt.Errorf("%w: it has no inputs", checkpoint.ErrCorrupt)
}

// RecordedSteps returns the steps in a journal, with the digests of the recipe that they ran.
func RecordedSteps(events []journal.Event, digests map[string]string) map[string]string {
	recorded := maps.Clone(digests) // steps without a record share the fate of their parents
	for i := range events {
		if path := events[i].Path; path != "" {
			recorded[path] = digests[resume.DefinitionPath(path)]
		}
	}
	return recorded
}

// Ending is how an event ends a step.
type Ending struct {
	Output  any
	Failure *machine.Failure
	Call    bool // the step is a call
}

// EndOf is how an event ends a step; over is false for other events. It holds for every kind of step: what it does not
// know of, no fork and no changed definition shares.
func EndOf(what journal.What) (end Ending, over bool) {
	switch w := what.(type) {
	case journal.CallGiven:
		return Ending{Output: w.Output, Failure: w.Failure, Call: true}, true
	case journal.CallEnded:
		return Ending{Output: w.Output, Failure: w.Failure, Call: true}, true
	case journal.PauseAnswered: // of a call, the call comes to its end later: see shareEnd
		return Ending{Output: w.Answer}, true
	case journal.Said:
		return Ending{Output: w.Output()}, true
	case journal.WaitOver:
		return Ending{Output: w.Output, Failure: w.Failure}, true
	}
	return Ending{}, false
}

// LastGeneration returns the events of a run's last generation, from an index in its journal on, and the paths of the
// steps whose rollback has begun: nothing may depend on them any more. What the run did in its finally is left out.
func LastGeneration(events []journal.Event) (last []journal.Event, undone []string) {
	if end := slices.IndexFunc(events, func(e journal.Event) bool {
		_, begun := e.What.(journal.FinallyBegun)
		return begun
	}); end >= 0 {
		events = events[:end]
	}
	last = events
	for i := range events {
		switch what := events[i].What.(type) {
		case journal.RollbackBegun, journal.RollbackEnded:
			undone = append(undone, strings.TrimSuffix(events[i].Path, RollbackMark))
		case journal.PauseAnswered:
			if what.Generation > 0 {
				last, undone = events[i+1:], nil
			}
		case journal.Restarted:
			last, undone = events[i+1:], nil
		}
	}
	return last, undone
}
