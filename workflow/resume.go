package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// ResumeOptions are what going on with a run may need beside the store. A nil *ResumeOptions is the
// zero value.
type ResumeOptions struct {
	// Workflow is used instead of the recipe that the store has; its digest must be the run's.
	// nil: the store's.
	Workflow *Workflow
	// AcceptChanged lets Workflow be another definition than the run has: steps that say something
	// else now, and all that follows from them, run again, and the rest stands. The run keeps the
	// new definition.
	AcceptChanged bool
	// Complete refuses to go on, before anything is recorded, while something is not there that a step needs
	// which has not ended: a model, a tool, a secret. Where it is there, the run can still be gone on with. By
	// default such a step fails when its turn comes, and the run with it.
	Complete bool
}

// local keeps the runs that paused without a store, as long as the process lives.
var local checkpoint.Memory

// Resume answers one pause, by its token, and goes on with the run; the recipe comes from the
// store. input goes through rt.Resume, which makes the answer of it. The Outcome is never nil, and
// the error is its Err. As long as nothing was recorded the token stays usable: with an answer that
// does not fit (answer.unfit), without rt.Resume, or while somebody else holds the run (run.busy).
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	runID, hash, err := resume.Parse(token)
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	if err != nil {
		return l.refuse(err)
	}
	return l.answer(resume.Request{Token: token, RunID: runID, Input: input}, hash)
}

// Answer is Resume for a host that owns the store: it names the pause instead of a token.
func Answer(
	ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	return l.answer(resume.Request{RunID: runID, Pause: resume.Pause{ID: pause}, Input: input}, nil)
}

// Recover goes on with a run whose process died: what is in the record is not done again. Of a run
// that has ended it returns the outcome; a paused one pauses again, with fresh tokens, unless
// something is due.
func Recover(ctx context.Context, runID string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID, recover: true}
	return l.run(nil)
}

// Resume is the package's Resume for a run of this workflow: one with another digest is refused.
func (wf *Workflow) Resume(ctx context.Context, token string, input any, rt *runtime.Runtime) (*Outcome, error) {
	return Resume(ctx, token, input, rt, &ResumeOptions{Workflow: wf})
}

// Recover is the package's Recover for a run of this workflow: one with another digest is refused.
func (wf *Workflow) Recover(ctx context.Context, runID string, rt *runtime.Runtime) (*Outcome, error) {
	return Recover(ctx, runID, rt, &ResumeOptions{Workflow: wf})
}

// answer answers a pause:
//
//  1. find it, by token or by name
//  2. let the adapter make the answer, and check that
//  3. claim the run, load it, and get everything ready
//  4. record the answer and consume the token, in one write
//  5. go on
func (l *leg) answer(req resume.Request, hash []byte) (*Outcome, error) {
	if err := l.open(); err != nil {
		return l.refuse(err)
	}
	info, err := l.find(req, hash)
	if err != nil {
		return l.refuse(err)
	}
	l.summary = info.Summary
	if l.rt.Resume == nil {
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "resume.noAdapter",
			Err: errors.New("resume requires a resume adapter")})
	}
	e, err := journal.Decode(info.Opened)
	if err != nil {
		return l.refuse(err)
	}
	opened, _ := e.What.(journal.PauseOpened) // the store has looked
	req.Pause, req.Interrupt = opened.Pause, opened.Interrupt
	input, err := l.rt.Resume.Resolve(l.ctx, req)
	if err != nil {
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfirmation, Code: "resume.refused", Err: err})
	}
	answer, err := req.Pause.Check(input, matches)
	if err == nil {
		err = raisedEnough(&req.Pause, answer)
	}
	if err != nil {
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Err: err})
	}
	return l.run(&given{pause: req.Pause.ID, hash: hash, answer: answer})
}

