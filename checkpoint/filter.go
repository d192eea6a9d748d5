package checkpoint

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Phase is the state of a run as people see it: its status, and whether a process works on it.
type Phase string

// The phases.
const (
	PhaseQueued      Phase = "queued"      // recorded, and no execution has begun
	PhaseRunning     Phase = "running"     // a process holds it
	PhaseWaiting     Phase = "waiting"     // it waits for an answer, an event or a time
	PhaseInterrupted Phase = "interrupted" // it has not ended and waits for nothing, and no process holds it
	PhaseOK          Phase = "ok"
	PhaseFailed      Phase = "error"
	PhaseCancelled   Phase = "cancelled"
)

// Phase returns the phase of the run.
func (s Summary) Phase() Phase {
	switch {
	case s.Status == Paused:
		return PhaseWaiting
	case s.Status == Running && !s.Held:
		return PhaseInterrupted
	}
	return Phase(s.Status)
}

// Cursor is a place in a list: behind the entry that it names. The zero Cursor is before the first entry.
type Cursor struct {
	At    time.Time // the start of the run; of a pause when it was opened, or when it expires, as the list is ordered
	RunID string
	Pause string // of a list of pauses: its id
}

// Cursor returns the place behind the run in a list of runs.
func (s Summary) Cursor() Cursor { return Cursor{At: s.StartedAt, RunID: s.ID} }

// Filter says which runs to list. The zero Filter lets all through.
type Filter struct {
	Phases    []Phase           // any of them; nil: any
	Recipe    string            // its name; "": any
	Queues    []string          // any of them, "" is none; nil: any
	Labels    map[string]string // all of them; nil: any
	Parent    string            // the run that it was forked from; "": any
	Prefix    string            // of the id; "": any
	From, To  time.Time         // started at From or later, and before To; zero: any
	DueBefore time.Time         // with something due by then, see Summary.Due, answered pauses aside; zero: any
	Signalled bool              // with a signal that is not done, see Signals
	Oldest    bool              // the oldest first
	After     Cursor            // only what comes behind it in the list
	Limit     int               // so many of the first; 0: no limit
}

// Match reports whether the filter lets a run through, its Limit aside. open has the signals of the run that are not
// done.
func (f Filter) Match(s Summary, open ...Signal) bool {
	due := s.Unanswered(open).Due()
	return (!f.Signalled || len(open) > 0) &&
		(f.Phases == nil || slices.Contains(f.Phases, s.Phase())) &&
		(f.Recipe == "" || f.Recipe == s.Recipe) &&
		(f.Queues == nil || slices.Contains(f.Queues, s.Queue)) &&
		(f.Parent == "" || f.Parent == s.Parent) &&
		strings.HasPrefix(s.ID, f.Prefix) && f.matchLabels(s.Labels) &&
		(f.From.IsZero() || !s.StartedAt.Before(f.From)) && (f.To.IsZero() || s.StartedAt.Before(f.To)) &&
		(f.DueBefore.IsZero() || !due.IsZero() && !due.After(f.DueBefore)) &&
		(f.After == Cursor{} || f.Compare(s, Summary{Run: Run{ID: f.After.RunID, StartedAt: f.After.At}}) > 0)
}

func (f Filter) matchLabels(labels map[string]string) bool {
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		if v, ok := labels[key]; !ok || v != f.Labels[key] {
			return false
		}
	}
	return true
}

// Compare orders runs as a list with this filter does: by StartedAt, then ID, both falling, or both rising with
// Oldest.
func (f Filter) Compare(a, b Summary) int {
	c := cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.ID, a.ID))
	if f.Oldest {
		return -c
	}
	return c
}

// Querier is an optional interface of a Store, which all stores of this module have: it tells what many runs have in
// common without listing each of them.
type Querier interface {
	// Count returns how many runs of each phase a filter lets through, its Limit and After aside. It counts at most so
	// many of each; 0 or less: all. A phase without such runs is left out.
	Count(ctx context.Context, f Filter, most int) (map[Phase]int, error)

	// Pauses returns the open pauses of all runs that a filter lets through, in the order of [PauseFilter.Compare]. A
	// pause with an answer among the open signals of its run is not open here. Runs that cannot be read do not hide
	// the others: they are left out, and the error joins what is wrong with them.
	Pauses(ctx context.Context, f PauseFilter) ([]PauseInfo, error)
}

// Clocked is an optional interface of a Store that several machines share: it has a clock of its own. The times of runs
// are those of this clock, so a machine whose clock is wrong neither ends waits early nor lets answers come late.
type Clocked interface {
	// Now returns the time by the clock of the store, or a little less: never more.
	Now(ctx context.Context) (time.Time, error)
}

// Watcher is an optional interface of a Store, which all stores of this module have.
type Watcher interface {
	// Watch calls changed whenever the journal or the signals of a run may have grown, or its lease was given back. It
	// does so until ctx ends, whose error it returns, or until the store is closed. "" stands for any run. It may call
	// too often, but it misses nothing that happens after Watch has called changed("") for the first time, which it
	// does once it is ready. Several changes of a run may be one call. No write waits for changed, and Watch does not
	// call it twice at the same time.
	Watch(ctx context.Context, changed func(runID string)) error
}
