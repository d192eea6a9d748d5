package runtime

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/braise-run/braise/retry"
)

// Model answers requests. Generate must be safe for concurrent use and should return soon after
// ctx is done. A failure that trying again could mend is, or wraps, a retry.Failure.
type Model interface {
	Generate(ctx context.Context, req *Request) (*Response, error)
}

// StreamingModel is an optional second interface of a Model: Stream is Generate that also hands on
// the answer while it comes. A run calls it when a trace sink wants the pieces.
type StreamingModel interface {
	Model

	// Stream calls emit for each piece, in order, and returns the whole answer, equal to what
	// Generate returns. It must not call emit once it has returned.
	Stream(ctx context.Context, req *Request, emit func(Delta)) (*Response, error)
}

// LimitedModel is an optional second interface of a Model whose calls may have to wait before they are sent. A run
// asks for a turn before each attempt, whose timeout begins then; a run that drains waits no longer.
type LimitedModel interface {
	Model

	// Turn waits until req may be sent, and returns a model that sends it at once. That is to be called once, and
	// streams if this one does. When ctx is done before, it is an error, and the failure says that nothing was sent.
	Turn(ctx context.Context, req *Request) (Model, error)
}

// Delta is a piece of an answer. The pieces of DeltaText together are its text.
type Delta struct {
	Kind string // DeltaText, …
	Text string
}

// The kinds of pieces. What is not of the text is for those who watch, and no part of any output.
const (
	DeltaText     = ""
	DeltaThinking = "thinking" // of what the model thinks, or of a summary of it
	DeltaToolCall = "toolCall" // the name of a tool whose call begins
)

// Described is an optional second interface of a Model, a Tool, a Retriever or a Searcher.
type Described interface {
	Metadata() Metadata
}

// Metadata is what an adapter says about itself. It must not change.
type Metadata struct {
	Provider string        // of a model, as OpenTelemetry's conventions name it: openai, anthropic; "" when unknown
	Model    string        // of a model, as its provider names it; "" when unknown
	Requires []Requirement // what must be there for it to work, secrets apart; nil: nothing
	// Options are, of a model, the ModelOptions that it takes, by their names in JSON, and "files" if messages may have
	// some, with the media types of those: image/png, text/*; without a type, it takes any. nil: none.
	Options []string
	// Retry says when calls without another policy are tried again, and whether a
	// stream may be opened again. nil: never, and not.
	Retry *retry.Metadata
	// Spends are the names, of a searcher, an index or a reranker, under which Runtime.Prices has what its calls use.
	// nil: none.
	Spends []string
	// Missing says why a model or a retriever cannot be used although the host names it, with a hint on a second line:
	// it counts as not there. "": it can be used.
	Missing string
}

// Role says who speaks in a message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the result of a tool call
)

