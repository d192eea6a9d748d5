// Package gemini provides a [runtime.Model] for Google's Gemini API, with thought signatures, thinking, safety
// settings, images and other files. docs/models/gemini.md describes what is sent.
//
// It has its own small client: Google's SDK adds 7.6 MB to the command, and gRPC. The wire format is the one of
// google.golang.org/genai v1.77.0 (types.go, and the converters ToMldev of models.go).
package gemini

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// The defaults of the options.
const (
	DefaultBaseURL  = "https://generativelanguage.googleapis.com/v1beta"
	DefaultTimeout  = endpoint.DefaultTimeout
	DefaultMaxBytes = endpoint.DefaultMaxBytes
)

// Options say which model answers.
type Options struct {
	BaseURL string            // without /models. Defaults to DefaultBaseURL.
	Model   string            // as the provider calls it, such as gemini-3.8-flash or tunedModels/mine; required
	APIKey  string            // sent as x-goog-api-key; "": none is sent
	Headers map[string]string // of every request; they go before the adapter's own
	Secrets []string          // parts of the path of BaseURL that are shown nowhere, as the key is not
	Timeout time.Duration     // of one request, from connecting to the last byte. Defaults to 10 minutes.

	// Provider is what [Model.Metadata] says. Defaults to gcp.gemini.
	Provider string

	// HTTPClient sends the requests; redirects are not followed, whatever it says of them. nil: one
	// that uses the proxy of the environment (HTTPS_PROXY and its like).
	HTTPClient *http.Client

	// MaxBytes is the most that an answer has, unpacked; more is an error. Of a stream it limits each
	// event, and the answer. Defaults to 16 MiB.
	MaxBytes int64

	// Reasoning is how much the model thinks, unless the request says it: minimal, low, medium or high. "": the
	// model's default.
	Reasoning string

	// Defaults are members of each request that the recipe does not set, by the API's names: safetySettings,
	// serviceTier, and generationConfig, an object, with temperature, topK and others. Those that the adapter sets
	// itself, such as contents, are an error. nil: none.
	Defaults map[string]any

	// NoSchema is for a model without structured outputs: the schema of an answer is then put into the instructions.
	NoSchema bool
}

// Model is one model of Google, as a [runtime.StreamingModel]. Make it with [New]. It is safe for concurrent use.
type Model struct {
	opts     Options
	client   *endpoint.Client
	path     string            // models/NAME
	defaults []endpoint.Member // but generationConfig
	config   map[string]any    // the defaults in generationConfig; nil: none
}

// New checks the options and makes a Model of them. It does no I/O. Errors hold nothing of the options but the names of
// headers and of defaults.
func New(opts Options) (*Model, error) {
	client, err := endpoint.New(endpoint.Options{
		BaseURL: opts.BaseURL, DefaultURL: DefaultBaseURL, Model: opts.Model,
		APIKey: opts.APIKey, KeyHeader: "X-Goog-Api-Key",
		Headers: opts.Headers,
		Secrets: opts.Secrets, Timeout: opts.Timeout, HTTPClient: opts.HTTPClient, MaxBytes: opts.MaxBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	m := &Model{opts: opts, client: client, path: pathOf(opts.Model)}
	if m.defaults, m.config, err = membersOf(opts.Defaults); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	return m, nil
}

// pathOf is the path of a model, whose name may have that of a collection.
func pathOf(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	segments := strings.Split(model, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return strings.Join(segments, "/")
}

// Metadata says which model it is, and that a call is made up to three times where no policy says otherwise: after a
// rate limit, a failure of the server or a call of a tool that cannot be read, or a lost connection.
func (m *Model) Metadata() runtime.Metadata {
	return runtime.Metadata{Provider: cmp.Or(m.opts.Provider, "gcp.gemini"), Model: m.opts.Model,
		Retry: endpoint.Retry(),
		Options: []string{"top_p", "stop", "seed", "tool_choice", "reasoning", "files",
			"image/*", "audio/*", "video/*", "application/pdf", "text/*"}}
}

// self names the model in its parts: another one may not understand them.
func (m *Model) self() string { return m.Metadata().Provider + "/" + m.opts.Model }

// Generate asks the model once. Every error is a *retry.Failure.
func (m *Model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return m.ask(ctx, req, ":generateContent", func(runtime.Delta) {})
}

// Stream is Generate that hands on the answer while it comes: its text, what the model thinks, and which tools it
// calls. A stream that ends before the model said that it was finished is a failure, after the pieces that have come.
// An end of them that may be the beginning of a secret is left out.
func (m *Model) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	return m.ask(ctx, req, ":streamGenerateContent?alt=sse", emit)
}

// ask sends a request to a method of the model, and reads its answer in the way that it comes.
func (m *Model) ask(
	ctx context.Context, req *runtime.Request, method string, emit func(runtime.Delta),
) (*runtime.Response, error) {
	body, names, err := m.encode(req)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var r reply
	path, shown := m.path+method, m.client.Shows(emit, names)
	err = m.client.Ask(ctx, path, body,
		func(in *bufio.Reader) error { return m.readWhole(ctx, path, in, &r) },
		func(in *bufio.Reader) error { return m.readStream(ctx, path, in, &r, shown) })
	if err == nil {
		err = m.unusable(ctx, path, &r)
	}
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
		Models []struct {
			Name string `json:"name"` // models/NAME
		} `json:"models"`
	}
	const all = "models?pageSize=1000" // the most, by default there are 50
	err := m.client.Do(ctx, http.MethodGet, all, nil, func(answer io.Reader) error {
		return m.client.ReadWhole(ctx, all, answer, &list)
	})
	if err != nil {
		return nil, hinted(&runtime.Request{}, err)
	}
	names := make([]string, 0, len(list.Models))
	for _, model := range list.Models {
		names = append(names, strings.TrimPrefix(model.Name, "models/"))
	}
	slices.Sort(names)
	return names, nil
}

// What the API says when it does not take a member of a request, or the key, all with the status 400.
var (
	refusesKey    = regexp.MustCompile(`(?i)API key (not|expired|is invalid)`)
	refusesSchema = regexp.MustCompile(`(?i)schema|response.?mime`)
	refusesEffort = regexp.MustCompile(`(?i)thinking`)
)

// hinted adds what can be done about a refusal.
func hinted(req *runtime.Request, err error) error {
	return endpoint.Hint(err, func(f *retry.Failure, said string) string {
		switch {
		case f.Status == http.StatusNotFound && req.Messages != nil:
			return "does the model exist, and may the key use it? braise doctor looks it up"
		case f.Status != http.StatusBadRequest:
		case refusesKey.MatchString(said):
			return "the endpoint does not take the key that api_key gives"
		case req.Schema != nil && refusesSchema.MatchString(said):
			return "json_schema: false of the model in braise.yaml puts the schema into words"
		case refusesEffort.MatchString(said):
			return "not every model knows each effort of reasoning; without one it thinks by its default"
		}
		return ""
	})
}
