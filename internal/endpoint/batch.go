package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/braise-run/braise/retry"
)

// maxResults is the most that the results of a batch have, unpacked.
const maxResults = 256 << 20

// Send sends JSON; nil: nothing. The answer is read into v.
func (c *Client) Send(ctx context.Context, method, path string, body, v any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return Refuse("%s: %w", c.what(path), err)
		}
	}
	return c.Do(ctx, method, path, text, func(answer io.Reader) error { return c.ReadWhole(ctx, path, answer, v) })
}

// Upload sends a file with the fields of a form. The answer is read into v.
func (c *Client) Upload(
	ctx context.Context, path string, fields map[string]string, name string, content []byte, v any,
) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for field, text := range fields {
		_ = form.WriteField(field, text) // a buffer has no error
	}
	file, _ := form.CreateFormFile("file", name)
	_, _ = file.Write(content)
	_ = form.Close()
	return c.do(ctx, http.MethodPost, path, form.FormDataContentType(), body.Bytes(),
		func(answer io.Reader) error { return c.ReadWhole(ctx, path, answer, v) })
}

// Lines gets JSON lines, and hands each to read, until that returns false. Lines that are no objects are skipped.
func (c *Client) Lines(ctx context.Context, path string, read func(line []byte) bool) error {
	return c.Do(ctx, http.MethodGet, path, nil, func(answer io.Reader) error {
		in := bufio.NewReader(answer)
		for size := 0; ; {
			line, err := in.ReadBytes('\n')
			if size += len(line); size > maxResults {
				return c.Broken("", path, fmt.Errorf("the results have more than %d bytes", maxResults))
			}
			line = bytes.TrimSpace(line)
			if int64(len(line)) <= c.opts.MaxBytes && IsObject(string(line)) && !read(line) {
				return nil
			}
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
		}
	})
}

// Answered is the failure of a request that was answered with a status in a batch; nil: it is a good one.
func (c *Client) Answered(ctx context.Context, path string, status int, body json.RawMessage) error {
	if status >= 200 && status <= 299 {
		return nil
	}
	f := readFault(body)
	if f == nil {
		f = &fault{message: string(body)}
	}
	return &retry.Failure{Reason: f.reason(status), Status: status, After: f.after, Sent: true,
		Err: f.err(fmt.Sprintf("%s: in a batch: status %d: %s", c.what(path), status, c.Quote(ctx, f.message)), status)}
}

// Skew is by how much the clocks of a run and of a provider may differ.
const Skew = 5 * time.Minute

// Unclear is the failure of a search for a batch that cannot tell yet whether the provider has it.
func (c *Client) Unclear(format string, args ...any) error {
	return &retry.Failure{Reason: retry.Unknown, Sent: true,
		Err: fmt.Errorf("model %q: %w", c.opts.Model, fmt.Errorf(format, args...))}
}

// Unlisted is what a search says that has found no batch which began at that time: the provider's list may lack it
// until settle has passed. nil: there is none.
func (c *Client) Unlisted(begun time.Time, settle time.Duration) error {
	if left := settle - time.Since(begun); left > 0 {
		return c.Unclear("the provider lists no such batch yet, and may in %v", left.Round(time.Second))
	}
	return nil
}

// Expired is the failure of a request that its provider has not come to: it costs nothing.
func (c *Client) Expired(path string) error {
	return &retry.Failure{Reason: retry.Timeout,
		Err: fmt.Errorf("%s: the batch expired before the request was answered", c.what(path))}
}

// Dropped is the failure of a request in a batch that was cancelled before.
func (c *Client) Dropped(path string) error {
	return Refuse("%s: the batch was cancelled before the request was answered", c.what(path))
}

// BatchRetry is Retry for requests in batches: one that expired is sent again, too.
func BatchRetry() *retry.Metadata {
	m := Retry()
	m.Policy.RetryOn = append(m.Policy.RetryOn, retry.Timeout)
	return m
}
