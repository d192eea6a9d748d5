package host

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

// Model says where the answers of one model come from.
type Model struct {
	Provider  string             // script, openai, anthropic or gemini
	File      string             // of the script; relative to the folder of the configuration
	OpenAI    *openai.Options    // with the provider openai; otherwise nil
	Anthropic *anthropic.Options // with the provider anthropic; otherwise nil
	Gemini    *gemini.Options    // with the provider gemini; otherwise nil
	Limits    limit.Limits       // how often all runs of a Runtime together ask it. The zero value: without limits
	Batch     bool               // it answers in batches; of openai and anthropic. Then it has no Limits
	Fallback  []string           // models that answer instead, see runtime.Runtime. nil: none

	written string               // File before its variables were replaced, for messages
	pos     diagnostics.Position // of File
	absent  string               // why it cannot be used, with a hint on a second line; "": it can
}

func (r *reader) models(n *yamlnode.Node) map[string]Model {
	models := map[string]Model{}
	for _, f := range r.Map(n) {
		if f.Key == "" {
			r.Errorf(f.Pos, diagnostics.CodeInvalidValue, "", "a model's name may not be empty")
		}
		if r.replay {
			models[f.Key] = Model{Provider: replayed, Fallback: r.texts(f.Value.Child("fallback"))}
			continue
		}
		name := "model." + f.Key
		m := part(r, name, func() Model { return r.model(f.Value) })
		m.absent = r.absent[name]
		models[f.Key] = m
	}
	r.checkFallbacks(n, models)
	return models
}

// checkFallbacks reports fallbacks that are not configured, and circles of them.
func (r *reader) checkFallbacks(n *yamlnode.Node, models map[string]Model) {
	fallbacks := map[string][]string{}
	at := map[string]diagnostics.Position{}
	for _, f := range r.Map(n) {
		list := f.Value.Child("fallback")
		if list == nil {
			continue
		}
		fallbacks[f.Key], at[f.Key] = models[f.Key].Fallback, list.Pos
		for _, item := range list.Items {
			name, _ := item.Value.(string)
			if _, ok := models[name]; !ok && item.Kind == yamlnode.String && !hasVariable(name) {
				r.Errorf(item.Pos, diagnostics.CodeUnknownName,
					diagnostics.DidYouMean(name, slices.Sorted(maps.Keys(models))), "there is no model %q", name)
			}
		}
	}
	if circle := runtime.FallbackCircle(fallbacks); circle != nil {
		r.Errorf(at[circle[0]], diagnostics.CodeInvalidValue, "let one of them have no fallback",
			"the fallbacks of models make a circle: %s", strings.Join(circle, " → "))
	}
}

// prices reads what models cost. A name need not be one of models here: an app may add its own.
func (r *reader) prices(n *yamlnode.Node) map[string]runtime.Price {
	var prices map[string]runtime.Price
	for _, f := range r.Map(n) {
		fields := r.Object(f.Value, []string{"input", "cached_read", "cache_write", "output"}, nil)
		if fields == nil {
			continue
		}
		r.Require(f.Value, fields, "input", "output")
		if prices == nil {
			prices = map[string]runtime.Price{}
		}
		prices[f.Key] = runtime.Price{Input: r.price(fields["input"]), Output: r.price(fields["output"]),
			CachedRead: r.ofInput(fields["cached_read"]), CacheWrite: r.ofInput(fields["cache_write"])}
	}
	return prices
}

// ofInput reads the price of a part of the input. 0: it is not given, and the price of the input counts.
func (r *reader) ofInput(n *yamlnode.Node) float64 {
	if n == nil {
		return 0
	}
	found := len(r.Diagnostics)
	f := r.price(n)
	if f == 0 && len(r.Diagnostics) == found && n.Kind != yamlnode.Invalid {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "leave it out for the price of input",
			"%q must be more than 0", n.Key)
	}
	return f
}

// price reads an amount of money.
func (r *reader) price(n *yamlnode.Node) float64 {
	f := r.Float(n)
	if f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q must be 0 or more", n.Key)
		return 0
	}
	return f
}

