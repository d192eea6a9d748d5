package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/internal/program"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Edits are what a fork has otherwise than the run that it comes from. The zero Edits changes
// nothing.
type Edits struct {
	Inputs  map[string]any // in place of those of the run; nil: the same
	Outputs map[string]any // of finished steps, by path, in place of what they gave; nil: the same
}

// Fork begins a new run that shares with another one what was recorded before a step: the step and
// all that follows from it run again, everything else that had succeeded stands. With other inputs
// nothing stands. The old run is not touched; it may be paused, over, or interrupted. The new run's
// id is the outcome's.
func Fork(ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	if err := l.open(); err != nil {
		return l.refuse(err)
	}
	var err error
	if l.summary, l.recs, err = l.store.Load(ctx, runID, 0); err != nil {
		return l.refuse(err)
	}
	wf, err := l.workflow()
	if err != nil {
		return l.refuse(err)
	}
	digests, err := wf.program.Recipe.StepDigests()
	if err != nil {
		return l.refuse(err)
	}
	for _, path := range slices.Concat([]string{atStep}, slices.Sorted(maps.Keys(edits.Outputs))) {
		if _, ok := digests[resume.DefinitionPath(path)]; !ok {
			return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "fork.unknownStep",
				Err: fmt.Errorf("recipe %q has no step %q%s", wf.Name(), path, program.HintLine(diagnostics.DidYouMean(path, slices.Collect(maps.Keys(digests)))))})
		}
	}
	r := newRun(ctx, wf, l.rt)
	out := r.execute(func() (map[string]any, error) {
		given := edits.Inputs
		if given == nil {
			data, err := inputsOf(l.recs)
			if err != nil {
				return nil, err
			}
			given, _ = data["inputs"].(map[string]any)
		}
		return r.open(given)
	}, func() error {
		if err := r.beginJournal(); err != nil {
			return err
		}
		r.journal.run.Parent = runID
		if edits.Inputs != nil {
			return nil
		}
		r.leg = l // what it shares is replayed
		recs, undone := lastGeneration(l.recs[l.from:])
		stands := resume.Decide(wf.decideSteps(digests), recordedSteps(recs, digests), append(undone, atStep)...)
		for path := range edits.Outputs {
			stands[path] = true
		}
		if err := r.share(recs, stands, edits.Outputs, 0); err != nil {
			return err
		}
		r.flush()
		return r.journal.err
	})
	return out, out.Err
}

// inputsOf reads what a run was begun with: the data of a recInput.
func inputsOf(recs []checkpoint.Record) (map[string]any, error) {
	for _, rec := range recs {
		if rec.Kind == recInput {
			return dataOf(rec)
		}
	}
	return nil, fmt.Errorf("%w: it has no inputs", checkpoint.ErrCorrupt)
}

// decideSteps lays the steps out for resume.Decide.
func (wf *Workflow) decideSteps(digests map[string]string) []resume.Step {
	var list []resume.Step
	received := program.AfterSends(wf.program.Recipe)
	var add func(steps []program.PlanStep)
	add = func(steps []program.PlanStep) {
		for _, s := range steps {
			after := make([]string, len(s.Needs))
			for i, need := range s.Needs {
				after[i] = need.Step
			}
			list = append(list, resume.Step{Path: s.ID, Digest: digests[s.ID], After: append(after, received[s.ID]...)})
			add(s.Body)
		}
	}
	add(wf.Plan().Steps)
	return list
}

// recordedSteps are the steps that a journal knows of, with the digests of the recipe that they ran.
func recordedSteps(recs []checkpoint.Record, digests map[string]string) map[string]string {
	recorded := map[string]string{}
	for path, digest := range digests { // steps that leave no record of their own stand or fall with those around them
		recorded[path] = digest
	}
	for _, rec := range recs {
		if rec.Path != "" {
			recorded[rec.Path] = digests[resume.DefinitionPath(rec.Path)]
		}
	}
	return recorded
}

