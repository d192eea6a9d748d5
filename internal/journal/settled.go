// Package journal has the events of a run, and the records that they are stored as. It is the only place that
// knows the members of a record.
package journal

import (
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
)

// Indeterminate is the reason of a pause because it is not known whether a call had its effect.
const Indeterminate = "indeterminate"

// Settlements finds in a journal the calls of steps whose end a person gave. It has the pauses that ask for it, by
// id. Calls in agents have events of their own. The zero Settlements is not ready: make one.
type Settlements map[string]bool

// Settlement is the end of a call that a person gave.
type Settlement struct {
	Answer any            // to the pause: {decision, form}; nil in a fork, which has what came of it
	Error  map[string]any // in a fork: category, code and message; nil: the call succeeded
}

// Next looks at the next record and its data. It returns nil unless the record says that the call of the step at its
// path is over.
func (s Settlements) Next(rec checkpoint.Record, data map[string]any) *Settlement {
	id, _ := data["pause"].(string)
	switch rec.Kind {
	case checkpoint.PauseOpened:
		if data["reason"] == Indeterminate && data["agent"] == nil {
			s[id] = true
		}
	case checkpoint.PauseAnswered:
		answer, _ := data["answer"].(map[string]any)
		if s[id] && data["next"] == string(resume.Answered) && answer["decision"] != "retry" {
			return &Settlement{Answer: answer}
		}
	case "call.ended":
		if data["settled"] == true {
			failure, _ := data["error"].(map[string]any)
			return &Settlement{Error: failure}
		}
	}
	return nil
}
