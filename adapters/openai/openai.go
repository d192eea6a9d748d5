// Package openai provides a [runtime.Model] for any endpoint with OpenAI's chat completions API:
// OpenAI itself, Ollama, vLLM, OpenRouter, and the compatible endpoints of Anthropic and Gemini.
// docs/models.md describes the differences. With [ResponsesAPI] it speaks OpenAI's Responses API
// instead, whose wire format is the one of github.com/openai/openai-go/v3 v3.99.0; docs/models/openai.md
// describes that.
//
// Requests use the types of github.com/sashabaranov/go-openai. Its client is not used, because it
// reads answers without a limit, hides the Retry-After header, treats an error with status 200 as an
// answer, and refuses a whole answer because of one unusual field that is not needed. Its stream
// treats a truncated answer as complete, and accepts tool calls only in one piece.
package openai

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const chatPath = "chat/completions"

// The defaults of the options.
const (
	DefaultBaseURL  = "https://api.openai.com/v1"
	DefaultTimeout  = endpoint.DefaultTimeout
	DefaultMaxBytes = endpoint.DefaultMaxBytes
)

// Options say which model of which endpoint answers.
type Options struct {
	BaseURL string            // without /chat/completions. Defaults to DefaultBaseURL.
	API     string            // ResponsesAPI; "": chat completions
	Model   string            // as the endpoint calls it; required
	APIKey  string            // sent as a bearer token; "": none is sent
	Headers map[string]string // of every request; they go before the adapter's own
	Secrets []string          // parts of the path of BaseURL that are shown nowhere, as the key is not
	Timeout time.Duration     // of one request, from connecting to the last byte. Defaults to 10 minutes.

	// Provider is what [Model.Metadata] says: a name of OpenTelemetry's gen_ai.provider.name where
	// there is one. Defaults to the one of the base URL's host if it is well known, else to the host.
	Provider string

	// HTTPClient sends the requests; redirects are not followed, whatever it says of them. nil: one
	// that uses the proxy of the environment (HTTPS_PROXY and its like).
	HTTPClient *http.Client

	// MaxBytes is the most that an answer has, unpacked; more is an error. Of a stream it limits each
	// event, and the text and tool calls together. Defaults to 16 MiB.
	MaxBytes int64

	// Defaults are members of each request that the recipe does not set, by the endpoint's names: temperature, top_p,
	// reasoning_effort, service_tier. Those that the adapter sets itself, such as max_tokens, are an error. nil: none.
	Defaults map[string]any

	// NoSchema is for an endpoint that does not know, or ignores, response_format json_schema: the
	// schema of an answer is then put into the system message.
	NoSchema bool

	// NoImages is for a model that takes texts only: it is shown no images and PDFs. DeepSeek's are known.
	NoImages bool
}

// Model is one model of an endpoint, as a [runtime.StreamingModel]. Make it with [New]. It is safe
// for concurrent use.
type Model struct {
	opts     Options
	client   *endpoint.Client
	defaults []endpoint.Member
	nested   map[string]map[string]any // defaults within members of the Responses API
	mode     atomic.Int32              // the best that the endpoint has not refused
}

// How an answer is asked for, the best first.
const (
	streamUsage int32 = iota // in pieces, and with a count of tokens
	stream                   // in pieces
	whole
)

