package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const (
	batchesPath = "batches"
	filesPath   = "files"
	// keyMember is the member of a batch's metadata that has its key.
	keyMember = "braise_batch"
)

// Batches is a model that answers in batches, as a [runtime.PolledModel]: OpenAI's Batch API, with files of JSON lines.
// Make it with [NewBatches]. It is safe for concurrent use.
//
// The wire format is the one of github.com/openai/openai-go/v3 v3.99.0.
type Batches struct {
	// Settle is how long the provider's list of batches may lack one that was sent. Defaults to a minute.
	Settle time.Duration

	model *Model
}

// NewBatches checks the options, as [New] does, and makes Batches of them. It does no I/O.
func NewBatches(opts Options) (*Batches, error) {
	m, err := New(opts)
	if err != nil {
		return nil, err
	}
	return &Batches{Settle: time.Minute, model: m}, nil
}

// Metadata is that of the model. A request that expired is sent again, too.
func (b *Batches) Metadata() runtime.Metadata {
	m := b.model.Metadata()
	m.Retry = endpoint.BatchRetry()
	return m
}

// Models is [Model.Models].
func (b *Batches) Models(ctx context.Context) ([]string, error) { return b.model.Models(ctx) }

// Generate asks the model at once, at its full price. Runs do not.
func (b *Batches) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return b.model.Generate(ctx, req)
}

// path is that of the API that answers a request.
func (b *Batches) path() string {
	if b.model.opts.API == ResponsesAPI {
		return responsesPath
	}
	return chatPath
}

// batch is what is read of a batch.
type batch struct {
	ID      string         `json:"id"`
	Status  string         `json:"status"`
	Created endpoint.Count `json:"created_at"` // Unix time
	Output  string         `json:"output_file_id"`
	Failed  string         `json:"error_file_id"`
	Counts  struct {
		Total     endpoint.Count `json:"total"`
		Completed endpoint.Count `json:"completed"`
		Failed    endpoint.Count `json:"failed"`
	} `json:"request_counts"`
	Errors struct {
		Data []struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Line    *endpoint.Count `json:"line"`
		} `json:"data"`
	} `json:"errors"`
	Metadata map[string]any `json:"metadata"`
}

// Submit uploads a file with the requests, and sends the batch with the key in its metadata.
func (b *Batches) Submit(ctx context.Context, of *runtime.Batch) (string, error) {
	lines, err := b.lines(of)
	if err != nil {
		return "", err
	}
	var file struct {
		ID string `json:"id"`
	}
	err = b.model.client.Upload(ctx, filesPath, map[string]string{"purpose": "batch"}, "batch.jsonl", lines, &file)
	if err == nil && file.ID == "" {
		err = b.model.client.Broken(retry.Unknown, filesPath, errors.New("the file has no id"))
	}
	if err != nil {
		return "", unsent(err)
	}
	var made batch
	err = b.model.client.Send(ctx, http.MethodPost, batchesPath, map[string]any{"input_file_id": file.ID,
		"endpoint": "/v1/" + b.path(), "completion_window": "24h",
		"metadata": map[string]string{keyMember: of.Key}}, &made)
	return made.ID, err
}

// unsent is the failure of what comes before a batch is sent.
func unsent(err error) error {
	f := retry.FailureOf(err)
	f.Sent = false
	if f.Status < 400 || f.Status > 499 {
		f.Status = 0
	}
	if f.Reason == retry.ServerError { // which would say that the batch may have come
		f.Reason = retry.Network
	}
	return f
}