// run claims the run and goes on with it; with an answer unless g is nil.
func (l *leg) run(g *given) (*Outcome, error) {
	if err := l.open(); err != nil {
		return l.refuse(err)
	}
	if err := l.claim(); err != nil {
		return l.refuse(err)
	}
	if g != nil && l.ended { // somebody was quicker
		return l.refuse(checkpoint.ErrToken)
	}
	wf, err := l.workflow()
	if err == nil && l.sent != nil {
		err = l.sent.find(l, wf)
	}
	if err != nil {
		l.release()
		return l.refuse(err)
	}
	r := newRun(l.ctx, wf, l.rt)
	r.id, r.leg = l.runID, l
	out := r.execute(func() (map[string]any, error) { return r.openAgain(l) }, func() error {
		r.recallSpent(l)
		if l.old != nil {
			err := r.redefine(l, g)
			if r.tellReplayed(); err == nil {
				r.hold(l.lease, l.claimed)
			}
			return err
		}
		if err := r.replay(l); err != nil || l.ended {
			r.tellReplayed()
			return err
		}
		reached(replayed)
		if err := r.lacks(l); err != nil {
			r.tellReplayed()
			return err
		}
		if l.cancel != nil && r.forGood == nil {
			if err := l.takeFromCache(); err != nil {
				return err
			}
			r.cancelForGood(*l.cancel)
		}
		if g != nil {
			if err := r.recordAnswer(l, g); err != nil {
				return err
			}
		}
		if l.sent != nil {
			if err := r.recordSent(l); err != nil {
				return err
			}
		}
		r.tellReplayed()
		if r.journal.stop == nil {
			r.hold(l.lease, l.claimed)
		}
		return nil
	})
	if r.journal.stop != nil {
		r.letGo()
	} else if !r.let {
		l.release() // it never came to be driven
	}
	return out, out.Err
}

// lacks refuses to go on without what steps need that have not ended, if that is asked for.
func (r *run) lacks(l *leg) error {
	if !l.opts.Complete || l.cancel != nil || r.forGood != nil {
		return nil
	}
	ended := map[string]bool{}
	r.m.Walk(func(t *machine.Task) {
		if t.Owner() == nil && t.Whole() == t && t.Status() >= machine.Succeeded {
			ended[t.Path()] = true
		}
	}, func(*machine.Task) {})
	for _, d := range r.prepared.list {
		step, _, _ := strings.Cut(d.Step, "/")
		switch d.Code {
		case diagnostics.CodeMissingModel, diagnostics.CodeMissingTool, diagnostics.CodeMissingSecret,
			diagnostics.CodeMissingRetriever, diagnostics.CodeMissingCapability:
			if step != "" && !ended[step] {
				return program.ConfigError(d.Code, "the run is left as it is: %s", d.Message)
			}
		}
	}
	return nil
}

// recordAnswer records an answer, consumes its token, and goes on with the task.
func (r *run) recordAnswer(l *leg, g *given) error {
	p := r.pauseByID(g.pause)
	if p == nil {
		return fmt.Errorf("pause %q: %w", g.pause, checkpoint.ErrToken)
	}
	if err := r.undoFirst(l); err != nil {
		return err
	}
	events := []journal.Event{r.answered(p, resume.Answered, g.answer)}
	if r.wasUndone {
		events = r.beginsAgain(p, events[0])
	}
	recs, err := r.encodeFirst(events)
	if err != nil {
		return err
	}
	if err := l.takeFromCache(); err != nil {
		return err
	}
	reached(beforeAnswer)
	if err := l.append(r.journal.seq, g, recs); err != nil {
		return err
	}
	reached(afterAnswer)
	r.journal.seq += int64(len(recs))
	if !r.wasUndone {
		r.tellReplayed()
	}
	r.takeIn(nil, events)
	return nil
}

// undoFirst ends the rolling back of a run that stopped while it was rolled back for a pause.
func (r *run) undoFirst(l *leg) error {
	if !r.atEnd {
		return nil
	}
	r.hold(l.lease, l.claimed)
	if err := r.rollBack(); err != nil {
		return err
	}
	if r.flush(); r.journal.err != nil {
		return r.journal.err
	}
	r.atEnd, r.wasUndone = false, true
	return nil
}

// openAgain is open for a run that is gone on with: its inputs are in the journal.
func (r *run) openAgain(l *leg) (map[string]any, error) {
	r.journal.store = l.store
	r.journal.run = l.summary.Run
	r.events.sinks = trace.NewFanout(r.rt.Trace, r.id)
	if err := r.prepare(); err != nil {
		return nil, err
	}
	begun, err := engine.BegunOf(l.past)
	if err != nil {
		return nil, storeError(fmt.Errorf("run %q: %w", l.runID, err))
	}
	inputs := begun.Inputs
	r.interrupt = begun.Interrupt
	if l.old != nil || l.from > 0 { // the definition may have others
		if inputs, err = r.wf.program.Inputs.Check(inputs); err != nil {
			return nil, program.ConfigError(diagnostics.CodeInput, "the run's inputs: %w", err)
		}
	}
	return inputs, r.strict()
}