// New checks the options and makes a Model of them. It does no I/O. Errors hold nothing of the
// options but the names of headers.
func New(opts Options) (*Model, error) {
	client, err := endpoint.New(endpoint.Options{
		BaseURL: opts.BaseURL, DefaultURL: DefaultBaseURL, Model: opts.Model,
		APIKey: opts.APIKey, KeyHeader: "Authorization", KeyPrefix: "Bearer ", Headers: opts.Headers,
		Secrets: opts.Secrets, Timeout: opts.Timeout, HTTPClient: opts.HTTPClient, MaxBytes: opts.MaxBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	m := &Model{opts: opts, client: client}
	given, own := opts.Defaults, ours
	switch opts.API {
	case "":
	case ResponsesAPI:
		own = oursOfResponses
		given, m.nested, err = nestedDefaults(opts.Defaults)
	default:
		err = fmt.Errorf("there is no API %q, only %q", opts.API, ResponsesAPI)
	}
	if err == nil {
		m.defaults, err = endpoint.Members(given, own)
	}
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return m, nil
}

// Metadata says which provider's model it is, and that a call is made up to three times where no policy says
// otherwise: after a rate limit, a failure of the server, or a lost connection.
func (m *Model) Metadata() runtime.Metadata {
	takes := []string{"top_p", "stop", "seed", "tool_choice", "reasoning", "files", "text/*"}
	if m.opts.API == ResponsesAPI {
		takes = []string{"top_p", "tool_choice", "reasoning", "files", "text/*"}
	}
	host := endpoint.ProviderOf(m.client.Host())
	if !m.opts.NoImages && host != "deepseek" {
		takes = append(takes, "image/*", "application/pdf")
	}
	return runtime.Metadata{Provider: cmp.Or(m.opts.Provider, host), Model: m.opts.Model, Retry: endpoint.Retry(),
		Options: takes}
}

// Generate asks the model once. Every error is a *retry.Failure. A refusal of the model is an error
// that is never retried.
//
// Tool names travel with "__" for every dot; two tools that would be one then are an error.
// Arguments of a tool call that are not JSON are handed on as a JSON string.
func (m *Model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return m.ask(ctx, req, whole, func(runtime.Delta) {})
}

// Stream is Generate that hands on the answer while it comes: its text, what the model thinks, and
// which tools it calls. An endpoint that refuses stream_options, or to stream at all, is asked again
// without; that is remembered. A stream that ends before the model said that it was finished is a
// failure, after the pieces that have come. An end of them that may be the beginning of a secret is
// left out.
func (m *Model) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	began := false
	for mode := m.mode.Load(); ; {
		resp, err := m.ask(ctx, req, mode, func(d runtime.Delta) {
			began = true
			emit(d)
		})
		next := worse(mode, err)
		if began || next == mode {
			if err == nil {
				m.mode.Store(mode)
			}
			return resp, err
		}
		mode = next
	}
}

var refusesStream = regexp.MustCompile(`\bstream`)

// worse is the mode to ask in after a failure in this one: the same, unless that is what was refused.
func worse(mode int32, err error) int32 {
	f, ok := errors.AsType[*retry.Failure](err)
	switch {
	case !ok || f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity:
	case mode == streamUsage && strings.Contains(err.Error(), "stream_options"):
		return stream
	case refusesStream.MatchString(err.Error()): // OpenAI: an organization "must be verified to stream"
		return whole
	}
	return mode
}

// ask sends a request, and reads its answer in the way that it comes.
func (m *Model) ask(
	ctx context.Context, req *runtime.Request, mode int32, emit func(runtime.Delta),
) (*runtime.Response, error) {
	if m.opts.API == ResponsesAPI {
		return m.askResponses(ctx, req, mode != whole, emit)
	}
	body, names, err := m.encode(req, mode)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var r reply
	shown := m.client.Shows(emit, names)
	err = m.client.Ask(ctx, chatPath, body,
		func(in *bufio.Reader) error {
			body, err := m.client.ReadAll(in, chatPath)
			if err != nil {
				return err
			}
			return m.decode(ctx, body, &r)
		},
		func(in *bufio.Reader) error { return m.readStream(ctx, in, &r, shown) })
	if err != nil {
		return nil, m.hinted(req, err)
	}
	resp, err := m.response(ctx, &r, req, names)
	if err != nil {
		return nil, err
	}
	shown.End(resp)
	return resp, nil
}

// Models asks the endpoint for the models that it has and returns their names, sorted. It shows
// whether the endpoint can be reached and takes the key. An endpoint may know more names than it
// lists.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	err := m.client.Do(ctx, http.MethodGet, "models", nil, func(answer io.Reader) error {
		return m.client.ReadWhole(ctx, "models", answer, &list)
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Data))
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	slices.Sort(names)
	return names, nil
}

