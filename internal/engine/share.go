package engine

import (
	"cmp"
	"errors"
	"slices"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Share gives a new run the part of another run's journal that it keeps, in the original order, as if it had
// happened here. Agents that are at work there continue from their state, with keys of the generation if it is not
// 0.
func (r *Run) Share(events []journal.Event, stands map[string]bool, outputs map[string]any, generation int) {
	r.past.there, r.past.replaying = true, true
	r.past.known = map[string]*machine.Task{}
	known := r.past.known
	advance := func() {
		for c := r.m.Next(); c.Op != machine.None && c.Op != machine.Done; c = r.m.Next() {
			r.replayed(c)
		}
	}
	var agents, asked []*journal.Event // asked: what became of a call
	said, questions := journal.Settlements{}, map[string]string{}
	for i := range events {
		e := &events[i]
		settled := said.Next(e)
		switch what := e.What.(type) {
		case journal.PauseOpened:
			questions[what.Pause.ID] = QuestionIn(&what.Pause)
			if what.Pause.Reason == journal.Indeterminate && what.Agent == nil && stands[e.Path] && generation == 0 {
				asked = append(asked, e)
			}
		case journal.PauseAnswered:
			asked = slices.DeleteFunc(asked, func(o *journal.Event) bool { return opens(o, what.Pause) })
		case journal.PauseClosed:
			asked = slices.DeleteFunc(asked, func(o *journal.Event) bool { return opens(o, what.Pause) })
		case journal.AgentEvents:
			if stands[e.Path] {
				agents = append(agents, e)
			}
			continue
		case journal.ValueSent:
			advance() // a topic is for the steps that wait
			r.shareSent(what)
			continue
		}
		output, isCall, over := EndOf(e.What)
		edited, isEdited := outputs[e.Path]
		if isEdited {
			output = value.Clone(edited)
		}
		if !over && settled == nil || !stands[e.Path] {
			continue
		}
		advance()
		if settled != nil && !isEdited {
			r.shareSettled(e.Path, known[e.Path], settled, output)
		} else {
			r.shareEnd(e, known[e.Path], output, isCall || settled != nil, questions)
		}
	}
	for r.m.Queued() {
		r.replayed(r.m.Next())
	}
	if agents != nil || asked != nil {
		advance()
	}
	for _, e := range asked {
		if _, isEdited := outputs[e.Path]; !isEdited {
			r.shareQuestion(e.Path, known[e.Path], e.What.(journal.PauseOpened))
		}
	}
	for _, e := range agents {
		if t := known[e.Path]; t != nil && t.Status() == machine.Running {
			r.shareAgent(t, e.Path, e.What.(journal.AgentEvents), generation)
		}
	}
	r.TellReplayed()
	r.past.replaying, r.past.known = false, nil
}

// opens reports whether an event opens a pause.
func opens(e *journal.Event, pause string) bool {
	opened, ok := e.What.(journal.PauseOpened)
	return ok && opened.Pause.ID == pause
}

// shareQuestion asks here for the outcome of a call that another run made. t is nil if the call has no slot here yet.
func (r *Run) shareQuestion(path string, t *machine.Task, there journal.PauseOpened) {
	if t == nil {
		return // it is among the doubts
	}
	r.pause(t, journal.PauseOpened{Pause: there.Pause})
}

// shareEnd ends a step here as it ended in another run. t is nil if it has no slot here yet. questions are those of the
// other run's pauses, by id.
func (r *Run) shareEnd(e *journal.Event, t *machine.Task, output any, isCall bool, questions map[string]string) {
	switch answered, ok := e.What.(journal.PauseAnswered); {
	case t == nil && isCall:
		r.give(e.Path, output, finishOf(e.What))
		return
	case t == nil || t.Node().Kind == machine.Call != isCall:
		return // it has not begun here, or the event is of a pause of a call
	case ok && !isCall && r.asksOther(t, questions[answered.Pause]):
		r.questionChanged(e.Path, output)
		return
	}
	if !isCall {
		r.record(t, e.Path, journal.WaitOver{Output: output})
		return
	}
	here := journal.CallEnded{Output: output, Finish: finishOf(e.What)}
	if there, ok := e.What.(journal.CallEnded); ok { // what it used is counted there
		here.Models = journal.ModelUse{Model: there.Models.Model, Draws: there.Models.Draws}
	}
	r.record(t, e.Path, here)
}

// asksOther reports whether the question of a task that is about to wait differs from an answered question.
func (r *Run) asksOther(t *machine.Task, question string) bool {
	i := slices.IndexFunc(r.past.pending, func(c machine.Command) bool { return c.Op == machine.Open && c.Task == t })
	kind, ok := t.Node().Adapter.(program.WaitKind)
	if i < 0 || !ok {
		return false
	}
	p, err := pauseOf(kind, r.past.pending[i].Input, r.now)
	if err != nil {
		return true
	}
	p.ID, p.Step, p.CreatedAt = t.Path(), t.Path(), r.now
	rec, err := p.Record()
	if err == nil {
		p, err = resume.Opened(rec) // as the one that was answered
	}
	return err != nil || QuestionIn(&p) != question
}

// give gives a task that has no slot here yet its output.
func (r *Run) give(path string, output any, finish string) {
	n := r.m.Decided()
	if r.m.Give(path, output) {
		r.noteFinish(path, finish)
		r.noteAfter(n, path, journal.CallGiven{Output: output, Finish: finish})
	}
}

// settledBy is how a call with unknown outcome ended by the answer of a person. It is not over if the call is to
// be repeated.
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

// countsAsFailed is the failure of a call because a person decided it.
func countsAsFailed() *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryTool), Code: "call.indeterminate",
		Err: errors.New("it is not known whether the call had its effect, and it was decided that it counts as failed")}
}

