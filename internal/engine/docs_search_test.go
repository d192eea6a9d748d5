package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func TestDocsSearch(t *testing.T) {
	const found = `{"documents":[{"id":"1","score":0.5,"text":"ferns"},{"id":"2","text":"more"}]}`
	for _, tt := range []struct {
		name, keys string
		host       func(*runtime.Runtime, *runtest.Shelves)
		args       string
		want       string // result
		asked      []runtime.Query
	}{
		{name: "the default one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) {
			rt.Searchers = map[string]runtime.Searcher{"default": s}
		},
			args: `{"query":"ferns"}`, want: found, asked: []runtime.Query{{Text: "ferns", TopK: 5}}},
		{name: "of many only as many as asked for", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) {
			rt.Searchers = map[string]runtime.Searcher{"default": s}
		},
			args: `{"query":"ferns","top_k":1}`, want: `{"documents":[{"id":"1","score":0.5,"text":"ferns"}]}`, asked: []runtime.Query{{Text: "ferns", TopK: 1}}},
		{name: "a named one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns","from":"manual"}`, want: found, asked: []runtime.Query{{Text: "ferns", TopK: 5}}},
		{name: "no default", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns"}`, want: `error: arguments of "docs.search": /from: is required`},
		{name: "an unknown one", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) { rt.Searchers = map[string]runtime.Searcher{"manual": s} },
			args: `{"query":"ferns","from":"manuals"}`, want: `error: arguments of "docs.search": /from: must be "manual", not "manuals"; did you mean "manual"?`},
		{name: "no retriever", keys: "tools: [docs.search]", host: func(*runtime.Runtime, *runtest.Shelves) {}, args: `{"query":"ferns"}`,
			want: `error: there is no tool "docs.search".`},
		{name: "an agent that lists no tools", keys: "max_steps: 3", host: func(rt *runtime.Runtime, s *runtest.Shelves) {
			rt.Searchers = map[string]runtime.Searcher{"default": s}
		},
			args: `{"query":"ferns"}`, want: `error: there is no tool "docs.search".`},
		{name: "denied", keys: "tools: [docs.search]", host: func(rt *runtime.Runtime, s *runtest.Shelves) {
			rt.Searchers, rt.Deny = map[string]runtime.Searcher{"default": s}, []string{"docs.search"}
		}, args: `{"query":"ferns"}`, want: `error: there is no tool "docs.search".`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, s := runtest.Rounds([]runtime.ToolCall{runtest.Wants("docs.search", tt.args)}), &runtest.Shelves{}
			plain := m.Func
			m.Func = func(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
				resp, err := plain(ctx, req)
				resp.Usage = runtime.Usage{InputTokens: 1, OutputTokens: 1}
				return resp, err
			}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &runtest.Quiet{}, Store: &checkpoint.Memory{}}
			tt.host(rt, s)
			wf := runtest.Load(t, []byte(runtest.Head+"agents: {clerk: {model: m, subagents: false, "+tt.keys+"}}\nsteps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}\noutput: ${{ steps.ask.usage.inputTokens }}\n"))
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, runtest.Said(m)); diff != "" {
				t.Errorf("result (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, s.Asked); diff != "" {
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
	m := runtest.Rounds([]runtime.ToolCall{runtest.Wants("docs.search", `{}`)})
	own := runtimetest.NewTool("docs.search", func(context.Context, json.RawMessage) (any, error) { return "mine", nil })
	wf := runtest.Load(t, []byte(runtest.Head+"agents: {clerk: {model: m, tools: all, subagents: false}}\nsteps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}\n"))
	if _, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{own}, Searchers: map[string]runtime.Searcher{"default": &runtest.Shelves{}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mine"}, runtest.Said(m)); diff != "" {
		t.Errorf("result (-want +got)\n%s", diff)
	}
}
