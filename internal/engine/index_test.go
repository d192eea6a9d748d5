package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// cellar is an index that says what it is asked, and uses a hundred tokens each time.
type cellar struct {
	changes []runtime.Change
	queries []runtime.Query
	fails   []error // of the first changes
}

var hundred = []runtime.Spent{{Name: "small", Usage: runtime.Usage{InputTokens: 100}}}

func (c *cellar) Metadata() runtime.Metadata { return runtime.Metadata{Spends: []string{"small"}} }

func (c *cellar) Search(_ context.Context, q runtime.Query) (runtime.Found, error) {
	c.queries = append(c.queries, q)
	return runtime.Found{Documents: []runtime.Document{{ID: "a#1", Text: "a"}, {ID: "b#1"}}, Used: hundred}, nil
}

func (c *cellar) Update(_ context.Context, change runtime.Change) (runtime.Updated, error) {
	c.changes = append(c.changes, change)
	u := runtime.Updated{Added: len(change.Sources), Used: hundred}
	if n := len(c.changes); n <= len(c.fails) {
		return runtime.Updated{Used: hundred}, c.fails[n-1]
	}
	return u, nil
}

// indexes is a run of a recipe with the steps, which may use the index cellar.
func indexes(t *testing.T, c *cellar, steps string, rt runtime.Runtime) *workflow.Outcome {
	t.Helper()
	rt.Searchers = map[string]runtime.Searcher{"cellar": c}
	out, _ := runtest.Load(t, []byte(runtest.Head+steps)).Run(t.Context(), nil, &rt)
	return out
}

// An index step gives the index sources, sorted, with what documents have in common, and asks it once with a key of its own.
func TestIndexStep(t *testing.T) {
	c := new(cellar)
	out := indexes(t, c, `steps:
  put:
    uses: index
    with:
      into: cellar
      documents:
        - {source: b, text: "# B\none\n# C\ntwo", metadata: {lang: de}}
        - {source: a.txt, text: "# three"}
        - {source: b, text: '[{"text": "four", "n": 4}]', type: json}
      metadata: {lang: en, by: me}
      chunk: {max_bytes: 100}
      stale: delete
  find: {uses: retrieve, needs: [put], with: {from: cellar, query: q, top_k: 1, filter: {lang: [de, en]}}}
output: ${{ [steps.put.output, map(steps.find.output.documents, .id)] }}
`, runtime.Runtime{})
	want := []any{map[string]any{"added": int64(2), "updated": int64(0), "deleted": int64(0), "skipped": int64(0)}, []any{"a#1"}}
	if diff := cmp.Diff(want, out.Output); diff != "" {
		t.Fatalf("%v %s", out.Err, diff)
	}
	doc := func(id, text, source string, about map[string]any) runtime.Document {
		about["by"] = "me"
		return runtime.Document{ID: id, Text: text, Source: source, Metadata: about}
	}
	change := c.changes[0]
	sources := []runtime.Source{
		{Name: "a.txt", Documents: []runtime.Document{doc("a.txt#1", "# three", "a.txt", map[string]any{"lang": "en", "first_line": int64(1), "last_line": int64(1)})}},
		{Name: "b", Documents: []runtime.Document{
			doc("b#1", "# B\none", "b", map[string]any{"lang": "de", "headings": []any{"B"}, "first_line": int64(1), "last_line": int64(2)}),
			doc("b#2", "# C\ntwo", "b", map[string]any{"lang": "de", "headings": []any{"C"}, "first_line": int64(3), "last_line": int64(4)}),
			doc("b#3", "four\n\nn: 4", "b", map[string]any{"lang": "en", "n": int64(4)})}}}
	for i := range change.Sources {
		if len(change.Sources[i].Digest) != 64 {
			t.Errorf("digest %q", change.Sources[i].Digest)
		}
		change.Sources[i].Digest = ""
	}
	if diff := cmp.Diff(runtime.Change{Sources: sources, Stale: true, Key: change.Key}, change); diff != "" || len(change.Key) < 16 {
		t.Errorf("key %q\n%s", change.Key, diff)
	}
	if diff := cmp.Diff([]runtime.Query{{Text: "q", TopK: 1, Filter: map[string]any{"lang": []any{"de", "en"}}}}, c.queries); diff != "" {
		t.Error(diff)
	}
}

const putThenFind = `limits: {%s}
steps:
  put: {uses: index, with: {into: cellar, documents: [{source: a, text: a}]}%s}
  find: {uses: retrieve, needs: [put], with: {from: cellar, query: q}}
output: ${{ [steps.put.usage, steps.find.usage] }}
`