// ofEndpoints are the keys of models that an endpoint answers.
var ofEndpoints = []string{"model", "api_key", "base_url", "headers", "timeout", "json_schema", "provider_name",
	"options", "max_parallel", "rpm", "tpm"}

// providers has the keys of each provider's models.
var providers = map[string][]string{"script": {"file"},
	"openai":    append([]string{"api", "images", "batch"}, ofEndpoints...),
	"anthropic": append([]string{"batch"}, ofEndpoints...), "gemini": ofEndpoints}

func (r *reader) model(n *yamlnode.Node) Model {
	always := []string{"provider", "fallback"} // whoever the provider is
	fields := r.Object(n, slices.Concat(always, providers["script"], providers["openai"]), nil)
	r.Require(n, fields, "provider")
	m := Model{Fallback: r.texts(fields["fallback"]),
		Provider: read(r, fields["provider"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "script", "openai", "anthropic", "gemini")
		})}
	if m.Provider == "" {
		return m
	}
	for _, f := range n.Fields {
		if fields[f.Key] != nil && !slices.Contains(slices.Concat(always, providers[m.Provider]), f.Key) {
			r.Errorf(f.Value.Pos, diagnostics.CodeUnknownKey, "", "the provider %q takes no %q", m.Provider, f.Key)
		}
	}
	switch m.Provider {
	case "openai":
		m.OpenAI = r.openai(n, fields)
	case "anthropic":
		m.Anthropic = r.anthropic(n, fields)
	case "gemini":
		m.Gemini = r.gemini(n, fields)
	}
	if m.Provider != "script" {
		m.Limits = limit.Limits{MaxParallel: r.most(fields["max_parallel"]), RPM: r.most(fields["rpm"]),
			TPM: r.most(fields["tpm"])}
		m.Batch = r.batches(n, fields["batch"])
		return m
	}
	r.Require(n, fields, "file")
	if file := fields["file"]; file != nil {
		m.File, m.pos = r.text(file), file.Pos
		m.written, _ = file.Value.(string)
	}
	return m
}

// endpoint is a model that an endpoint answers.
type endpoint interface {
	runtime.Model
	runtime.Described
	Models(ctx context.Context) ([]string, error) // which the endpoint has
}

// hasEndpoint reports whether an endpoint answers, and not a script.
func (m Model) hasEndpoint() bool { return m.OpenAI != nil || m.Anthropic != nil || m.Gemini != nil }

// endpoint makes the model of OpenAI, Anthropic or Google, whichever is set. Its calls take no longer than most, unless
// that is 0.
func (m Model) endpoint(most time.Duration) (endpoint, error) {
	switch {
	case m.Anthropic != nil:
		opts := *m.Anthropic
		opts.Timeout = shorter(opts.Timeout, most)
		if m.Batch {
			return anthropic.NewBatches(opts)
		}
		return anthropic.New(opts)
	case m.Gemini != nil:
		opts := *m.Gemini
		opts.Timeout = shorter(opts.Timeout, most)
		return gemini.New(opts)
	}
	opts := *m.OpenAI
	opts.Timeout = shorter(opts.Timeout, most)
	if m.Batch {
		return openai.NewBatches(opts)
	}
	return openai.New(opts)
}

// shorter is the shorter of two limits; 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// limits words the limits of a model, as the end of a sentence; "": it has none.
func (m Model) limits() string {
	var list []string
	for _, l := range []struct {
		most int
		of   string
	}{{m.Limits.MaxParallel, "calls at once"}, {m.Limits.RPM, "requests a minute"}, {m.Limits.TPM, "tokens a minute"}} {
		if l.most > 0 {
			list = append(list, fmt.Sprintf("%d %s", l.most, l.of))
		}
	}
	if m.Batch {
		return "; it answers in batches"
	}
	if list == nil {
		return ""
	}
	return "; at most " + strings.Join(list, ", ")
}

