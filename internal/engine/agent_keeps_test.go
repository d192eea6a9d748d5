package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// trust 8.14: what an agent keeps counts for max_run_bytes: calls, also those that are refused, results and answers.
func TestWhatAnAgentKeepsIsBounded(t *testing.T) {
	const most = 1 << 20
	long := json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)
	for _, tt := range []struct {
		name  string
		calls func(step int) []runtime.ToolCall
		text  string
		most  int // rounds, more than which cannot be kept
	}{
		{"calls that are refused beside one that is made", func(int) []runtime.ToolCall {
			return append(asksFor("test.none", 63), asksFor("test.long", 1)...)
		}, "", 10},
		{"results", func(int) []runtime.ToolCall { return asksFor("test.long", 1) }, "", 60},
		{"answers", func(int) []runtime.ToolCall { return asksFor("test.one", 1) }, strings.Repeat("y", 100_000), 11},
		{"arguments", func(step int) []runtime.ToolCall {
			c := asksFor("test.one", 1)
			c[0].Arguments = fmt.Appendf(nil, `{"n":%d,"x":%s}`, step, long)
			return c
		}, "", 60},
		{"one answer", func(int) []runtime.ToolCall { return asksFor("test.one", 10_000) }, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rounds := 0
			rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: []runtime.Tool{says{"test.long", string(long)}, says{"test.one", "1"}}}
			rt.Limits.MaxRunBytes = most
			rt.Models = map[string]runtime.Model{"m": &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
				rounds++
				return &runtime.Response{Text: tt.text, ToolCalls: tt.calls(rounds)}, nil
			}}}
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: agent, with: {agent: {model: m, max_steps: 1000, on_repetition: go_on, "+
				"tools: [test.one, test.long], subagents: false}, prompt: go}}\n")).Run(t.Context(), nil, rt)
			if e := out.Failure(); err == nil || e.Code != "outputs.tooLarge" || e.Category != runtime.CategoryLimit || e.Step != "a" {
				t.Fatalf("after %d rounds: %v", rounds, err)
			}
			if rounds > tt.most {
				t.Errorf("it had %d rounds, more than %d cannot be kept", rounds, tt.most)
			}
		})
	}
}

func asksFor(tool string, n int) []runtime.ToolCall {
	list := make([]runtime.ToolCall, n)
	for i := range list {
		list[i] = runtime.ToolCall{ID: fmt.Sprint("c", i, tool), Name: tool, Arguments: json.RawMessage(`{}`)}
	}
	return list
}

// says is a tool that always says the same.
type says struct{ name, text string }

func (s says) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: s.name} }

func (s says) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(s.text), nil
}
