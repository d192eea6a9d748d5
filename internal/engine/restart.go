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

// uncounted is the key of a pause without its number.
func (p *Pause) uncounted() PauseKey {
	about := ""
	if p.inAgent != "" { // a model may ask for something else next time
		about = past.AboutOf(&p.Pause)
	}
	return PauseKey{Step: p.Step, Kind: p.Kind, Reason: p.Reason, About: about}
}

// keep keeps how a pause ended.
func (a *Answers) keep(p *Pause, next resume.Next, answer any) {
	a.Keep(p.key, KeptAnswer{Next: next, Answer: answer, Question: questionOf(p), Call: p.Call})
}

// use notes that an answer was used. The result that a person gave for a call applies once. In an agent it
// applies until the agent is undone.
func (a *Answers) use(p *Pause, answer any) {
	if SaysResult(p.key, answer) && p.inAgent == "" {
		a.Used(p.key, p.Call, answer)
	}
}

// answerTo is how a pause that was just opened ended in an earlier generation; false: none had it. changed says that
// the answer is to another question, and is not used. approves: the pause asks whether a call may be made.
func (a *Answers) answerTo(p *Pause, approves bool) (k KeptAnswer, answered, changed bool) {
	k, had := a.Kept[p.key]
	switch {
	case had && k.Next == resume.Answered && k.Question != questionOf(p):
		return k, false, true
	case had || !approves:
		return k, had, false
	}
	k, changed = a.otherCall(p.key, p.Prompt)
	return k, false, changed
}

// questionOf is the question of a step's own pause to a person or an outside system. It is "" for pauses of the engine,
// and for other pauses, which PauseKey identifies.
func questionOf(p *Pause) string {
	if p.inAgent != "" {
		return ""
	}
	return past.QuestionIn(&p.Pause)
}

// beginAgain makes the events of an answer that begins a generation: the other pauses of the present one no longer need
// an answer.
func (w *waits) beginAgain(p *Pause, e journal.Event, generation int) []journal.Event {
	what := e.What.(journal.PauseAnswered)
	what.Generation = generation
	e.What = what
	return w.andClosed(e, p)
}

// andClosed is an event that ends a pause, and those that end all others.
func (w *waits) andClosed(e journal.Event, p *Pause) []journal.Event {
	events := []journal.Event{e}
	for _, other := range w.pauses {
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
	e := r.moment().ends(p, resume.Answered, answer)
	what := e.What.(journal.PauseAnswered)
	what.Restart = true
	e.What = what
	return r.unsaved.signs(r.waits.andClosed(e, p)), nil
}

// Restart returns the event that begins such a run again, once it is rolled back.
func (r *Run) Restart() []journal.Event {
	return []journal.Event{{At: r.now, What: journal.Restarted{Generation: r.calls.generation + 1}}}
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
	r.batches.leaveAll(r)
	r.todo.disarmAll()
	r.past = leftOver{owner: r.past.owner, there: r.past.there, told: r.past.told, replaying: r.past.replaying,
		spans: r.past.spans}
	r.waits, r.agents, r.batches, r.undo = waits{}, nil, batches{}, undoing{}
	r.budget.nextGeneration()
	r.before.nextGeneration()
	r.todo.over = false
	r.calls.generation++
	r.m = r.newMachine(r.m.MaxParallel())
	r.m.Tell(r.now)
	for _, s := range r.sent {
		r.m.Send(s.index, s.value)
	}
}
