package workflow

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// count gives a pause that was opened its key.
func (r *run) count(p *openPause) {
	about := ""
	if p.inAgent != "" { // a model may ask for something else the next time
		about = engine.AboutOf(&p.Pause)
	}
	p.key = r.before.Count(engine.PauseKey{Step: p.Step, Kind: p.Kind, Reason: p.Reason, About: about})
}

// keepAnswer keeps how a pause ended.
func (r *run) keepAnswer(p *openPause, next resume.Next, answer any) {
	if r.interrupt == resume.Restart {
		r.before.Keep(p.key, engine.KeptAnswer{Next: next, Answer: answer, Question: questionOf(p)})
		if m, _ := answer.(map[string]any); asksForMore(p) && m["decision"] == "raise" { // for what comes before, too
			r.raise(p, m)
		}
	}
}

// useAnswer takes note that a kept answer was used. What somebody said was the result of a call holds
// once: the generation that used it undoes the call. In an agent it holds until the agent is undone.
func (r *run) useAnswer(p *openPause, answer any) {
	if engine.SaysResult(p.key, answer) && p.inAgent == "" {
		delete(r.before.Kept, p.key)
	}
}

// answerFromBefore ends a pause that was just opened, if an earlier generation had it.
func (r *run) answerFromBefore(p *openPause) bool {
	k, ok := r.before.Kept[p.key]
	if !ok {
		return false
	}
	if k.Next == resume.Answered && k.Question != questionOf(p) {
		r.questionChanged(p.Step, k.Answer)
		return false
	}
	e := r.answered(p, k.Next, k.Answer)
	what := e.What.(journal.PauseAnswered)
	what.Kept = true
	e.What = what
	r.recordAll(nil, []journal.Event{e})
	return true
}

// questionOf is what a person, or somebody outside, was asked by a step of its own; "" for other pauses, of which
// pauseKey says what they are about, or which are the engine's.
func questionOf(p *openPause) string {
	if p.inAgent != "" {
		return ""
	}
	return engine.QuestionIn(&p.Pause)
}

// questionChanged tells that an answer is not used for a question that is another one now.
func (r *run) questionChanged(step string, answer any) {
	r.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindResume,
		Code: diagnostics.CodeQuestionChanged, Step: step,
		Message: fmt.Sprintf("step %q asks something else than was answered, and asks again",
			step), Data: map[string]any{"answer": answer}})
}

// pauseID names the n-th pause of a step.
func pauseID(path string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s:%d", path, n)
	}
	return path
}

// beginsAgain makes the events of an answer that begins the next generation: no other pause of this
// one needs an answer any more.
func (r *run) beginsAgain(p *openPause, e journal.Event) []journal.Event {
	what := e.What.(journal.PauseAnswered)
	what.Generation = r.generation + 1
	e.What = what
	events := []journal.Event{e}
	for _, other := range r.pauses {
		if other != p {
			events = append(events, journal.Event{At: e.At, Path: other.Step,
				What: journal.PauseClosed{Pause: other.ID}})
		}
	}
	return events
}

// beginAgain begins the next generation, at the first step, because a pause was answered. Nothing is
// under way.
func (r *run) beginAgain(answered *openPause) {
	r.events.settle(r.m)
	for _, p := range r.pauses {
		if p != answered && p.Reason == journal.Indeterminate {
			r.before.Doubt(p.key)
		}
	}
	for path := range r.rolled {
		r.before.Undone(strings.TrimSuffix(path, engine.RollbackMark))
	}
	for _, t := range r.timers {
		t.Stop()
	}
	for _, t := range r.sleepers {
		t.Stop()
	}
	r.timers, r.sleepers = nil, nil
	r.pending, r.armed, r.unsure, r.pauses, r.opened, r.answers, r.progress, r.agents = nil,
		nil, nil, nil, nil, nil, nil, nil
	r.rolled, r.wasUndone, r.atEnd, r.again, r.before.Nth = nil, false, false, nil, nil
	r.generation++
	r.m = r.newMachine(r.m.MaxParallel())
	r.m.Tell(r.events.now)
	for _, s := range r.sent {
		r.m.Send(s.index, s.value)
	}
}

// newMachine makes the machine of a generation.
func (r *run) newMachine(parallel int) *machine.Machine {
	wall, name := r.wallTime()
	return machine.New(r.wf.program.Graph, r.journal.inputs, machine.Options{
		MaxParallel: parallel, MaxItems: r.limits.MaxItems, WallTime: wall, WallTimeName: name,
		Grace:    r.limits.Grace,
		MaxTasks: r.limits.MaxSteps, MaxOutput: r.limits.MaxOutputBytes, MaxOutputs: r.limits.MaxRunBytes,
		Run: func() map[string]any {
			return map[string]any{"id": r.id, "recipe": r.wf.program.Recipe.Name,
				"version": r.wf.program.Recipe.Version}
		},
	})
}
