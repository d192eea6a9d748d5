package retriever

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Mode says how a [Database] searches.
type Mode string

// The modes.
const (
	ByWords  Mode = "words"  // by BM25, as an Index
	ByVector Mode = "vector" // by the angle between the vectors of the query and a passage, of all passages
	Hybrid   Mode = "hybrid" // both: their ranks are fused
)

// DatabaseOptions say how a Database searches. The zero value is by words.
type DatabaseOptions struct {
	Name     string           // of the index, where a database may have several; "" is one too
	Mode     Mode             // Defaults to Hybrid with an Embedder, else to ByWords.
	Embedder runtime.Embedder // nil: none
	Spends   string           // the name of the embedder, see runtime.Metadata
}

// Database is a runtime.Index in a database: in a file of SQLite ([SQLite]), or in Postgres. It is safe for concurrent
// use, also by several processes; one changes it at a time. It keeps passages, what is searched of them, the digests
// of their sources, and what each change came to by its key.
//
// With an embedder, a text is embedded once, in batches, and the vectors of each batch are kept at once: a change that
// fails in the middle, or is made again, embeds what is left. Passages that were indexed without one get their vectors
// with the next change. All vectors are of one embedder: with another one, a change and a search by vector are an
// error.
//
// Documents are as those of an [Index]. Scores are those of BM25 by words, by vector the cosine, and in a hybrid
// search the sum of 1/(60+rank) over both lists (reciprocal rank fusion, Cormack and others, 2009).
type Database struct {
	shelf shelf
	opts  DatabaseOptions
	turn  chan struct{} // has room for one: who changes it
}

var _ runtime.Index = (*Database)(nil)

// shelf is where a Database is kept.
type shelf interface {
	name() string // for messages
	// open opens it. For writing, what is not there is made; else what is not there is errNothing.
	open(ctx context.Context, writing bool) (session, error)
}

// session is a connection to a shelf, for one call.
type session interface {
	close()

	// earlier returns what the change of a key came to; false: it is not known.
	earlier(key string) (runtime.Updated, bool, error)
	digests() (map[string]string, error)
	alone(change func() error) error // in one transaction, while nobody else changes it
	remove(sources []string) error
	put(source *runtime.Source) error
	settle(key string, u runtime.Updated) error // keeps what a change came to; "": it has no key

	embedder() (embedder, error)       // whose the vectors are; zero: there are none
	bare() ([]string, error)           // what is searched of passages without vectors
	known(hash [32]byte) (bool, error) // there is a vector of that text
	keep(by embedder, texts []string, vectors [][]float32) error

	snapshot() error // what follows sees one state
	// byWords and byVector return the best passages that fit, at most most, the best first.
	byWords(q *runtime.Query, most int) ([]hit, error)
	byVector(q *runtime.Query, v []float32, most int) ([]hit, error)
	documents(hits []hit) ([]runtime.Document, error)
}

// errNothing is the error of an index that was never written to.
var errNothing = errors.New("nothing was indexed yet\n  hint: a step that uses index puts documents in")

// hit is a passage that was found.
type hit struct {
	id    int64
	score float64
}

// embedder tells embedders apart.
type embedder struct {
	model      string // as its provider names it
	dimensions int
}

// SQLite returns the Database in a file. It does no I/O.
func SQLite(path string, opts DatabaseOptions) *Database { return newDatabase(file(path), opts) }

func newDatabase(s shelf, opts DatabaseOptions) *Database {
	if opts.Mode == "" {
		opts.Mode = ByWords
		if opts.Embedder != nil {
			opts.Mode = Hybrid
		}
	}
	if opts.Mode == ByWords {
		opts.Embedder = nil
	}
	return &Database{shelf: s, opts: opts, turn: make(chan struct{}, 1)}
}

// Metadata says when calls are made again, which is as the embedder says, and what they use.
func (d *Database) Metadata() runtime.Metadata {
	var about runtime.Metadata
	if by, ok := d.opts.Embedder.(runtime.Described); ok {
		about.Retry = by.Metadata().Retry
	}
	if d.opts.Embedder != nil {
		about.Spends = []string{d.opts.Spends}
	}
	return about
}

