// Package endpoint has what the adapters of models share that speak HTTP with their providers: a client that sends a
// request and limits what comes back, streams of events, failures by reason with the time to wait, and secrets that
// appear in no message.
package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/retry"
)

// The defaults of the options.
const (
	DefaultTimeout  = 10 * time.Minute
	DefaultMaxBytes = 16 << 20
)

// Options say how requests are sent, and which model of which address answers them.
type Options struct {
	BaseURL    string            // without the path of a request. Defaults to DefaultURL.
	DefaultURL string            // the base URL of the provider; messages have it as an example
	Model      string            // as the endpoint calls it; required
	APIKey     string            // "": none is sent
	KeyHeader  string            // the header that has the key
	KeyPrefix  string            // of the key in its header
	Own        map[string]string // headers of every request that the API wants
	Headers    map[string]string // of every request; they go before all others
	Secrets    []string          // parts of the path of BaseURL that are shown nowhere, as the key is not
	Timeout    time.Duration     // of one request, to the last byte of its answer. Defaults to DefaultTimeout.
	HTTPClient *http.Client      // redirects are not followed. nil: one that uses the proxy of the environment
	MaxBytes   int64             // the most that an answer, or an event of one, has. Defaults to DefaultMaxBytes.
}

// Client sends the requests of a model. Make it with [New]. It is safe for concurrent use.
type Client struct {
	opts    Options
	base    *url.URL
	header  http.Header
	host    string // of the Headers; "": that of base
	client  *http.Client
	secrets secrets
}

// New checks the options and makes a Client of them. It does no I/O. Errors hold nothing of the options but the names
// of headers.
func New(opts Options) (*Client, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	opts.MaxBytes = min(opts.MaxBytes, math.MaxInt64-1) // one more is read, to see that there is more
	base, err := url.Parse(cmp.Or(opts.BaseURL, opts.DefaultURL))
	switch {
	case opts.Model == "":
		return nil, errors.New("the name of the model is missing")
	case err != nil, base.Scheme != "http" && base.Scheme != "https", base.Hostname() == "":
		return nil, fmt.Errorf("the base URL is not like %q", opts.DefaultURL)
	}
	c := &Client{opts: opts, base: base, header: http.Header{}, client: newClient(opts.HTTPClient),
		secrets: secretsOf(opts)}
	c.header.Set("Accept", "application/json")
	c.header.Set("Content-Type", "application/json")
	c.header.Set("User-Agent", "braise")
	for name, value := range opts.Own {
		c.header.Set(name, value)
	}
	if opts.APIKey != "" {
		if strings.ContainsFunc(opts.APIKey, isControl) {
			return nil, errors.New("the API key holds a line break or another control character")
		}
		c.header.Set(opts.KeyHeader, opts.KeyPrefix+opts.APIKey)
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Headers)) {
		value := opts.Headers[name]
		switch {
		case !headerName.MatchString(name):
			return nil, fmt.Errorf("%q is not the name of a header", name)
		case strings.ContainsFunc(value, isControl):
			return nil, fmt.Errorf("the header %q holds a line break or another control character", name)
		}
		if strings.EqualFold(name, "Host") {
			c.host = value
		}
		c.header.Set(name, value)
	}
	return c, nil
}

// Host is the name of the host that answers.
func (c *Client) Host() string { return c.base.Hostname() }

// MaxBytes is the most that an answer has.
func (c *Client) MaxBytes() int64 { return c.opts.MaxBytes }

// headerName is what RFC 9110 calls a token.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// newClient copies a client, so that it does not follow redirects: they would take the headers, any
// of which may be a credential, to another place.
func newClient(given *http.Client) *http.Client {
	client := &http.Client{}
	if given != nil {
		*client = *given
	} else {
		client.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        30 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 1 << 20,
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Retry says that a call is made up to three times where no policy says otherwise: after a rate limit, a failure of
// the server, or a lost connection.
func Retry() *retry.Metadata {
	return &retry.Metadata{RateLimited: 2 * time.Second, Restartable: true,
		Policy: retry.Policy{MaxAttempts: 3, Backoff: 500 * time.Millisecond, MaxBackoff: 8 * time.Second,
			Jitter: retry.FullJitter, RetryOn: []retry.Reason{retry.RateLimit, retry.ServerError, retry.Network}}}
}
