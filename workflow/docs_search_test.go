package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// shelves is a searcher that finds the query, and says what it has used.
type shelves struct{ asked []runtime.Query }

func (s *shelves) Search(_ context.Context, q runtime.Query) (runtime.Found, error) {
	s.asked = append(s.asked, q)
	return runtime.Found{Documents: []runtime.Document{{ID: "1", Text: q.Text, Score: 0.5}, {ID: "2", Text: "more"}},
		Used: []runtime.Spent{{Name: "embed", Usage: runtime.Usage{InputTokens: 7}}}}, nil
}

func TestDocsSearch(t *testing.T) {
	const found = `{"documents":[{"id":"1","score":0.5,"text":"ferns"},{"id":"2","text":"more"}]}`
	for _, tt := range []struct {
		name, keys string
		host       func(*runtime.Runtime, *shelves)
		args       string
		want       string // result
		asked      []runtime.Query
	}{
		{name: "the default one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"default": s} },
			args: `{"query":"ferns"}`, want: found, asked: []runtime.Query{{Text: "ferns", TopK: 5}}},
		{name: "of many only as many as asked for", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"default": s} },
			args: `{"query":"ferns","top_k":1}`, want: `{"documents":[{"id":"1","score":0.5,"text":"ferns"}]}`, asked: []runtime.Query{{Text: "ferns", TopK: 1}}},
		{name: "a named one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns","from":"manual"}`, want: found, asked: []runtime.Query{{Text: "ferns", TopK: 5}}},
		{name: "no default", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns"}`, want: `error: arguments of "docs.search": /from: is required`},
		{name: "an unknown one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns","from":"manuals"}`, want: `error: arguments of "docs.search": /from: must be "manual", not "manuals"; did you mean "manual"?`},
		{name: "no retriever", keys: "tools: [docs.search]", host: func(*runtime.Runtime, *shelves) {}, args: `{"query":"ferns"}`,
			want: `error: there is no tool "docs.search".`},
		{name: "an agent that lists no tools", keys: "max_steps: 3", host: func(rt *runtime.Runtime, s *shelves) { rt.Searchers = map[string]runtime.Searcher{"default": s} },
			args: `{"query":"ferns"}`, want: `error: there is no tool "docs.search".`},
		{name: "denied", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *shelves) {
			rt.Searchers, rt.Deny = map[string]runtime.Searcher{"default": s}, []string{"docs.search"}
		}, args: `{"query":"ferns"}`, want: `error: there is no tool "docs.search".`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, s := rounds([]runtime.ToolCall{wants("docs.search", tt.args)}), &shelves{}
			plain := m.Func
			m.Func = func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
				resp, err := plain(ctx, req)
				resp.Usage = runtime.Usage{InputTokens: 1, OutputTokens: 1}
				return resp, err
			}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &quiet{}, Store: &checkpoint.Memory{}}
			tt.host(rt, s)
			wf := load(t, []byte(head+"agents: {clerk: {model: m, subagents: false, "+tt.keys+"}}\nsteps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}\noutput: ${{ steps.ask.usage.inputTokens }}\n"))
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, said(m)); diff != "" {
				t.Errorf("result (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
				t.Errorf("queries (-want +got)\n%s", diff)
			}
			if want := int64(2 + 7*len(tt.asked)); out.Output != want {
				t.Errorf("%v tokens are counted, want %d", out.Output, want)
			}
		})
	}
}

// A host's own tool of the name counts, and agents that list no tools have it.
func TestOwnDocsSearch(t *testing.T) {
	m := rounds([]runtime.ToolCall{wants("docs.search", `{}`)})
	own := runtimetest.NewTool("docs.search", func(context.Context, json.RawMessage) (any, error) { return "mine", nil })
	wf := load(t, []byte(head+"agents: {clerk: {model: m, tools: all, subagents: false}}\nsteps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}\n"))
	if _, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{own}, Searchers: map[string]runtime.Searcher{"default": &shelves{}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mine"}, said(m)); diff != "" {
		t.Errorf("result (-want +got)\n%s", diff)
	}
}
