package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/procgroup"
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
	// which has not ended: a model, a tool, also one that the host does not allow, a secret. Where it is there, the run
	// can still be gone on with. By
	// default such a step fails when its turn comes, and the run with it.
	Complete bool
	// Force lets Cancel end a run although it is not known whether a call had its effect, with a warning for each
	// such call. By default somebody is asked first. Resume and Answer then accept retry although processes of the
	// call still live on this host, which they refuse by default (call.alive).
	Force bool
	// By is who does it: answers, sends, cancels, forks, goes on. It is recorded, as the host words it. "": Runtime.By.
	By string
}

// Resume answers one pause, by its token, and goes on with the run; the recipe comes from the
// store. input goes through rt.Resume, which makes the answer of it. A nil rt is the zero Runtime, and a
// nil opts the zero ResumeOptions. The Outcome is never nil, and the error is its Err: nil when the run is ok
// or paused again.
//
// A token that is unknown, used or expired is resume.invalidToken, also where rt.Store is not the store of the
// run. As long as nothing was recorded the token stays usable: with an answer that does not fit (answer.unfit),
// without rt.Resume (resume.noAdapter), when it refuses (resume.refused), with another definition of the recipe
// (resume.definitionChanged), or while somebody else holds the run (run.busy).
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	runID, hash, err := resume.Parse(token)
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	if err != nil {
		return l.refuse(err)
	}
	req := resume.Request{Token: token, RunID: runID, Input: input}
	return l.apart(func() (*Outcome, error) { return l.answer(req, hash) })
}

// Answer is Resume for a host that owns the store: it names the pause instead of a token. The errors are those
// of Resume; a pause that is not open is resume.invalidToken.
func Answer(
	ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	req := resume.Request{RunID: runID, Pause: resume.Pause{ID: pause}, Input: input}
	return l.apart(func() (*Outcome, error) { return l.answer(req, nil) })
}

// Recover goes on with a run whose process died: what is in the record is not done again. Of a run
// that has ended it returns the outcome; a paused one pauses again, with fresh tokens, unless
// something is due.
//
// The Outcome is never nil, and the error is its Err: nil when the run is ok or paused. Nothing has happened when
// it is run.notFound, run.busy (somebody holds the run; a dead process does for 15 seconds where its death cannot
// be seen) or resume.definitionChanged.
func Recover(ctx context.Context, runID string, rt *runtime.Runtime, opts *ResumeOptions) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID, recover: true}
	return l.apart(func() (*Outcome, error) { return l.run(nil) })
}

// Resume is the package's Resume for a run of this workflow: one with another digest is refused
// (resume.definitionChanged).
func (wf *Workflow) Resume(ctx context.Context, token string, input any, rt *runtime.Runtime) (*Outcome, error) {
	return Resume(ctx, token, input, rt, &ResumeOptions{Workflow: wf})
}

// Recover is the package's Recover for a run of this workflow: one with another digest is refused
// (resume.definitionChanged).
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
	input, err := call.Guard(l.ctx, runtime.CategoryInfra, "resume.failed", "the resume adapter",
		func() (any, error) { return l.rt.Resume.Resolve(l.ctx, req) })
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "resume.failed" {
		return l.refuse(err)
	}
	if err != nil {
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfirmation, Code: "resume.refused", Err: err})
	}
	answer, err := req.Pause.Check(input)
	if err == nil {
		err = engine.RaisedEnough(&req.Pause, answer)
	}
	if err != nil {
		return l.refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Err: err})
	}
	if err := l.alive(req.Pause.Call, answer); err != nil {
		return l.refuse(err)
	}
	return l.run(&given{pause: req.Pause.ID, about: &req.Pause, hash: hash, answer: answer})
}

// alive refuses to make a call again while processes of it live on this host.
func (l *leg) alive(c *resume.Call, answer any) error {
	m, _ := answer.(map[string]any)
	if c == nil || m["decision"] != "retry" || l.opts.Force {
		return nil
	}
	pids, _ := procgroup.Living(c.Key)
	if len(pids) == 0 {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "call.alive", Err: fmt.Errorf("the call of tool %q "+
		"still runs: processes %v\n  hint: answer when they have ended, or use force", c.Tool, pids)}
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
	if l.still != nil && (l.ended || !l.still(&l.summary)) {
		l.release()
		return l.refuse(errQuicker)
	}
	wf, err := l.workflow()
	if err == nil && l.sent != nil {
		err = l.sent.find(l, wf)
	}
	if err != nil {
		l.release()
		return l.refuse(err)
	}
	leg := wf.leg(l.rt)
	leg.By = l.by()
	how := "resume"
	if l.recover {
		how = "recover"
	}
	leg.About = slices.Insert(slices.Clone(leg.About), 2, trace.Attr{Key: how, Value: true}) // behind digest and recipe
	if span := firstSpan(l.past); span != "" {
		i := slices.IndexFunc(leg.About, func(a trace.Attr) bool { return a.Key > "traceparent" })
		if i < 0 {
			i = len(leg.About)
		}
		leg.About = slices.Insert(leg.About, i, trace.Attr{Key: "traceparent", Value: span})
	}
	var r *local.Run
	leg.Open = func(run *local.Run) (map[string]any, error) {
		r = run
		return l.openAgain(wf, leg, r)
	}
	leg.Ready = func(_ *local.Run, inputs map[string]any) error { return l.ready(wf, r, inputs, g) }
	out, err := wf.drive(l.ctx, leg)
	if r.Held() {
		r.LetGo()
	} else if !r.Let() {
		l.release() // it never came to be driven
	}
	return out, err
}

