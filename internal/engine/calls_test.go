package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// trust 1.12: each tool.before has its tool.after, also of delegates, of the loop's own tools and of calls that are
// refused after it, with the path of the agent that called, its name, the call and the attempt. A tool knows the same.
func TestHooksPairAndCallsAreKnown(t *testing.T) {
	var moments, calls []string
	plugin := runtime.Plugin{Key: "p", Hooks: runtime.Hooks{}}
	for _, point := range []runtime.Point{runtime.ToolBefore, runtime.ToolAfter} {
		plugin.Hooks[point] = func(_ context.Context, m runtime.Moment) error {
			line := fmt.Sprintf("%s %s %s %s call %d attempt %d", m.Point, m.Step, m.Agent, m.Name, m.Call, m.Attempt)
			if m.Err != nil {
				line += ": " + m.Err.Error()
			} else if m.Output != nil {
				line += fmt.Sprint(" gives ", m.Output)
			}
			moments = append(moments, line)
			return nil
		}
	}
	rt := runtest.Approving(&runtest.Effects{})
	rt.Plugins, rt.NewRunID, rt.Memory = []runtime.Plugin{plugin}, func() string { return "r1" }, new(memory.Memory)
	note := runtimetest.NewTool("t.note", func(ctx context.Context, _ json.RawMessage) (any, error) {
		c, ok := runtime.CallOf(ctx)
		if c.Key != runtime.IdempotencyKey(ctx) || c.Key == "" || !ok {
			t.Errorf("key %q, not that of the call", c.Key)
		}
		c.Key = ""
		calls = append(calls, fmt.Sprintf("%+v", c))
		if c.Attempt == 1 && c.Agent == "" {
			return nil, &retry.Failure{Reason: retry.ServerError, Err: errors.New("once more")}
		}
		return "noted", nil
	})
	note.ToolSpec.Effect = runtime.ReadOnly
	rt.Tools = append(rt.Tools, note)
	out, err := runtest.Load(t, []byte(runtest.Head+`agents:
  clerk: {model: m, tools: [t.note]}
  boss: {model: m, tools: [t.note, t.send], approval: {t.send: always}, delegates: [clerk], memory: {thread: main}}
steps:
  a: {uses: t.note, retry: {max_attempts: 2, backoff: 1ms, retry_on: [5xx]}}
  b: {uses: agent, needs: [a], with: {agent: boss, prompt: 't.note {}; delegate_clerk {"task":"t.note {}"}; t.send {"n":1}; agent.close {"id":"x"}'}}
`)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err, out.Diagnostics)
	}
	want := []string{
		"tool.before a  t.note call 1 attempt 1",
		"tool.after a  t.note call 1 attempt 1: once more",
		"tool.before a  t.note call 1 attempt 2",
		"tool.after a  t.note call 1 attempt 2 gives noted",
		"tool.before b boss t.note call 1 attempt 1",
		"tool.after b boss t.note call 1 attempt 1 gives noted",
		"tool.before b boss delegate_clerk call 2 attempt 1",
		"tool.before b/clerk#2 clerk t.note call 1 attempt 1",
		"tool.after b/clerk#2 clerk t.note call 1 attempt 1 gives noted",
		"tool.after b boss delegate_clerk call 2 attempt 1 gives noted",
		"tool.before b boss t.send call 3 attempt 1",
		`tool.after b boss t.send call 3 attempt 1: tool "t.send" needs an approval: nobody can give it`,
		"tool.before b boss agent.close call 4 attempt 1",
		`tool.after b boss agent.close call 4 attempt 1: subagent_not_found: there is no sub-agent "x"`,
	}
	if diff := cmp.Diff(want, moments); diff != "" {
		t.Errorf("moments (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"{Run:r1 Step:a Agent: Depth:0 Call:1 Attempt:1 Thread: Resource: Cwd: Key: Recipe:test By:}",
		"{Run:r1 Step:a Agent: Depth:0 Call:1 Attempt:2 Thread: Resource: Cwd: Key: Recipe:test By:}",
		"{Run:r1 Step:b Agent:boss Depth:0 Call:1 Attempt:1 Thread:main Resource: Cwd: Key: Recipe:test By:}",
		"{Run:r1 Step:b/clerk#2 Agent:clerk Depth:1 Call:1 Attempt:1 Thread: Resource: Cwd: Key: Recipe:test By:}",
	}, calls); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if _, ok := runtime.CallOf(t.Context()); ok {
		t.Error("a call outside of a run")
	}
}