// shareSettled ends a call in a fork as a person decided that it ended in the other run; the record keeps that a
// person decided it. t is nil if the call has no slot here yet.
func (r *Run) shareSettled(path string, t *machine.Task, w *journal.Settlement, output any) {
	failure := w.Failure
	answer, _ := w.Answer.(map[string]any)
	switch {
	case t == nil && answer["decision"] == "result":
		r.give(path, answer["form"], "")
		return
	case t == nil && (answer != nil || failure != nil): // only an output can be given, see DoubtsOf
		return
	case t == nil:
		r.give(path, output, "")
		return
	case answer != nil:
		output, failure, _ = settledBy(t.Node().Adapter.(*program.Call), answer)
	}
	r.record(t, path, journal.CallEnded{Output: output, Failure: failure, Settled: true})
}

// shareAgent notes what happened in an agent of another run, or under another definition. What it used is counted
// there.
func (r *Run) shareAgent(t *machine.Task, path string, kept journal.AgentEvents, generation int) {
	shared := journal.AgentEvents{Events: unscoped(kept.Events), Calls: kept.Calls}
	if generation > 0 {
		shared.Began = cmp.Or(kept.Began, generation)
	}
	r.record(t, path, shared)
}

// Redefine restarts a run under its present definition. It keeps the results that are still valid from the past, which
// is the part of all that belongs to the last generation. The event records this. Unsaved events follow it.
func (r *Run) Redefine(inputs map[string]any, all []journal.Event, past []journal.Event, stands map[string]bool,
	what journal.Redefined,
) journal.Event {
	r.clock.Used = ClockOf(all)
	r.prepare(inputs)
	r.recallSpent(all)
	r.begunAnew(&what)
	r.Share(past, stands, nil, GenerationOf(all))
	return journal.Event{At: r.now, By: r.o.By, Owner: r.o.Owner, What: what,
		Resumed: true, Worked: r.clock.Used, Parallel: r.o.Parallel}
}

// begunAnew applies the record of a change of the definition.
func (r *Run) begunAnew(what *journal.Redefined) {
	if what.Generation > 0 {
		r.generation = what.Generation
	}
	r.before.Redefined(what)
}
