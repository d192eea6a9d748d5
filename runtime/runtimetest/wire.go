package runtimetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/braise-run/braise/runtime"
)

// Wire is the wire format of a provider's API, from the server's side. The test of an adapter implements it, and
// [TestModel] tests the adapter against a server that speaks it.
type Wire interface {
	// Connect returns the model under test. It sends its requests to the endpoint.
	Connect(t *testing.T, to Endpoint) runtime.Model

	// Read reads a request as strictly as the provider does: its method, path and headers, the names and types of all
	// members, roles, tools and their schemas. An error is what the provider refuses, and fails the test.
	Read(r *http.Request, body []byte) (*Asked, error)

	// Whole returns the body of an answer in one piece. Texts are encoded as encoding/json does it.
	Whole(asked *Asked, reply *Reply) string

	// Stream returns the events of the same answer in pieces: each is a whole server-sent event, with the empty line
	// that ends it. Texts and arguments take several events, and are split between characters.
	Stream(asked *Asked, reply *Reply) []string

	// Fault returns the body of a failure. In a stream, it is the event that ends it after it began well.
	Fault(fault Fault, inStream bool) string
}

// Endpoint is a server of a provider.
type Endpoint struct {
	URL      string // of the server, without a path
	Key      string // the API key that each request must carry
	MaxBytes int64  // that an answer may have before the model gives up
}

// Asked is a request as the provider reads it.
type Asked struct {
	Stream      bool
	System      string            // the instructions; "": none
	Messages    []runtime.Message // of the roles User, Assistant and ToolRole; their Parts do not matter
	Thinking    []string          // of earlier answers, in the order in which it came back; nil: none
	Tools       []runtime.ToolSpec
	Schema      json.RawMessage // that the answer must match; nil: none, or only in words
	Temperature *float64        // nil: not given
	MaxTokens   int             // 0: not given
	Options     runtime.ModelOptions
}

// Reply is an answer for a [Wire] to encode.
type Reply struct {
	Thinking string             // before the text; "": none
	Text     string             // "": none
	Calls    []runtime.ToolCall // the arguments are an object; nil: none
	Refusal  string             // why the model refuses, instead of a text; "": it does not
	Finish   string             // runtime.FinishStop, …
	Model    string             // that answers
	Usage    runtime.Usage

	form func(count int) string // of counts; nil: integers
}

// Count encodes a number of tokens, which need not be an integer. nil: leave it out.
func (r *Reply) Count(n int) json.RawMessage {
	if r.form == nil {
		return json.RawMessage(strconv.Itoa(n))
	}
	return json.RawMessage(r.form(n))
}

// Fault is a failure for a [Wire] to encode.
type Fault struct {
	Status  int    // of HTTP, also in a stream; 529: the provider is overloaded
	Message string // that the error has
	TooLong bool   // the request has more tokens than the model takes
}

// Feature is something that not every provider has.
type Feature string

// The features.
const (
	CacheWrites     Feature = "counts of tokens written to a cache"
	ReasoningTokens Feature = "counts of tokens of thinking"
	Thinking        Feature = "thinking that goes back with the next request"
)
