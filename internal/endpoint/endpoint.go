package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
)

const (
	maxFaultBytes = 64 << 10 // read of the body of a failure
	quotedBytes   = 512      // of what a server said, in a message
)

// Do sends one request and reads a good answer.
//  1. limit its time, and note how far it gets;
//  2. send it;
//  3. turn a status that is not 2xx into a failure;
//  4. read the body. An error of read that is no failure yet is one of the network.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	return c.do(ctx, method, path, "", body, read)
}

// do is Do with a body of another type than JSON; "": it is JSON.
func (c *Client) do(
	ctx context.Context, method, path, mediaType string, body []byte, read func(io.Reader) error,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, timedOut(c.opts.Timeout))
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := http.NewRequestWithContext(traced, method, c.url(path).String(), bytes.NewReader(body))
	if err != nil {
		return Refuse("%s: the request cannot be made", c.what(path))
	}
	req.Header = c.header.Clone()
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	if c.host != "" {
		req.Host = c.host
	}

	resp, err := c.client.Do(req)
	if err != nil {
		return c.noAnswer(ctx, path, connected.Load(), err)
	}
	defer resp.Body.Close()

	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.statusFailure(ctx, path, resp)
	}
	err = read(resp.Body)
	if _, ok := errors.AsType[*retry.Failure](err); ok || err == nil {
		return err
	}
	return c.noAnswer(ctx, path, true, fmt.Errorf("reading the answer: %w", err))
}

// ReadAll reads an answer that is one piece.
func (c *Client) ReadAll(r io.Reader, path string) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(r, c.opts.MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(answer)) > c.opts.MaxBytes:
		return nil, c.TooLarge(path)
	}
	// Some end a whole answer as if it were a stream.
	return bytes.TrimSuffix(bytes.TrimSpace(answer), []byte("data: [DONE]")), nil
}

// ReadWhole reads an answer that is one piece of JSON into v.
func (c *Client) ReadWhole(ctx context.Context, path string, r io.Reader, v any) error {
	answer, err := c.ReadAll(r, path)
	if err != nil {
		return err
	}
	return c.Decode(ctx, path, answer, v)
}

// TooLarge is the failure of an answer that is larger than Options.MaxBytes.
func (c *Client) TooLarge(path string) error {
	return c.Broken("", path, fmt.Errorf("the answer is larger than %d bytes", c.opts.MaxBytes))
}

// what names the model and the address, for messages.
func (c *Client) what(path string) string {
	return fmt.Sprintf("model %q: %s", c.opts.Model, c.shown(c.url(path)))
}

// url is that of a path, which may have a query.
func (c *Client) url(path string) *url.URL {
	path, query, _ := strings.Cut(path, "?")
	u := c.base.JoinPath(path)
	u.RawQuery = cmp.Or(query, u.RawQuery)
	return u
}

// Decode reads the body of a good answer into v, unless it is an error after all, or no JSON.
func (c *Client) Decode(ctx context.Context, path string, body []byte, v any) error {
	if f := readFault(body); f != nil {
		return c.fault(ctx, path, f)
	}
	err := json.Unmarshal(body, v)
	mismatch, wrongType := errors.AsType[*json.UnmarshalTypeError](err)
	_, noJSON := errors.AsType[*json.SyntaxError](err)
	start := bytes.TrimSpace(body)
	switch {
	case err == nil:
		return nil
	case len(start) == 0:
		return c.Broken(retry.Unknown, path, errors.New("the answer is empty"))
	case start[0] == '<':
		return c.Broken("", path, fmt.Errorf("the answer is a page, not JSON: %s\n  hint: check the base URL",
			c.Quote(ctx, string(body))))
	case noJSON:
		return c.Broken(retry.Unknown, path, fmt.Errorf("the answer is not JSON (%w): %s",
			err, c.Quote(ctx, string(body))))
	case wrongType:
		err = fmt.Errorf("%s is of the wrong type, %s", cmp.Or(mismatch.Field, "it"), mismatch.Value)
	}
	return c.Broken("", path, fmt.Errorf("the answer does not keep to the protocol: %w", err))
}

// Broken is the failure of an answer that came with a good status and cannot be used.
func (c *Client) Broken(reason retry.Reason, path string, err error) error {
	return &retry.Failure{Reason: reason, Status: http.StatusOK, Sent: true,
		Err: fmt.Errorf("%s: %w", c.what(path), err)}
}

