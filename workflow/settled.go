package workflow

import (
	"errors"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// settledBy is how a call ended of which nobody knew whether it had its effect, by what a person said; it is
// not over if it is to be made again.
func settledBy(c *program.Call, answer any) (output any, failure *machine.Failure, over bool) {
	m, _ := answer.(map[string]any)
	switch m["decision"] {
	case "retry":
		return nil, nil, false
	case "result":
		if err := program.CheckOutput(m["form"], c.Answer, c.MaxBytes, c.Pos); err != nil {
			return nil, &machine.Failure{Category: string(runtime.CategoryConfig), Code: "output.invalid",
				Err: err}, true
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

// shareSettled ends a call in a run that shares another one's journal as a person said that it ended there; it
// stays what a person said. t is nil if the call has no slot here yet.
func (r *run) shareSettled(path string, t *machine.Task, w *journal.Settlement, output any) {
	failure := w.Failure
	answer, _ := w.Answer.(map[string]any)
	switch {
	case t == nil && answer["decision"] == "result":
		r.give(path, answer["form"])
		return
	case t == nil && (answer != nil || failure != nil): // only an output can be given
		r.before.Doubt(engine.PauseKey{Step: path, Kind: resume.System, Reason: journal.Indeterminate})
		return
	case t == nil:
		r.give(path, output)
		return
	case answer != nil:
		output, failure, _ = settledBy(t.Node().Adapter.(*program.Call), answer)
	}
	r.record(t, path, journal.CallEnded{Output: output, Failure: failure, Settled: true})
}
