package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
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
func Answer(ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
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

// leg is a run that is gone on with.
type leg struct {
	ctx     context.Context
	rt      *runtime.Runtime
	opts    *ResumeOptions
	runID   string
	recover bool
	cancel  *string // why the run is to end for good; nil: it is not
	sent    *sent   // what somebody puts into a channel; nil: nothing

	store   checkpoint.Store
	summary checkpoint.Summary
	past    []journal.Event // of the journal, its first record included
	lease   checkpoint.Lease
	claimed time.Time      // when the store was asked for it
	ended   bool           // the run is over, nothing is held
	from    int            // where in recs the present definition begins to count
	old     *recipe.Recipe // what the run ran until now, if that is about to change
}

// refuse is the outcome of a leg that cannot begin.
func (l *leg) refuse(err error) (*Outcome, error) {
	var e *runtime.Error
	if !errors.As(err, &e) {
		e = storeError(err)
	}
	out := &Outcome{Status: StatusError, RunID: l.runID, Recipe: l.summary.Recipe, Err: e}
	if e.Code == "resume.invalidToken" {
		out.Diagnostics = append(out.Diagnostics, invalidToken())
	}
	return out, out.Err
}

// open finds the store that has the run.
func (l *leg) open() (err error) {
	if l.rt == nil {
		l.rt = &runtime.Runtime{}
	}
	if l.opts == nil {
		l.opts = &ResumeOptions{}
	}
	if err := l.rt.Validate(); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	switch {
	case l.store != nil: // it was opened before
	case l.rt.Store != nil:
		l.store = l.rt.Store
	case l.rt.Cache != nil:
		l.store, err = l.fromCache()
	default:
		l.store = &local
	}
	return err
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
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "resume.noAdapter", Err: errors.New("resume requires a resume adapter")})
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

// given is an answer that is about to be recorded.
type given struct {
	pause  string
	hash   []byte // nil: the host answers by name
	answer any
}

func (l *leg) find(req resume.Request, hash []byte) (checkpoint.PauseInfo, error) {
	if hash != nil {
		return l.store.FindPause(l.ctx, l.runID, hash)
	}
	sum, recs, err := l.store.Load(l.ctx, l.runID, 0)
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	for _, p := range sum.Pauses {
		if p.ID == req.Pause.ID && p.Seq >= 1 && p.Seq <= int64(len(recs)) {
			return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[p.Seq-1]}, nil
		}
	}
	var open []string
	for _, p := range sum.Pauses {
		open = append(open, p.ID)
	}
	return checkpoint.PauseInfo{}, &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.invalidToken",
		Err: fmt.Errorf("run %q has no open pause %q\n  hint: open are %q", l.runID, req.Pause.ID, open)}
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
		case diagnostics.CodeMissingModel, diagnostics.CodeMissingTool, diagnostics.CodeMissingSecret, diagnostics.CodeMissingRetriever, diagnostics.CodeMissingCapability:
			if step != "" && !ended[step] {
				return program.ConfigError(d.Code, "the run is left as it is: %s", d.Message)
			}
		}
	}
	return nil
}

// claim takes the run, unless it has ended, and loads it.
func (l *leg) claim() error {
	sum, _, err := l.store.Load(l.ctx, l.runID, math.MaxInt64)
	if err != nil {
		return err
	}
	if l.ended = sum.Status.Ended(); !l.ended {
		reached(beforeClaim)
		l.claimed = time.Now()
		if l.lease, err = l.store.Claim(l.ctx, l.runID, owner(), leaseTime); err != nil {
			return err
		}
		reached(afterClaim)
	}
	if err = l.load(); err != nil {
		l.release()
	}
	return err
}

// load reads the journal.
func (l *leg) load() error {
	var recs []checkpoint.Record
	var err error
	if l.summary, recs, err = l.store.Load(l.ctx, l.runID, 0); err == nil {
		l.past, err = decode(recs)
	}
	return err
}

