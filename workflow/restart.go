package workflow

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// keptAnswer is how a pause ended, for the generations to come: of a run that begins again the pause of
// that id ends so without anybody being asked.
type keptAnswer struct {
	kind   resume.Kind
	reason string
	next   resume.Next
	answer any
}

// keepAnswer keeps how a pause ended.
func (r *run) keepAnswer(p *resume.Pause, next resume.Next, answer any) {
	if r.interrupt != resume.Restart {
		return
	}
	if r.kept == nil {
		r.kept = map[string]keptAnswer{}
	}
	r.kept[p.ID] = keptAnswer{p.Kind, p.Reason, next, answer}
}

// answerFromBefore ends a pause that was just opened, if an earlier generation had it.
func (r *run) answerFromBefore(p *openPause) bool {
	k, ok := r.kept[p.ID]
	if !ok || k.kind != p.Kind || k.reason != p.Reason {
		return false
	}
	rec, err := answered(r.events.now, &p.Pause, r.m.Decided(), k.next, k.answer)
	if err != nil {
		return false
	}
	r.note(entry{rec: &rec})
	r.answer(p, k.next, k.answer)
	return true
}

// unsureBefore reports whether an earlier generation asked what happened to a call that is about to be
// made in this one: the answer holds for it.
func (r *run) unsureBefore(path string) bool {
	return r.kept[pauseID(path, r.opened[path]+1)].reason == indeterminate
}

// pauseID names the n-th pause of a step.
func pauseID(path string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s:%d", path, n)
	}
	return path
}

// beginsAgain makes the records of an answer that begins the next generation: no other pause of this
// one needs an answer any more.
func (r *run) beginsAgain(p *openPause, rec checkpoint.Record) ([]checkpoint.Record, error) {
	rec, err := withMember(rec, "generation", int64(r.generation+1))
	recs := []checkpoint.Record{rec}
	for _, other := range r.pauses {
		if other != p && err == nil {
			var closed checkpoint.Record
			closed, err = checkpoint.NewRecord(rec.At, checkpoint.PauseClosed, other.Step, map[string]any{"pause": other.ID})
			recs = append(recs, closed)
		}
	}
	return recs, err
}

// beginAgain begins the next generation, at the first step. Nothing is under way.
func (r *run) beginAgain() {
	r.events.settle(r.m)
	for _, t := range r.timers {
		t.Stop()
	}
	for _, t := range r.sleepers {
		t.Stop()
	}
	r.timers, r.sleepers = nil, nil
	r.pending, r.armed, r.unsure, r.pauses, r.opened, r.answers, r.progress = nil, nil, nil, nil, nil, nil, nil
	r.rolled, r.wasUndone, r.again = nil, false, nil
	r.generation++
	r.m = r.newMachine()
}

// newMachine makes the machine of a generation.
func (r *run) newMachine() *machine.Machine {
	return machine.New(r.wf.graph, r.journal.inputs, machine.Options{
		MaxParallel: r.maxParallel(), MaxItems: r.limits.MaxItems, WallTime: r.wf.recipe.Limits.WallTime, Grace: r.limits.Grace,
		MaxTasks: r.limits.MaxSteps, MaxOutput: r.limits.MaxOutputBytes, MaxOutputs: r.limits.MaxRunBytes,
		Run: map[string]any{"id": r.id, "recipe": r.wf.recipe.Name, "version": r.wf.recipe.Version},
	})
}

// interruptOf reads what pauses do to a run.
func interruptOf(data map[string]any) resume.Interrupt {
	if data["interrupt"] == string(resume.Restart) {
		return resume.Restart
	}
	return resume.Continue
}

// lastGeneration returns the records of a run's last beginning, and the paths of what was rolled back
// of it, tried or done: nothing may build on that any more.
func lastGeneration(recs []checkpoint.Record) (last []checkpoint.Record, undone []string) {
	last = recs
	for i, rec := range recs {
		switch rec.Kind {
		case recRolling, recRolled:
			undone = append(undone, strings.TrimSuffix(rec.Path, rollbackMark))
		case checkpoint.PauseAnswered:
			if data, err := dataOf(rec); err == nil && data["generation"] != nil {
				last, undone = recs[i+1:], nil
			}
		}
	}
	return last, undone
}
