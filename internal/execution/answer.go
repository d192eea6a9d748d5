package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Resume answers a pause by its token, and resumes the run.
func Resume(ctx context.Context, token string, input any, rt *runtime.Runtime, o Options) *local.End {
	runID, hash, err := resume.Parse(token)
	x := newResumption(ctx, runID, "resume", rt, o)
	if err != nil {
		return x.refuse(err)
	}
	return x.opened(func() (*local.End, error) {
		info, err := x.ledger.Find(ctx, hash)
		if err != nil {
			return nil, err
		}
		return x.answer(resume.Request{Token: token, RunID: runID, Input: input}, info, hash)
	})
}

// Answer answers a pause by its name, and resumes the run.
func Answer(ctx context.Context, runID, pause string, input any, rt *runtime.Runtime, o Options) *local.End {
	x := newResumption(ctx, runID, "resume", rt, o)
	return x.opened(func() (*local.End, error) {
		info, err := x.find(pause)
		if err == nil {
			err = x.unanswered(pause)
		}
		var end *local.End
		if err == nil {
			end, err = x.answer(resume.Request{RunID: runID, Input: input}, info, nil)
		}
		if e, ok := errors.AsType[*runtime.Error](ledger.Error(err)); ok && e.Code == "resume.invalidToken" {
			err = x.answeredBefore(pause, err)
		}
		return end, err
	})
}

// answeredBefore is the error for a pause that is not open, because of err: who has answered it, if somebody has.
func (x *resumption) answeredBefore(pause string, err error) error {
	events, decodeErr := ledger.Decode(x.read)
	if x.read == nil && x.past != nil {
		events = x.past.Events
	}
	return cmp.Or(decodeErr, AnsweredBefore(events, pause), err)
}

// find finds a pending pause by its name.
func (x *resumption) find(pause string) (checkpoint.PauseInfo, error) {
	sum, recs, err := x.ledger.Load(x.ctx, 0)
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	x.read = recs
	var open []string
	for _, p := range sum.Pauses {
		if p.ID == pause && p.Seq >= 1 && p.Seq <= int64(len(recs)) {
			return checkpoint.PauseInfo{Summary: sum, Pause: p, Opened: recs[p.Seq-1]}, nil
		}
		open = append(open, p.ID)
	}
	return checkpoint.PauseInfo{}, NoPause(x.runID, pause, open)
}

// NoPause is the error for an answer to a pause that is not among the pending ones of a run.
func NoPause(runID, pause string, pending []string) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.invalidToken",
		Err: fmt.Errorf("run %q has no pending pause %q\n  hint: pending pauses: %q", runID, pause, pending)}
}

// NoAdapter is the error for an answer where the host has no resume adapter.
func NoAdapter() error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.noAdapter",
		Err: errors.New("resume requires a resume adapter\n" +
			"  hint: set Runtime.Resume; resume.PassThrough{} takes the input as the answer")}
}

// answer is the answer to a pause.
type answer struct {
	pause *resume.Pause
	hash  []byte // of its token; nil: the host names the pause
	value any
	again bool // it begins the run again
}

// answer answers a pause that was found:
//
//  1. check who answers, let the adapter make the answer, and check it
//  2. claim the run, load it, and prepare everything
//  3. record the answer and consume the token, in one write
//  4. drive the run
func (x *resumption) answer(req resume.Request, info checkpoint.PauseInfo, hash []byte) (*local.End, error) {
	x.summary = info.Summary
	if x.rt.Resume == nil {
		return nil, NoAdapter()
	}
	e, err := journal.Decode(info.Opened)
	if err != nil {
		return nil, err
	}
	opened, _ := e.What.(journal.PauseOpened) // the store has checked
	req.Pause, req.Interrupt = opened.Pause, opened.Interrupt
	if hash == nil && !x.o.Vouched { // a token speaks for its bearer
		if err := Allowed(&req.Pause, x.by(), x.o.Groups, x.summary.By); err != nil {
			return nil, err
		}
	}
	input, err := guard.Port(x.ctx, runtime.CategoryInfra, "resume.failed", "the resume adapter",
		func() (any, error) { return x.rt.Resume.Resolve(x.ctx, req) })
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "resume.failed" {
		return nil, err
	}
	if err != nil {
		return nil, &runtime.Error{Category: runtime.CategoryConfirmation, Code: "resume.refused", Err: err}
	}
	restart, again := input.(resume.RestartWith)
	if again {
		input = restart.Input
	}
	v, err := req.Pause.Check(input)
	if err == nil {
		err = engine.RaisedEnough(&req.Pause, v)
	}
	if err != nil {
		return nil, Unfit(err)
	}
	if err := x.alive(req.Pause.Call, v); err != nil {
		return nil, err
	}
	return x.execute(&answer{pause: &req.Pause, hash: hash, value: v, again: again})
}