// FaultIn is the failure of an error, as JSON, that came with a good status.
func (c *Client) FaultIn(ctx context.Context, path string, raw json.RawMessage) error {
	return c.fault(ctx, path, faultOf(raw))
}

// fault is the failure of an error that came with a good status.
func (c *Client) fault(ctx context.Context, path string, f *fault) error {
	status := http.StatusOK
	if f.status != 0 {
		status = f.status
	}
	return &retry.Failure{Reason: f.reason(status), Status: status, After: f.after, Sent: true,
		Err: f.err(fmt.Sprintf("%s: the answer is an error: %s", c.what(path), c.Quote(ctx, f.message)), status)}
}

// statusFailure says which status came back, and what the server said about it.
func (c *Client) statusFailure(ctx context.Context, path string, resp *http.Response) error {
	message := fmt.Sprintf("%s: status %d", c.what(path), resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		message += " " + text
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFaultBytes)) // what there is: the status is the failure
	f, cut := readFault(body), false
	if f == nil {
		f, cut = &fault{message: string(body)}, err != nil || len(body) == maxFaultBytes
	}
	if said := c.quotePart(ctx, f.message, cut); said != "" {
		message += ": " + said
	}
	if target, err := resp.Location(); err == nil && resp.StatusCode < 400 {
		message += fmt.Sprintf("\n  hint: it redirects to %s; redirects are not followed, change the base URL",
			c.shown(target))
	}
	switch keyed := c.opts.APIKey != "" || len(c.opts.Headers) > 0; {
	case !keyed && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
		message += "\n  hint: the endpoint wants a key: add api_key: \"${NAME}\" and set that environment variable"
	case c.opts.APIKey != "" && resp.StatusCode == http.StatusUnauthorized:
		message += "\n  hint: the endpoint does not take the key that api_key gives"
	}
	return &retry.Failure{
		Reason: f.reason(resp.StatusCode),
		Status: resp.StatusCode,
		After:  max(after(resp.Header), f.after),
		Sent:   true,
		Err:    f.err(message, resp.StatusCode),
	}
}

// after is how long the server asks to wait. Azure says it in milliseconds, too, and rounds up in Retry-After.
func after(header http.Header) time.Duration {
	ms := cmp.Or(header.Get("Retry-After-Ms"), header.Get("X-Ms-Retry-After-Ms"))
	if d := retry.ParseAfter(ms) / 1000; d > 0 {
		return d
	}
	return retry.ParseAfter(header.Get("Retry-After"))
}

// noAnswer says why a request brought no answer.
func (c *Client) noAnswer(ctx context.Context, path string, sent bool, err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err // without the URL: its query may hold a secret
	}
	f := &retry.Failure{Reason: retry.Network, Sent: sent}
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
		if own, ok := errors.AsType[timedOut](context.Cause(ctx)); ok {
			err = own
		}
		f.Reason = retry.ReasonOf(err)
	case isCertificate:
		f.Reason = ""
	case isNet && netErr.Timeout():
		f.Reason = retry.Timeout
	case sent:
		err = fmt.Errorf("the connection was lost: %w", err)
	}
	f.Err = fmt.Errorf("%s: %w", c.what(path), err)
	if !sent && (f.Reason == retry.Network || f.Reason == retry.Timeout) {
		f.Err = fmt.Errorf("%w\n  hint: is it running, and is base_url right?", f.Err)
	}
	return f
}

// timedOut is the cause of a context whose call took longer than its timeout.
type timedOut time.Duration

func (t timedOut) Error() string { return fmt.Sprintf("timed out after %s", time.Duration(t)) }

func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

// Refuse makes an error that is never retried: trying again would end the same way.
func Refuse(format string, args ...any) error {
	return &retry.Failure{Err: fmt.Errorf(format, args...)}
}

// Quote is what a server said, for a message: secrets out, also those of the run, white space folded, nothing that
// is not printable, cut. Secrets come first: a cut may not leave half of one.
func (c *Client) Quote(ctx context.Context, said string) string {
	return c.quotePart(ctx, said[:min(len(said), maxFaultBytes)], len(said) > maxFaultBytes)
}

// quotePart is Quote for a text whose end may be cut off: in the middle of a secret.
func (c *Client) quotePart(ctx context.Context, said string, cut bool) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || isControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return -1
		}
		return r
	}, c.secrets.faults.Middle(value.RedactorOf(ctx).Middle(said, false, cut), false, cut))
	line := strings.Join(strings.Fields(printable), " ")
	if len(line) <= quotedBytes {
		return line
	}
	end := quotedBytes
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}