// release gives back a run that cannot be gone on with.
func (l *leg) release() {
	if !l.ended {
		_ = l.store.Release(context.WithoutCancel(l.ctx), l.lease) // it runs out by itself
	}
}

// replay brings the machine to where the journal ends. What ended in it counts as replayed; calls
// that it does not know the end of are made again when the run is driven.
func (r *run) replay(l *leg) error {
	r.replaying = true
	r.clock = engine.Clock{Since: l.past[l.from].At}
	known := map[string]*machine.Task{}
	advance := func(n int64) error {
		for r.m.Decided() < n || r.m.Queued() {
			c := r.m.Next()
			if c.Op == machine.None && r.m.Decided() < n {
				return fmt.Errorf("the run never came to decision %d", n)
			}
			r.replayed(c, known)
		}
		return nil
	}
	for i := l.from; i < len(l.past); i++ {
		e := &l.past[i]
		if what, ok := e.What.(journal.Redefined); ok {
			r.begunAnew(&what)
		}
		var err error
		if e.Ordered() { // what it had decided by then, it decided at the time of the event before
			err = advance(e.After)
		}
		r.clock.Read(e)
		r.events.now = e.At
		r.m.Tell(e.At)
		if err == nil {
			err = r.applyAgain(e, known)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w: %w", i+1, checkpoint.ErrCorrupt, err)
		}
	}
	r.journal.seq = int64(len(l.past))
	if err := advance(0); err != nil { // what the last event led to
		return err
	}
	r.clock = engine.Clock{Used: r.clock.At(r.events.now), Since: r.events.began}
	r.events.tick()
	r.atEnd = r.atEnd || r.forGood != nil || l.cancel != nil
	for (l.ended || r.atEnd) && r.m.Result() == nil { // to its end, which has no record of its own
		c := r.m.Next()
		if c.Op == machine.None {
			break // it was cancelled
		}
		r.replayed(c, known)
	}
	r.replaying = false
	return nil
}

// replayed is drive for a command that was executed in an earlier leg.
func (r *run) replayed(c machine.Command, known map[string]*machine.Task) {
	switch c.Op {
	case machine.Began:
		known[c.Task.Path()] = c.Task
		r.beginTime(c.Task)
	case machine.Ended:
		r.closePauses(c.Task)
		if k := c.Task.Node().Kind; k == machine.Wait || k == machine.Receive { // it may never have come to a pause
			r.settled(c.Task)
		}
		r.again = append(r.again, c.Task)
	case machine.Start, machine.Open:
		r.pending = append(r.pending, c)
	case machine.Stop:
		r.halted = append(r.halted, c.Task)
	case machine.Arm:
		c.Wait += r.timeOf(c.Task)
		r.armed = append(r.armed, c)
	case machine.Disarm:
		r.armed = slices.DeleteFunc(r.armed, func(a machine.Command) bool { return a.Task == c.Task && a.Timer == c.Timer })
	}
}

// tellReplayed tells what was not done again.
func (r *run) tellReplayed() {
	for _, t := range r.again {
		r.events.emit(t, trace.StepReplayed, t.Path(), nil, nil)
	}
	r.again = nil
}

// settled forgets that a task is under way.
func (r *run) settled(t *machine.Task) {
	r.pending = slices.DeleteFunc(r.pending, func(c machine.Command) bool { return c.Task == t })
	delete(r.unsure, t)
}

func (r *run) pauseByID(id string) *openPause {
	for _, p := range r.pauses {
		if p.ID == id {
			return p
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

// append writes records behind the first so many, and consumes the token of the answer among them; g may be nil.
func (l *leg) append(after int64, g *given, recs []checkpoint.Record) error {
	ctx := context.WithoutCancel(l.ctx)
	if g != nil && g.hash != nil {
		return l.store.AnswerPause(ctx, l.lease, after, g.hash, recs...)
	}
	return l.store.Append(ctx, l.lease, after, recs...)
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
