package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
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
func Fork(
	ctx context.Context, runID, atStep string, edits Edits, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	if err := l.open(); err != nil {
		return l.refuse(err)
	}
	var err error
	if err = l.load(); err != nil {
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
				Err: fmt.Errorf("recipe %q has no step %q%s", wf.Name(), path,
					program.HintLine(diagnostics.DidYouMean(path, slices.Collect(maps.Keys(digests)))))})
		}
	}
	r := newRun(ctx, wf, l.rt)
	out := r.execute(func() (map[string]any, error) {
		given := edits.Inputs
		if given == nil {
			begun, err := engine.BegunOf(l.past)
			if err != nil {
				return nil, err
			}
			given = begun.Inputs
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
		events, undone := engine.LastGeneration(l.past[l.from:])
		stands := resume.Decide(wf.decideSteps(digests), engine.RecordedSteps(events, digests),
			append(undone, atStep)...)
		for path := range edits.Outputs {
			stands[path] = true
		}
		if err := r.share(events, stands, edits.Outputs, 0); err != nil {
			return err
		}
		r.flush()
		return r.journal.err
	})
	return out, out.Err
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

// share gives a new run what stands of another one's journal, in the order in which it happened, as
// if it had happened here. Agents that are at work there go on from where they are, with keys of the generation
// if it is not 0.
func (r *run) share(events []journal.Event, stands map[string]bool, outputs map[string]any, generation int) error {
	r.replaying = true
	known := map[string]*machine.Task{}
	advance := func() {
		for c := r.m.Next(); c.Op != machine.None && c.Op != machine.Done; c = r.m.Next() {
			r.replayed(c, known)
		}
	}
	var agents []*journal.Event
	said, questions := journal.Settlements{}, map[string]string{}
	for i := range events {
		e := &events[i]
		settled := said.Next(e)
		switch what := e.What.(type) {
		case journal.PauseOpened:
			questions[what.Pause.ID] = engine.QuestionIn(&what.Pause)
		case journal.AgentEvents:
			if stands[e.Path] {
				agents = append(agents, e)
			}
			continue
		case journal.ValueSent:
			advance() // a topic is for those who wait
			r.shareSent(what)
			continue
		}
		output, isCall, over := engine.EndOf(e.What)
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
		r.replayed(r.m.Next(), known)
	}
	if agents != nil {
		advance()
	}
	for _, e := range agents {
		if t := known[e.Path]; t != nil && t.Status() == machine.Running {
			r.shareAgent(t, e.Path, e.What.(journal.AgentEvents), generation)
		}
	}
	r.tellReplayed()
	r.replaying = false
	return nil
}

// shareEnd ends a step here as it ended in another run. t is nil if it has no slot here yet. questions are those of the
// other run's pauses, by id.
func (r *run) shareEnd(e *journal.Event, t *machine.Task, output any, isCall bool, questions map[string]string) {
	switch answered, ok := e.What.(journal.PauseAnswered); {
	case t == nil && isCall:
		r.give(e.Path, output)
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
	here := journal.CallEnded{Output: output}
	if there, ok := e.What.(journal.CallEnded); ok { // what it used is counted there
		here.Models = journal.ModelUse{Model: there.Models.Model, Draws: there.Models.Draws}
	}
	r.record(t, e.Path, here)
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
	return err != nil || engine.QuestionIn(&p) != question
}

// give gives a task that has no slot here yet its output.
func (r *run) give(path string, output any) {
	n := r.m.Decided()
	if r.m.Give(path, output) {
		r.noteAfter(n, path, journal.CallGiven{Output: output})
	}
}
