// Package otlp sends spans and metrics to a collector by OTLP over HTTP, as protobuf. OpenTelemetry's own exporters do
// that too, but they link gRPC, since the messages of a collector's service are in one package with its client.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The limits of one request and of its repetitions.
const (
	requestTime  = 10 * time.Second // unless OTEL_EXPORTER_OTLP_TIMEOUT sets it
	firstDelay   = time.Second
	longestDelay = 30 * time.Second
	retryTime    = time.Minute // later, what could not be sent is given up
	answerBytes  = 64 << 10    // of an answer that is read
	quotedBytes  = 200         // of an answer that an error quotes
)

// again are the answers after which the same request may succeed.
var again = []int{
	http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// client sends the messages of one signal.
type client struct {
	url      string
	settings settings
	http     *http.Client
}

func newClient(url string, s settings) *client {
	return &client{url, s, &http.Client{
		Timeout: s.timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.tls, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		},
		// A redirect would take the headers, which may hold keys, to somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send sends one message. It repeats a request that the collector refuses for the moment, after the time that the
// collector names, for a minute at most.
func (c *client) send(ctx context.Context, message proto.Message) error {
	body, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	if c.settings.gzip {
		body = compressed(body)
	}
	delays := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstDelay),
		backoff.WithMaxInterval(longestDelay), backoff.WithMaxElapsedTime(retryTime))
	for {
		err := c.post(ctx, body)
		refused, ok := errors.AsType[*refusal](err)
		if !ok || !slices.Contains(again, refused.code) {
			return err
		}
		delay := delays.NextBackOff()
		if delay == backoff.Stop || delays.GetElapsedTime()+refused.after > retryTime {
			return err
		}
		if refused.after > 0 {
			delay = refused.after
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body) // a buffer takes everything
	w.Close()
	return b.Bytes()
}

// post makes one request.
func (c *client) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "braise")
	for _, name := range slices.Sorted(maps.Keys(c.settings.headers)) { // two spellings of one name: the last
		req.Header.Set(name, c.settings.headers[name])
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.settings.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if resp.StatusCode/100 != 2 {
		after := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		return &refusal{c.url, resp.StatusCode, resp.Status, answer, after}
	}
	if err != nil {
		return err
	}
	return partly(answer)
}

// refusal is an answer that is not a success.
type refusal struct {
	url    string
	code   int
	status string // the code and its text
	answer []byte
	after  time.Duration // when to try again; 0: the collector does not say
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("POST %s: %s", r.url, r.status)
	if answer := bytes.TrimSpace(r.answer); len(answer) > 0 {
		text += fmt.Sprintf(": %q", answer[:min(len(answer), quotedBytes)])
	}
	return text
}

// retryAfter reads the header of this name: seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// partly returns what the answer to a good request, an Export…ServiceResponse, says of parts that the collector did not
// take. Its only field is a message of their number and a text. An answer that is something else says nothing.
func partly(answer []byte) error {
	var rejected uint64
	var text string
	fields(answer, func(number protowire.Number, _ uint64, partial []byte) {
		if number != 1 {
			return
		}
		fields(partial, func(number protowire.Number, n uint64, s []byte) {
			switch number {
			case 1:
				rejected = n
			case 2:
				text = string(s)
			}
		})
	})
	switch {
	case rejected > 0:
		return fmt.Errorf("the collector rejected %d items: %q", rejected, text)
	case text != "":
		return fmt.Errorf("the collector warns: %q", text)
	}
	return nil
}

// fields calls f with the fields of a message that are a number or bytes, up to the first that is broken.
func fields(message []byte, f func(number protowire.Number, n uint64, bytes []byte)) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		var n uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return
		}
		f(number, n, b)
		message = message[size:]
	}
}
