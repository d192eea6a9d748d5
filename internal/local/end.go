package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// end closes the journal of this execution, and returns its End.
func (r *Run) end() *End {
	e, j := r.Engine, &r.Store
	if r.Over {
		return r.ending(e.Err())
	}
	e.Tick(r.now())
	r.noteSpan()
	r.traced = true // nothing follows the end
	var err error
	if j.err == nil {
		err = e.Err()
	}
	left := e.Left()
	switch {
	case j.err != nil:
	case left != nil: // it can be recovered, also if it was cancelled
		if err != nil {
			e.Report(stoppedBy(err))
		}
		err = left
	case e.Waits():
		return r.endPaused()
	case !e.Cancelled() || e.ForGood():
		Reached(BeforeEnd)
		r.noteEnd(err)
	default:
		e.Note("", journal.Stopped{})
	}
	r.flush()
	if j.err != nil {
		err = StoreError(j.err)
	}
	Reached(AfterEnd)
	over := left == nil && (!e.Cancelled() || e.ForGood())
	if r.rt.Store == nil && j.Store != nil && j.err == nil {
		r.keepOrForget(over)
	}
	r.LetGo()
	if r.rt.Store == nil && j.err == nil && over {
		_ = Memory.Delete(context.WithoutCancel(r.ctx), r.ID) // if it is there; it is not needed any more
	}
	return r.ending(err)
}

// keepOrForget keeps a run without a store, if it is not over, so that it can be resumed.
func (r *Run) keepOrForget(over bool) {
	var err error
	if c, cached := r.Store.Store.(*Cached); !over {
		err = r.keep(PauseTime)
	} else if cached {
		err = c.Forget(context.WithoutCancel(r.ctx))
	}
	if err != nil {
		r.warn("the cache still has the run as it was at its last answer", slog.String("error", err.Error()))
	}
}

// stoppedBy is the diagnostic about the error that a run would have had if its rollback had finished.
func stoppedBy(err error) diagnostics.Diagnostic {
	d := diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeStepFailed, Message: err.Error()}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		d.Step, d.Message = e.Step, e.Err.Error()
	}
	return d
}

// noteEnd notes that the run is over for good.
func (r *Run) noteEnd(err error) {
	if r.Store.Store == nil {
		return
	}
	status := checkpoint.OK
	if r.Engine.ForGood() {
		status = checkpoint.Cancelled
	} else if err != nil {
		status = checkpoint.Failed
	}
	r.Engine.Note("", journal.Ended{Status: status})
}

// endPaused ends the execution of a paused run: each pending pause gets a fresh token.
func (r *Run) endPaused() *End {
	j := &r.Store
	if j.Store == nil {
		if j.Store = &Memory; r.rt.Cache != nil {
			j.Store = NewCached(r.rt.Cache, r.ID)
		}
		j.Run.Definition, j.err = r.spec.Program.Definition()
	}
	var pauses []resume.Pause
	for _, p := range r.Engine.Pauses() {
		shown := p.Pause
		shown.Token = r.mint(p)
		pauses = append(pauses, shown)
	}
	showLiving(pauses)
	Reached(BeforeEnd)
	r.Engine.Note("", journal.Paused{})
	r.flush()
	Reached(AfterEnd)
	if j.err == nil && r.rt.Store == nil {
		if err := r.keep(keepFor(r.now(), pauses)); err != nil {
			return r.unkept(err)
		}
	}
	r.LetGo()
	end := r.newEnd(StoreError(j.err))
	if j.err == nil {
		end.Pauses = pauses
	}
	return r.finish(end)
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
	r.Store.fail(err)
	if errors.Is(err, checkpoint.ErrFenced) {
		r.LetGo()
		return r.ending(StoreError(err))
	}
	r.turn.take()
	r.Engine.GiveUp("it cannot be kept")
	r.supervise()
	r.turn.give()
	if r.fault != nil {
		panic(r.fault)
	}
	r.keepOrForget(true)
	r.LetGo()
	return r.ending(StoreError(err))
}

// ending returns the End of a run that was driven, or had ended before.
func (r *Run) ending(err error) *End { return r.finish(r.newEnd(err)) }

func (r *Run) newEnd(err error) *End {
	e := r.Engine
	end := &End{RunID: r.ID, Recipe: r.spec.Program.Recipe.Name, Err: err, Trace: e.Trace(), Artefact: e.Artefact(),
		Diagnostics: r.Caller.Diagnostics}
	if result := e.Result(); err == nil && result != nil {
		end.Output = result.Output
	}
	return end
}

// finish tells hooks and sinks how the run ended.
func (r *Run) finish(end *End) *End {
	r.show()
	if !r.Over {
		r.tell(runtime.Moment{Point: runtime.RunFinish, Output: end.Output, Status: end.Status(), Err: end.Err})
	}
	end.Diagnostics = append(end.Diagnostics, r.Engine.Findings(end.Trace)...)
	return r.close(end)
}

// Status is how the execution ended, as the trace names it: ok, paused, error or cancelled.
func (end *End) Status() string {
	e, _ := errors.AsType[*runtime.Error](end.Err)
	switch {
	case end.Pauses != nil:
		return "paused"
	case end.Err == nil:
		return "ok"
	case e != nil && e.Category == runtime.CategoryCancelled:
		return "cancelled"
	}
	return "error"
}

// close adds the last events, and waits for the sinks.
func (r *Run) close(end *End) *End {
	if r.Engine != nil {
		end.Used, end.Calls = r.Engine.Used()
	}
	end.StartedAt, end.EndedAt = cmp.Or(r.Store.Run.StartedAt, r.began), cmp.Or(r.Ended, r.now())
	r.addLastEvents(end)
	r.report(end.Diagnostics)
	for i := range end.Trace {
		end.Trace[i].Seq = int64(i + 1)
	}
	for _, f := range r.sinks.Close(SinkTime) {
		text := fmt.Sprintf("trace sink %d failed: %v", f.Index, f.Err)
		end.Diagnostics = append(end.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
			Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeSinkFailed, Message: text})
		r.warn(text)
	}
	return end
}

// addLastEvents adds the events that say how the run ended.
func (r *Run) addLastEvents(end *End) {
	at := r.now()
	add := func(kind trace.Kind, attrs ...trace.Attr) {
		end.Trace = append(end.Trace, r.runEvent(at, kind, attrs...))
	}
	e, _ := errors.AsType[*runtime.Error](end.Err)
	status := end.Status()
	switch {
	case status == "paused":
		for _, p := range end.Pauses {
			add(trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(p.Kind)},
				trace.Attr{Key: "step", Value: p.Step})
		}
		add(trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
	case e == nil:
		add(trace.RunSuccess)
	case status == "cancelled":
		add(trace.RunCancelled, trace.Attr{Key: "reason", Value: e.Err.Error()})
	default:
		attrs := []trace.Attr{{Key: "code", Value: e.Code}, {Key: "message", Value: e.Err.Error()}}
		if e.Step != "" {
			attrs = append(attrs, trace.Attr{Key: "step", Value: e.Step})
		}
		add(trace.RunError, attrs...)
	}
	if status == "ok" {
		add(trace.RunEnd, endsWell...)
		return
	}
	add(trace.RunEnd, trace.Attr{Key: "status", Value: status})
}

// endsWell is the payload of run.end for a run that is ok. Runs share it.
var endsWell = trace.Data{{Key: "status", Value: "ok"}}