// Update implements runtime.Index.
func (d *Database) Update(ctx context.Context, c runtime.Change) (u runtime.Updated, err error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return u, ctx.Err()
	}
	s, err := d.shelf.open(ctx, true)
	if err != nil {
		return u, d.failed(ctx, err)
	}
	defer s.close()
	if done, ok, err := s.earlier(c.Key); err != nil || ok && c.Key != "" {
		return done, d.failed(ctx, err)
	}
	used, err := d.embedAll(ctx, s, &c)
	if err == nil {
		u, err = change(s, &c)
	}
	u.Used = used
	return u, d.failed(ctx, err)
}

// Search implements runtime.Searcher.
func (d *Database) Search(ctx context.Context, q runtime.Query) (found runtime.Found, err error) {
	s, err := d.shelf.open(ctx, false)
	if err != nil {
		return found, d.failed(ctx, err)
	}
	defer s.close()
	if q.TopK < 1 || strings.TrimSpace(q.Text) == "" {
		return found, nil
	}
	var v []float32 // nil: nothing has a vector
	if d.opts.Mode != ByWords {
		if v, found.Used, err = d.vectorOf(ctx, s, q.Text); err != nil {
			return found, d.failed(ctx, err)
		}
	}
	hits, err := d.hits(s, &q, v)
	if err == nil {
		found.Documents, err = s.documents(hits)
	}
	return found, d.failed(ctx, err)
}

// vectorOf embeds a query; nil: the index has no vectors.
func (d *Database) vectorOf(ctx context.Context, s session, text string) ([]float32, []runtime.Spent, error) {
	if d.opts.Embedder == nil {
		return nil, nil, errors.New("it is searched by vector, and has no embedder")
	}
	was, err := s.embedder()
	if err != nil || was == (embedder{}) {
		return nil, nil, err
	}
	vectors, by, used, err := d.embed(ctx, []string{text})
	if err == nil {
		err = d.same(was, by)
	}
	if err != nil {
		return nil, used, err
	}
	return vectors[0], used, nil
}

// hits searches in the ways of the mode.
func (d *Database) hits(s session, q *runtime.Query, v []float32) (hits []hit, err error) {
	if err := s.snapshot(); err != nil {
		return nil, err
	}
	most := q.TopK
	if d.opts.Mode == Hybrid {
		const fused = 50 // passages of each list, or more
		most = max(4*q.TopK, fused)
	}
	var near []hit
	if d.opts.Mode != ByVector {
		hits, err = s.byWords(q, most)
	}
	if v != nil && err == nil {
		near, err = s.byVector(q, v, most)
	}
	switch {
	case err != nil:
		return nil, err
	case d.opts.Mode == ByVector:
		hits = near
	case d.opts.Mode == Hybrid:
		hits = fuse([][]hit{hits, near})
	}
	return hits[:min(len(hits), q.TopK)], nil
}

