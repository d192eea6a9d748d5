package execution

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// refusedStill returns why the run was refused before, if that still holds; nil: it does not, or the run was not.
func (x *resumption) refusedStill(a act) error {
	if x.o.Refused == nil {
		return nil
	}
	err := x.load()
	if err == nil && x.rt.Store != nil {
		x.signals, err = local.Signals(x.ctx, x.ledger.Store, x.runID)
	}
	if _, cancels := x.cancelSignal(); err != nil || cancels || x.summary.Status.Ended() {
		return err
	}
	p, err := x.allow(a)
	if err != nil {
		return err
	}
	c, err := call.Bind(x.ctx, p, x.rt)
	if err != nil || !x.o.Complete {
		return nil // it is tried again
	}
	for _, d := range lacks(c) {
		if why := leftFor(&d); why.Error() == x.o.Refused.Error() {
			return why
		}
	}
	return nil
}

// lacks refuses to resume a run if a step that has not ended lacks a requirement and the options ask for this check.
func (x *resumption) lacks(r *local.Run) error {
	if !x.o.Complete || r.Engine.View().Standing().ForGood {
		return nil
	}
	if d := lacking(r, r.Engine.View().Ended()); d != nil {
		return leftFor(d)
	}
	return nil
}

// leftFor is the error of a run that is not resumed because of what it lacks.
func leftFor(d *diagnostics.Diagnostic) error {
	return program.ConfigError(d.Code, "the run is left as it is: %s%s", d.Message, program.HintLine(d.Hint))
}

// lacking says what a step lacks that has not ended; nil: nothing.
func lacking(r *local.Run, ended map[string]bool) *diagnostics.Diagnostic {
	for _, d := range lacks(r.Caller) {
		if step, _, _ := strings.Cut(d.Step, "/"); !ended[step] {
			return &d
		}
	}
	return nil
}

// lacks says what the steps of a program lack.
func lacks(c *call.Caller) (list diagnostics.List) {
	for _, d := range slices.Concat(c.Diagnostics, c.Off) {
		switch d.Code {
		case diagnostics.CodeMissingModel, diagnostics.CodeMissingTool, diagnostics.CodeMissingSecret,
			diagnostics.CodeModelOption,
			diagnostics.CodeMissingRetriever, diagnostics.CodeMissingCapability,
			diagnostics.CodeReadOnly, diagnostics.CodeMissingReranker,
			diagnostics.CodeNoFiles:
			if d.Step != "" {
				list = append(list, d)
			}
		}
	}
	return list
}

// complete refuses a run if a step that has not ended lacks something, and Complete asks for this check.
func (q Queued) complete(r *local.Run, ended map[string]bool) error {
	d := lacking(r, ended)
	if d == nil || !q.Complete {
		return nil
	}
	d.Level = diagnostics.ErrorLevel
	return &runtime.Error{Category: runtime.CategoryConfig, Code: string(d.Code), Step: d.Step,
		Err: &lack{d.Message + program.HintLine(d.Hint), &diagnostics.Error{List: diagnostics.List{*d}}}}
}

// lack is a requirement that is not there. It has the diagnostic that says so.
type lack struct {
	text  string
	found *diagnostics.Error
}

func (l *lack) Error() string { return l.text }
func (l *lack) Unwrap() error { return l.found }