// most reads a limit of a model.
func (r *reader) most(n *yamlnode.Node) int {
	if n == nil || n.Kind == yamlnode.Invalid {
		return 0
	}
	code := diagnostics.CodeWrongType
	if n.Kind == yamlnode.Int {
		if i, ok := n.Value.(int64); ok && 1 <= i && i <= math.MaxInt32 {
			return int(i)
		}
		code = diagnostics.CodeInvalidValue
	}
	r.Errorf(n.Pos, code, "leave it out for no limit", "%q must be an integer from 1 to %d", n.Key, math.MaxInt32)
	return 0
}

// credential matches the names of headers that hold secrets.
var credential = regexp.MustCompile(`(?i)auth|cookie|key|token|secret`)

// adapter says what is wrong with options, in the words of who takes them. What adapters of endpoints have in common
// stands in an openai.Options.
type adapter func(openai.Options) error

func openaiAdapter(opts openai.Options) error {
	_, err := openai.New(opts)
	return err
}

func responsesAdapter(opts openai.Options) error {
	opts.API = openai.ResponsesAPI
	return openaiAdapter(opts)
}

func anthropicAdapter(opts openai.Options) error {
	_, err := anthropic.New(anthropicOptions(opts))
	return err
}

func anthropicOptions(o openai.Options) anthropic.Options {
	return anthropic.Options{Model: o.Model, BaseURL: o.BaseURL, APIKey: o.APIKey, Headers: o.Headers,
		Secrets: o.Secrets, Timeout: o.Timeout, Provider: o.Provider, Defaults: o.Defaults, NoSchema: o.NoSchema}
}

func geminiAdapter(opts openai.Options) error {
	_, err := gemini.New(geminiOptions(opts))
	return err
}

func geminiOptions(o openai.Options) gemini.Options {
	return gemini.Options{Model: o.Model, BaseURL: o.BaseURL, APIKey: o.APIKey, Headers: o.Headers,
		Secrets: o.Secrets, Timeout: o.Timeout, Provider: o.Provider, Defaults: o.Defaults, NoSchema: o.NoSchema}
}

func (r *reader) openai(n *yamlnode.Node, fields map[string]*yamlnode.Node) *openai.Options {
	opts := r.endpoint(n, fields, openaiAdapter)
	settings := openaiSettings
	if opts.API = read(r, fields["api"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
		return r.OneOf(n, openai.ResponsesAPI)
	}); opts.API != "" {
		settings = responsesSettings
	}
	opts.Defaults, _ = r.modelOptions(fields["options"], settings)
	return &opts
}

func (r *reader) anthropic(n *yamlnode.Node, fields map[string]*yamlnode.Node) *anthropic.Options {
	opts := anthropicOptions(r.endpoint(n, fields, anthropicAdapter))
	members, own := r.modelOptions(fields["options"], anthropicSettings)
	opts.Defaults = members
	opts.MaxTokens, _ = own["max_tokens"].(int)
	opts.Reasoning, _ = own["reasoning"].(string)
	opts.OneCall = own["parallel_tool_calls"] == false
	return &opts
}

func (r *reader) gemini(n *yamlnode.Node, fields map[string]*yamlnode.Node) *gemini.Options {
	opts := geminiOptions(r.endpoint(n, fields, geminiAdapter))
	members, own := r.modelOptions(fields["options"], geminiSettings)
	opts.Defaults = members
	opts.Reasoning, _ = own["reasoning"].(string)
	return &opts
}

