package workflow

import (
	"errors"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// settledBy is how a call ended of which nobody knew whether it had its effect, by what a person said; it is
// not over if it is to be made again.
func settledBy(c *call, answer any) (output any, failure *machine.Failure, over bool) {
	m, _ := answer.(map[string]any)
	switch m["decision"] {
	case "retry":
		return nil, nil, false
	case "result":
		if err := checkOutput(m["form"], c.answer, c.maxBytes, c.pos); err != nil {
			return nil, &machine.Failure{Category: string(runtime.CategoryConfig), Code: "output.invalid", Err: err}, true
		}
		return m["form"], nil, true
	}
	return nil, countsAsFailed(), true
}

// countsAsFailed is the failure of a call because a person said so.
func countsAsFailed() *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryTool), Code: "call.indeterminate",
		Err: errors.New("it is not known whether the call had its effect, and it was decided that it counts as failed")}
}

// words finds in a journal what people said about calls of steps of which nobody knew whether they had their
// effect: it has the pauses that ask for it, by id. Calls in agents have events of their own.
type words map[string]bool

// word is what a person said that became of a call.
type word struct {
	answer  any              // to the pause; nil in a fork, which has what came of it
	failure *machine.Failure // in a fork
}

// next looks at the next record: nil, unless it says that the call of the step at its path is over.
func (w words) next(rec checkpoint.Record, data map[string]any) *word {
	id, _ := data["pause"].(string)
	switch rec.Kind {
	case checkpoint.PauseOpened:
		if data["reason"] == indeterminate && data["agent"] == nil {
			w[id] = true
		}
	case checkpoint.PauseAnswered:
		answer, _ := data["answer"].(map[string]any)
		if w[id] && data["next"] == string(resume.Answered) && answer["decision"] != "retry" {
			return &word{answer: answer}
		}
	case recEnded:
		if data["settled"] == true {
			return &word{failure: failureOf(data["error"])}
		}
	}
	return nil
}

// shareSettled ends a call in a run that shares another one's journal as a person said that it ended there; it
// stays what a person said. t is nil if the call has no slot here yet.
func (r *run) shareSettled(path string, t *machine.Task, w *word, output any) {
	failure := w.failure
	answer, _ := w.answer.(map[string]any)
	switch {
	case t == nil && answer["decision"] == "result":
		r.give(path, answer["form"])
		return
	case t == nil && (answer != nil || failure != nil): // only an output can be given
		r.doubt(pauseKey{step: path, kind: resume.System, reason: indeterminate})
		return
	case t == nil:
		r.give(path, output)
		return
	case answer != nil:
		output, failure, _ = settledBy(t.Node().Adapter.(*call), answer)
	}
	data := map[string]any{"n": r.m.Decided(), "output": output, "settled": true}
	if failure != nil {
		data["error"] = errorData(failure)
	}
	r.settled(t)
	r.noteData(recEnded, path, data)
	r.m.Finish(t, output, machine.Unknown, failure)
}
