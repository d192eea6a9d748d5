package retriever

import (
	"cmp"
	"context"
	"slices"

	"github.com/braise-run/braise/runtime"
)

// ByEmbedder returns a reranker that puts documents in the order of the angles between their vectors and that of the
// query. spends is the name of the embedder in Runtime.Prices.
func ByEmbedder(e runtime.Embedder, spends string) runtime.Reranker {
	return angles{&Database{opts: DatabaseOptions{Embedder: e, Spends: spends}}}
}

type angles struct{ by *Database }

// Metadata implements runtime.Described.
func (a angles) Metadata() runtime.Metadata { return a.by.Metadata() }

// Rerank implements runtime.Reranker.
func (a angles) Rerank(ctx context.Context, query string, docs []runtime.Document) (found runtime.Found, err error) {
	if len(docs) == 0 {
		return found, nil
	}
	texts := []string{query}
	for i := range docs {
		texts = append(texts, wordsOf(&docs[i]))
	}
	vectors, _, used, err := a.by.embed(ctx, texts)
	if found.Used = used; err != nil {
		return found, err
	}
	for i, d := range docs {
		d.Score = dot(vectors[0], bytesOf(vectors[i+1]))
		found.Documents = append(found.Documents, d)
	}
	slices.SortStableFunc(found.Documents, func(a, b runtime.Document) int { return cmp.Compare(b.Score, a.Score) })
	return found, nil
}
