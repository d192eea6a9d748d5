package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Share gives a new run the part of another run's journal that it keeps, in the original order, as if it had
// happened here. Agents that are at work there continue from their state. generation is that of a run under another
// definition; 0: this is a fork. outputs replace those of the other run. The result are the paths in outputs whose step
// has not taken its output: it runs again, or asks again.
func (r *Run) Share(events []journal.Event, stands map[string]bool, outputs map[string]any, generation int) []string {
	left := maps.Clone(outputs)
	known := map[string]*machine.Task{}
	r.past.there, r.past.replaying, r.past.known, r.past.stands = true, true, known, stands
	r.past.denyAs(events)
	advance := func() {
		for more := true; more; more = r.giveUp() {
			for c := r.m.Next(); c.Op != machine.None && c.Op != machine.Done; c = r.m.Next() {
				r.replayed(c)
			}
		}
	}
	there := elsewhere{pauses: map[string]*resume.Pause{}, worked: map[string][][]agents.Event{}}
	var ends past.Ends
	for i := range events {
		e := &events[i]
		end, over := ends.Next(e)
		stood := past.Keeps(stands, e.Path)
		if what, ok := e.What.(journal.AgentEvents); ok && stood && len(r.program.OwnTools) > 0 {
			advance() // what the steps inside came to follows
			r.takeShared(known[e.Path], e.Path, agentHere(known[e.Path], what, generation))
			continue
		}
		there.note(e, stood, generation == 0)
		r.shareOther(e, stood, generation, &there, advance)
		edited, isEdited := outputs[e.Path]
		if isEdited {
			over = over && end.Failure == nil
			end.Output, end.Failure = value.Clone(edited), nil
		}
		if !over && end.Settled == nil || !stood {
			continue
		}
		advance()
		if end.Settled != nil && !isEdited {
			r.takeShared(known[e.Path], e.Path, settledHere(known[e.Path], end.Settled, end.Output))
		} else {
			answer := answerIn(e.What)
			if events := there.worked[e.Path]; events != nil && r.program.Reads { // a record of each is large
				answer.Calls = callsIn(events)
			}
			end.Call = end.Call || end.Settled != nil
			what, changed := there.endHere(e, known[e.Path], end, answer, &r.past, r.now)
			if changed {
				r.Report(questionChanged(e.Path, end.Output))
			}
			if r.takeShared(known[e.Path], e.Path, what) {
				delete(left, e.Path)
			}
		}
	}
	for r.m.Queued() {
		r.replayed(r.m.Next())
	}
	if generation == 0 && len(r.m.Undo()) > 0 {
		r.record(nil, "", journal.Shared{})
	}
	if there.open != nil || there.unknown != nil {
		advance()
		for _, e := range there.unknown {
			_, isEdited := outputs[e.Path]
			if t := known[e.Path]; t != nil && !isEdited { // else it is among the unknown calls
				r.pause(t, journal.PauseOpened{Pause: e.What.(journal.PauseOpened).Pause})
			}
		}
		for _, e := range there.open {
			r.takeShared(known[e.Path], e.Path, openHere(known[e.Path], e, generation))
		}
	}
	r.TellReplayed()
	r.past.replaying, r.past.known, r.past.stands, r.past.denied = false, nil, nil, nil
	return slices.Sorted(maps.Keys(left))
}

// shareOther shares an event that ends no step, once the machine has advanced to it.
func (r *Run) shareOther(e *journal.Event, stood bool, generation int, there *elsewhere, advance func()) {
	switch what := e.What.(type) {
	case journal.TimerDue:
		if stood {
			advance()
			if i := r.past.timer(e.Path, what.Timer); i >= 0 && r.past.armed[i].Task.Absorbed(isAgent) {
				r.record(r.past.takeArmed(i), e.Path, what) // else the failure that it brought ended the other run
			}
		}
	case journal.PauseAnswered:
		if p := there.pauses[what.Pause]; stood && p != nil && past.AtBreakpoint(p) {
			advance()
			if t := r.past.atBreak(p.Step); t != nil { // it continues as it did under the earlier definition
				there := *p
				there.ID = r.waits.idOfNext(p.Step)
				r.record(t, p.Step, journal.PauseOpened{Pause: there, Interrupt: r.o.Interrupt})
				r.record(nil, p.Step, journal.PauseAnswered{Pause: there.ID, Next: resume.Answered,
					Answer: what.Answer, Kept: true})
			}
		}
	case journal.Shared:
		if generation > 0 {
			advance()
			r.record(nil, "", what)
		}
	case journal.ValueSent:
		advance() // a topic is for the steps that wait
		if has := program.ChannelIndex(r.program.Graph.Channels, what.Channel) >= 0; has {
			r.record(nil, "", what)
		}
	case journal.StepDenied:
		advance()
		if f := r.past.denied[e.Path]; f != nil && stood &&
			r.takeShared(nil, e.Path, journal.CallGiven{Failure: f}) {
			delete(r.past.denied, e.Path)
		}
	}
}

