package bench

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/runtime"
)

// Pages of the documentation are the corpus. A query is made of four words of a passage, chosen with a fixed seed, and the passage
// is what it is after: of two kinds, as written, and with a letter changed in two of the words. Recall@10 is the share of
// the queries whose passage is among the first ten.
func TestRetrievalQuality(t *testing.T) {
	sources, passages := corpus(t)
	const queries = 400
	t.Logf("%d passages of %d pages, %d queries of each kind", len(passages), len(sources), queries)
	for _, mode := range []retriever.Mode{retriever.ByWords, retriever.ByVector, retriever.Hybrid} {
		x := database(t, retriever.DatabaseOptions{Mode: mode, Embedder: retriever.Hash(1024)})
		if _, err := x.Update(t.Context(), runtime.Change{Sources: sources}); err != nil {
			t.Fatal(err)
		}
		for _, misspelled := range []bool{false, true} {
			random, found := rand.New(rand.NewPCG(1, 2)), 0
			for range queries {
				p := passages[random.IntN(len(passages))]
				result, err := x.Search(t.Context(), runtime.Query{Text: query(random, p.Text, misspelled), TopK: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range result.Documents {
					if d.ID == p.ID {
						found++
					}
				}
			}
			t.Logf("%-6s misspelled=%-5v recall@10 %.3f", mode, misspelled, float64(found)/queries)
		}
	}
}

var indexURL = flag.String("index", "", "a database of Postgres for the index; none: a file of SQLite")

// database is a new index.
func database(t *testing.T, opts retriever.DatabaseOptions) *retriever.Database {
	t.Helper()
	if *indexURL == "" {
		return retriever.SQLite(filepath.Join(t.TempDir(), "x.db"), opts)
	}
	opts.Name = fmt.Sprint(t.Name(), opts.Mode, time.Now().UnixNano())
	return retriever.Postgres(*indexURL, opts)
}

// corpus are the pages of the documentation as they were on 2026-11-24, so that figures can be compared, and their passages
// of eight words and more.
func corpus(t *testing.T) (sources []runtime.Source, passages []runtime.Document) {
	t.Helper()
	file, err := os.Open("testdata/passages.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(text); lines.More(); { // those of a page follow one another
		var d runtime.Document
		if err := lines.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if n := len(sources); n == 0 || sources[n-1].Name != d.Source {
			sources = append(sources, runtime.Source{Name: d.Source, Digest: "1"})
		}
		page := &sources[len(sources)-1]
		page.Documents = append(page.Documents, d)
		if len(strings.Fields(d.Text)) >= 8 {
			passages = append(passages, d)
		}
	}
	return sources, passages
}

// query is four words of a text, of more than four letters where it has such.
func query(random *rand.Rand, text string, misspelled bool) string {
	var words []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' }) {
		if len(word) > 4 {
			words = append(words, strings.ToLower(word))
		}
	}
	if len(words) == 0 {
		return text
	}
	var chosen []string
	for i := range 4 {
		word := []byte(words[random.IntN(len(words))])
		at, letter := random.IntN(len(word)), byte('a'+random.IntN(26))
		if misspelled && i < 2 {
			word[at] = letter
		}
		chosen = append(chosen, string(word))
	}
	return strings.Join(chosen, " ")
}

var vectors = flag.Int("vectors", 0, "how many vectors of 768 dimensions TestVectorSearchTime searches; 0: it is skipped")

// noise embeds anything as numbers that look random, the same for the same text.
type noise struct{}

func (noise) Embed(_ context.Context, texts []string) (list [][]float32, used runtime.Usage, err error) {
	for _, text := range texts {
		var seed uint64
		for _, c := range []byte(text) {
			seed = seed*31 + uint64(c)
		}
		random, v := rand.New(rand.NewPCG(seed, 1)), make([]float32, 768)
		for i := range v {
			v[i] = random.Float32() - 0.5
		}
		list = append(list, v)
	}
	return list, used, nil
}

// A search by vector compares the query with every vector.
func TestVectorSearchTime(t *testing.T) {
	if *vectors == 0 {
		t.Skip("no -vectors")
	}
	x := database(t, retriever.DatabaseOptions{Mode: retriever.ByVector, Embedder: noise{}})
	s := runtime.Source{Name: "s", Digest: "1"}
	for i := range *vectors {
		s.Documents = append(s.Documents, runtime.Document{ID: fmt.Sprint(i), Text: fmt.Sprint("text ", i)})
	}
	began := time.Now()
	if _, err := x.Update(t.Context(), runtime.Change{Sources: []runtime.Source{s}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d passages were indexed in %v", *vectors, time.Since(began).Round(time.Second))
	for range 5 {
		began = time.Now()
		if _, err := x.Search(t.Context(), runtime.Query{Text: "text 7", TopK: 10}); err != nil {
			t.Fatal(err)
		}
		t.Logf("a search took %v", time.Since(began).Round(time.Millisecond))
	}
}
