package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// definitionNow is the definition that a run has by its journal: of its beginning, or of the last
// change. from is where in the events it begins to count.
func (l *leg) definitionNow() (digest string, text json.RawMessage, from int, err error) {
	for i := len(l.past) - 1; i >= 0; i-- {
		if what, ok := l.past[i].What.(journal.Redefined); ok {
			if what.Definition != nil {
				text, err = value.JSON(what.Definition)
			}
			return what.Digest, text, i, err
		}
	}
	return l.summary.Digest, nil, 0, nil
}

// workflow is what the run runs. Where the caller brings another definition than the run has, it must
// have said that this is accepted.
func (l *leg) workflow() (*Workflow, error) {
	digest, text, from, err := l.definitionNow()
	if err != nil {
		return nil, err
	}
	l.from = from
	wf := l.opts.Workflow
	if wf != nil && wf.program.Digest == digest {
		return wf, nil
	}
	if wf != nil && !l.opts.AcceptChanged {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.definitionChanged",
			Err: fmt.Errorf("run %q has another definition of recipe %q (%s, not %s)",
				l.runID, l.summary.Recipe, digest, wf.program.Digest)}
	}
	if text == nil {
		if text, err = l.store.Definition(l.ctx, digest); err != nil {
			return nil, err
		}
	}
	rec, err := recipe.FromDefinition(text)
	if err != nil {
		return nil, fmt.Errorf("%w: definition %s: %w", checkpoint.ErrCorrupt, digest, err)
	}
	switch {
	case wf != nil && !l.ended:
		l.old = rec
		return wf, nil
	case program.InGo(rec):
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.needsWorkflow",
			Err: fmt.Errorf("run %q is of an agent written in Go, which the store does not have"+
				"\n  hint: give the Workflow that Agent makes of it", l.runID)}
	}
	p, list, err := program.Compile(rec, nil, true)
	if err != nil {
		return nil, err
	}
	return &Workflow{Diagnostics: list, program: p}, nil
}

// redefine goes on with a run under another definition: steps that say something else now, and all
// that follows from them, run again; the rest stands. The answer, if there is one, is for the step
// that asked, should the run come to it again. Everything is one write.
func (l *leg) redefine(wf *Workflow, r *local.Run, inputs map[string]any, g *given) error {
	was, err := l.old.StepDigests()
	if err != nil {
		return err
	}
	now, err := wf.program.Recipe.StepDigests()
	if err != nil {
		return err
	}
	past, undone := engine.LastGeneration(l.past[l.from:])
	stands := resume.Decide(wf.decideSteps(now), engine.RecordedSteps(past, was))
	for _, path := range undone {
		delete(stands, path)
	}
	events, kept := l.closing(past, g, r.Began())
	if g != nil && kept == nil {
		return fmt.Errorf("pause %q: %w", g.pause, checkpoint.ErrToken)
	}
	what := journal.Redefined{Digest: wf.program.Digest, Generation: engine.GenerationOf(l.past) + 1, Kept: kept}
	if what.Doubts, err = engine.DoubtsOf(l.runID, l.past[l.from:], stands, false,
		func(pause string) bool { return l.isOpen(pause) && (g == nil || pause != g.pause) }); err != nil {
		return err
	}
	text, err := wf.program.Definition()
	if err == nil && text != nil {
		what.Definition, err = value.Decode(text)
	}
	if err != nil {
		return err
	}
	events = append(events, r.Engine.Redefine(inputs, l.past, past, stands, what))
	recs, err := local.Encode(append(events, r.Engine.Unsaved()...))
	if err != nil {
		return err
	}
	if err := l.takeFromCache(); err != nil {
		return err
	}
	if err := l.append(r.Store.Seq, g, recs); err != nil {
		return err
	}
	r.Store.Seq += int64(len(recs))
	r.Engine.Saved()
	r.Hold(l.lease, l.claimed)
	return nil
}

// closing are the events that end the open pauses of a run whose definition changes: the one that is answered first,
// whose answer is kept for the new definition.
func (l *leg) closing(
	past []journal.Event, g *given, at time.Time,
) (events []journal.Event, kept []journal.KeptAnswer) {
	for i := range past {
		opened, ok := past[i].What.(journal.PauseOpened)
		if !ok || !l.isOpen(opened.Pause.ID) {
			continue
		}
		p := &opened.Pause
		if g == nil || p.ID != g.pause {
			events = append(events, journal.Event{At: at, Path: p.Step, What: journal.PauseClosed{Pause: p.ID}})
			continue
		}
		k := journal.KeptAnswer{Step: p.Step, Kind: p.Kind, Reason: p.Reason, Answer: g.answer,
			Question: engine.QuestionIn(p)}
		if opened.Agent != nil {
			k.About, k.Question = engine.AboutOf(p), ""
		}
		kept = append(kept, k)
		answered := journal.PauseAnswered{Pause: p.ID, Next: resume.Answered, Answer: g.answer}
		events = slices.Insert(events, 0, journal.Event{At: at, Path: p.Step, By: l.by(), What: answered})
	}
	return events, kept
}

// isOpen reports whether a pause is open.
func (l *leg) isOpen(pause string) bool {
	return slices.ContainsFunc(l.summary.Pauses, func(p checkpoint.Pause) bool { return p.ID == pause })
}
