package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/internal/value"
)

// DefaultSearcher is the name of the [Searcher] that agents ask, and steps that name none.
const DefaultSearcher = "default"

// Searcher finds documents in one place, which recipes name. Search must be safe for concurrent use and should return
// soon after ctx is done. It only reads: a call may be made again after a crash. A failure that trying again could
// mend is, or wraps, a retry.Failure. A Searcher may also be [Described].
type Searcher interface {
	// Search returns at most q.TopK documents, the best first and always in the same order; none is no error. The
	// documents must not change once returned. What was used counts even beside an error.
	Search(ctx context.Context, q Query) (Found, error)
}

// Query says what a [Searcher] looks for.
type Query struct {
	Text string // in a human language, never in a query language; it may be empty
	TopK int    // 1 or more
	// Filter has what the metadata of each document must have, by name: the value itself, or one of a list of values.
	// Of a list in the metadata one item must fit. nil: nothing.
	Filter map[string]any
}

// Fits reports whether the metadata of a document has what the filter asks for.
func (q Query) Fits(metadata map[string]any) bool {
	for name, want := range q.Filter {
		got, there := metadata[name]
		if !there || !slices.ContainsFunc(values(got), func(v any) bool {
			return slices.ContainsFunc(values(want), func(w any) bool { return value.Equal(v, w) })
		}) {
			return false
		}
	}
	return true
}

// values are the items of a list, or a value alone.
func values(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// Found is what a [Searcher] has found.
type Found struct {
	Documents []Document
	Used      []Spent // nil: nothing that counts
}

// Spent is what a call used of a model that it asked on its own, such as one that embeds texts.
type Spent struct {
	Name string `json:"name"` // in Runtime.Prices, and one of Metadata.Spends
	Usage
}

// Index is a [Searcher] that steps can write to.
type Index interface {
	Searcher

	// Update makes the change as a whole or not at all, one at a time. A source whose digest is that of the index stays
	// as it is. With the key of an earlier change it does nothing, and returns what that one came to. What was used
	// counts even beside an error.
	Update(ctx context.Context, c Change) (Updated, error)
}

// Change is what an [Index] is to have.
type Change struct {
	Key     string   // the same for repetitions of a change
	Sources []Source // in the order of their names, each name once
	// Stale removes the sources that Sources does not have, of those whose names begin with Under.
	Stale bool
	Under string
}

// Source is a file, or anything else, that documents are of.
type Source struct {
	Name      string
	Digest    string     // another one for other documents
	Documents []Document // their Source is Name; none is no error
}

// Updated counts the sources that a [Change] concerned.
type Updated struct {
	Added, Changed, Deleted, Skipped int
	Used                             []Spent // nil: nothing that counts
}

// Reranker puts documents that were found into a better order. Rerank must be safe for concurrent use and should
// return soon after ctx is done. It only reads. A failure that trying again could mend is, or wraps, a retry.Failure.
// A Reranker may also be [Described].
type Reranker interface {
	// Rerank returns documents of docs, the best first, with its own scores. docs must not be changed. What was used
	// counts even beside an error.
	Rerank(ctx context.Context, query string, docs []Document) (Found, error)
}

// Embedder turns texts into vectors: texts that mean the same are close to each other. Embed must be safe for
// concurrent use and should return soon after ctx is done. A failure that trying again could mend is, or wraps, a
// retry.Failure. An Embedder may also be [Described].
type Embedder interface {
	// Embed returns a vector for each text, in their order and all of one length, and what it used; that counts even
	// beside an error.
	Embed(ctx context.Context, texts []string) (vectors [][]float32, used Usage, err error)
}

// Files are the files that a host lets recipes read: those below one folder, which no path may leave. The methods must
// be safe for concurrent use. They only read.
type Files interface {
	// Walk calls visit for each text file below the folder in whose path, relative to that folder, match fits: a
	// pattern of path.Match, in which ** stands for any number of folders. The files come in the order of their names:
	// paths relative to the folder of all files, with slashes. An error of visit ends it.
	Walk(ctx context.Context, in, match string, visit func(name string, data []byte) error) error

	// Read returns what is in a regular file, whatever that is. The name is a path relative to the folder, with
	// slashes. A file of more than most bytes is an error. Errors need not name the file.
	Read(ctx context.Context, name string, most int64) ([]byte, error)
}

// How many bytes the files may have that go with a [Request], but for those that it names by https URLs.
const (
	MaxFileBytes  = files.MaxBytes // one of them
	MaxFilesBytes = 50 << 20       // all together
)

// Searcher returns the searcher of that name; nil: there is none. What Retriever is, is the default, unless Searchers
// has another one.
func (rt *Runtime) Searcher(name string) Searcher {
	if s := rt.Searchers[name]; s != nil || name != DefaultSearcher || rt.Retriever == nil {
		return s
	}
	if s, ok := rt.Retriever.(Searcher); ok {
		return s
	}
	return plain{rt.Retriever}
}

// plain is a Retriever as a Searcher.
type plain struct{ Retriever }

// Search implements Searcher.
func (p plain) Search(ctx context.Context, q Query) (Found, error) {
	if len(q.Filter) > 0 {
		return Found{}, errors.New("this retriever cannot filter" +
			"\n  hint: leave filter out, or implement runtime.Searcher")
	}
	found, err := p.Retrieve(ctx, q.Text, q.TopK)
	return Found{Documents: found}, err
}

// Metadata implements Described.
func (p plain) Metadata() Metadata {
	if d, ok := p.Retriever.(Described); ok {
		return d.Metadata()
	}
	return Metadata{}
}
