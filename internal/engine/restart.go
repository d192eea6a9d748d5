package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// count gives a pause that was opened its key.
func (r *Run) count(p *Pause) {
	about := ""
	if p.inAgent != "" { // a model may ask for something else next time
		about = past.AboutOf(&p.Pause)
	}
	p.key = r.before.Count(PauseKey{Step: p.Step, Kind: p.Kind, Reason: p.Reason, About: about})
}

// keepAnswer keeps how a pause ended. again says that the answer restarts the run.
func (r *Run) keepAnswer(p *Pause, next resume.Next, answer any, again bool) {
	r.before.Keep(p.key, KeptAnswer{Next: next, Answer: answer, Question: questionOf(p), Call: p.Call})
	again = again || r.o.Interrupt == resume.Restart
	if again && asksForMore(p) && past.Decision(answer) == "raise" { // also for earlier steps
		r.raise(p, answer)
	}
}

// useAnswer notes that an answer was used. The result that a person gave for a call applies once. In an agent it
// applies until the agent is undone.
func (r *Run) useAnswer(p *Pause, answer any) {
	if SaysResult(p.key, answer) && p.inAgent == "" {
		r.before.Used(p.key, p.Call, answer)
	}
}

// answerFromBefore ends a pause that was just opened, if an earlier generation had it.
func (r *Run) answerFromBefore(p *Pause) bool {
	k, ok := r.before.Kept[p.key]
	if !ok {
		if r.approves(p) != nil {
			if k, other := r.before.otherCall(p.key, p.Prompt); other {
				r.questionChanged(p.Step, k.Answer)
			}
		}
		return false
	}
	if k.Next == resume.Answered && k.Question != questionOf(p) {
		r.questionChanged(p.Step, k.Answer)
		return false
	}
	e := r.answeredNow(p, k.Next, k.Answer)
	what := e.What.(journal.PauseAnswered)
	what.Kept = true
	e.What = what
	r.recordAll(nil, []journal.Event{e})
	return true
}

// questionOf is the question of a step's own pause to a person or an outside system. It is "" for pauses of the engine,
// and for other pauses, which PauseKey identifies.
func questionOf(p *Pause) string {
	if p.inAgent != "" {
		return ""
	}
	return past.QuestionIn(&p.Pause)
}

// beginsAgain makes the events of an answer that begins the next generation: the other pauses of this
// one no longer need an answer.
func (r *Run) beginsAgain(p *Pause, e journal.Event) []journal.Event {
	what := e.What.(journal.PauseAnswered)
	what.Generation = r.generation + 1
	e.What = what
	return r.andClosed(e, p)
}

// andClosed is an event that ends a pause, and those that end all others.
func (r *Run) andClosed(e journal.Event, p *Pause) []journal.Event {
	events := []journal.Event{e}
	for _, other := range r.waits.pauses {
		if other != p {
			events = append(events, journal.Event{At: e.At, Path: other.Step,
				What: journal.PauseClosed{Pause: other.ID}})
		}
	}
	return events
}

// RestartBy returns the events of an answer that has the run rolled back and begin again; see Restart. The error says
// that the run cannot.
func (r *Run) RestartBy(p *Pause, answer any) ([]journal.Event, error) {
	why := ""
	switch {
	case r.ending.forGood != nil || r.ending.fixed != nil || r.m.Doomed():
		why = "it only comes to its end"
	case slices.ContainsFunc(r.past.pending,
		func(c machine.Command) bool { return c.Op == machine.Start && c.Task.Status() == machine.Running }):
		why = "calls of it were under way when it was interrupted\n  hint: recover it first"
	}
	if why != "" {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Step: p.Step,
			Err: fmt.Errorf("the run cannot begin again: %s", why)}
	}
	e := r.answeredNow(p, resume.Answered, answer)
	what := e.What.(journal.PauseAnswered)
	what.Restart = true
	e.What = what
	return r.actBy(r.andClosed(e, p)), nil
}

// Restarts reports whether the run is to be rolled back because of an answer, and then begins again.
func (r *Run) Restarts() bool { return r.undo.restart != nil }

// Restart returns the event that begins such a run again, once it is rolled back.
func (r *Run) Restart() []journal.Event {
	return []journal.Event{{At: r.now, What: journal.Restarted{Generation: r.generation + 1}}}
}

// beginAgain begins the next generation, at the first step, because a pause was answered. Nothing is
// in progress.
func (r *Run) beginAgain(answered *Pause) {
	r.trace.settle(r.m)
	for _, p := range r.waits.pauses {
		if p != answered && p.Reason == journal.Indeterminate {
			r.before.NoteUnknown(p.key, p.Call)
		}
	}
	for _, path := range value.SortedKeys(r.undo.rolled) {
		r.before.Undone(strings.TrimSuffix(path, past.RollbackMark))
	}
	r.leaveBatches()
	r.disarmAll()
	r.past = leftOver{owner: r.past.owner, there: r.past.there, told: r.past.told, replaying: r.past.replaying,
		spans: r.past.spans}
	r.waits, r.agents, r.undo, r.budget.uses, r.budget.kept = waits{}, nil, undoing{}, nil, 0
	r.before.nextGeneration()
	r.todo.over = false
	r.generation++
	r.m = r.newMachine(r.m.MaxParallel())
	r.m.Tell(r.now)
	for _, s := range r.sent {
		r.m.Send(s.index, s.value)
	}
}
