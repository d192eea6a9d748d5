package temporal

import (
	"encoding/json"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
	flow "github.com/braise-run/braise/workflow"
)

// outcome is a [flow.Outcome] on its way to a client.
type outcome struct {
	Status      string            `json:"status"` // running, or that of the outcome
	RunID       string            `json:"runId,omitempty"`
	Recipe      string            `json:"recipe,omitempty"`
	Digest      string            `json:"digest,omitempty"` // of the recipe
	Output      *wire.Value       `json:"output,omitempty"`
	Artefact    *wire.Value       `json:"artefact,omitempty"`
	Pauses      []wire.Pause      `json:"pauses,omitempty"`
	Error       *wire.Known       `json:"error,omitempty"`
	Usage       flow.Usage        `json:"usage"`
	StartedAt   time.Time         `json:"startedAt,omitzero"`
	EndedAt     time.Time         `json:"endedAt,omitzero"`
	Diagnostics []wire.Diagnostic `json:"diagnostics,omitempty"`
	Trace       []trace.Event     `json:"trace,omitempty"`
	Asks        bool              `json:"asks,omitempty"` // a pause waits for somebody, and not only for a time
}

func usageOf(end *engine.End) flow.Usage {
	u := end.Used.Total()
	return flow.Usage{Calls: end.Calls, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens, OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens,
		CostUSD: float64(u.Micros) / 1e6}
}

// outcomeOf makes the outcome of an execution.
func outcomeOf(end *engine.End) *outcome {
	o := &outcome{Status: end.Status(), RunID: end.RunID, Recipe: end.Recipe, StartedAt: end.StartedAt,
		EndedAt: end.EndedAt, Diagnostics: wire.DiagnosticsOf(end.Diagnostics), Trace: end.Trace,
		Usage: usageOf(end), Output: wire.ValueOf(end.Output)}
	if end.Artefact != nil {
		o.Artefact = &wire.Value{V: end.Artefact}
	}
	for i := range end.Pauses {
		p := &end.Pauses[i]
		o.Pauses = append(o.Pauses, *wire.PauseOf(p))
		o.Asks = o.Asks || p.Kind != resume.System || p.RetryAt.IsZero()
	}
	if f := wire.FaultOf(end.Err); f != nil {
		o.Error = f.Known
	}
	return o
}

// outcome makes the outcome again.
func (o *outcome) outcome() *flow.Outcome {
	out := &flow.Outcome{Status: flow.Status(o.Status), RunID: o.RunID, Recipe: o.Recipe, Usage: o.Usage,
		StartedAt: o.StartedAt, EndedAt: o.EndedAt, Diagnostics: wire.ListOf(o.Diagnostics), Trace: o.Trace}
	if o.Output != nil {
		out.Output = o.Output.V
	}
	if o.Artefact != nil {
		out.Artefact, _ = o.Artefact.V.(map[string]any)
	}
	for i := range o.Pauses {
		out.Pauses = append(out.Pauses, o.Pauses[i].Restore())
	}
	if k := o.Error; k != nil {
		out.Err = k.Restore()
	}
	return out
}

// ended is the result of a workflow: the outcome, if it is small enough for one payload. The query outcome has it in any
// case.
type ended struct {
	Status  string          `json:"status"`
	Size    int             `json:"size"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// piece is a piece of the JSON of an outcome, for the query of it.
type piece struct {
	Text string `json:"text"`
	Size int    `json:"size"` // of the whole
}
