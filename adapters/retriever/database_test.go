package retriever_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// source is a source with a document for each text.
func source(name string, texts ...string) runtime.Source {
	s := runtime.Source{Name: name, Digest: strings.Join(texts, "\n")}
	for i, text := range texts {
		s.Documents = append(s.Documents, runtime.Document{ID: fmt.Sprintf("%s#%d", name, i+1), Text: text, Source: name,
			Metadata: map[string]any{"n": int64(i + 1), "file": name}})
	}
	return s
}

func update(t *testing.T, x runtime.Index, c runtime.Change) runtime.Updated {
	t.Helper()
	u, err := x.Update(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// idsOf are those of what a search finds.
func idsOf(t *testing.T, x runtime.Searcher, q runtime.Query) (list []string) {
	t.Helper()
	if q.TopK == 0 {
		q.TopK = 10
	}
	found, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Documents {
		list = append(list, d.ID)
	}
	return list
}

// shelves are the databases that tests use, new ones each. Postgres has to be one with pgvector for vectors; that one
// makes one connection wait for the other.
func shelves(t *testing.T, vectors bool) map[string]func(retriever.DatabaseOptions) *retriever.Database {
	file := filepath.Join(t.TempDir(), "new", "index.db")
	server := postgresURL
	if vectors {
		server = pgvectorURL
	}
	return map[string]func(retriever.DatabaseOptions) *retriever.Database{
		"sqlite":   func(o retriever.DatabaseOptions) *retriever.Database { return retriever.SQLite(file, o) },
		"postgres": inPostgres(t, server(t)),
	}
}

func TestDatabase(t *testing.T) {
	for name, open := range shelves(t, false) {
		t.Run(name, func(t *testing.T) { testDatabase(t, open) })
	}
}

func testDatabase(t *testing.T, open func(retriever.DatabaseOptions) *retriever.Database) {
	x := open(retriever.DatabaseOptions{})
	if _, err := x.Search(t.Context(), runtime.Query{Text: "owl", TopK: 1}); err == nil ||
		!strings.HasSuffix(err.Error(), "nothing was indexed yet\n  hint: a step that uses index puts documents in") {
		t.Fatalf("before the first change: %v", err)
	}
	a, b, c := source("in/a", "owls fly", "ducks swim"), source("in/b", "an owl sleeps by day"), source("out/c", "cats")
	want := runtime.Updated{Added: 3}
	if diff := cmp.Diff(want, update(t, x, runtime.Change{Key: "1", Sources: []runtime.Source{a, b, c}})); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		about string
		q     runtime.Query
		want  []string
	}{
		{"the shorter passage is better", runtime.Query{Text: "an owl?"}, []string{"in/a#1", "in/b#1"}},
		{"no more than asked for", runtime.Query{Text: "owl", TopK: 1}, []string{"in/a#1"}},
		{"a filter", runtime.Query{Text: "owl ducks", Filter: map[string]any{"file": "in/a"}}, []string{"in/a#2", "in/a#1"}},
		{"a filter with a choice", runtime.Query{Text: "owl", Filter: map[string]any{"file": []any{"in/b", "out/c"}}}, []string{"in/b#1"}},
		{"a filter that nothing fits", runtime.Query{Text: "owl", Filter: map[string]any{"lang": "en"}}, nil},
		{"nothing", runtime.Query{Text: "zebra"}, nil},
		{"no words", runtime.Query{Text: " "}, nil},
		{"no syntax", runtime.Query{Text: `"cats" NOT NEAR( *`}, []string{"out/c#1"}},
	} {
		if diff := cmp.Diff(tt.want, idsOf(t, x, tt.q)); diff != "" {
			t.Errorf("%s\n%s", tt.about, diff)
		}
	}

	// A change with the same key is not made again, whatever it has.
	if diff := cmp.Diff(want, update(t, x, runtime.Change{Key: "1", Stale: true})); diff != "" {
		t.Error(diff)
	}
	// What is stale goes, below the folder only.
	a2 := source("in/a", "geese")
	got := update(t, x, runtime.Change{Key: "2", Sources: []runtime.Source{a2}, Stale: true, Under: "in/"})
	if diff := cmp.Diff(runtime.Updated{Changed: 1, Deleted: 1}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"in/a#1", "out/c#1"}, idsOf(t, x, runtime.Query{Text: "owl geese cats ducks"})); diff != "" {
		t.Error(diff)
	}
	got = update(t, x, runtime.Change{Key: "3", Sources: []runtime.Source{a2, c}})
	if diff := cmp.Diff(runtime.Updated{Skipped: 2}, got); diff != "" {
		t.Error(diff)
	}
	found, err := open(retriever.DatabaseOptions{}).Search(t.Context(), runtime.Query{Text: "goose geese", TopK: 3})
	if err != nil || len(found.Documents) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	d := found.Documents[0]
	if d.Score <= 0 {
		t.Errorf("score %v", d.Score)
	}
	d.Score = 0
	if diff := cmp.Diff(a2.Documents[0], d); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, runtime.Query{Text: "x", TopK: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := x.Update(ctx, runtime.Change{Key: "4"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

// letters embeds a text by how often it has each of some letters.
type letters struct {
	model string
	of    string
	fails int // the call that fails, from 1; 0: none
	calls int
	texts []string
	mu    sync.Mutex
}

func (l *letters) Metadata() runtime.Metadata {
	return runtime.Metadata{Model: l.model, Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}}
}

func (l *letters) Embed(_ context.Context, texts []string) (vectors [][]float32, used runtime.Usage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.calls == l.fails {
		return nil, runtime.Usage{InputTokens: 1}, &retry.Failure{Reason: retry.RateLimit, Err: errors.New("slow down")}
	}
	l.texts = append(l.texts, texts...)
	for _, text := range texts {
		v := make([]float32, len(l.of))
		for i := range l.of {
			v[i] = float32(strings.Count(text, l.of[i:i+1]))
		}
		vectors = append(vectors, v)
	}
	return vectors, runtime.Usage{InputTokens: 10 * len(texts)}, nil
}

func TestDatabaseByVector(t *testing.T) {
	for name, open := range shelves(t, true) {
		t.Run(name, func(t *testing.T) { testByVector(t, open) })
	}
}

func testByVector(t *testing.T, open func(retriever.DatabaseOptions) *retriever.Database) {
	by := &letters{model: "abc", of: "abc"}
	vectors := open(retriever.DatabaseOptions{Embedder: by, Spends: "small", Mode: retriever.ByVector})
	both := open(retriever.DatabaseOptions{Embedder: by, Spends: "small"})
	words := open(retriever.DatabaseOptions{Embedder: by, Spends: "small", Mode: retriever.ByWords})

	// Without an embedder first: what it has left out is embedded with the next change.
	sources := []runtime.Source{source("1", "aaa", "bbb c"), source("2", "aab", "ccc"), source("3", "aaa")}
	update(t, words, runtime.Change{Key: "1", Sources: sources})
	if got := idsOf(t, vectors, runtime.Query{Text: "a"}); got != nil {
		t.Errorf("without vectors: %v", got)
	}
	got := update(t, vectors, runtime.Change{Key: "2", Sources: append(sources, source("4", "ccc b"))})
	want := runtime.Updated{Added: 1, Skipped: 3, Used: []runtime.Spent{{Name: "small", Usage: runtime.Usage{InputTokens: 50}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"aaa", "aab", "bbb c", "ccc", "ccc b"}, by.texts); diff != "" {
		t.Errorf("each text is embedded once\n%s", diff)
	}
	// Cosines to "a": aaa 1, aab 2/√5, bbb c 0, ccc 0, ccc b 0. Equal ones are in the order of sources, then of passages.
	if diff := cmp.Diff([]string{"1#1", "3#1", "2#1", "1#2"}, idsOf(t, vectors, runtime.Query{Text: "a", TopK: 4})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"3#1"}, idsOf(t, vectors, runtime.Query{Text: "a", TopK: 1, Filter: map[string]any{"file": "3"}})); diff != "" {
		t.Error(diff)
	}
	// By words "c" is in 1#2 and 4#1, and "b" in 4#1, which is first; by vector 4#1 is also the closest, then 1#2 (of
	// the two with b and c it has less c), 2#2, 2#1, 1#1, 3#1.
	found, err := both.Search(t.Context(), runtime.Query{Text: "ccc b", TopK: 2})
	if err != nil || len(found.Documents) != 2 || found.Documents[0].ID != "4#1" || found.Documents[0].Score != 2.0/61 {
		t.Errorf("%+v, %v", found, err)
	}
	if diff := cmp.Diff([]runtime.Spent{{Name: "small", Usage: runtime.Usage{InputTokens: 10}}}, found.Used); diff != "" {
		t.Error(diff)
	}
	if m := both.Metadata(); m.Retry == nil || m.Retry.Policy.MaxAttempts != 3 || len(m.Spends) != 1 || m.Spends[0] != "small" {
		t.Errorf("%+v", m)
	}

	// Another embedder, or other dimensions, are refused; by words the index still works.
	for _, other := range []*letters{{model: "abc", of: "abcd"}, {model: "xyz", of: "abc"}} {
		changed := open(retriever.DatabaseOptions{Embedder: other, Spends: "small"})
		_, searchErr := changed.Search(t.Context(), runtime.Query{Text: "a", TopK: 1})
		_, updateErr := changed.Update(t.Context(), runtime.Change{Key: "5" + other.of, Sources: []runtime.Source{source("1", "new")}})
		for _, err := range []error{searchErr, updateErr} {
			e, ok := errors.AsType[*runtime.Error](err)
			if !ok || e.Code != "index.embedder" || e.Category != runtime.CategoryConfig {
				t.Errorf("got %v", err)
			}
		}
	}
	if diff := cmp.Diff([]string{"1#1", "3#1"}, idsOf(t, words, runtime.Query{Text: "aaa"})); diff != "" {
		t.Error(diff)
	}
}

// An embedder that fails in the middle: the index is as it was, what it gave is kept, and what it used counts.
func TestEmbedderFailsInTheMiddle(t *testing.T) {
	for name, open := range shelves(t, true) {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for i := range 150 { // in batches of 64
				texts = append(texts, fmt.Sprintf("text %03d", i))
			}
			by := &letters{model: "m", of: "0123456789", fails: 3}
			x := open(retriever.DatabaseOptions{Embedder: by, Spends: "small"})
			change := runtime.Change{Key: "1", Sources: []runtime.Source{source("a", texts...)}}
			u, err := x.Update(t.Context(), change)
			if f, ok := errors.AsType[*retry.Failure](err); !ok || f.Reason != retry.RateLimit {
				t.Fatalf("got %v", err)
			}
			tokens := 0
			for _, s := range u.Used {
				tokens += s.InputTokens
			}
			if tokens != 2*640+1 || u.Added != 0 {
				t.Errorf("got %+v", u)
			}
			if got := idsOf(t, x, runtime.Query{Text: "text"}); got != nil {
				t.Errorf("found %v", got)
			}
			by.texts = nil
			u = update(t, x, change)
			if u.Added != 1 || len(by.texts) != 150-2*64 {
				t.Errorf("again: %+v, %d texts were embedded", u, len(by.texts))
			}
		})
	}
}

// bad is an embedder that gives what it should not.
type bad [][]float32

func (b bad) Embed(context.Context, []string) ([][]float32, runtime.Usage, error) {
	return b, runtime.Usage{}, nil
}

func TestBadEmbedders(t *testing.T) {
	var zero float32
	for _, tt := range []struct {
		gives bad
		want  string
	}{
		{nil, "the embedder gave 0 vectors for 2 texts"},
		{bad{{1}, {1, 2}}, "the embedder gave vectors of 1 and of 2 dimensions"},
		{bad{{}, {}}, "the embedder gave vectors of 0 and of 0 dimensions"},
		{bad{{1}, {1 / zero}}, "the embedder gave a number that is not finite"},
	} {
		x := retriever.SQLite(filepath.Join(t.TempDir(), "x.db"), retriever.DatabaseOptions{Embedder: tt.gives})
		_, err := x.Update(t.Context(), runtime.Change{Sources: []runtime.Source{source("a", "one", "two")}})
		if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// Several that write at once, in one process and, as far as the file can tell, in two, and one that reads: every change is
// made, one after the other.
func TestWritersAtOnce(t *testing.T) {
	for name, open := range shelves(t, false) {
		t.Run(name, func(t *testing.T) {
			two := []*retriever.Database{open(retriever.DatabaseOptions{}), open(retriever.DatabaseOptions{})}
			update(t, two[0], runtime.Change{Key: "first"})
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					name := fmt.Sprintf("s%02d", i%10) // each is written twice
					u, err := two[i%2].Update(t.Context(), runtime.Change{Key: fmt.Sprint(i), Sources: []runtime.Source{source(name, "owl "+name)}})
					if err != nil || u.Added+u.Skipped != 1 {
						t.Errorf("%+v, %v", u, err)
					}
					if _, err := two[1-i%2].Search(t.Context(), runtime.Query{Text: "owl", TopK: 3}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := idsOf(t, two[0], runtime.Query{Text: "owl", TopK: 100}); len(got) != 10 {
				t.Errorf("found %v", got)
			}
		})
	}
}

// The embedder without a model: texts that share words are closer than others, always in the same way.
func TestHash(t *testing.T) {
	x := retriever.SQLite(filepath.Join(t.TempDir(), "x.db"), retriever.DatabaseOptions{Embedder: retriever.Hash(0), Mode: retriever.ByVector})
	update(t, x, runtime.Change{Sources: []runtime.Source{
		source("a", "A refund takes five days."), source("b", "Owls fly at night."), source("c", "Parcels leave on weekdays.")}})
	for query, want := range map[string]string{"refund days": "a#1", "nightly owl": "b#1", "parcel": "c#1"} {
		if got := idsOf(t, x, runtime.Query{Text: query, TopK: 1}); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}