// endpoint reads what models of all endpoints have.
func (r *reader) endpoint(n *yamlnode.Node, fields map[string]*yamlnode.Node, of adapter) openai.Options {
	r.Require(n, fields, "model")
	r.secret(fields["api_key"])
	opts := openai.Options{
		Model:    r.text(fields["model"]),
		BaseURL:  r.option(fields["base_url"], of, func(o *openai.Options, s string) { o.BaseURL = s }),
		APIKey:   r.sent(fields["api_key"], of, func(o *openai.Options, s string) { o.APIKey = s }),
		Secrets:  r.urlSecrets(fields["base_url"]),
		Timeout:  read(r, fields["timeout"], readDuration),
		Provider: r.text(fields["provider_name"]),
	}
	for _, f := range r.Map(fields["headers"]) {
		if credential.MatchString(f.Key) {
			r.secret(f.Value)
		}
		value := r.sent(f.Value, of, func(o *openai.Options, s string) { o.Headers = map[string]string{f.Key: s} })
		if opts.Headers == nil {
			opts.Headers = map[string]string{}
		}
		opts.Headers[f.Key] = value
	}
	if schema := fields["json_schema"]; schema != nil {
		opts.NoSchema = !r.Bool(schema)
	}
	if images := fields["images"]; images != nil {
		opts.NoImages = !r.Bool(images)
	}
	return opts
}

// apiVersion is a part of a path that tells nothing.
var apiVersion = regexp.MustCompile(`^v[0-9]{1,2}(alpha|beta)?[0-9]?$`)

// urlSecrets are what the variables in the user, the path and the query of a URL hold, but for versions of an API. Of
// one that stands before these, such as one that is the whole URL, they are those parts.
func (r *reader) urlSecrets(n *yamlnode.Node) (secrets []string) {
	if n == nil || n.Kind != yamlnode.String {
		return nil
	}
	text, start := n.Value.(string), 0
	if scheme := strings.Index(text, "://"); scheme >= 0 {
		start = scheme + len("://")
	}
	head, tail := text, ""
	if end := strings.IndexAny(text[start:], "/?#"); end >= 0 {
		head, tail = text[:start+end], text[start+end:]
	}
	at := strings.LastIndex(head, "@") + 1
	parts := append(r.valuesIn(head[:at]), r.valuesIn(tail)...)
	for _, value := range r.valuesIn(head[at:]) {
		parts = append(parts, urlParts(value)...)
	}
	for _, part := range parts {
		if part != "" && !apiVersion.MatchString(part) {
			secrets = append(secrets, part)
		}
	}
	return secrets
}

// valuesIn are what the variables in a text hold.
func (r *reader) valuesIn(text string) (values []string) {
	_, _ = expand(text, func(name string) (string, bool) { // an error is reported where the text is read
		value, ok := r.env(name)
		values = append(values, strings.TrimSpace(value))
		return value, ok
	})
	return values
}

// urlParts are the user, the parts of the path and the values of the query of a URL that may lack its scheme.
func urlParts(text string) []string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		rest = text
	}
	u, err := url.Parse("//" + rest)
	if err != nil {
		return []string{text}
	}
	password, _ := u.User.Password()
	parts := append(strings.Split(u.Path, "/"), u.User.Username(), password)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	return parts
}

// option reads an option of a model that its adapter has an opinion about, without white space around it: a
// variable may have the line end of the file that it came from.
func (r *reader) option(n *yamlnode.Node, of adapter, set func(*openai.Options, string)) string {
	return read(r, n, func(r *yamlnode.Reader, n *yamlnode.Node) string {
		text := strings.TrimSpace(r.Text(n))
		if text == "" {
			return ""
		}
		opts := openai.Options{Model: "any"}
		set(&opts, text)
		if err := of(opts); err != nil {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%s", withoutAdapter(err))
		}
		return text
	})
}

// sent reads an option that goes into a header.
func (r *reader) sent(n *yamlnode.Node, of adapter, set func(*openai.Options, string)) string {
	if !r.sendable(n) {
		return ""
	}
	return r.option(n, of, set)
}

// withoutAdapter words an error of an adapter without its name, which stands in front.
func withoutAdapter(err error) string {
	_, message, _ := strings.Cut(err.Error(), ": ")
	return message
}

// secret reports a secret that stands in the file itself.
func (r *reader) secret(n *yamlnode.Node) {
	if n != nil && n.Kind == yamlnode.String && !hasVariable(n.Value.(string)) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, `put it into an environment variable and write "${NAME}"`,
			"the secret %q may not stand in the file", n.Key)
	}
}
