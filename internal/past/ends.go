package past

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
)

// Ends tells how the events of a journal end steps. It reads one event after the other, from the first one on. The zero
// Ends has read nothing.
type Ends struct {
	asked map[string]string // reasons of pauses that ask for the end of the call of a step, or come before one, by id
}

// End is how an event ends a step.
type End struct {
	Output  any
	Failure *journal.Failure
	Call    bool        // the step is a call
	Settled *Settlement // nil: no person said so
}

// Settlement is the end of the call of a step that a person gave. Calls in agents have events of their own.
type Settlement struct {
	Answer  any              // to the pause: {decision, form}; nil in a fork, which has what came of it
	Failure *journal.Failure // in a fork; nil: the call succeeded
}

// Next is how the next event ends a step; over is false for other events. It holds for every kind of step: what it does
// not know of, no fork and no changed definition shares.
func (s *Ends) Next(e *journal.Event) (end End, over bool) {
	switch w := e.What.(type) {
	case journal.PauseOpened:
		if w.Pause.Reason == journal.Indeterminate && w.Agent == nil || AtBreakpoint(&w.Pause) {
			if s.asked == nil {
				s.asked = map[string]string{}
			}
			s.asked[w.Pause.ID] = w.Pause.Reason
		}
	case journal.CallGiven:
		return End{Output: w.Output, Failure: w.Failure, Call: true}, true
	case journal.CallEnded:
		end = End{Output: w.Output, Failure: w.Failure, Call: true}
		if w.Settled {
			end.Settled = &Settlement{Failure: w.Failure}
		}
		return end, true
	case journal.PauseAnswered: // of a call, the call comes to its end later
		reason := s.asked[w.Pause]
		if reason == journal.Breakpoint {
			return End{}, false
		}
		end.Output = w.Answer
		if reason != "" && w.Next == resume.Answered && Decision(w.Answer) != "retry" {
			end.Settled = &Settlement{Answer: w.Answer}
		}
		return end, true
	case journal.Said:
		return End{Output: w.Output()}, true
	case journal.WaitOver:
		return End{Output: w.Output, Failure: w.Failure}, true
	}
	return End{}, false
}

// AnswerTo returns the event by which somebody answered a pause last; nil: nobody has.
func AnswerTo(events []journal.Event, pause string) *journal.Event {
	for i := len(events) - 1; i >= 0; i-- {
		what, ok := events[i].What.(journal.PauseAnswered)
		if ok && what.Pause == pause && what.Next == resume.Answered {
			return &events[i]
		}
	}
	return nil
}

// Decision is the decision of an answer; "": there is none.
func Decision(answer any) string {
	m, _ := answer.(map[string]any)
	decision, _ := m["decision"].(string)
	return decision
}
