package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// end closes the journal of this execution, and returns its End.
func (r *Run) end() *End {
	e, j := r.Engine, &r.Store
	if r.Over {
		return r.ending(e.View().Err())
	}
	e.Tick(r.now())
	r.noteSpan()
	r.traced = true // nothing follows the end
	var err error
	if j.Err() == nil {
		err = e.View().Err()
	}
	stands := e.View().Standing()
	switch left := stands.Left; {
	case j.Err() != nil:
	case left != nil: // it can be recovered, also if it was cancelled
		e.Report(engine.StoppedWith(err)...)
		err = left
	case stands.Waits:
		return r.endPaused()
	case stands.Over():
		if failpoint.Reached(failpoint.BeforeEnd); j.Store != nil {
			r.dropLeft()
			e.NoteEnd(err)
		}
	default:
		e.NoteEnd(err)
	}
	r.flush()
	if j.Err() != nil {
		err = ledger.Error(j.Err())
	}
	failpoint.Reached(failpoint.AfterEnd)
	over := stands.Over()
	r.endAllSignals(false, over)
	if r.rt.Store == nil && j.Store != nil && j.Err() == nil {
		r.keepOrForget(over)
	}
	r.LetGo()
	if r.rt.Store == nil && j.Store != nil && j.Err() == nil && over {
		_ = ledger.Memory.Delete(context.WithoutCancel(r.ctx), r.ID) // if it is there; it is not needed any more
	}
	return r.ending(err)
}

// keepOrForget keeps a run without a store, if it is not over, so that it can be resumed.
func (r *Run) keepOrForget(over bool) {
	var err error
	if over {
		err = r.Store.Forget(r.ctx)
	} else {
		err = r.Store.Keep(r.ctx, ledger.PauseTime)
	}
	if err != nil {
		r.warn("the cache still has the run as it was at its last answer", slog.String("error", err.Error()))
	}
}

// MaxFresh is how many pauses that have a token already get another one when a run pauses again. A token is a record:
// without a limit, the answers to the questions of a long list would take the square of its length.
const MaxFresh = 100

// endPaused ends the execution of a paused run: pending pauses get fresh tokens.
func (r *Run) endPaused() *End {
	j := &r.Store
	if j.Store == nil {
		j.Spare(r.rt.Cache)
		var err error
		j.Run.Definition, err = r.spec.Program.Definition()
		j.Fail(err)
	}
	var pauses []resume.Pause
	fresh, asks := 0, false
	for _, p := range r.Engine.Pauses() {
		asks = asks || p.AsksPeople()
		shown := p.Pause
		if p.Minted {
			fresh++
		}
		if !p.InBatch() && (!p.Minted || fresh <= MaxFresh) {
			shown.Token = r.mint(p)
		}
		pauses = append(pauses, shown)
	}
	showLiving(pauses)
	failpoint.Reached(failpoint.BeforeEnd)
	r.Engine.NotePaused()
	r.flush()
	failpoint.Reached(failpoint.AfterEnd)
	r.endAllSignals(asks, false)
	if j.Err() == nil && r.rt.Store == nil {
		if err := j.Keep(r.ctx, keepFor(r.now(), pauses)); err != nil {
			return r.unkept(err)
		}
	}
	r.LetGo()
	end := r.newEnd(ledger.Error(j.Err()))
	if j.Err() == nil {
		end.Pauses = pauses
		r.lookAgain()
	}
	return r.finish(end)
}

// keepFor is how long a run without a store is kept: until the last of its pauses has expired.
func keepFor(now time.Time, pauses []resume.Pause) (most time.Duration) {
	for _, p := range pauses {
		if p.ExpiresAt.IsZero() {
			most = max(most, ledger.PauseTime)
		} else {
			most = max(most, p.ExpiresAt.Sub(now), 1)
		}
	}
	return most
}

// showLiving adds the processes of calls that are still alive on this host to the pauses about these calls.
func showLiving(pauses []resume.Pause) {
	var keys []string
	for _, p := range pauses {
		if p.Call != nil {
			keys = append(keys, p.Call.Key)
		}
	}
	living, _ := procgroup.Living(keys...)
	for i, p := range pauses {
		if p.Call != nil {
			c := *p.Call // the engine keeps its own
			c.PIDs = living[c.Key]
			pauses[i].Call = &c
		}
	}
}

// unkept ends a run that pauses and cannot be kept: nobody could resume it, so it is rolled back, unless it is
// somebody else's by now.
func (r *Run) unkept(err error) *End {
	r.Store.Fail(err)
	if errors.Is(err, checkpoint.ErrFenced) {
		r.LetGo()
		return r.ending(ledger.Error(err))
	}
	r.turn.take()
	r.Engine.CancelForGood("it cannot be kept", true)
	r.supervise()
	r.turn.give()
	if r.fault != nil {
		panic(r.fault)
	}
	r.keepOrForget(true)
	r.LetGo()
	return r.ending(ledger.Error(err))
}

// ending returns the End of a run that was driven, or had ended before.
func (r *Run) ending(err error) *End { return r.finish(r.newEnd(err)) }

func (r *Run) newEnd(err error) *End { return &End{End: r.Engine.End(err, r.Caller.Diagnostics)} }

// finish tells hooks and sinks how the run ended.
func (r *Run) finish(end *End) *End {
	r.show()
	if !r.Over {
		r.tell(runtime.Moment{Point: runtime.RunFinish, Output: end.Output, Status: end.Status(), Err: end.Err})
	}
	end.Diagnostics = append(end.Diagnostics, r.Engine.View().Diagnostics(end.Trace)...)
	end.Signalled = r.signals.again
	return r.close(end)
}

// close adds the last events, and waits for the sinks.
func (r *Run) close(end *End) *End {
	if r.Engine != nil {
		end.Used, end.Calls = r.Engine.View().Used()
	}
	end.StartedAt, end.EndedAt = cmp.Or(r.Store.Run.StartedAt, r.began), cmp.Or(r.Ended, r.now())
	end.Close(r.now(), func(e trace.Event) {
		if e.Kind == trace.RunEnd && end.Err == nil {
			r.sinks.Emit(e, end.Output) // which only a run that is ok has
			return
		}
		r.sinks.Emit(e, nil)
	})
	if r.noClock != nil {
		end.Diagnostics = append(end.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
			Kind: diagnostics.KindAdapter, Code: diagnostics.CodeStoreClock,
			Message: fmt.Sprintf("the times of this execution are by the clock of this machine: %v", r.noClock)})
	}
	r.report(end.Diagnostics)
	for _, f := range r.sinks.Close(SinkTime) {
		text := fmt.Sprintf("trace sink %d failed: %v", f.Index, f.Err)
		end.Diagnostics = append(end.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
			Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeSinkFailed, Message: text})
		r.warn(text)
	}
	return end
}