func putFind(limits, put string) string {
	return strings.Replace(strings.Replace(putThenFind, "%s", limits, 1), "%s", put, 1)
}

// What is embedded counts as tokens of the run, at its price, of attempts that failed too.
func TestEmbeddingsCount(t *testing.T) {
	prices := map[string]runtime.Price{"small": {Input: 10}}
	slow := &retry.Failure{Reason: retry.RateLimit, Status: 429, Err: errors.New("slow down")}
	used := func(calls, tokens int64, dollars float64) map[string]any {
		return map[string]any{"calls": calls, "inputTokens": tokens, "outputTokens": int64(0), "costUsd": dollars}
	}
	for _, tt := range []struct {
		name, limits, put string
		fails             []error
		prices            map[string]runtime.Price
		want              any
		code, message     string
	}{
		{name: "no limit", limits: "wall_time: 1h", prices: prices, want: []any{used(1, 100, 0.001), used(1, 100, 0.001)}},
		{name: "no price", limits: "wall_time: 1h", want: []any{used(1, 100, 0), used(1, 100, 0)}},
		{name: "again", limits: "wall_time: 1h", put: ", retry: {max_attempts: 2, backoff: 1ms}", fails: []error{slow}, prices: prices, want: []any{used(2, 200, 0.002), used(1, 100, 0.001)}},
		{name: "enough", limits: "tokens: 101", prices: prices, want: []any{used(1, 100, 0.001), used(1, 100, 0.001)}},
		{name: "too many tokens", limits: "tokens: 100", code: "limits.tokens",
			message: "the retriever is not called: it may use 1 tokens, and limits.tokens of the run is 100, of which 100 are used and 0 reserved"},
		{name: "too dear", limits: "cost_usd: 0.001", prices: prices, code: "limits.cost_usd"},
		{name: "a price is missing", limits: "cost_usd: 1", code: "price.missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := indexes(t, &cellar{fails: tt.fails}, putFind(tt.limits, tt.put), runtime.Runtime{Prices: tt.prices})
			if tt.code == "" {
				if diff := cmp.Diff(tt.want, out.Output); out.Err != nil || diff != "" {
					t.Errorf("%v\n%s", out.Err, diff)
				}
				return
			}
			if e := out.Failure(); e == nil || e.Code != tt.code || tt.message != "" && e.Err.Error() != tt.message {
				t.Errorf("got %v", out.Err)
			}
		})
	}
}

// A limit that pauses lets somebody raise it. What was used is in the journal: after a recovery it still counts.
func TestEmbeddingsPause(t *testing.T) {
	c := new(cellar)
	rt := runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Searchers: map[string]runtime.Searcher{"cellar": c}}
	wf := runtest.Load(t, []byte(runtest.Head+putFind("tokens: 100, on_exceeded: pause", "")))
	out, _ := wf.Run(t.Context(), nil, &rt)
	if out.Status != workflow.StatusPaused || out.Pauses[0].Reason != "limits.tokens" {
		t.Fatalf("got %s %v", out.Status, out.Err)
	}
	if out, _ = wf.Recover(t.Context(), out.RunID, &rt); out.Status != workflow.StatusPaused || len(c.queries) != 0 {
		t.Fatalf("got %s %v", out.Status, out.Err)
	}
	out, _ = workflow.Answer(t.Context(), out.RunID, out.Pauses[0].ID, map[string]any{"decision": "raise", "form": map[string]any{"tokens": 500}}, &rt, nil)
	if out.Status != workflow.StatusOK || len(c.changes) != 1 {
		t.Errorf("got %s %v after %d changes", out.Status, out.Err, len(c.changes))
	}
}

// An agent's retrieval counts in its step.
func TestAgentsRetrievalCounts(t *testing.T) {
	rt := &runtime.Runtime{Searchers: map[string]runtime.Searcher{"default": new(cellar)}, Models: map[string]runtime.Model{"m": runtest.Rounds()}}
	out, err := runtest.Load(t, []byte(runtest.Head+`agents: {a: {model: m, tools: [], retrieve: {top_k: 1}}}
steps: {ask: {uses: agent, with: {agent: a, prompt: hi}}}
output: ${{ steps.ask.usage.inputTokens > 100 }}
`)).Run(t.Context(), nil, rt)
	if err != nil || out.Output != true {
		t.Errorf("%v %v", out.Output, err)
	}
}
