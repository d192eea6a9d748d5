package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Status is how a run ended.
type Status string

// The statuses of an outcome.
const (
	StatusOK        Status = "ok"
	StatusPaused    Status = "paused"
	StatusError     Status = "error"
	StatusCancelled Status = "cancelled"
)

// Outcome is the result of an execution of a run. It is never nil, and its JSON is the object that
// the command prints.
type Outcome struct {
	Status      Status
	RunID       string
	Recipe      string           // the recipe's name
	Output      any              // the recipe's output, decoded JSON; nil unless the status is ok
	Artefact    map[string]any   // outputs of steps that succeeded, by id; if paused, also those in bodies, by path
	Token       string           // of the first pause; "" unless paused
	Pauses      []resume.Pause   // pending pauses in plan order, see resume.Pause.Token; nil unless paused
	Err         error            // a *runtime.Error; nil for ok and paused
	Trace       []trace.Event    // in plan order, bodies in place
	Diagnostics diagnostics.List // of the compile, the requirements and the run, in this order
	Usage       Usage            // of models, in all executions of the run; a fork does not count what it shares
	StartedAt   time.Time        // start of the run; zero if it did not start or was not found
	EndedAt     time.Time        // end of the run, or of this execution if the run has not ended; zero like StartedAt
}

// Usage is what the model calls of a run used, including failed attempts.
type Usage struct {
	Calls            int64   `json:"calls"`
	InputTokens      int64   `json:"inputTokens"`                // all of the input
	CachedTokens     int64   `json:"cachedTokens,omitempty"`     // of the input, those read from the provider's cache
	CacheWriteTokens int64   `json:"cacheWriteTokens,omitempty"` // of the input, those written to it
	OutputTokens     int64   `json:"outputTokens"`
	ReasoningTokens  int64   `json:"reasoningTokens,omitempty"` // of the output, those of its thinking
	CostUSD          float64 `json:"costUsd"`                   // at Runtime.Prices
}

// outcomeOf returns the outcome of an execution, and its Err.
func outcomeOf(end *local.End) (*Outcome, error) {
	out := &Outcome{Status: Status(end.Status()), RunID: end.RunID, Recipe: end.Recipe, Output: end.Output,
		Artefact: end.Artefact, Err: end.Err, Trace: end.Trace, Diagnostics: end.Diagnostics,
		StartedAt: end.StartedAt, EndedAt: end.EndedAt, Usage: usageOf(end)}
	if end.Pauses != nil {
		out.Token, out.Pauses = end.Pauses[0].Token, end.Pauses
	}
	return out, out.Err
}

func usageOf(end *local.End) Usage {
	u := end.Used.Total()
	return Usage{Calls: end.Calls, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens, OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens,
		CostUSD: float64(u.Micros) / 1e6}
}

// Decode stores the output in the value that v points to. It decodes, and fails, as encoding/json does. A run that is
// not ok has no output: the error is then Err, or says that the run is paused.
func (o *Outcome) Decode(v any) error {
	switch {
	case o.Err != nil:
		return o.Err
	case o.Status != StatusOK:
		return fmt.Errorf("run %q is %s: it has no output yet", o.RunID, o.Status)
	}
	text, err := value.JSON(o.Output)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// Failure returns Err with its category and code; nil for ok and paused.
func (o *Outcome) Failure() *runtime.Error {
	e, _ := errors.AsType[*runtime.Error](o.Err)
	return e
}

// outcomeJSON is the JSON shape that the command documents.
type outcomeJSON struct {
	Status      Status           `json:"status"`
	RunID       string           `json:"runId,omitempty"`
	Recipe      string           `json:"recipe,omitempty"`
	Output      json.RawMessage  `json:"output,omitempty"`
	Artefact    json.RawMessage  `json:"artefact,omitempty"`
	Token       string           `json:"token,omitempty"`
	Pauses      []resume.Pause   `json:"pauses,omitempty"`
	Error       *errorJSON       `json:"error,omitempty"`
	Usage       *Usage           `json:"usage,omitempty"`
	StartedAt   time.Time        `json:"startedAt,omitzero"`
	EndedAt     time.Time        `json:"endedAt,omitzero"`
	Diagnostics diagnostics.List `json:"diagnostics"`
	Trace       []trace.Event    `json:"trace,omitempty"`
}

type errorJSON struct {
	Category runtime.Category `json:"category"`
	Code     string           `json:"code"`
	Message  string           `json:"message"`
	Step     string           `json:"step,omitempty"`
}

// MarshalJSON writes the outcome as the command prints it. Members without a value are omitted, except
// diagnostics and trace, which are always present. output is present, possibly null, if the run is ok. The
// error is non-nil if the data of an event in Trace cannot be encoded as JSON.
func (o *Outcome) MarshalJSON() ([]byte, error) {
	out := o.json()
	return marshal(struct {
		outcomeJSON
		Trace []trace.Event `json:"trace"`
	}{out, append([]trace.Event{}, o.Trace...)})
}

// Summary returns the outcome's JSON without its trace, for readers that have the events already. The error is
// always nil for an outcome that a run returned.
func (o *Outcome) Summary() ([]byte, error) { return marshal(o.json()) }

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (o *Outcome) json() outcomeJSON {
	out := outcomeJSON{Status: o.Status, RunID: o.RunID, Recipe: o.Recipe, Token: o.Token,
		Pauses: o.Pauses, StartedAt: o.StartedAt, EndedAt: o.EndedAt,
		Diagnostics: append(diagnostics.List{}, o.Diagnostics...)}
	if !o.StartedAt.IsZero() {
		out.Usage = &o.Usage
	}
	if o.Status == StatusOK {
		out.Output = rawJSON(o.Output)
	}
	if len(o.Artefact) > 0 {
		out.Artefact = rawJSON(o.Artefact)
	}
	if e := o.Failure(); e != nil {
		out.Error = &errorJSON{Category: e.Category, Code: e.Code, Message: e.Err.Error(), Step: e.Step}
	}
	return out
}

// rawJSON encodes a value that was decoded JSON when the run ended. If the caller has replaced it
// by something that cannot be encoded, the result is null.
func rawJSON(v any) json.RawMessage {
	text, err := value.JSON(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