// lines are the requests of a batch, as its file has them.
func (b *Batches) lines(of *runtime.Batch) ([]byte, error) {
	var lines bytes.Buffer
	unfit := map[string]error{}
	for i, req := range of.Requests {
		encode := func() ([]byte, map[string]string, error) { return b.model.encode(req, whole) }
		if b.model.opts.API == ResponsesAPI {
			encode = func() ([]byte, map[string]string, error) { return b.model.encodeResponses(req, false) }
		}
		body, _, err := encode()
		var line []byte
		if err == nil {
			line, err = json.Marshal(map[string]any{"custom_id": of.IDs[i], "method": http.MethodPost,
				"url": "/v1/" + b.path(), "body": json.RawMessage(body)})
		}
		if err != nil {
			unfit[of.IDs[i]] = endpoint.Refuse("model %q: %w", b.model.opts.Model, err)
			continue
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	if len(unfit) > 0 {
		return nil, &runtime.UnfitRequests{Errs: unfit}
	}
	return lines.Bytes(), nil
}

// Find looks for the key among the batches of that time.
func (b *Batches) Find(ctx context.Context, of *runtime.Batch) (string, error) {
	for after := ""; ; {
		query := url.Values{"limit": {"100"}}
		if after != "" {
			query.Set("after", after)
		}
		var page struct {
			Data []batch `json:"data"`
			More bool    `json:"has_more"`
		}
		err := b.model.client.Send(ctx, http.MethodGet, batchesPath+"?"+query.Encode(), nil, &page)
		if err != nil {
			return "", err
		}
		older := false
		for _, one := range page.Data { // the newest first
			if one.Metadata[keyMember] == of.Key {
				return one.ID, nil
			}
			after, older = one.ID, time.Unix(int64(one.Created), 0).Before(of.Begun.Add(-endpoint.Skew))
		}
		if !page.More || older || len(page.Data) == 0 {
			break
		}
	}
	return "", b.model.client.Unlisted(of.Begun, b.Settle)
}

// Cancel cancels a batch, unless it is over.
func (b *Batches) Cancel(ctx context.Context, id string) error {
	var made batch
	return b.model.client.Send(ctx, http.MethodPost, batchPath(id)+"/cancel", nil, &made)
}

func batchPath(id string) string { return batchesPath + "/" + url.PathEscape(id) }

// Poll says how far a batch is, and reads its files when it is over.
func (b *Batches) Poll(ctx context.Context, id string) (*runtime.BatchState, error) {
	var now batch
	if err := b.model.client.Send(ctx, http.MethodGet, batchPath(id), nil, &now); err != nil {
		return nil, err
	}
	state := &runtime.BatchState{Requests: int(now.Counts.Total),
		Answered: int(now.Counts.Completed + now.Counts.Failed)}
	switch now.Status {
	case "completed":
	case "expired":
		state.Err = b.model.client.Expired(batchPath(id))
	case "cancelled":
		state.Err = b.model.client.Dropped(batchPath(id))
	case "failed":
		state.Err = b.failed(ctx, &now)
	case "validating", "in_progress", "finalizing", "cancelling":
		return state, nil
	default:
		return nil, b.model.client.Broken(retry.Unknown, batchPath(id),
			fmt.Errorf("the batch has the status %s", b.model.client.Quote(ctx, now.Status)))
	}
	state.Over, state.Answers = true, map[string]runtime.BatchAnswer{}
	for _, file := range []string{now.Output, now.Failed} {
		if file == "" {
			continue
		}
		path := filesPath + "/" + url.PathEscape(file) + "/content"
		err := b.model.client.Lines(ctx, path, func(text []byte) bool {
			var line resultLine
			if json.Unmarshal(text, &line) == nil && line.ID != "" && state.Answers[line.ID] == nil {
				state.Answers[line.ID] = b.answer(&line)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// failed is why a batch did not begin.
func (b *Batches) failed(ctx context.Context, now *batch) error {
	f := &retry.Failure{Status: http.StatusBadRequest, Sent: true}
	var list []string
	for _, e := range now.Errors.Data {
		said := e.Code + ": " + e.Message
		if e.Line != nil {
			said = fmt.Sprintf("line %d: %s", *e.Line, said)
		}
		list = append(list, said)
		if e.Code == "token_limit_exceeded" { // of all batches that wait
			f.Reason, f.Status = retry.RateLimit, http.StatusTooManyRequests
		}
	}
	f.Err = fmt.Errorf("model %q: batch %q failed: %s", b.model.opts.Model, now.ID,
		b.model.client.Quote(ctx, strings.Join(list, "; ")))
	return f
}

// resultLine is a line of the files of a batch that is over.
type resultLine struct {
	ID       string `json:"custom_id"`
	Response *struct {
		Status int             `json:"status_code"`
		Body   json.RawMessage `json:"body"`
	} `json:"response"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// answer reads a line once its request is known.
func (b *Batches) answer(line *resultLine) runtime.BatchAnswer {
	return func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
		c := b.model.client
		switch e := line.Error; {
		case e != nil && e.Code == "batch_expired":
			return nil, c.Expired(batchesPath)
		case e != nil && e.Code == "batch_cancelled":
			return nil, c.Dropped(batchesPath)
		case line.Response == nil && e != nil:
			return nil, c.Broken("", batchesPath, fmt.Errorf("a request failed: %s",
				c.Quote(ctx, e.Code+": "+e.Message)))
		case line.Response == nil:
			return nil, c.Broken(retry.Unknown, batchesPath, errors.New("a request has neither an answer nor an error"))
		}
		if err := c.Answered(ctx, b.path(), line.Response.Status, line.Response.Body); err != nil {
			return nil, b.model.hinted(req, err)
		}
		return b.model.read(ctx, line.Response.Body, req)
	}
}

// read reads a whole answer to a request.
func (m *Model) read(ctx context.Context, body []byte, req *runtime.Request) (*runtime.Response, error) {
	offered, _ := offer(req)
	_, names, err := endpoint.Tools(offered)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var resp *runtime.Response
	if m.opts.API == ResponsesAPI {
		var r responsesReply
		if err = m.client.Decode(ctx, responsesPath, body, &r); err == nil {
			resp, err = m.responsesResponse(ctx, &r, req, names)
		}
	} else {
		var r reply
		if err = m.decode(ctx, body, &r); err == nil {
			resp, err = m.response(ctx, &r, req, names)
		}
	}
	if err != nil {
		return nil, err
	}
	m.client.Shows(func(runtime.Delta) {}, names).End(resp)
	return resp, nil
}
