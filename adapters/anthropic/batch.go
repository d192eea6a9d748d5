package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const batchesPath = "messages/batches"

// Batches is a model that answers in batches, as a [runtime.PolledModel]: Anthropic's Message Batches API. Make it with
// [NewBatches]. It is safe for concurrent use.
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

// batch is what is read of a batch.
type batch struct {
	ID      string    `json:"id"`
	Status  string    `json:"processing_status"`
	Created time.Time `json:"created_at"`
	Results *string   `json:"results_url"` // null until it has ended, and when the results are gone
	Counts  struct {
		Processing endpoint.Count `json:"processing"`
		Succeeded  endpoint.Count `json:"succeeded"`
		Errored    endpoint.Count `json:"errored"`
		Canceled   endpoint.Count `json:"canceled"`
		Expired    endpoint.Count `json:"expired"`
	} `json:"request_counts"`
}

// over is how many requests are.
func (b *batch) over() int {
	c := b.Counts
	return int(c.Succeeded + c.Errored + c.Canceled + c.Expired)
}

// request is a request of a batch.
type batchRequest struct {
	ID     string          `json:"custom_id"`
	Params json.RawMessage `json:"params"`
}

// Submit sends the batch.
func (b *Batches) Submit(ctx context.Context, of *runtime.Batch) (string, error) {
	var list []batchRequest
	unfit := map[string]error{}
	for i, req := range of.Requests {
		body, _, err := b.model.encode(req, false)
		if err != nil {
			unfit[of.IDs[i]] = endpoint.Refuse("model %q: %w", b.model.opts.Model, err)
			continue
		}
		list = append(list, batchRequest{of.IDs[i], body})
	}
	if len(unfit) > 0 {
		return "", &runtime.UnfitRequests{Errs: unfit}
	}
	var made batch
	err := b.model.client.Send(ctx, http.MethodPost, batchesPath, map[string]any{"requests": list}, &made)
	return made.ID, err
}

// late is how long after it had begun a batch may have been sent.
const late = time.Hour

// Find looks for a batch of that time with as many requests. What they are only its results tell, so that until one
// that it may be has ended, Find cannot tell.
func (b *Batches) Find(ctx context.Context, of *runtime.Batch) (string, error) {
	open := ""
	for after := ""; ; {
		query := url.Values{"limit": {"100"}}
		if after != "" {
			query.Set("after_id", after)
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
		for i := range page.Data { // the newest first
			one := &page.Data[i]
			after, older = one.ID, one.Created.Before(of.Begun.Add(-endpoint.Skew))
			switch {
			case older, one.Created.After(of.Begun.Add(late)), one.over()+int(one.Counts.Processing) != len(of.IDs):
			case one.Status != "ended":
				open = one.ID
			default:
				has, err := b.has(ctx, one, of.IDs)
				if has || err != nil {
					return one.ID, err
				}
			}
		}
		if !page.More || older || len(page.Data) == 0 {
			break
		}
	}
	if open != "" {
		return "", b.model.client.Unclear("whether it is batch %q can be told when that has ended", open)
	}
	return "", b.model.client.Unlisted(of.Begun, b.Settle)
}

// has reports whether a batch that has ended has one of the requests.
func (b *Batches) has(ctx context.Context, one *batch, ids []string) (has bool, err error) {
	if one.Results == nil {
		return false, nil
	}
	err = b.model.client.Lines(ctx, batchPath(one.ID)+"/results", func(text []byte) bool {
		var line resultLine
		if json.Unmarshal(text, &line) != nil || line.ID == "" {
			return true
		}
		has = slices.Contains(ids, line.ID)
		return false
	})
	return has, err
}

// Cancel cancels a batch, unless it has ended.
func (b *Batches) Cancel(ctx context.Context, id string) error {
	var made batch
	return b.model.client.Send(ctx, http.MethodPost, batchPath(id)+"/cancel", nil, &made)
}

func batchPath(id string) string { return batchesPath + "/" + url.PathEscape(id) }

// Poll says how far a batch is, and reads its results when it has ended.
func (b *Batches) Poll(ctx context.Context, id string) (*runtime.BatchState, error) {
	var now batch
	if err := b.model.client.Send(ctx, http.MethodGet, batchPath(id), nil, &now); err != nil {
		return nil, err
	}
	state := &runtime.BatchState{Requests: now.over() + int(now.Counts.Processing), Answered: now.over()}
	switch {
	case now.Status == "in_progress", now.Status == "canceling":
		return state, nil
	case now.Status != "ended":
		return nil, b.model.client.Broken(retry.Unknown, batchPath(id),
			fmt.Errorf("the batch has the status %s", b.model.client.Quote(ctx, now.Status)))
	case now.Results == nil:
		return nil, b.model.client.Broken("", batchPath(id),
			errors.New("the results are gone: the provider keeps them for 29 days"))
	}
	state.Over, state.Answers = true, map[string]runtime.BatchAnswer{}
	err := b.model.client.Lines(ctx, batchPath(id)+"/results", func(text []byte) bool {
		var line resultLine
		if json.Unmarshal(text, &line) == nil && line.ID != "" && state.Answers[line.ID] == nil {
			state.Answers[line.ID] = b.answer(&line)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

// resultLine is a line of the results of a batch.
type resultLine struct {
	ID     string `json:"custom_id"`
	Result struct {
		Type    string          `json:"type"` // succeeded, errored, canceled, expired
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"` // of the API: {type: error, error}
	} `json:"result"`
}

// statuses are those of the API's errors by their types.
// https://platform.claude.com/docs/en/api/errors
var statuses = map[string]int{"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402,
	"permission_error": 403, "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429,
	"timeout_error": 504, "overloaded_error": 529}

// answer reads a line once its request is known.
func (b *Batches) answer(line *resultLine) runtime.BatchAnswer {
	return func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
		c := b.model.client
		switch line.Result.Type {
		case "succeeded":
			return b.model.read(ctx, line.Result.Message, req)
		case "expired":
			return nil, c.Expired(batchesPath)
		case "canceled":
			return nil, c.Dropped(batchesPath)
		case "errored":
			var of struct {
				Error struct {
					Type string `json:"type"`
				} `json:"error"`
			}
			_ = json.Unmarshal(line.Result.Error, &of) // what it is not says nothing
			status := statuses[of.Error.Type]
			if status == 0 {
				status = http.StatusInternalServerError
			}
			return nil, hinted(req, c.Answered(ctx, messagesPath, status, line.Result.Error))
		}
		return nil, c.Broken(retry.Unknown, batchesPath, fmt.Errorf("a result has the type %s",
			c.Quote(ctx, line.Result.Type)))
	}
}

// read reads a whole answer to a request.
func (m *Model) read(ctx context.Context, body []byte, req *runtime.Request) (*runtime.Response, error) {
	_, _, names, err := m.tools(req)
	if err != nil {
		return nil, endpoint.Refuse("model %q: %w", m.opts.Model, err)
	}
	var r reply
	if err := m.client.Decode(ctx, messagesPath, body, &r); err != nil {
		return nil, err
	}
	if err := m.complete(&r); err != nil {
		return nil, err
	}
	resp := m.response(&r, req, names)
	m.client.Shows(func(runtime.Delta) {}, names).End(resp)
	return resp, nil
}
