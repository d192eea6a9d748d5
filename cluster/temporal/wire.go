package temporal

import (
	"encoding/json"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/runtime"
)

// input is what a workflow begins with. One that continues has what [carried.pack] makes as its second argument.
type input struct {
	Definition json.RawMessage `json:"definition"`
	Inputs     json.RawMessage `json:"inputs,omitempty"` // nil: the journal has them
	By         string          `json:"by,omitempty"`
	Options    Options         `json:"options"`
}

// carried is what one execution of a workflow hands to the next, beside the records.
type carried struct {
	Offer   *offer   `json:"offer"`
	Outcome *outcome `json:"outcome,omitempty"` // of a run that is paused, without the artefact; nil: it is at work
	Made    []string `json:"made,omitempty"`    // the paths in the artefact: the journal has the outputs
	Cancel  canceled `json:"cancel,omitzero"`   // what was said, if the run is cancelled later
	Moved   int      `json:"moved,omitempty"`   // how often a pause has moved to another version of the workers
}

// request is one attempt of a call.
type request struct {
	Run     string   `json:"run"`
	Secrets []string `json:"secrets,omitempty"` // the names of the run's
	Once    bool     `json:"once,omitempty"`    // it has an effect outside: nobody makes it again
	wire.Call
}

// answer is what an attempt came to. What an adapter says went wrong is no failure of the activity.
type answer = wire.Result

// requestOf makes the request for a call of a run. secrets are the names of the run's.
func requestOf(run string, c *engine.Call, secrets []string) *request {
	return &request{run, secrets, c.Effect == runtime.External, *wire.CallOf(c)}
}