// Allowed refuses an answer by a person who may not give it, see [resume.Pause.Allows].
func Allowed(p *resume.Pause, by string, groups []string, startedBy string) error {
	if err := p.Allows(by, groups, startedBy); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfirmation, Code: "answer.notAllowed", Err: err}
	}
	return nil
}

// Unfit is the error for an answer that does not fit its pause.
func Unfit(err error) error {
	if e, ok := err.(*runtime.Error); ok {
		return e
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Err: err}
}

// alive refuses to repeat a call while processes of it are alive on this host.
func (x *resumption) alive(c *resume.Call, answer any) error {
	m, _ := answer.(map[string]any)
	if c == nil || m["decision"] != "retry" || x.o.Force {
		return nil
	}
	living, _ := procgroup.Living(c.Key)
	pids := living[c.Key]
	if len(pids) == 0 {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "call.alive", Err: fmt.Errorf("the call of tool %q "+
		"still runs: processes %v\n  hint: answer when they have ended, or use force", c.Tool, pids)}
}

func (a *answer) due(x *resumption) error {
	if x.ended { // another answer came first
		return checkpoint.ErrToken
	}
	return nil
}

func (a *answer) possible(x *resumption, p *program.Program) error {
	if !a.again {
		return nil
	}
	return x.unchanged(p, "begin it again without the new one")
}

func (a *answer) fits(r *local.Run) error {
	if err := engine.FitsApproval(a.pause, a.value, r.Caller.Redact); err != nil {
		return Unfit(err)
	}
	return nil
}

func (a *answer) tell(x *resumption, r *local.Run) error {
	p := r.Engine.View().Pause(a.pause.ID)
	if p == nil {
		return a.gone()
	}
	if err := r.Engine.View().Refuses(p, a.value); err != nil {
		return err
	}
	if stands := r.Engine.View().Standing(); a.again && !stands.Undoes && !stands.WasUndone {
		return x.decideRestart(r, p, a)
	}
	return x.record(r, a.hash, func() []journal.Event { return r.Engine.Answer(p, a.value) })
}

// decideRestart records that an answer begins the run again; restart does it.
func (x *resumption) decideRestart(r *local.Run, p *engine.Pause, a *answer) error {
	events, err := r.Engine.RestartBy(p, a.value)
	if err == nil {
		err = x.write(r, a.hash, events...)
	}
	if err != nil {
		return err
	}
	r.Engine.Take(events)
	return nil
}

// restart rolls a run back and begins it again, if an answer of this or of an earlier execution says so.
func (x *resumption) restart(r *local.Run) error {
	if !r.Engine.View().Standing().Restarts {
		return nil
	}
	if err := x.undo(r); err != nil {
		return err
	}
	events := r.Engine.Restart()
	if err := x.write(r, nil, events...); err != nil {
		return err
	}
	r.Engine.Take(events)
	return nil
}

// gone is the error for an answer to a pause that is no longer pending.
func (a *answer) gone() error { return fmt.Errorf("pause %q: %w", a.pause.ID, checkpoint.ErrToken) }

// to reports whether an answer is to a pause; nil is to none.
func (a *answer) to(pause string) bool { return a != nil && a.pause.ID == pause }
