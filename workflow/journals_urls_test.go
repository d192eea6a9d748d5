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

// withoutRule is a store whose runs began before they recorded a rule, which is this part of a record; "": they recorded all.
type withoutRule struct {
	checkpoint.Store
	documentsOf
	rule string
}

func (s withoutRule) Load(ctx context.Context, id string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Store.Load(ctx, id, after)
	if s.rule == "" {
		return sum, recs, err
	}
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Data = bytes.ReplaceAll(recs[i].Data, []byte(s.rule), nil)
	}
	return sum, recs, err
}

// goOnWithout continues what a journal of a case begins, in a copy of its store without a rule.
func (c *journalCase) goOnWithout(t *testing.T, rule, journal string) []string {
	t.Helper()
	return c.goOn(t, journal, func(t *testing.T) checkpoint.Store {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(c.dir, "store"))); err != nil {
			t.Fatal(err)
		}
		store := openJournals(t, dir)
		return withoutRule{store, store.(checkpoint.Documents), rule}
	})
}

// trust 8.19: a run goes on by the rules by which it began: what its calls are asked, and questions about them, does not change.
func TestEarlierRunsPutValuesIntoURLsAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name, without, path, text string
	}{
		{"now", "", "a%2Fb%20&%20c", "a%2Fb%20%26%20c"},
		{"earlier", `"escaped":true,`, "a/b & c", "a/b & c"},
	} {
		var urls []string
		for _, c := range journalCases(t, "21") {
			for _, journal := range value.SortedKeys(c.Journals) {
				for _, line := range c.goOnWithout(t, tt.without, journal) {
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
