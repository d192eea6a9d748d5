package builtin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// HTTPOptions say what http.request may do. The zero value lets it reach public addresses.
type HTTPOptions struct {
	// AllowPrivate lets requests reach addresses that are not on the public internet (loopback,
	// private networks, cloud metadata, …) and lets the environment's HTTP_PROXY count.
	AllowPrivate bool
	Timeout      time.Duration // of a call that gives none. Defaults to 30 s.
	MaxBytes     int64         // of a response's body, unpacked; a larger one is an error. Defaults to 4 MiB.
}

const (
	maxRedirects   = 10
	maxHeaderBytes = 1 << 20
	quotedBytes    = 512      // of a refused answer's body or a failed program's stderr, in an error's message
	refusedBytes   = 64 << 10 // that are read of such a body
)

type httpArgs struct {
	Method      string            `json:"method"`
	URL         string            `json:"url"`
	Query       map[string]texts  `json:"query"`
	Headers     map[string]string `json:"headers"`
	Body        *string           `json:"body"`
	JSON        json.RawMessage   `json:"json"`
	Timeout     string            `json:"timeout"`
	AllowStatus allowed           `json:"allow_status"`
}

type httpResult struct {
	Status  int             `json:"status"`
	Headers map[string]any  `json:"headers"` // lower-case names
	Body    string          `json:"body"`
	JSON    json.RawMessage `json:"json,omitempty"` // left out unless the body is JSON and says so
}

