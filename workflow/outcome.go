package workflow

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/braise-run/braise/diagnostics"
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
	Artefact    map[string]any   // output of every step that succeeded, by id; partial unless ok
	Token       string           // of the first pause; "" unless paused
	Pauses      []resume.Pause   // that are open, in plan order, each with a fresh token; nil unless paused
	Err         error            // a *runtime.Error; nil for ok and paused
	Trace       []trace.Event    // in plan order, bodies in place
	Diagnostics diagnostics.List // of the compile, the requirements and the run, in this order
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
// diagnostics and trace are always there. output is there, null if need be, for a run that is ok.
func (o *Outcome) MarshalJSON() ([]byte, error) {
	out := o.json()
	return marshal(struct {
		outcomeJSON
		Trace []trace.Event `json:"trace"`
	}{out, append([]trace.Event{}, o.Trace...)})
}

// Summary is the outcome's JSON without its trace, for readers who saw the events already.
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
		Pauses: o.Pauses, Diagnostics: append(diagnostics.List{}, o.Diagnostics...)}
	if o.Status == StatusOK {
		out.Output = rawJSON(o.Output)
	}
	if len(o.Artefact) > 0 {
		out.Artefact = rawJSON(o.Artefact)
	}
	if e := o.Error(); e != nil {
		out.Error = &errorJSON{e.Category, e.Code, e.Error(), e.Step}
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
