package workflow_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
)

// unescaped is a store of runs that began before URLs were escaped.
type unescaped struct{ checkpoint.Store }

func (s unescaped) Load(ctx context.Context, id string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Store.Load(ctx, id, after)
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Data = bytes.ReplaceAll(recs[i].Data, []byte(`"escaped":true,`), nil)
	}
	return sum, recs, err
}

// trust 8.19: a run goes on by the rules by which it began: what its calls are asked, and questions about them, does not change.
func TestEarlierRunsPutValuesIntoURLsAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name       string
		open       func(checkpoint.Store) checkpoint.Store
		path, text string
	}{
		{"now", func(s checkpoint.Store) checkpoint.Store { return s }, "a%2Fb%20&%20c", "a%2Fb%20%26%20c"},
		{"earlier", func(s checkpoint.Store) checkpoint.Store { return unescaped{s} }, "a/b & c", "a/b & c"},
	} {
		var urls []string
		for _, c := range journalCases(t, "21") {
			for _, journal := range value.SortedKeys(c.Journals) {
				for _, line := range c.goOn(t, journal, func(t *testing.T) checkpoint.Store {
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(filepath.Join(c.dir, "store"))); err != nil {
						t.Fatal(err)
					}
					return tt.open(openJournals(t, dir))
				}) {
					if _, url, ok := strings.Cut(line, `"url":"https://a.example/`); ok && strings.HasPrefix(line, "call ") {
						url, _, _ = strings.Cut(url, `"`)
						urls = append(urls, url)
					}
				}
			}
		}
		first, second := fmt.Sprintf("%s?q=%s&key=SECRET", tt.path, tt.text), "second?q="+tt.text
		want := []string{second, first, second, "back?q=" + tt.text, "other?q=" + tt.text, first}
		if diff := cmp.Diff(want, urls); diff != "" {
			t.Errorf("%s: URLs (-want +got)\n%s", tt.name, diff)
		}
	}
}
