package workflow

import (
	"fmt"
	"maps"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// pauseKey tells the pauses of one beginning of a run apart, in a way that holds for the next one.
type pauseKey struct {
	step   string
	kind   resume.Kind
	reason string
	about  string // of a pause in an agent: see aboutOf
	n      int    // it is the n-th such pause of the step, from 1
}

// keptAnswer is how a pause ended. In later generations it ends so without anybody being asked.
type keptAnswer struct {
	next     resume.Next
	answer   any
	question string // that was answered, see [resume.Pause.Question]; "": any
}

// count gives a pause that was opened its key.
func (r *run) count(p *openPause) {
	key := pauseKey{step: p.Step, kind: p.Kind, reason: p.Reason}
	if p.inAgent != "" { // a model may ask for something else the next time
		key.about = aboutOf(&p.Pause)
	}
	if r.nth == nil {
		r.nth = map[pauseKey]int{}
	}
	r.nth[key]++
	p.key = key
	p.key.n = r.nth[key]
	if _, answered := r.kept[p.key]; !answered {
		delete(r.doubts, key)
	}
}

// aboutOf is what a pause is about, as JSON.
func aboutOf(p *resume.Pause) string {
	var about any = []any{p.Prompt, p.Show}
	if p.Reason == indeterminate {
		about = p.Show // see doubtful
	}
	text, _ := value.JSON(about) // it was in a record
	return string(text)
}

// keepAnswer keeps how a pause ended.
func (r *run) keepAnswer(p *openPause, next resume.Next, answer any) {
	if r.interrupt == resume.Restart {
		if r.kept == nil {
			r.kept = map[pauseKey]keptAnswer{}
		}
		r.kept[p.key] = keptAnswer{next, answer, questionOf(p)}
		if m, _ := answer.(map[string]any); asksForMore(p) && m["decision"] == "raise" { // for what comes before, too
			r.raise(p, m)
		}
	}
}

// useAnswer takes note that a kept answer was used. What somebody said was the result of a call holds
// once: the generation that used it undoes the call. In an agent it holds until the agent is undone.
func (r *run) useAnswer(p *openPause, answer any) {
	if saysResult(p.key, answer) && p.inAgent == "" {
		delete(r.kept, p.key)
	}
}

// saysResult reports whether an answer is what became of a call.
func saysResult(key pauseKey, answer any) bool {
	m, _ := answer.(map[string]any)
	return key.reason == indeterminate && m["decision"] == "result"
}

// answerFromBefore ends a pause that was just opened, if an earlier generation had it.
func (r *run) answerFromBefore(p *openPause) bool {
	k, ok := r.kept[p.key]
	if !ok {
		return false
	}
	if k.next == resume.Answered && k.question != questionOf(p) {
		r.questionChanged(p.Step, k.answer)
		return false
	}
	e := r.answered(p, k.next, k.answer)
	what := e.What.(journal.PauseAnswered)
	what.Kept = true
	e.What = what
	r.noteEvent(e)
	r.useAnswer(p, k.answer)
	r.answer(p, k.next, k.answer)
	return true
}

// questionOf is what a person, or somebody outside, was asked by a step of its own; "" for other pauses, of which
// pauseKey says what they are about, or which are the engine's.
func questionOf(p *openPause) string {
	if p.inAgent != "" {
		return ""
	}
	return questionIn(&p.Pause)
}

func questionIn(p *resume.Pause) string {
	if p.Kind == resume.System {
		return ""
	}
	return p.Question()
}

// questionChanged tells that an answer is not used for a question that is another one now.
func (r *run) questionChanged(step string, answer any) {
	r.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindResume, Code: diagnostics.CodeQuestionChanged, Step: step,
		Message: fmt.Sprintf("step %q asks something else than was answered, and asks again", step), Data: map[string]any{"answer": answer}})
}