// chatRequest is the body of a request. Its own fields hide those of the library, which cannot say
// a temperature of 0 or an empty text, and calls max_tokens deprecated.
type chatRequest struct {
	sdk.ChatCompletionRequest
	Messages    []any    `json:"messages"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
}

type message struct {
	Role       runtime.Role `json:"role"`
	Content    any          `json:"content,omitempty"` // a text, or its parts
	ToolCalls  []any        `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

// encode makes the body of a request, and returns the tools' names by what they are on the wire.
func (m *Model) encode(req *runtime.Request, mode int32) (body []byte, names map[string]string, err error) {
	chat := chatRequest{Temperature: req.Temperature, TopP: req.Options.TopP, Seed: req.Options.Seed}
	chat.Model, chat.Stop, chat.ReasoningEffort = m.opts.Model, req.Options.Stop, req.Options.Reasoning
	chat.Stream = mode != whole
	if mode == streamUsage {
		chat.StreamOptions = &sdk.StreamOptions{IncludeUsage: true}
	}
	offered, choice := offer(req)
	chat.ToolChoice = toolChoice(choice)
	forms, names, err := endpoint.Tools(offered)
	if err != nil {
		return nil, nil, err
	}
	chat.Tools = tools(forms)
	messages, format, err := m.asked(req)
	if err != nil {
		return nil, nil, err
	}
	chat.ResponseFormat = format
	for _, msg := range messages {
		text, err := m.wireMessage(msg)
		if err != nil {
			return nil, nil, err
		}
		chat.Messages = append(chat.Messages, text)
	}
	if m.newTokens() {
		chat.MaxCompletionTokens = req.MaxTokens
	} else {
		chat.MaxTokens = req.MaxTokens
	}
	if body, err = json.Marshal(chat); err != nil {
		return nil, nil, err
	}
	return m.withDefaults(body, req), names, nil
}

// offer returns the tools that a request offers, and which are to be called. If it offers none, those that the
// conversation calls are declared, and not to be called.
func offer(req *runtime.Request) (tools []runtime.ToolSpec, choice string) {
	if len(req.Tools) > 0 {
		return req.Tools, req.Options.ToolChoice
	}
	if tools = endpoint.Called(req.Messages); tools != nil {
		return tools, runtime.ToolsNone
	}
	return nil, req.Options.ToolChoice
}

// asked returns the messages of a request in the form that models take, with the schema of its answer if that is not
// in format.
func (m *Model) asked(req *runtime.Request) (
	messages []runtime.Message, format *sdk.ChatCompletionResponseFormat, err error,
) {
	messages = m.conversation(req.Messages)
	if len(messages) == 0 && len(req.Messages) > 0 {
		return nil, nil, errors.New("nothing is asked: all messages are empty\n  hint: give a prompt that is not empty")
	}
	if format = m.formatOf(req); format == nil && req.Schema != nil {
		messages = withSchema(messages, req.Schema)
	}
	return messages, format, nil
}

// reasoning matches the models of OpenAI that refuse max_tokens, wherever they are offered.
var reasoning = regexp.MustCompile(`^(o[1-9]|gpt-[5-9])`)

// newTokens reports whether the limit of an answer is called max_completion_tokens. OpenAI's name
// for it is not known everywhere, while most others know max_tokens.
func (m *Model) newTokens() bool { return m.official() || reasoning.MatchString(m.opts.Model) }

// official reports whether the endpoint is OpenAI's own, or Azure's of it. Others that are told a response_format hold
// every turn to it, also one that should call a tool.
func (m *Model) official() bool {
	provider := endpoint.ProviderOf(m.client.Host())
	return provider == "openai" || provider == "azure.ai.openai"
}