// share gives a new run what stands of another one's journal, in the order in which it happened, as
// if it had happened here. Agents that are at work there go on from where they are, with keys of the generation
// if it is not 0.
func (r *run) share(recs []checkpoint.Record, stands map[string]bool, outputs map[string]any, generation int) error {
	r.replaying = true
	known := map[string]*machine.Task{}
	advance := func() {
		for c := r.m.Next(); c.Op != machine.None && c.Op != machine.Done; c = r.m.Next() {
			r.replayed(c, known)
		}
	}
	var agents []checkpoint.Record
	said, questions := journal.Settlements{}, map[string]string{}
	for _, rec := range recs {
		data, err := dataOf(rec)
		if err != nil {
			return err
		}
		settled := said.Next(rec, data)
		if p, err := resume.Opened(rec); err == nil {
			questions[p.ID] = questionIn(&p)
		}
		if rec.Kind == recGiven {
			rec.Kind = recEnded
		}
		output, over := data["output"], rec.Kind == recEnded && data["error"] == nil
		if rec.Kind == checkpoint.PauseAnswered && data["next"] == string(resume.Answered) {
			output, over = data["answer"], true
		}
		if edited, ok := outputs[rec.Path]; ok {
			output = value.Clone(edited)
		}
		if rec.Kind == recAgent && stands[rec.Path] {
			agents = append(agents, rec)
			continue
		}
		if rec.Kind == recSent {
			advance() // a topic is for those who wait
			if err := r.shareSent(data); err != nil {
				return err
			}
			continue
		}
		if !over && rec.Kind != recWaitOver && settled == nil || !stands[rec.Path] {
			continue
		}
		advance()
		task := known[rec.Path]
		if _, edited := outputs[rec.Path]; settled != nil && !edited {
			r.shareSettled(rec.Path, task, settled, output)
			continue
		} else if settled != nil {
			rec.Kind = recEnded
		}
		if task == nil && rec.Kind == recEnded {
			r.give(rec.Path, output)
			continue
		}
		if task == nil || task.Node().Kind == machine.Call != (rec.Kind == recEnded) {
			continue // it has not begun here, or the record is of a pause of a call
		}
		if id, _ := data["pause"].(string); rec.Kind == checkpoint.PauseAnswered && r.asksOther(task, questions[id]) {
			r.questionChanged(rec.Path, output)
			continue
		}
		r.settled(task)
		e := entry{kind: rec.Kind, path: rec.Path, n: r.m.Decided(), output: output}
		if rec.Kind == recEnded {
			a := &asked{}
			a.model, a.draws = drawsOf(data)
			for _, n := range a.draws {
				r.markDrawn(a.model, n)
			}
			e.asked = a
			r.note(&e)
			r.m.Finish(task, output, machine.Unknown, nil)
			continue
		}
		e.kind = recWaitOver
		r.note(&e)
		r.m.Answer(task, output, nil)
	}
	for r.m.Queued() {
		r.replayed(r.m.Next(), known)
	}
	if agents != nil {
		advance()
	}
	for _, rec := range agents {
		if t := known[rec.Path]; t != nil && t.Status() == machine.Running {
			if err := r.shareAgent(t, rec, generation); err != nil {
				return err
			}
		}
	}
	r.tellReplayed()
	r.replaying = false
	return nil
}

// asksOther reports whether a task that is about to wait asks another question than an answered one.
func (r *run) asksOther(t *machine.Task, question string) bool {
	i := slices.IndexFunc(r.pending, func(c machine.Command) bool { return c.Op == machine.Open && c.Task == t })
	kind, ok := t.Node().Adapter.(program.WaitKind)
	if i < 0 || !ok {
		return false
	}
	p, err := pauseOf(kind, r.pending[i].Input, r.events.now)
	if err != nil {
		return true
	}
	p.ID, p.Step, p.CreatedAt = t.Path(), t.Path(), r.events.now
	rec, err := p.Record()
	if err == nil {
		p, err = resume.Opened(rec) // as the one that was answered
	}
	return err != nil || questionIn(&p) != question
}

// give gives a task that has no slot here yet its output.
func (r *run) give(path string, output any) {
	n := r.m.Decided()
	if r.m.Give(path, output) {
		r.note(&entry{kind: recGiven, path: path, n: n, output: output})
	}
}

// drawsOf reads which calls of a model a record counts.
func drawsOf(data map[string]any) (model string, draws []int) {
	model, _ = data["model"].(string)
	list, _ := data["draws"].([]any)
	for _, n := range list {
		if n, ok := n.(int64); ok {
			draws = append(draws, int(n))
		}
	}
	return model, draws
}
