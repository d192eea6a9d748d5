package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

const rerankPath = "rerank"

// Reranker is a model that says how well documents answer a query, at an endpoint with /rerank beside OpenAI's paths,
// as vLLM, LiteLLM, Jina and Cohere have it. Make it with [NewReranker]. It is safe for concurrent use.
type Reranker struct {
	model  *Model
	spends string
}

// NewReranker checks the options and makes a Reranker of them. spends is its name in Runtime.Prices. It does no I/O.
// Errors are as those of New.
func NewReranker(opts Options, spends string) (*Reranker, error) {
	m, err := New(opts)
	if err != nil {
		return nil, err
	}
	return &Reranker{m, spends}, nil
}

// Metadata is as that of a Model.
func (r *Reranker) Metadata() runtime.Metadata {
	about := r.model.Metadata()
	about.Spends = []string{r.spends}
	return about
}

// Rerank implements runtime.Reranker. Every error is a *retry.Failure.
func (r *Reranker) Rerank(ctx context.Context, query string, docs []runtime.Document) (runtime.Found, error) {
	var found runtime.Found
	if len(docs) == 0 {
		return found, nil
	}
	texts, size := make([]string, len(docs)), len(query)*len(docs)
	for i := range docs {
		texts[i] = docs[i].Text
		size += len(texts[i])
	}
	body, err := json.Marshal(map[string]any{"model": r.model.opts.Model, "query": query, "documents": texts})
	if err != nil {
		return found, endpoint.Refuse("model %q: %w", r.model.opts.Model, err)
	}
	var reply struct {
		Results []struct {
			Index int     `json:"index"`
			Score float64 `json:"relevance_score"`
		} `json:"results"`
		Usage struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
	}
	err = r.model.client.Do(ctx, http.MethodPost, rerankPath, body, func(answer io.Reader) error {
		return r.model.client.ReadWhole(ctx, rerankPath, answer, &reply)
	})
	if err != nil {
		return found, err
	}
	used := max(reply.Usage.Total, 0)
	found.Used = []runtime.Spent{{Name: r.spends, Usage: runtime.Usage{InputTokens: cmp.Or(used, (size+3)/4)}}}
	seen := make([]bool, len(docs))
	for _, one := range reply.Results {
		if one.Index < 0 || one.Index >= len(docs) || seen[one.Index] {
			return found, r.model.client.Broken(retry.Unknown, rerankPath,
				fmt.Errorf("the answer has a document %d of %d", one.Index, len(docs)))
		}
		seen[one.Index] = true
		d := docs[one.Index]
		d.Score = one.Score
		found.Documents = append(found.Documents, d)
	}
	slices.SortStableFunc(found.Documents, func(a, b runtime.Document) int { return cmp.Compare(b.Score, a.Score) })
	return found, nil
}
