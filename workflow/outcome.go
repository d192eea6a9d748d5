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

// The ends of a run.
const (
	StatusOK        Status = "ok"
	StatusPaused    Status = "paused"
	StatusError     Status = "error"
	StatusCancelled Status = "cancelled"
)

// Outcome is how a run ended, with everything that is known of it. It is never nil, and its JSON
// is the object that the command prints.
type Outcome struct {
	Status      Status
	RunID       string
	Recipe      string           // the recipe's name
	Output      any              // the recipe's output, decoded JSON; nil unless the status is ok
	Artefact    map[string]any   // output of every step that succeeded, by id; paused, also of those in bodies, by path
	Token       string           // of the first pause; "" unless paused
	Pauses      []resume.Pause   // that are open, in plan order, each with a fresh token; nil unless paused
	Err         error            // a *runtime.Error; nil for ok and paused
	Trace       []trace.Event    // in plan order, bodies in place
	Diagnostics diagnostics.List // of the compile, the requirements and the run, in this order
	Usage       Usage            // of models, in all executions of the run; a fork does not count what it shares
	StartedAt   time.Time        // of the run; zero if it was not begun, or not found
	EndedAt     time.Time        // when the run ended or, where it goes on, this execution of it; zero like StartedAt
}

// Usage is what the calls of models in a run used, also those of attempts that failed.
type Usage struct {
	Calls        int64   `json:"calls"`
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	CostUSD      float64 `json:"costUsd"` // at Runtime.Prices
}

// outcomeOf is the outcome of an execution, and its Err.
func outcomeOf(end *local.End) (*Outcome, error) {
	out := &Outcome{Status: Status(end.Status()), RunID: end.RunID, Recipe: end.Recipe, Output: end.Output,
		Artefact: end.Artefact, Err: end.Err, Trace: end.Trace, Diagnostics: end.Diagnostics,
		StartedAt: end.StartedAt, EndedAt: end.EndedAt, Usage: Usage{end.Calls, end.Used.Sent,
			end.Used.Tokens - end.Used.Sent, float64(end.Used.Micros) / 1e6}}
	if end.Pauses != nil {
		out.Token, out.Pauses = end.Pauses[0].Token, end.Pauses
	}
	return out, out.Err
}

// Decode stores the output in what v points to, as encoding/json does, with its errors. A run that is not ok has none:
// the error is Err, or says that the run is paused.
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

// Error returns Err as what it is; nil for ok.
func (o *Outcome) Error() *runtime.Error {
	e, _ := errors.AsType[*runtime.Error](o.Err)
	return e
}

// outcomeJSON is the shape that command.md 1 fixes.
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

// MarshalJSON writes the outcome as the command prints it. Members without a value are left out;
// diagnostics and trace are always there. output is there, null if need be, for a run that is ok. The error
// is that of an event in Trace whose data is no JSON.
func (o *Outcome) MarshalJSON() ([]byte, error) {
	out := o.json()
	return marshal(struct {
		outcomeJSON
		Trace []trace.Event `json:"trace"`
	}{out, append([]trace.Event{}, o.Trace...)})
}

// Summary is the outcome's JSON without its trace, for readers who saw the events already. The error is always nil
// for what a run returned.
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
	if e := o.Error(); e != nil {
		out.Error = &errorJSON{e.Category, e.Code, e.Err.Error(), e.Step}
	}
	return out
}

// rawJSON encodes what was decoded JSON when the run ended; whoever made something else of it
// gets null.
func rawJSON(v any) json.RawMessage {
	text, err := value.JSON(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
