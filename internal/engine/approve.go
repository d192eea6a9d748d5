package engine

import (
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// askApproval opens the pause of a step that needs a yes to begin.
func (r *Run) askApproval(t *machine.Task, input any) {
	p, err := approvalOf(input)
	if err != nil {
		r.refuseWait(t, &machine.Failure{Category: string(runtime.CategoryConfig), Code: "wait.arguments", Err: err})
		return
	}
	r.pause(t, journal.PauseOpened{Pause: p})
}

// approvalOf makes the pause. What it shows has the names of secrets.
func approvalOf(input any) (p resume.Pause, err error) {
	fields, _ := input.(map[string]any)
	p = resume.Pause{Kind: resume.Human}
	if p.Prompt, err = value.Text(fields["prompt"]); err != nil {
		return p, err
	}
	p.Show, err = expr.Open(fields["show"], func(name string) (string, error) {
		return "${{ secrets." + name + " }}", nil
	})
	list, _ := fields["decisions"].([]any)
	for _, d := range list {
		word, _ := d.(string)
		p.Decisions = append(p.Decisions, word)
	}
	return p, err
}

// approve ends the wait of such a step: it begins, is skipped, or fails.
func (r *Run) approve(t *machine.Task, over journal.WaitOver) {
	r.m.Approve(t, over.Output == true, over.Failure)
}

// approves reports whether an event says whether a step may begin.
func approves(what journal.What) bool {
	switch w := what.(type) {
	case journal.WaitOver:
		return w.Approval
	case journal.PauseAnswered:
		return journal.IsApproval(w.Pause)
	}
	return false
}

// shareApproval lets a step begin here, or be skipped, as it was in another run. t is nil if it does not ask here;
// there has the other run's pauses.
func (r *Run) shareApproval(e *journal.Event, t *machine.Task, there *elsewhere) {
	answered, ok := e.What.(journal.PauseAnswered)
	switch {
	case t == nil || !t.Asks():
	case !ok: // the answer was shared there, too
		r.record(t, e.Path, e.What)
	case there.pauses[answered.Pause] == nil:
	case r.asksOther(t, QuestionIn(there.pauses[answered.Pause])):
		r.questionChanged(e.Path, answered.Answer)
	default:
		r.record(t, e.Path, approved(t, answered.Answer))
	}
}

// approved is the end of the wait that an answer brings.
func approved(t *machine.Task, answer any) journal.WaitOver {
	return journal.WaitOver{Output: decided(answer) == t.Node().Approve.Yes, Approval: true}
}