var httpParameters = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["url"],
  "properties": {
    "method": {"type": "string", "pattern": "^[A-Za-z]+$", "default": "GET", "description": "of the request"},
    "url": {"type": "string", "description": "http or https"},
    "query": {
      "type": "object",
      "description": "values by name, encoded and added to that of url; a list repeats the name",
      "additionalProperties": {
        "anyOf": [
          {"type": ["string", "number", "boolean", "null"]},
          {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}
        ]
      }
    },
    "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "by name"},
    "body": {"type": "string", "description": "sent as it is"},
    "json": {"description": "any value, sent as application/json; not together with body"},
    "timeout": {"type": "string", "description": "a duration like 30s"},
    "allow_status": {
      "description": "statuses from 400 on that are no failure: a list, or true for all",
      "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer"}}]
    }
  }
}`)

// HTTPRequest returns the tool http.request. Its result is {status, headers, body, json}, without
// json unless the response says that it is JSON and is. A status from 400 on is a *retry.Failure
// unless allow_status has it. Messages never hold the URL's query or user.
//
// At most 10 redirects are followed. One that leaves the origin of the request takes none of the
// recipe's headers along but those that describe content, and is refused if a body would go along that has a secret
// of the run.
func HTTPRequest(opts HTTPOptions) runtime.Tool {
	r := requester{opts: opts, client: newClient(opts)}
	return tool[httpArgs]{
		spec: runtime.ToolSpec{
			Name:        "http.request",
			Description: "Send an HTTP request and return its response.",
			Parameters:  httpParameters,
			Result:      "{status, headers, body, json}; json if the body is JSON",
			Effect:      runtime.External,
			EffectOf: effectOf(func(in httpArgs) runtime.Effect {
				switch in.method() {
				case http.MethodGet, http.MethodHead:
					return runtime.ReadOnly
				}
				return runtime.External
			}),
		},
		call: r.call,
	}
}

func newClient(opts HTTPOptions) *http.Client {
	return &http.Client{Transport: Transport(opts.AllowPrivate), CheckRedirect: checkRedirect}
}

// Transport sends requests as http.request does: to addresses that are not on the public internet only if
// allowPrivate says so.
func Transport(allowPrivate bool) http.RoundTripper {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if allowPrivate {
		transport.Proxy = http.ProxyFromEnvironment
	} else { // and no proxy: it would connect to addresses that we never see
		dialer.Control = refusePrivate
	}
	return transport
}

type requester struct {
	opts   HTTPOptions
	client *http.Client
}

// call sends one request:
//  1. build it, refusing what is wrong with the arguments;
//  2. send it, noting how far it came;
//  3. read the answer, within the limits;
//  4. refuse a status of 400 and more, or return the result.
func (r requester) call(ctx context.Context, in httpArgs) (any, error) {
	timeout, err := timeoutOf(in.Timeout, r.opts.Timeout)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timedOut(timeout))
	defer cancel()
	var way progress
	req, err := in.request(httptrace.WithClientTrace(ctx, way.trace()))
	if err != nil {
		return nil, refuse("%w", err)
	}
	what := req.Method + " " + shown(req.URL)

	resp, err := r.client.Do(req)
	if err != nil {
		return nil, way.failure(ctx, what, err)
	}
	defer resp.Body.Close()

	if resp.StatusCode >= 400 && !in.AllowStatus.has(resp.StatusCode) {
		return nil, statusFailure(ctx, what, resp)
	}
	limit := or(r.opts.MaxBytes, DefaultMaxBytes)
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, way.failure(ctx, what, err)
	case int64(len(body)) > limit:
		return nil, &retry.Failure{Status: resp.StatusCode, Sent: true,
			Err: fmt.Errorf("%s: the response is larger than %d bytes", what, limit)}
	}
	if body, err = decoded(resp.Header, body); err != nil {
		return nil, &retry.Failure{Status: resp.StatusCode, Sent: true, Err: fmt.Errorf("%s: %w", what, err)}
	}

	out := httpResult{Status: resp.StatusCode, Headers: map[string]any{}, Body: string(body),
		JSON: asJSON(resp.Header, body)}
	for name, values := range resp.Header {
		out.Headers[strings.ToLower(name)] = header(name, values)
	}
	return out, nil
}

func (in httpArgs) method() string {
	if in.Method == "" {
		return http.MethodGet
	}
	return strings.ToUpper(in.Method)
}

// request builds the request, or says what is wrong with the arguments.
func (in httpArgs) request(ctx context.Context) (*http.Request, error) {
	u, err := in.address()
	if err != nil {
		return nil, err
	}
	var body io.Reader
	switch {
	case in.Body != nil && in.JSON != nil:
		return nil, errors.New("body and json exclude each other")
	case in.Body != nil:
		body = strings.NewReader(*in.Body)
	case in.JSON != nil:
		body = bytes.NewReader(in.JSON)
	}
	req, err := http.NewRequestWithContext(ctx, in.method(), u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "braise")
	key, method := runtime.IdempotencyKey(ctx), in.method()
	if key != "" && method != http.MethodGet && method != http.MethodHead {
		req.Header.Set("Idempotency-Key", key) // a header of the recipe's own goes before it
	}
	if text := trace.Traceparent(ctx); text != "" {
		req.Header.Set("Traceparent", text)
	}
	if in.JSON != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		value := strings.TrimSpace(in.Headers[name]) // a secret may have the line end of the file that it came from
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("the header %q holds a line break or another control character", name)
		}
		if strings.EqualFold(name, "Host") {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// checkRedirect follows at most maxRedirects, to http and https only. Once a redirect has left the
// origin of the first request, the headers that the recipe gave stay behind: any of them may be a
// credential, and a way back may be a trap. The referrer stays too, its query may be one. A body with a secret goes
// nowhere else.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return refuse("more than %d redirects", maxRedirects)
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return refuse("redirected to %q, which is neither http nor https", shown(req.URL))
	}
	origin := via[0].URL
	for _, hop := range append(slices.Clone(via[1:]), req) {
		upgraded := origin.Scheme == "http" && hop.URL.Scheme == "https"
		if strings.EqualFold(origin.Host, hop.URL.Host) && (origin.Scheme == hop.URL.Scheme || upgraded) {
			continue
		}
		for name := range req.Header {
			switch name {
			case "Accept", "Accept-Language", "Content-Type", "User-Agent":
			default:
				req.Header.Del(name)
			}
		}
		if hasSecret(req) {
			return refuse("redirected to %s, which is not sent the body of the request: it has a secret",
				shown(req.URL))
		}
		return nil
	}
	return nil
}

// hasSecret reports whether the body of a request has a secret of the run. One that cannot be read counts as such.
func hasSecret(req *http.Request) bool {
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return true
	}
	text, err := io.ReadAll(body)
	return err != nil || runtime.Redact(req.Context(), string(text)) != string(text)
}

// progress notes how far a request came. Its hooks are called from the transport's goroutines.
type progress struct{ dialing, connected atomic.Bool }

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { p.dialing.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.connected.Store(true) },
	}
}

// failure says why a request brought no response.
func (p *progress) failure(ctx context.Context, what string, err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err // without the URL: its query may hold a secret
	}
	f := &retry.Failure{Reason: retry.Network, Sent: p.connected.Load()}
	_, isPrivate := errors.AsType[privateAddress](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	refusal, isRefusal := errors.AsType[*retry.Failure](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		err = ended(ctx)
		f.Reason = retry.ReasonOf(err)
	case isRefusal:
		err, f.Reason = refusal.Err, ""
	case isPrivate, isCertificate, !p.dialing.Load(): // never got as far as the network
		f.Reason = ""
	case isNet && netErr.Timeout():
		f.Reason = retry.Timeout
	}
	f.Err = fmt.Errorf("%s: %w", what, err)
	return f
}

// statusFailure says which status came back, with the beginning of the body. Secrets go first: a fold or a cut may
// leave a part of one.
func statusFailure(ctx context.Context, what string, resp *http.Response) error {
	message := fmt.Sprintf("%s: status %d %s", what, resp.StatusCode, http.StatusText(resp.StatusCode))
	body, err := io.ReadAll(io.LimitReader(resp.Body, refusedBytes)) // what there is: the status is the failure
	said := value.RedactorOf(ctx).Middle(string(body), false, err != nil || len(body) == refusedBytes)
	if text := oneLine(said[:min(len(said), quotedBytes)]); text != "" {
		message += ": " + text
	}
	return &retry.Failure{
		Reason: retry.ReasonOfStatus(resp.StatusCode),
		Status: resp.StatusCode,
		After:  retry.ParseAfter(resp.Header.Get("Retry-After")),
		Sent:   true,
		Err:    errors.New(message),
	}
}

// shown is a URL for messages: no user, query or fragment, which may hold secrets.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// oneLine is text for a message: white space folded, nothing that is not UTF-8 or printable.
func oneLine(text string) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' && r != '\r' {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}
