// Package anthropic provides a [runtime.Model] for Anthropic's Messages API, with prompt caching, thinking, images and
// PDFs. docs/models.md describes what is sent.
//
// It has its own small client: Anthropic's SDK adds 5 MB to the command, reads answers without a limit, and decodes
// what has to be sent back unchanged. The wire format is the one of github.com/anthropics/anthropic-sdk-go v1.84.0.
package anthropic

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const messagesPath = "messages"

// version is that of the API: the latest that takes a temperature.
// https://platform.claude.com/docs/en/api/versioning
const version = "2023-06-01"

// The defaults of the options.
const (
	DefaultBaseURL   = "https://api.anthropic.com/v1"
	DefaultTimeout   = endpoint.DefaultTimeout
	DefaultMaxBytes  = endpoint.DefaultMaxBytes
	DefaultMaxTokens = 16384
)

// Options say which model answers.
type Options struct {
	BaseURL string            // without /messages. Defaults to DefaultBaseURL.
	Model   string            // as the provider calls it; required
	APIKey  string            // sent as x-api-key; "": none is sent
	Headers map[string]string // of every request, such as anthropic-beta; they go before the adapter's own
	Secrets []string          // parts of the path of BaseURL that are shown nowhere, as the key is not
	Timeout time.Duration     // of one request, from connecting to the last byte. Defaults to 10 minutes.

	// Provider is what [Model.Metadata] says. Defaults to anthropic.
	Provider string

	// HTTPClient sends the requests; redirects are not followed, whatever it says of them. nil: one
	// that uses the proxy of the environment (HTTPS_PROXY and its like).
	HTTPClient *http.Client

	// MaxBytes is the most that an answer has, unpacked; more is an error. Of a stream it limits each
	// event, and the answer. Defaults to 16 MiB.
	MaxBytes int64

	// MaxTokens is the most that an answer has, thinking included, if the recipe sets no max_tokens: the API wants a
	// number. Defaults to DefaultMaxTokens.
	MaxTokens int

	// Reasoning is how much the model thinks, unless the request says it: low, medium, high, or what else the model
	// knows. "": the model's default.
	Reasoning string

	// OneCall asks for no more than one tool call in an answer.
	OneCall bool

	// Defaults are members of each request that the recipe does not set, by the API's names: temperature, top_k,
	// service_tier, thinking. Those that the adapter sets itself, such as max_tokens, are an error. nil: none.
	Defaults map[string]any

	// NoSchema is for a model without structured outputs: the schema of an answer is then put into the instructions.
	NoSchema bool
}

// ours are the members of a request that Options.Defaults cannot have.
var ours = []string{"model", "messages", "system", "tools", "tool_choice", "stream", "max_tokens", "output_config"}

// Model is one model of Anthropic, as a [runtime.StreamingModel]. Make it with [New]. It is safe for concurrent use.
type Model struct {
	opts     Options
	client   *endpoint.Client
	defaults []endpoint.Member
}

// New checks the options and makes a Model of them. It does no I/O. Errors hold nothing of the options but the names of
// headers.
func New(opts Options) (*Model, error) {
	client, err := endpoint.New(endpoint.Options{
		BaseURL: opts.BaseURL, DefaultURL: DefaultBaseURL, Model: opts.Model,
		APIKey: opts.APIKey, KeyHeader: "X-Api-Key", Own: map[string]string{"Anthropic-Version": version},
		Headers: opts.Headers,
		Secrets: opts.Secrets, Timeout: opts.Timeout, HTTPClient: opts.HTTPClient, MaxBytes: opts.MaxBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	defaults, err := endpoint.Members(opts.Defaults, ours)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	if opts.MaxTokens <= 0 {
		opts.MaxTokens = DefaultMaxTokens
	}
	return &Model{opts: opts, client: client, defaults: defaults}, nil
}

// Metadata says which model it is, and that a call is made up to three times where no policy says otherwise: after a
// rate limit, a failure of the server or that it is overloaded, or a lost connection.
func (m *Model) Metadata() runtime.Metadata {
	return runtime.Metadata{Provider: cmp.Or(m.opts.Provider, "anthropic"), Model: m.opts.Model,
		Retry: endpoint.Retry(),
		Options: append([]string{"top_p", "stop", "tool_choice", "reasoning", "files", "application/pdf", "text/*"},
			images...)}
}

// self names the model in its parts: another one may not understand them.
func (m *Model) self() string { return m.Metadata().Provider + "/" + m.opts.Model }

// Generate asks the model once. Every error is a *retry.Failure.
func (m *Model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return m.ask(ctx, req, false, func(runtime.Delta) {})
}

// Stream is Generate that hands on the answer while it comes: its text, what the model thinks, and which tools it
// calls. A stream that ends before the model said that it was finished is a failure, after the pieces that have come.
// An end of them that may be the beginning of a secret is left out.
func (m *Model) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	return m.ask(ctx, req, true, emit)
}

// ask sends a request, and reads its answer in the way that it comes.
func (m *Model) ask(
	ctx context.Context, req *runtime.Request, stream bool, emit func(runtime.Delta),
) (*runtime.Response, error) {
	body, names, err := m.encode(req, stream)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var r reply
	shown := m.client.Shows(emit, names)
	err = m.client.Ask(ctx, messagesPath, body,
		func(in *bufio.Reader) error { return m.readWhole(ctx, in, &r) },
		func(in *bufio.Reader) error { return m.readStream(ctx, in, &r, shown) })
	if err != nil {
		return nil, hinted(req, err)
	}
	resp := m.response(&r, req, names)
	shown.End(resp)
	return resp, nil
}

// Models asks for the models that the key may use and returns their names, sorted. It shows whether the endpoint can be
// reached and takes the key.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	const all = "models?limit=1000" // the most, by default there are 20
	err := m.client.Do(ctx, http.MethodGet, all, nil, func(answer io.Reader) error {
		return m.client.ReadWhole(ctx, all, answer, &list)
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

// What the API says when it does not take a member of a request.
var (
	refusesFormat = regexp.MustCompile(`output_config|output_format|structured.?output|json_schema|rammar`)
	refusesSample = regexp.MustCompile(`\b(temperature|top_p|top_k)\b`)
)

// hinted adds what can be done about a refusal.
func hinted(req *runtime.Request, err error) error {
	return endpoint.Hint(err, func(f *retry.Failure, said string) string {
		switch {
		case f.Status == http.StatusNotFound:
			return "does the model exist, and may the key use it? braise doctor looks it up"
		case f.Status != http.StatusBadRequest:
		case req.Schema != nil && refusesFormat.MatchString(said):
			return "json_schema: false of the model in braise.yaml puts the schema into words"
		case refusesSample.MatchString(said):
			return "newer models take no temperature, top_p or top_k: leave them out"
		}
		return ""
	})
}