// firstSpan is the span of the first leg that a sink made one of; "": none did.
func firstSpan(past []journal.Event) string {
	for i := range past {
		if traced, ok := past[i].What.(journal.Traced); ok {
			return traced.Traceparent
		}
	}
	return ""
}

// openAgain is open for a run that is gone on with: its inputs are in the journal.
func (l *leg) openAgain(wf *Workflow, leg *local.Leg, r *local.Run) (map[string]any, error) {
	r.Store.Store, r.Store.Run, r.Over, r.Ended = l.store, l.summary.Run, l.ended, l.summary.EndedAt
	r.Name(l.runID)
	err := r.Bind(wf.archive)
	if err == nil && !l.ended {
		err = r.Caller.Unpriced()
	}
	if err != nil {
		return nil, err
	}
	begun, err := engine.BegunOf(l.past)
	if err != nil {
		return nil, local.StoreError(fmt.Errorf("run %q: %w", l.runID, err))
	}
	inputs := begun.Inputs
	leg.Interrupt = begun.Interrupt
	if l.old != nil || l.from > 0 { // the definition may have others
		if inputs, err = wf.program.Inputs.Check(inputs); err != nil {
			return nil, program.ConfigError(diagnostics.CodeInput, "the run's inputs: %w", err)
		}
	}
	return inputs, r.Strict()
}

// ready brings a run to where its journal ends, and writes down what comes from outside: the answer, the value, that it
// is cancelled.
func (l *leg) ready(wf *Workflow, r *local.Run, inputs map[string]any, g *given) error {
	r.Store.Seq = int64(len(l.past))
	if g != nil {
		if err := engine.FitsApproval(g.about, g.answer, r.Caller.Redact); err != nil {
			return &runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Err: err}
		}
	}
	if l.old != nil {
		return l.redefine(wf, r, inputs, g)
	}
	e := r.Engine
	err := e.Resume(inputs, l.past, l.from, l.ended, l.cancel != nil)
	if err != nil || l.ended {
		e.TellReplayed()
		return err
	}
	local.Reached(local.Replayed)
	if err := l.lacks(r); err != nil {
		return err
	}
	if l.cancel != nil && (!e.ForGood() || l.opts.Force && e.Waits()) {
		if err := l.takeFromCache(); err != nil {
			return err
		}
		e.CancelForGood(*l.cancel, l.opts.Force)
	}
	if g != nil {
		p := e.PauseByID(g.pause)
		if p == nil {
			return fmt.Errorf("pause %q: %w", g.pause, checkpoint.ErrToken)
		}
		if err := e.Refuses(p, g.answer); err != nil {
			return err
		}
		err = l.tell(r, g, func() []journal.Event { return e.Answer(p, g.answer) })
	}
	if err == nil && l.sent != nil {
		err = l.send(r)
	}
	if err != nil {
		return err
	}
	e.TellReplayed()
	r.Hold(l.lease, l.claimed)
	return nil
}

// tell writes down what comes from outside, in one write that consumes the token of an answer, and takes it in. A run
// that stopped while it was rolled back for a pause is rolled back first.
func (l *leg) tell(r *local.Run, g *given, what func() []journal.Event) error {
	if r.Engine.Undoes() {
		r.Hold(l.lease, l.claimed)
		if err := r.Undo(); err != nil {
			return err
		}
	}
	events := what()
	recs, err := local.Encode(events)
	if err != nil {
		return err
	}
	if err := l.takeFromCache(); err != nil {
		return err
	}
	local.Reached(local.BeforeAnswer)
	if err := l.append(r.Store.Seq, g, recs); err != nil {
		return err
	}
	local.Reached(local.AfterAnswer)
	r.Store.Seq += int64(len(recs))
	if !r.Engine.WasUndone() {
		r.Engine.TellReplayed()
	}
	r.Engine.Take(events)
	return nil
}

// lacks refuses to go on without what steps need that have not ended, if that is asked for.
func (l *leg) lacks(r *local.Run) error {
	if !l.opts.Complete || l.cancel != nil || r.Engine.ForGood() {
		return nil
	}
	ended := r.Engine.Ended()
	for _, d := range slices.Concat(r.Caller.Diagnostics, r.Caller.Off) {
		step, _, _ := strings.Cut(d.Step, "/")
		switch d.Code {
		case diagnostics.CodeMissingModel, diagnostics.CodeMissingTool, diagnostics.CodeMissingSecret,
			diagnostics.CodeMissingRetriever, diagnostics.CodeMissingCapability:
			if step != "" && !ended[step] {
				return program.ConfigError(d.Code, "the run is left as it is: %s%s",
					d.Message, program.HintLine(d.Hint))
			}
		}
	}
	return nil
}