// doubtful counts how often it is to be asked, before a call is made, what became of it in earlier
// generations; the answers that there are to that count, too. key, without n, is of the pause that asks: of a
// step's own, or about a call in an agent.
func (r *run) doubtful(key pauseKey) (n int) {
	if r.doubts[key] {
		n++
	}
	for next := key; ; n++ {
		next.n = max(next.n, r.nth[key]) + 1
		if _, answered := r.kept[next]; !answered {
			return n
		}
	}
}

// doubt notes that it is to be asked what became of a call.
func (r *run) doubt(key pauseKey) {
	if r.doubts == nil {
		r.doubts = map[pauseKey]bool{}
	}
	key.n = 0
	r.doubts[key] = true
}

// doubtsIn is doubtful for each call of an agent that it is so for.
func (r *run) doubtsIn(agent string) map[pauseKey]int {
	list := map[pauseKey]int{}
	note := func(key pauseKey) {
		if key.n = 0; key.about != "" && key.reason == indeterminate && within(key.step, agent) {
			list[key] = r.doubtful(key)
		}
	}
	for key := range r.kept {
		note(key)
	}
	for key := range r.doubts {
		note(key)
	}
	return list
}

// within reports whether a path is an agent's, or a child's of it.
func within(path, agent string) bool { return path == agent || strings.HasPrefix(path, agent+"/") }

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
			events = append(events, journal.Event{At: e.At, Path: other.Step, What: journal.PauseClosed{Pause: other.ID}})
		}
	}
	return events
}

// beginAgain begins the next generation, at the first step, because a pause was answered. Nothing is
// under way.
func (r *run) beginAgain(answered *openPause) {
	r.events.settle(r.m)
	for _, p := range r.pauses {
		if p != answered && p.Reason == indeterminate {
			r.doubt(p.key)
		}
	}
	for path := range r.rolled {
		maps.DeleteFunc(r.kept, func(key pauseKey, k keptAnswer) bool {
			return key.about != "" && saysResult(key, k.answer) && within(key.step, strings.TrimSuffix(path, rollbackMark))
		})
	}
	for _, t := range r.timers {
		t.Stop()
	}
	for _, t := range r.sleepers {
		t.Stop()
	}
	r.timers, r.sleepers = nil, nil
	r.pending, r.armed, r.unsure, r.pauses, r.opened, r.answers, r.progress, r.agents = nil, nil, nil, nil, nil, nil, nil, nil
	r.rolled, r.wasUndone, r.atEnd, r.again, r.nth = nil, false, false, nil, nil
	r.generation++
	r.m = r.newMachine(new(machine.Machine))
	r.m.Tell(r.events.now)
	for _, s := range r.sent {
		r.m.Send(s.index, s.value)
	}
}

// newMachine makes the machine of a generation of one that is zero or cleared.
func (r *run) newMachine(m *machine.Machine) *machine.Machine {
	wall, name := r.wallTime()
	return m.Begin(r.wf.program.Graph, r.journal.inputs, machine.Options{
		MaxParallel: r.maxParallel(), MaxItems: r.limits.MaxItems, WallTime: wall, WallTimeName: name, Grace: r.limits.Grace,
		MaxTasks: r.limits.MaxSteps, MaxOutput: r.limits.MaxOutputBytes, MaxOutputs: r.limits.MaxRunBytes,
		Run: func() map[string]any {
			return map[string]any{"id": r.id, "recipe": r.wf.program.Recipe.Name, "version": r.wf.program.Recipe.Version}
		},
	})
}

// lastGeneration returns the events of a run's last beginning, from a place in its journal on, and the paths of what
// was rolled back of it, tried or done: nothing may build on that any more.
func lastGeneration(events []journal.Event) (last []journal.Event, undone []string) {
	last = events
	for i := range events {
		switch what := events[i].What.(type) {
		case journal.RollbackBegun, journal.RollbackEnded:
			undone = append(undone, strings.TrimSuffix(events[i].Path, rollbackMark))
		case journal.PauseAnswered:
			if what.Generation > 0 {
				last, undone = events[i+1:], nil
			}
		}
	}
	return last, undone
}