// elsewhere is what another run asked, and what was open there.
type elsewhere struct {
	pauses  map[string]*resume.Pause    // by id
	unknown []*journal.Event            // what became of a call, if nobody has answered it
	open    []*journal.Event            // events of agents, and of calls that show files
	worked  map[string][][]agents.Event // of agents, by path
}

// note notes what an event asks or leaves open, or that it ends a question. stood: the step of the event stands; asks:
// this run asks about calls, too.
func (a *elsewhere) note(e *journal.Event, stood, asks bool) {
	end := func(pause string) {
		a.unknown = slices.DeleteFunc(a.unknown,
			func(o *journal.Event) bool { return o.What.(journal.PauseOpened).Pause.ID == pause })
	}
	switch what := e.What.(type) {
	case journal.PauseOpened:
		a.pauses[what.Pause.ID] = &what.Pause
		if what.Pause.Reason == journal.Indeterminate && what.Agent == nil && stood && asks {
			a.unknown = append(a.unknown, e)
		}
	case journal.PauseAnswered:
		end(what.Pause)
	case journal.PauseClosed:
		end(what.Pause)
	case journal.AgentEvents:
		if stood {
			a.open, a.worked[e.Path] = append(a.open, e), append(a.worked[e.Path], what.Events)
		}
	case journal.CallFiles:
		if stood {
			a.open = append(a.open, e)
		}
	}
}

// takeShared notes what an event of another run is here; false: it is nothing. A task that has no slot here yet is
// given its end, unless none waits for a slot, or its failure ended the run, and is tried again.
func (r *Run) takeShared(t *machine.Task, path string, what journal.What) bool {
	end, given := what.(journal.CallGiven)
	switch {
	case what == nil:
		return false
	case !given:
		r.record(t, path, what)
		return true
	}
	n := r.m.Decided()
	if t = r.m.WithoutSlot(path); t == nil || end.Failure != nil && !t.Absorbed(isAgent) {
		return false
	}
	r.m.Give(t, end.Output, end.Failure)
	r.budget.noteAnswer(path, end.Answer)
	r.noteEvent(journal.Event{At: r.now, Path: path, After: n, What: end})
	return true
}

// isAgent reports whether a task is the step of an agent.
func isAgent(t *machine.Task) bool { return t.Node().Adapter.(*program.Call).Kind == program.AgentCall }

// endHere is the end of a step here as it ended in another run; nil: it does not end so. t is nil if it has no slot
// here yet. answer is that of its model or agent. changed says that the step is about to ask something other than what
// was answered.
func (a *elsewhere) endHere(
	e *journal.Event, t *machine.Task, end past.End, answer journal.Answer, here *leftOver, now time.Time,
) (what journal.What, changed bool) {
	switch {
	case t == nil && end.Call:
		return journal.CallGiven{Output: end.Output, Failure: end.Failure, Answer: answer}, false
	case t == nil, t.Node().Kind == machine.Call != end.Call:
		return nil, false // or the event is of a pause of a call
	}
	if answered, ok := e.What.(journal.PauseAnswered); ok && !end.Call {
		p := a.pauses[answered.Pause]
		switch {
		case p == nil:
			return nil, false
		case answered.Next != resume.GoOn && here.asksOther(t, past.QuestionIn(p), now):
			return nil, true
		case answered.Next == resume.Failed:
			end.Failure = expired(t, p)
		}
	}
	if end.Failure != nil && !t.Stopped() && !t.Absorbed(isAgent) {
		return nil, false // it ended the run, and is tried again
	}
	if !end.Call {
		return journal.WaitOver{Output: end.Output, Failure: end.Failure}, false
	}
	ended := journal.CallEnded{Output: end.Output, Failure: end.Failure, Answer: answer}
	if there, ok := e.What.(journal.CallEnded); ok { // what it used is counted there
		used := there.Models.All()
		used.Used = journal.Amount{}
		ended.Models, ended.Unknown, ended.Why = used.Some(), there.Unknown, there.Why
	}
	return ended, false
}

