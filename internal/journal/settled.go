// Package journal has the events of a run, and the records that they are stored as. It is the only package that
// knows the members of a record.
package journal

import (
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// Indeterminate is the reason of a pause that asks about a call with unknown outcome.
const Indeterminate = "indeterminate"

// Settlements finds in a journal the calls of steps whose end a person gave. It has the pauses that ask for it, by
// id. Calls in agents have events of their own. The zero Settlements is not ready: make one.
type Settlements map[string]bool

// Settlement is the end of a call that a person gave.
type Settlement struct {
	Answer  any              // to the pause: {decision, form}; nil in a fork, which has what came of it
	Failure *machine.Failure // in a fork; nil: the call succeeded
}

// Next looks at the next event. It returns nil unless the event says that the call of the step at its path is over.
func (s Settlements) Next(e *Event) *Settlement {
	switch w := e.What.(type) {
	case PauseOpened:
		if w.Pause.Reason == Indeterminate && w.Agent == nil {
			s[w.Pause.ID] = true
		}
	case PauseAnswered:
		answer, _ := w.Answer.(map[string]any)
		if s[w.Pause] && w.Next == resume.Answered && answer["decision"] != "retry" {
			return &Settlement{Answer: w.Answer}
		}
	case CallEnded:
		if w.Settled {
			return &Settlement{Failure: w.Failure}
		}
	}
	return nil
}
