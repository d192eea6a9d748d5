package temporal

import (
	"encoding/json"
	"errors"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// show lets queries see how a leg ended.
func (r *run) show(end *engine.End) {
	r.shown = outcomeOf(end)
	r.shown.Digest = r.program.Digest
	r.text, _ = json.Marshal(r.shown)
	r.found(r.shown.Status)
}

// result is how the workflow ends.
func (r *run) result(end *engine.End) (*ended, error) {
	e := &ended{Status: r.shown.Status, Size: len(r.text)}
	if len(r.text) <= maxPayload {
		e.Outcome = r.text
	}
	known, _ := errors.AsType[*runtime.Error](end.Err)
	switch {
	case known == nil:
		return e, nil
	case r.shown.Status == "cancelled":
		return nil, temporal.NewCanceledError(*e)
	}
	return nil, temporal.NewApplicationErrorWithOptions(known.Error(), known.Code,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*e}})
}

// full reports whether another execution should continue.
func (r *run) full() bool {
	info := workflow.GetInfo(r.free)
	most := r.in.Options.MaxEvents
	if most == 0 {
		most = maxEvents
	}
	return (info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > most) && !r.uploading()
}

// carry has another execution continue, unless what it needs is too large: then the run ends.
func (r *run) carry(ctx workflow.Context) (*engine.End, error) {
	next, packed, err := r.handover()
	if err != nil {
		r.carries = false
		return r.fails(err)
	}
	if r.shown == nil {
		r.report(r.engine.Trace())
	}
	r.over = true
	_ = workflow.Await(r.free, func() bool { return workflow.AllHandlersFinished(r.free) })
	return nil, workflow.NewContinueAsNewErrorWithOptions(ctx, r.versioned(), runWorkflow, next, packed)
}

// handover is what the next execution begins with. The error says that it is too large.
func (r *run) handover() (next input, packed []byte, err error) {
	next = *r.in
	next.Inputs = nil
	c := &carried{Offer: r.offer, Cancel: *r.whyCancelled(), Moved: r.moved}
	if r.outdated() {
		c.Moved++
	}
	if r.shown != nil {
		paused := *r.shown
		if c.Outcome = &paused; paused.Artefact != nil {
			made, _ := paused.Artefact.V.(map[string]any)
			c.Made, paused.Artefact = value.SortedKeys(made), nil
		}
		if trace, _ := json.Marshal(paused.Trace); len(trace) > maxTrace {
			paused.Trace = nil
		}
	}
	packed, err = c.pack(&r.store)
	if err != nil {
		return next, nil, err
	}
	if n := sizeOf(next) + len(packed); n > maxCarried {
		return next, nil, tooLarge("the run must continue in another execution of its workflow, and its recipe and its journal "+
			"have %d bytes, compressed: the limit is %d\n  hint: the outputs of all steps are in the journal; have them name "+
			"what is large, by a path or a URL", n, maxCarried)
	}
	return next, packed, nil
}

// fails ends a run that cannot continue.
func (r *run) fails(err error) (*engine.End, error) {
	r.engine.NoteEnd(err)
	return r.stuck(err)
}
