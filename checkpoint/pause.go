package checkpoint

import (
	"cmp"
	"slices"
	"strings"
)

// PauseFilter says which open pauses to list. The zero PauseFilter lets all through.
type PauseFilter struct {
	Kind     string // "": any
	Recipe   string // the run's; "": any
	Expiring bool   // the soonest to expire first, those that never expire last; else the newest first
	After    Cursor // only what comes behind it in the list
	Limit    int    // so many of the first; 0: no limit
}

// Match reports whether the filter lets a pause through, its Limit aside.
func (f PauseFilter) Match(p PauseInfo) bool {
	return (f.Kind == "" || f.Kind == p.Pause.Kind) && (f.Recipe == "" || f.Recipe == p.Summary.Recipe) &&
		(f.After == Cursor{} || f.compare(f.Cursor(p), f.After) > 0)
}

// Cursor returns the place behind the pause in a list with this filter.
func (f PauseFilter) Cursor(p PauseInfo) Cursor {
	c := Cursor{At: p.Opened.At, RunID: p.Summary.ID, Pause: p.Pause.ID}
	if f.Expiring {
		c.At = p.Pause.ExpiresAt
	}
	return c
}

// Compare orders pauses as a list with this filter does: by the time of their opening, the id of the run and that of
// the pause, all falling. With Expiring it is by their expiry, where never is the last, and the ids, all rising.
func (f PauseFilter) Compare(a, b PauseInfo) int { return f.compare(f.Cursor(a), f.Cursor(b)) }

func (f PauseFilter) compare(a, b Cursor) int {
	c := cmp.Or(a.At.Compare(b.At), strings.Compare(a.RunID, b.RunID), strings.Compare(a.Pause, b.Pause))
	switch {
	case !f.Expiring:
		return -c
	case a.At.IsZero() != b.At.IsZero(): // never is late
		return -c
	}
	return c
}

// Unanswered returns the summary without the pauses that are answered by a signal. open has the signals of the run that
// are not done.
func (s Summary) Unanswered(open []Signal) Summary {
	answered := func(p Pause) bool {
		return slices.ContainsFunc(open, func(signal Signal) bool { return signal.ID == p.AnswerID() })
	}
	if slices.ContainsFunc(s.Pauses, answered) {
		s.Pauses = slices.DeleteFunc(slices.Clone(s.Pauses), answered)
	}
	return s
}

// PauseInfo is an open pause with what it takes to answer it.
type PauseInfo struct {
	Summary Summary
	Pause   Pause
	Opened  Record // the record that opened it, with all its data
}
