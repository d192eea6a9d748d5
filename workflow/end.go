package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// resultError words the end of the machine as the run's error.
func (r *run) resultError() error {
	if r.journal.err != nil {
		return storeError(r.journal.err)
	}
	if r.forGood != nil {
		return cancelledForGood(*r.forGood)
	}
	f := r.m.Result().Failure
	if f == nil {
		return nil
	}
	return &runtime.Error{Category: runtime.Category(f.Category), Code: f.Code, Step: f.Path, Err: f.Err}
}

// end closes the journal of this leg, and makes the outcome.
func (r *run) end(start trace.Event) *Outcome {
	left := r.undoAtEnd()
	err := r.resultError()
	switch {
	case r.leg != nil && r.leg.ended || r.journal.err != nil:
	case left != nil: // it can be recovered, and so it can if it was cancelled
		if err != nil {
			r.found.add(stoppedBy(err))
		}
		err = left
	case r.forGood == nil && r.m.Result().Status == machine.Waiting:
		return r.endPaused(start)
	case !r.cancelled || r.forGood != nil:
		reached(beforeEnd)
		r.noteEnd(err)
	default:
		r.note("", journal.Stopped{})
	}
	if r.leg == nil || !r.leg.ended {
		r.flush()
		if r.journal.err != nil {
			err = storeError(r.journal.err)
		}
		reached(afterEnd)
		r.letGo()
		r.let = true
	}
	if r.rt.Store == nil && r.leg != nil && r.journal.err == nil && !r.cancelled && left == nil {
		_ = local.Delete(context.WithoutCancel(r.ctx), r.id) // nobody asks for it any more
	}
	var output any
	if result := r.m.Result(); err == nil && result != nil {
		output = result.Output
	}
	return r.outcome(start, output, err)
}

// noteEnd notes that the run is over for good.
func (r *run) noteEnd(err error) {
	if !r.journal.durable() {
		return
	}
	status := checkpoint.OK
	if r.forGood != nil {
		status = checkpoint.Cancelled
	} else if err != nil {
		status = checkpoint.Failed
	}
	r.note("", journal.Ended{Status: status})
}

// endPaused ends the leg of a run that waits: each open pause gets a fresh token.
func (r *run) endPaused(start trace.Event) *Outcome {
	place := map[*machine.Task]int{}
	r.m.Walk(func(t *machine.Task) { place[t] = len(place) }, func(*machine.Task) {})
	slices.SortStableFunc(r.pauses, func(a, b *openPause) int {
		return cmp.Or(cmp.Compare(place[a.task], place[b.task]), slices.Compare(a.callsInAgent(), b.callsInAgent()))
	})
	if r.journal.store == nil {
		if r.journal.store = &local; r.rt.Cache != nil {
			r.journal.store = &checkpoint.Memory{}
		}
		r.journal.run.Definition, r.journal.err = r.wf.program.Definition()
	}
	var pauses []resume.Pause
	for _, p := range r.pauses {
		shown := p.Pause
		shown.Token = r.mint(p)
		pauses = append(pauses, shown)
	}
	reached(beforeEnd)
	r.note("", journal.Paused{})
	r.flush()
	reached(afterEnd)
	r.letGo()
	r.let = true
	if r.journal.err == nil && r.rt.Store == nil && r.rt.Cache != nil {
		r.journal.err = r.toCache()
	}
	if err := r.journal.err; err != nil {
		return r.outcome(start, nil, storeError(err))
	}
	r.waits = pauses
	return r.outcome(start, nil, nil)
}

// statusOf is the status of a run that ended with err, nil for ok.
func statusOf(err error) Status {
	e, _ := errors.AsType[*runtime.Error](err)
	switch {
	case err == nil:
		return StatusOK
	case e != nil && e.Category == runtime.CategoryCancelled:
		return StatusCancelled
	}
	return StatusError
}

// outcome puts together how the run ended, and tells the sinks. output is the recipe's.
func (r *run) outcome(start trace.Event, output any, err error) *Outcome {
	out := &Outcome{Status: statusOf(err), RunID: r.id, Recipe: r.wf.program.Recipe.Name, Output: output, Err: err}
	if err == nil && r.waits != nil {
		out.Status, out.Token, out.Pauses = StatusPaused, r.waits[0].Token, r.waits
	}
	out.Diagnostics = r.prepared.list
	if r.m == nil {
		out.Trace = []trace.Event{start}
	} else {
		out.Trace = r.events.inPlanOrder(r.m)
		out.Artefact = r.m.Artefact()
		if r.m.Result() != nil {
			for _, f := range r.m.Others() {
				out.Diagnostics = append(out.Diagnostics,
					diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
						Code: diagnostics.CodeStepFailed, Message: fmt.Sprintf("step %q failed too: %v",
							f.Path, f.Err), Step: f.Path})
			}
		}
		if r.leg == nil || !r.leg.ended {
			r.tell(runtime.Moment{Point: runtime.RunFinish, Output: output, Status: string(out.Status), Err: err})
		}
		out.Diagnostics = append(out.Diagnostics, r.found.inPlanOrder(out.Trace)...)
	}
	r.addLastEvents(out)
	for i := range out.Trace {
		out.Trace[i].Seq = int64(i + 1)
	}
	for _, f := range r.events.sinks.Close(sinkTime) {
		text := fmt.Sprintf("trace sink %d failed: %v", f.Index, f.Err)
		out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
			Kind: diagnostics.KindAdapter,
			Code: diagnostics.CodeSinkFailed, Message: text})
		r.warn(text)
	}
	return out
}

// addLastEvents puts those behind the others that say how the run ended.
func (r *run) addLastEvents(out *Outcome) {
	add := func(kind trace.Kind, attrs ...trace.Attr) {
		out.Trace = append(out.Trace, r.events.runEvent(kind, attrs...))
	}
	switch e := out.Error(); {
	case out.Status == StatusPaused:
		for _, p := range out.Pauses {
			add(trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(p.Kind)},
				trace.Attr{Key: "step", Value: p.Step})
		}
		add(trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
	case e == nil:
		add(trace.RunSuccess)
	case out.Status == StatusCancelled:
		add(trace.RunCancelled, trace.Attr{Key: "reason", Value: e.Error()})
	default:
		attrs := []trace.Attr{{Key: "code", Value: e.Code}, {Key: "message", Value: e.Error()}}
		if e.Step != "" {
			attrs = append(attrs, trace.Attr{Key: "step", Value: e.Step})
		}
		add(trace.RunError, attrs...)
	}
	if out.Status == StatusOK {
		add(trace.RunEnd, endsWell...)
		return
	}
	add(trace.RunEnd, trace.Attr{Key: "status", Value: string(out.Status)})
}

// endsWell is the payload of run.end of a run that is ok. Runs share it.
var endsWell = trace.Data{{Key: "status", Value: string(StatusOK)}}

// warn tells the host's operator; whatever that does changes nothing.
func (r *run) warn(text string, attrs ...slog.Attr) {
	defer func() { _ = recover() }()
	reporter := r.rt.Reporter
	if reporter == nil {
		reporter = slogReporter{}
	}
	reporter.Warn(text, append([]slog.Attr{slog.String("run", r.id)}, attrs...)...)
}

type slogReporter struct{}

func (slogReporter) Warn(msg string, attrs ...slog.Attr) {
	slog.Default().LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
}
