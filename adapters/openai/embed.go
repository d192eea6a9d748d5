package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const embedPath = "embeddings"

// Embedder is a model of an endpoint that speaks OpenAI's embeddings. Make it with [NewEmbedder]. It is safe for
// concurrent use.
type Embedder struct {
	model      *Model
	dimensions int
}

// NewEmbedder checks the options and makes an Embedder of them. dimensions are those of its vectors; 0 is what the
// model gives. It does no I/O. Errors are as those of New.
func NewEmbedder(opts Options, dimensions int) (*Embedder, error) {
	m, err := New(opts)
	if err != nil {
		return nil, err
	}
	return &Embedder{m, dimensions}, nil
}

// Metadata is as that of a Model.
func (e *Embedder) Metadata() runtime.Metadata { return e.model.Metadata() }

// embedRequest is the body of a request. The library's own has members that some endpoints refuse.
type embedRequest struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Dimensions int      `json:"dimensions,omitempty"`
	Format     string   `json:"encoding_format"`
}

type embedReply struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

// Embed implements runtime.Embedder. Every error is a *retry.Failure. An endpoint that counts no tokens is taken to
// have used one for four bytes.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, runtime.Usage, error) {
	var used runtime.Usage
	if len(texts) == 0 {
		return nil, used, nil
	}
	input, size := make([]string, len(texts)), 0
	for i, text := range texts {
		size += len(text)
		if input[i] = text; strings.TrimSpace(text) == "" {
			input[i] = "-" // an empty text is refused
		}
	}
	body, err := json.Marshal(embedRequest{e.model.opts.Model, input, e.dimensions, "float"})
	if err != nil {
		return nil, used, endpoint.Refuse("model %q: %w", e.model.opts.Model, err)
	}
	var r embedReply
	err = e.model.client.Do(ctx, http.MethodPost, embedPath, body, func(answer io.Reader) error {
		return e.model.client.ReadWhole(ctx, embedPath, answer, &r)
	})
	if err != nil {
		return nil, used, err
	}
	if used.InputTokens = max(r.Usage.Prompt, r.Usage.Total); used.InputTokens <= 0 {
		used.InputTokens = (size + 3) / 4
	}
	vectors := make([][]float32, len(texts))
	for _, d := range r.Data {
		if d.Index < 0 || d.Index >= len(texts) || vectors[d.Index] != nil {
			return nil, used, e.model.client.Broken(retry.Unknown, embedPath, fmt.Errorf(
				"the answer has a vector %d of %d", d.Index, len(texts)))
		}
		vectors[d.Index] = d.Embedding
	}
	for i, v := range vectors {
		if len(v) == 0 {
			return nil, used, e.model.client.Broken(retry.Unknown, embedPath, fmt.Errorf(
				"the answer has no vector for text %d of %d", i+1, len(texts)))
		}
	}
	return vectors, used, nil
}
