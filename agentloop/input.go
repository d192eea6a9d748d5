package agentloop

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Input is what one run of a loop gets. Only Prompt is needed.
type Input struct {
	Prompt  string
	Context string // goes before the prompt, in the same message; ""

	RunID      string // for requests and idempotency keys, see resume.Key
	Generation int    // the same. Defaults to 1
	Path       string // of the step; events and pauses name it

	Journal Journal  // nil: in memory, so nothing can go on later
	Vouched bool     // the journal is of this loop, whatever the digests say: instructions may name the run
	Answers []Answer // to pauses of an earlier leg; nil: none

	Archive Archive        // nil: conversations are not compacted
	Tools   []runtime.Tool // of this run: they shadow all others
	Allow   []string       // the host's list of tools that may be called; empty: all
	Deny    []string       // the host's list of those that may not

	// Emit is told of events as they happen, by one goroutine at a time; nil: nobody. content is, with
	// Content, what goes into or comes out of a call of the model or of a tool: decoded JSON.
	Emit    func(e trace.Event, content any)
	Content bool
	Deltas  bool // Emit wants the pieces of answers too; with an Ask they are for it to show

	// Ask and Call are called in place of the adapters, and call those: to retry, to take a slot, to
	// hide secrets. A resume.Suspension from either pauses the loop. nil: the adapter itself.
	Ask  func(ctx context.Context, c *ModelCall) (*runtime.Response, error)
	Call func(ctx context.Context, c *ToolCall) (json.RawMessage, error)
	// Port is called in place of the memory and the retriever, and calls them: to retry. nil: they are
	// called once.
	Port func(ctx context.Context, c *PortCall) (any, error)
	// Permit refuses a call before anybody is asked for approval, by an error. nil: nothing is refused.
	Permit func(ctx context.Context, tool string, args json.RawMessage) error

	watch func(*State) // told of the state after every event, by tests
}

// ModelCall is a call of a model that is to be made.
type ModelCall struct {
	Model   runtime.Model
	Request *runtime.Request  // its Step is the path of the loop, or of the child, that asks
	Emit    func(trace.Event) // tells of something that happens in the call; valid until it returns
}

// ToolCall is a call of a tool that is to be made.
type ToolCall struct {
	Tool      runtime.Tool
	Arguments json.RawMessage
	Path      string            // of the loop, or of the child, that calls
	Number    int               // of the call in that loop, from 1
	Emit      func(trace.Event) // tells of something that happens in the call; valid until it returns
}

// PortCall is a call of the memory or the retriever that is to be made.
type PortCall struct {
	Kind retry.Kind
	Path string                                 // of the loop, or of the child, that calls
	Call func(ctx context.Context) (any, error) // makes it; it may be called again
	Emit func(trace.Event)                      // tells of something that happens in the call; valid until it returns
}

// Result is how far a loop came.
type Result struct {
	Text        string            // of the model's last answer
	Data        any               // the validated answer, of a Loop with a Schema; nil where a bound stopped it
	Steps       int               // calls of the model, without repair turns
	Calls       []Call            // all tool calls with their results, in order
	Messages    []runtime.Message // the conversation, without the system prompt
	Usage       runtime.Usage     // children's with it
	StopReason  StopReason        // "paused" while it waits
	Trace       []trace.Event     // of this leg, in the order of the calls
	Diagnostics diagnostics.List  // of this leg
	Snapshot    Snapshot
}

// PauseError is the error of a loop that waits for answers, at least one.
type PauseError struct {
	Pauses []Pause // in the order of the calls, children's in place
}

// Error names what the loop waits for.
func (e *PauseError) Error() string {
	ids := make([]string, len(e.Pauses))
	for i, p := range e.Pauses {
		ids[i] = p.String()
	}
	return "the agent waits: " + strings.Join(ids, ", ")
}