// asksOther reports whether the question of a task that is about to wait differs from an answered question.
func (p *leftOver) asksOther(t *machine.Task, question string, now time.Time) bool {
	i := slices.IndexFunc(p.pending, func(c machine.Command) bool { return c.Op == machine.Open && c.Task == t })
	kind, ok := t.Node().Adapter.(program.WaitKind)
	if i < 0 || !ok {
		return false
	}
	asks, err := pauseOf(kind, p.pending[i].Input, now)
	if err != nil {
		return true
	}
	asks.ID, asks.Step, asks.CreatedAt = t.Path(), t.Path(), now
	rec, err := asks.Record()
	if err == nil {
		asks, err = resume.Opened(rec) // as the one that was answered
	}
	return err != nil || past.QuestionIn(&asks) != question
}

// inProgress reports whether a task has begun and not ended; nil: it has not begun.
func inProgress(t *machine.Task) bool { return t != nil && t.Status() == machine.Running }

// openHere is an event of an agent, or of a call that shows files, that has not ended in another run; nil: it is
// nothing here. A model is asked anew, and takes files as they are.
func openHere(t *machine.Task, e *journal.Event, generation int) journal.What {
	if what, ok := e.What.(journal.AgentEvents); ok {
		return agentHere(t, what, generation)
	}
	if inProgress(t) && t.Node().Kind == machine.Call && isAgent(t) {
		return e.What
	}
	return nil
}

// agentHere is what happened in an agent of another run, or under another definition. What it used is counted there. t
// is nil if the agent has not begun here: then it is nothing.
func agentHere(t *machine.Task, kept journal.AgentEvents, generation int) journal.What {
	if !inProgress(t) {
		return nil
	}
	shared := journal.AgentEvents{Events: unscoped(kept.Events), Calls: kept.Calls}
	if generation > 0 {
		shared.Began = cmp.Or(kept.Began, generation)
	}
	return shared
}

// settledHere is the end of a call in a fork as a person decided that it ended in the other run; the record keeps that
// a person decided it. t is nil if the call has no slot here yet.
func settledHere(t *machine.Task, w *past.Settlement, output any) journal.What {
	failure := w.Failure
	answer, _ := w.Answer.(map[string]any)
	switch {
	case t == nil && answer["decision"] == "result":
		return journal.CallGiven{Output: answer["form"]}
	case t == nil && (answer != nil || failure != nil): // only an output can be given, see [past.Past.Unknown]
		return nil
	case t == nil:
		return journal.CallGiven{Output: output}
	case answer != nil:
		output, failure, _ = settledBy(t.Node().Adapter.(*program.Call), answer)
	}
	return journal.CallEnded{Output: output, Failure: failure, Settled: true}
}

// giveUp ends a call that waits for a slot and will not begin, so that what follows is shared, too; false: there is
// none.
func (r *Run) giveUp() bool {
	t := r.m.Barred()
	if t == nil {
		return false
	}
	n := r.m.Decided()
	path, failure := t.Path(), &machine.Failure{Category: "cancelled", Code: "step.cancelled", Err: errNeverBegan}
	r.m.Give(t, nil, failure)
	r.noteEvent(journal.Event{At: r.now, Path: path, After: n, What: journal.CallGiven{Failure: failure}})
	return true
}

var errNeverBegan = errors.New("it was cancelled before it began")

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

// Redefine restarts a run under its present definition. It keeps the results of the last generation that are still
// valid. closing are the events that end the pending pauses.
func (r *Run) Redefine(
	inputs map[string]any, was *past.Past, stands map[string]bool, closing []journal.Event, what journal.Redefined,
) {
	r.clock.Used = was.Worked
	r.tools.recall(was.Tools)
	r.breakpoints = was.Breakpoints
	r.prepare(inputs)
	r.budget.recall(was.Events)
	r.noteExecution()
	r.unsaved.events = append(append(r.unsaved.events, closing...), journal.Event{At: r.now, By: r.o.By, What: what})
	r.calls.redefine(&what)
	r.before.Redefined(&what)
	r.Share(was.Last, stands, nil, was.Generation)
}
