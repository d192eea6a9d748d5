package engine

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// End is how an execution ended.
type End struct {
	RunID       string
	Recipe      string         // the recipe's name; "": it is not known
	Output      any            // the recipe's; nil unless the run is ok
	Artefact    map[string]any // outputs of the steps that succeeded, by id
	Pauses      []resume.Pause // pending pauses; nil unless the run is paused
	Err         error          // a *runtime.Error; nil for ok and paused
	Trace       []trace.Event
	Diagnostics diagnostics.List
	Used        journal.Amount // by calls of models, in all executions
	Calls       int64          // of models
	StartedAt   time.Time      // of the run; zero: the execution could not begin
	EndedAt     time.Time      // of the execution, or of a run that had ended before; zero like StartedAt
}

// NoteEnd records how the execution ended: that the run is over, with err or without one, or that another execution can
// continue it.
func (r *Run) NoteEnd(err error) {
	s := r.View().Standing()
	if !s.Over() {
		r.Note("", journal.Stopped{})
		return
	}
	status := checkpoint.OK
	if s.EndsCancelled {
		status = checkpoint.Cancelled
	} else if err != nil {
		status = checkpoint.Failed
	}
	ended := journal.Ended{Status: status}
	ended.Usage, ended.Models = r.budget.usage()
	if e, ok := errors.AsType[*runtime.Error](err); ok && status == checkpoint.Failed {
		message := r.o.Redact.Text(e.Err.Error())
		ended.Error = checkpoint.Failure{Code: e.Code, Message: short(message), Step: e.Step,
			Category: string(e.Category)}
	}
	r.Note("", ended)
}

// NotePaused records that the execution ended because the run waits.
func (r *Run) NotePaused() {
	usage, models := r.budget.usage()
	r.Note("", journal.Paused{Usage: usage, Models: models})
}

// short cuts a message for lists of runs.
func short(text string) string {
	const most = 300
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	cut := most - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// StoppedWith is the diagnostic about the error that a run would have had if its rollback had finished; nil: it would
// have had none.
func StoppedWith(err error) diagnostics.List {
	if err == nil {
		return nil
	}
	d := diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeStepFailed, Message: err.Error()}
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		d.Step, d.Message = e.Step, e.Err.Error()
	}
	return diagnostics.List{d}
}

// End returns how the execution ended: with err, or without one. found are the diagnostics from before it began.
func (r *Run) End(err error, found diagnostics.List) End {
	end := End{RunID: r.o.ID, Recipe: r.program.Recipe.Name, Err: err, Trace: r.Trace(), Artefact: r.View().Artefact(),
		Diagnostics: found}
	if result := r.m.Result(); err == nil && result != nil {
		end.Output = result.Output
	}
	return end
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

// Close adds the events that say how the run ended, and numbers all events. shown receives the new ones.
func (end *End) Close(at time.Time, shown func(trace.Event)) {
	add := func(kind trace.Kind, attrs ...trace.Attr) {
		e := trace.Event{At: at, Kind: kind, Data: attrs}
		shown(e)
		end.Trace = append(end.Trace, e)
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
	} else {
		add(trace.RunEnd, trace.Attr{Key: "status", Value: status})
	}
	for i := range end.Trace {
		end.Trace[i].Seq = int64(i + 1)
	}
}

// endsWell is the payload of run.end for a run that is ok. Runs share it.
var endsWell = trace.Data{{Key: "status", Value: "ok"}}
