package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/trace"
)

const maxRedirects = 10

// sameServer is an http.Client.CheckRedirect. Redirects are followed as long as they stay on the
// server: headers may be secret.
func sameServer(req *http.Request, via []*http.Request) error {
	switch first := via[0].URL; {
	case req.URL.Scheme != first.Scheme || req.URL.Host != first.Host:
		return fmt.Errorf("it redirects to %s, which is not followed", shown(req.URL))
	case len(via) >= maxRedirects:
		return errors.New("it redirects too often")
	}
	return nil
}

// shown is a URL for messages: no user, query or fragment, which may hold secrets.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// requests makes the HTTP requests of one session: with the headers of the configuration, and so that
// it is known of each call how far it has come.
type requests struct {
	base    http.RoundTripper
	headers map[string]string
	limit   int64                  // bytes of an answer
	version atomic.Pointer[string] // of the protocol, once it is agreed on
	over    context.Context        // done when the requests end that are under way
	end     func()                 // ends over, after the time for a last request
}

// newHTTPTransport makes the transport of one session with an endpoint.
func newHTTPTransport(cfg Config, base http.RoundTripper) (sdk.Transport, *requests) {
	over, cancel := context.WithCancel(context.Background())
	r := &requests{base: base, headers: cfg.Headers, limit: int64(framing * cfg.MaxBytes), over: over,
		end: sync.OnceFunc(func() { time.AfterFunc(2*grace, cancel) })}
	return &sdk.StreamableClientTransport{
		Endpoint:             cfg.URL,
		HTTPClient:           &http.Client{Transport: r, CheckRedirect: sameServer},
		MaxEventSize:         framing * cfg.MaxBytes,
		DisableStandaloneSSE: true,
	}, r
}

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// RoundTrip implements http.RoundTripper.
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(r.over, func() { cancel(errEnded) })
	req = req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { c.note(func(k *knowledge) { k.sent = true }) },
	}))
	if v := r.version.Load(); v != nil && req.Header.Get(versionHeader) == "" {
		req.Header.Set(versionHeader, *v)
	}
	if text := trace.Traceparent(req.Context()); text != "" {
		req.Header.Set("Traceparent", text)
	}
	for name, value := range r.headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		stop()
		cancel(nil)
		c.note(func(k *knowledge) { k.fault = err })
		return nil, err
	}
	if req.Method == http.MethodPost { // else it only asks for the rest of an answer
		c.note(func(k *knowledge) {
			k.status, k.after = resp.StatusCode, retry.ParseAfter(resp.Header.Get("Retry-After"))
		})
		if resp.StatusCode == http.StatusNotFound && req.Header.Get(sessionHeader) != "" {
			c.forgotten(resp)
		}
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: r.limit, call: c, closed: func() { stop(); cancel(nil) }}
	return resp, nil
}

// forgotten notes what a server says with a 404 to a request of a session: that it does not know the session, and so
// has done nothing. Only an error that answers the request, with a code that is not of the protocol or of its
// transport, may be of the tool. The SDK would take any error in the body for an answer, and keep the session.
func (c *call) forgotten(resp *http.Response) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxForgotten))
	resp.Body.Close()
	resp.Body = http.NoBody
	msg, _ := jsonrpc.DecodeMessage(body)
	c.note(func(k *knowledge) {
		k.unknown = true
		if answer, ok := msg.(*jsonrpc.Response); ok {
			k.said, _ = errors.AsType[*jsonrpc.Error](answer.Error)
			k.unknown = k.said == nil || answer.ID != c.id || k.said.Code == jsonrpc.CodeInvalidRequest ||
				k.said.Code >= -32099 && k.said.Code <= -32000
		}
	})
}

// maxForgotten is how much is read of the body of a 404.
const maxForgotten = 64 << 10

// boundedBody is the body of an answer, up to a number of bytes.
type boundedBody struct {
	io.ReadCloser
	left   int64
	call   *call
	closed func()
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		err = errLongAnswer
	}
	if err != nil && err != io.EOF {
		b.call.note(func(k *knowledge) { k.fault = err })
	}
	return n, err
}

var errLongAnswer = errors.New("its answer is too long")

// callKey is the key of a *call in the context of what belongs to it.
type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}
