package workflow

import (
	"context"
	"fmt"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Run executes the workflow. input is a map (or a struct) of the recipe's inputs, nil for none;
// rt may be nil, which is the zero Runtime. Run does not panic, whatever tools and sinks do.
//
// The Outcome is never nil, and the error is its Err: nil when the run is ok or paused, else a
// *runtime.Error, whose Code docs/errors.md lists. Before the first step that is runtime.invalid, input.invalid,
// or what the run lacks, such as model.missing.
func (wf *Workflow) Run(ctx context.Context, input any, rt *runtime.Runtime) (*Outcome, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	leg := wf.leg(rt)
	leg.Open = func(r *local.Run) (map[string]any, error) { return wf.open(r, rt, input) }
	leg.Ready = func(r *local.Run, inputs map[string]any) error { return wf.begin(r, rt, inputs, "") }
	return wf.drive(ctx, leg)
}

// leg is a leg of a run of the workflow, which begins.
func (wf *Workflow) leg(rt *runtime.Runtime) *local.Leg {
	return &local.Leg{Program: wf.program, Runtime: rt, Found: wf.Diagnostics, About: wf.program.About,
		Interrupt: rt.Interrupt, By: strings.ToValidUTF8(rt.By, "\uFFFD")}
}

// drive makes a leg of a run.
func (wf *Workflow) drive(ctx context.Context, leg *local.Leg) (*Outcome, error) {
	end := local.Drive(ctx, leg)
	out := &Outcome{Status: Status(end.Status()), RunID: end.RunID, Recipe: wf.program.Recipe.Name, Output: end.Output,
		Artefact: end.Artefact, Err: end.Err, Trace: end.Trace, Diagnostics: end.Diagnostics,
		StartedAt: end.StartedAt, EndedAt: end.EndedAt, Usage: Usage{end.Calls, end.Used.Sent,
			end.Used.Tokens - end.Used.Sent, float64(end.Used.Micros) / 1e6}}
	if end.Pauses != nil {
		out.Token, out.Pauses = end.Pauses[0].Token, end.Pauses
	}
	return out, out.Err
}

// open does what comes before the first step: the run's id, what it needs, its inputs.
func (wf *Workflow) open(r *local.Run, rt *runtime.Runtime, input any) (map[string]any, error) {
	if err := rt.Validate(); err != nil {
		r.ID = local.NewID()
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err}
	}
	newID := rt.NewRunID
	if newID == nil {
		newID = local.NewID
	}
	r.Name(newID())
	err := r.Bind(wf.archive)
	if err == nil {
		err = wf.unknownTools(r.Caller.Offers, rt)
	}
	if err == nil {
		err = r.Caller.Unpriced()
	}
	if err != nil {
		return nil, err
	}
	given, err := inputMap(input)
	if err != nil {
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	inputs, err := wf.program.Inputs.Check(given)
	if err != nil {
		for _, f := range wf.program.Inputs.Faults(given, &program.Suggester{}, func(string) bool { return true }) {
			r.Caller.Diagnostics = append(r.Caller.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel,
				Kind: diagnostics.KindWorkflow,
				Code: diagnostics.CodeInput, Message: f.Message, Hint: f.Hint})
		}
		return nil, program.ConfigError(diagnostics.CodeInput, "%w", err)
	}
	return inputs, r.Strict()
}

// begin begins a new run, and its journal. Where the host has chosen the run's id that is written at once, so
// that nothing runs under an id that is taken. parent is the run that it shares its record with; "": none.
func (wf *Workflow) begin(r *local.Run, rt *runtime.Runtime, inputs map[string]any, parent string) (err error) {
	r.Engine.Begin(inputs)
	r.Store.Run = checkpoint.Run{ID: r.ID, Recipe: wf.program.Recipe.Name, Digest: wf.program.Digest,
		StartedAt: r.Began(), Parent: parent}
	if r.Store.Store = rt.Store; rt.Store == nil {
		return nil
	}
	if r.Store.Run.Definition, err = wf.program.Definition(); err != nil {
		return err
	}
	if rt.NewRunID != nil && parent == "" {
		return r.Flush()
	}
	return nil
}

// inputMap makes a map of what Run was given, which the caller may change afterwards.
func inputMap(input any) (map[string]any, error) {
	v, err := value.Normalise(input)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return value.Clone(v).(map[string]any), nil
	}
	return nil, fmt.Errorf("the input must be a map from input names to values, not %s", value.TypeName(v))
}

// Unapproved reports the agents with calls that need an approval which, with rt, nobody can give: approval says
// "always", and there is no Approver. A run reports them before its first step.
func (wf *Workflow) Unapproved(rt *runtime.Runtime) diagnostics.List {
	return call.Unapproved(wf.program, rt.Resolve(), rt)
}

// Check reports what a run with rt would find before its first step, in the mode of rt: the
// warnings of the compile, requirements that are not met, tools that are missing, shadowed or
// called with arguments that do not fit. It calls nothing but rt.Secrets and the tools' Spec.
// What is missing is in the list, never an error; the error is that of rt.Validate, or of a secret that cannot be read.
func (wf *Workflow) Check(ctx context.Context, rt *runtime.Runtime) (diagnostics.List, error) {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := rt.Validate(); err != nil {
		return nil, err
	}
	c, err := call.Bind(ctx, wf.program, wf.Diagnostics, rt)
	if err != nil {
		return nil, err
	}
	return rt.Diagnostics.Apply(c.Diagnostics), nil
}