// Message is one message of a conversation.
type Message struct {
	Role       Role       `json:"role"`
	Text       string     `json:"text"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // of the assistant
	ToolCallID string     `json:"tool_call_id,omitempty"` // with ToolRole: the call it answers
	Parts      []Part     `json:"parts,omitempty"`        // of the assistant, see Part; nil: none
	Files      []File     `json:"files,omitempty"`        // of the user, or with ToolRole; nil: none
}

// File is an image or another file that goes with the text of a message. A [Memory] keeps its name, in the text.
// Models see https URLs and data only. What is in other files is kept beside the journal: hooks see their names.
type File struct {
	// URL is https, or data in base64, or the path of a file of Runtime.Files, or the name of one that a tool returned.
	URL       string `json:"url"`
	MediaType string `json:"media_type"` // of an https URL by its ending; image/* if that says nothing

	// Of a file that a tool returned.
	SHA256 string `json:"sha256,omitempty"` // of what is in it, in hex
	Bytes  int64  `json:"bytes,omitempty"`
}

// Part is a piece of an answer that only the model's adapter understands: thinking, a signature, an image.
// An agent gives it back to the model with the message, or the tool call, that it came with. It is kept in journals,
// and in no [Memory], but for the part that marks a summary of what the memory has before it.
type Part struct {
	Of   string          `json:"of"`   // the model that it is of, in the adapter's words; an adapter leaves out others
	Name string          `json:"name"` // what it is, in the adapter's words
	Data json.RawMessage `json:"data"` // any JSON
}

// ToolCall is a model's wish to call a tool.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Parts     []Part          `json:"parts,omitempty"` // see Part; nil: none
}

// Request is one call of a model. The model must not change it.
type Request struct {
	Run      string // the run's id
	Step     string // the path of the step that calls
	Call     int    // this is the run's n-th call of this model, from 1
	StepCall int    // this is the step's n-th call, from 1

	Model       string // the name that the recipe uses
	Messages    []Message
	Tools       []ToolSpec      // nil: none are offered
	Schema      json.RawMessage // JSON Schema that the answer must match, checked by the engine; nil: free text
	Temperature *float64        // nil: the model's default
	MaxTokens   int             // of the answer; 0: the model's default
	Options     ModelOptions    // only those that Metadata.Options has; the zero value: the model's defaults
}

// ModelOptions are settings of a request that only some models take. A recipe gives ToolChoice, an agent in Go any.
// What holds for all requests of a model is a setting of its adapter.
type ModelOptions struct {
	TopP *float64 `json:"top_p,omitempty"` // from 0 to 1; nil: the model's default
	Stop []string `json:"stop,omitempty"`  // texts before which the answer ends; nil: none
	Seed *int64   `json:"seed,omitempty"`  // equal ones should give equal answers; nil: the model's default
	// ToolChoice is ToolsAuto, ToolsNone, ToolsRequired, or the name of the tool that must be called. "": ToolsAuto.
	ToolChoice string `json:"tool_choice,omitempty"`
	Reasoning  string `json:"reasoning,omitempty"` // the effort: low, medium, high; "": the model's default
}

// What a model may do with the tools that it is offered, in [ModelOptions].
const (
	ToolsAuto     = "auto"     // it may call some
	ToolsNone     = "none"     // it may not
	ToolsRequired = "required" // it must call at least one
)

// Refused returns the first option of the request that a model whose [Metadata] has these Options does not take, or
// what files it does not take; "": it takes them all.
func (r *Request) Refused(takes []string) string {
	o, files := r.Options, slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Files != nil })
	for _, option := range []struct {
		name  string
		given bool
	}{{"top_p", o.TopP != nil}, {"stop", o.Stop != nil}, {"seed", o.Seed != nil}, {"tool_choice", o.ToolChoice != ""},
		{"reasoning", o.Reasoning != ""}, {"files", files}} {
		if option.given && !slices.Contains(takes, option.name) {
			return option.name
		}
	}
	for i := range r.Messages {
		for _, f := range r.Messages[i].Files {
			if !TakesType(takes, f.MediaType) {
				return FilesOf(f.MediaType)
			}
		}
	}
	return ""
}

// TakesType reports whether a model whose [Metadata] has these Options, with files among them, takes files of a media
// type. It takes one that is not known yet: "", and image/* if it takes any images.
func TakesType(takes []string, mediaType string) bool {
	named := false
	for _, t := range takes {
		kind, sub, isType := strings.Cut(t, "/")
		named = named || isType
		if of := strings.HasPrefix(mediaType, kind+"/"); isType && (t == mediaType || of && sub == "*" ||
			mediaType == kind+"/*") {
			return true
		}
	}
	return !named || mediaType == ""
}

// FilesOf names the files of a media type in messages, as [Request.Refused] does.
func FilesOf(mediaType string) string { return "files of the type " + mediaType }

// Response is a model's answer.
type Response struct {
	Text      string
	ToolCalls []ToolCall
	Parts     []Part // for the next request; nil: none
	Usage     Usage
	Finish    string // FinishStop, …; "" when unknown
	Model     string // that answered, as the provider names it; "" when unknown
}

// Why an answer ended, in [Response].
const (
	FinishStop   = "stop"
	FinishLength = "length" // it has as many tokens as it may have
	FinishCalls  = "tool_calls"
	FinishFilter = "content_filter" // the provider held it back, or a part of it
)

// Usage counts tokens, of every provider in the same way: all of the input and the output, and of these what has a
// price of its own, or may have.
type Usage struct {
	InputTokens      int `json:"input_tokens"`                 // all of the input, cached or not
	CachedTokens     int `json:"cached_tokens,omitempty"`      // of the input, those read from the provider's cache
	CacheWriteTokens int `json:"cache_write_tokens,omitempty"` // of the input, those written to it
	OutputTokens     int `json:"output_tokens"`
	ReasoningTokens  int `json:"reasoning_tokens,omitempty"` // of the output, those of its thinking
}

// Plus adds.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.InputTokens + v.InputTokens, u.CachedTokens + v.CachedTokens,
		u.CacheWriteTokens + v.CacheWriteTokens, u.OutputTokens + v.OutputTokens,
		u.ReasoningTokens + v.ReasoningTokens}
}

// Clamped returns counts that can be: none is below 0, and what is part of another is no more than that. A provider
// that counts wrongly fails no answer.
func (u Usage) Clamped() Usage {
	u.InputTokens, u.OutputTokens = max(0, u.InputTokens), max(0, u.OutputTokens)
	u.CachedTokens = min(max(0, u.CachedTokens), u.InputTokens)
	u.CacheWriteTokens = min(max(0, u.CacheWriteTokens), u.InputTokens-u.CachedTokens)
	u.ReasoningTokens = min(max(0, u.ReasoningTokens), u.OutputTokens)
	return u
}