// fuse joins lists by the ranks in them.
func fuse(lists [][]hit) []hit {
	const k = 60
	var all []hit
	at := map[int64]int{}
	for _, list := range lists {
		for rank, h := range list {
			i, ok := at[h.id]
			if !ok {
				i = len(all)
				at[h.id] = i
				all = append(all, hit{id: h.id})
			}
			all[i].score += 1 / float64(k+rank+1)
		}
	}
	slices.SortStableFunc(all, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return all
}

// batch is how many texts are embedded at once.
const batch = 64

// embedAll embeds what has no vector yet: of the sources that change, and of what was indexed without an embedder.
func (d *Database) embedAll(ctx context.Context, s session, c *runtime.Change) (used []runtime.Spent, err error) {
	if d.opts.Embedder == nil {
		return nil, nil
	}
	was, err := s.digests()
	if err != nil {
		return nil, err
	}
	texts, err := s.bare()
	if err != nil {
		return nil, err
	}
	for i := range c.Sources {
		source := &c.Sources[i]
		if digest, ok := was[source.Name]; ok && digest == source.Digest {
			continue
		}
		for j := range source.Documents {
			texts = append(texts, wordsOf(&source.Documents[j]))
		}
	}
	slices.Sort(texts)
	var due []string
	for _, text := range slices.Compact(texts) {
		known, err := s.known(sha256.Sum256([]byte(text)))
		if err != nil {
			return nil, err
		}
		if !known {
			due = append(due, text)
		}
	}
	known, err := s.embedder()
	for part := range slices.Chunk(due, batch) {
		if err != nil {
			break
		}
		vectors, by, spent, failure := d.embed(ctx, part)
		used = append(used, spent...)
		if err = failure; err == nil && known != (embedder{}) {
			err = d.same(known, by)
		}
		if err == nil {
			known, err = by, s.keep(by, part, vectors)
		}
	}
	return used, err
}

// embed asks the embedder. The vectors have the length 1.
func (d *Database) embed(ctx context.Context, texts []string) ([][]float32, embedder, []runtime.Spent, error) {
	vectors, usage, err := d.opts.Embedder.Embed(ctx, texts)
	var used []runtime.Spent
	if usage != (runtime.Usage{}) {
		used = []runtime.Spent{{Name: d.opts.Spends, Usage: usage}}
	}
	if err != nil {
		return nil, embedder{}, used, err
	}
	if len(vectors) != len(texts) {
		return nil, embedder{}, used, fmt.Errorf("the embedder gave %d vectors for %d texts", len(vectors), len(texts))
	}
	by := embedder{dimensions: len(vectors[0])}
	if about, ok := d.opts.Embedder.(runtime.Described); ok {
		by.model = about.Metadata().Model
	}
	for i, v := range vectors {
		if len(v) == 0 || len(v) != by.dimensions {
			return nil, embedder{}, used, fmt.Errorf("the embedder gave vectors of %d and of %d dimensions",
				by.dimensions, len(v))
		}
		if vectors[i] = unit(v); vectors[i] == nil {
			return nil, embedder{}, used, errors.New("the embedder gave a number that is not finite")
		}
	}
	return vectors, by, used, nil
}

// unit is v with the length 1, or 0; nil: v has what is no number.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	length := math.Sqrt(sum)
	u := make([]float32, len(v))
	for i, f := range v {
		if length > 0 {
			u[i] = float32(float64(f) / length)
		}
	}
	return u
}

// same refuses vectors of another embedder than those of the index.
func (d *Database) same(was, now embedder) error {
	if was == now {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "index.embedder", Err: fmt.Errorf(
		"its vectors are of %s, and this embedder is %s"+
			"\n  hint: name another store for the new embedder, or remove this one, and index again", was, now)}
}

func (e embedder) String() string {
	if e.model == "" {
		return fmt.Sprintf("a model with %d dimensions", e.dimensions)
	}
	return fmt.Sprintf("%q with %d dimensions", e.model, e.dimensions)
}

// failed words an error: the end of ctx is told as such.
func (d *Database) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("index %q: %w", d.shelf.name(), err)
}

// wordsOf is what is searched of a document: its text, and what it stands under.
func wordsOf(d *runtime.Document) string {
	var b strings.Builder
	above, _ := d.Metadata["headings"].([]any)
	if title, ok := d.Metadata["title"]; ok {
		above = append([]any{title}, above...)
	}
	for _, heading := range above {
		if text, _ := heading.(string); text != "" && !strings.Contains(d.Text, text) {
			b.WriteString(text + "\n")
		}
	}
	b.WriteString(d.Text)
	return b.String()
}

// metadataOf is the metadata of a document as it is kept.
func metadataOf(d *runtime.Document) (string, error) {
	text, err := value.JSON(d.Metadata)
	if err != nil {
		return "", fmt.Errorf("document %q: %w", d.ID, err)
	}
	return string(text), nil
}

// aboutOf reads what metadataOf wrote.
func aboutOf(text string) map[string]any {
	v, _ := value.Decode([]byte(text))
	about, _ := v.(map[string]any)
	return about
}
