package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// The calls of agents count in max_parallel too, one by one.
func TestCallsOfAgentsShareTheSlots(t *testing.T) {
	const text = runtest.Head + `limits: {max_parallel: %d}
defaults: {model: fast}
agents: {busy: {tools: all, tool_concurrency: %d}}
steps:
  a: {uses: agent, with: {prompt: go}}
  b: {uses: agent, with: {prompt: go}}
  c: {uses: test.sleep}
output: ${{ steps.b.output.text }}
`
	for _, tt := range []struct {
		slots, concurrency int
		most               int64
		took               time.Duration // of nine calls that take a second each
	}{
		{1, 1, 1, 9 * time.Second},
		{1, 4, 1, 9 * time.Second},
		{3, 4, 3, 3 * time.Second},
		{8, 4, 8, 2 * time.Second},
		{16, 4, 9, time.Second},
		{16, 1, 3, 4 * time.Second},
	} {
		t.Run(fmt.Sprint(tt.slots, " slots, ", tt.concurrency, " at once"), func(t *testing.T) {
			wf := runtest.Load(t, fmt.Appendf(nil, text, tt.slots, tt.concurrency))
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				sleep := runtimetest.NewTool("test.sleep", func(context.Context, json.RawMessage) (any, error) {
					n := now.Add(1)
					defer now.Add(-1)
					for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
					}
					time.Sleep(time.Second)
					return nil, nil
				})
				call := runtime.ToolCall{Name: "test.sleep", Arguments: json.RawMessage("{}")}
				fast := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					if req.StepCall == 1 {
						return &runtime.Response{ToolCalls: []runtime.ToolCall{call, call, call, call}}, nil
					}
					return &runtime.Response{Text: "done"}, nil
				}}
				began := time.Now()
				out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": fast}, Tools: []runtime.Tool{sleep}})
				if err != nil {
					t.Fatal(err)
				}
				got := []any{out.Output, most.Load(), time.Since(began)}
				if diff := cmp.Diff([]any{"done", tt.most, tt.took}, got); diff != "" {
					t.Errorf("output, most calls at once, time (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// shaky is a memory and a retriever that fail a few times before each answer.
type shaky struct {
	mu       sync.Mutex
	failures int
	left     map[string]int
	saved    int
}

func (f *shaky) fail(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.left[what]; !ok {
		f.left[what] = f.failures
	}
	if f.left[what]--; f.left[what] >= 0 {
		return &retry.Failure{Reason: retry.Network, Err: errors.New("no line")}
	}
	return nil
}

func (f *shaky) Load(context.Context, runtime.Conversation) ([]runtime.Message, error) {
	return nil, f.fail("load")
}

func (f *shaky) Save(context.Context, runtime.Conversation, string, []runtime.Message) error {
	err := f.fail("save")
	if err == nil {
		f.saved++
	}
	return err
}

func (f *shaky) Retrieve(context.Context, string, int) ([]runtime.Document, error) {
	return []runtime.Document{{ID: "d", Text: "found"}}, f.fail("retrieve")
}

// What an agent gathers and keeps is tried again as the policies for memory and retriever say.
func TestAgentPortsAreRetried(t *testing.T) {
	const text = runtest.Head + `defaults: {model: fast, retry: {memory: {max_attempts: 3}, retriever: {max_attempts: 3}}}
agents: {one: {memory: {thread: "${{ run.recipe }}"}, retrieve: {top_k: 2}}}
steps: {a: {uses: agent, with: {prompt: go}}}
output: ${{ steps.a.output.text }}
`
	wf := runtest.Load(t, []byte(text))
	for failures, want := range map[int]string{0: "", 2: "", 3: "memory.load"} {
		ports := &shaky{failures: failures, left: map[string]int{}}
		out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": runtimetest.Texts("done")}, Memory: ports, Retriever: ports})
		code := ""
		if e := out.Failure(); e != nil {
			code = e.Code
		}
		retries := 0
		for _, e := range out.Trace {
			if e.Kind == trace.AdapterRetry {
				retries++
			}
		}
		got := []any{code, retries, ports.saved}
		wantAll := []any{want, 3 * failures, 1}
		if want != "" {
			wantAll = []any{want, failures - 1, 0}
			if e := out.Failure(); e.Category != "memory" {
				t.Errorf("category %q", e.Category)
			}
		}
		if diff := cmp.Diff(wantAll, got); diff != "" {
			t.Errorf("%d failures: code, retries, saved (-want +got):\n%s", failures, diff)
		}
	}
}

// An agent that waits goes on where it is when another step of its recipe changes, and in a fork: what it has
// done is not done again. One that says something else itself restarts.
func TestAgentUnderAChangedDefinition(t *testing.T) {
	const text = runtest.Head + `defaults: {model: fast}
agents: {clerk: {tools: [test.send, human.ask], instructions: "%s"}}
steps:
  a: {uses: agent, with: {agent: clerk, prompt: go}}
  b: {uses: set, needs: [a], with: %s}
output: "${{ steps.a.output.text }} ${{ steps.b.output }}"
`
	for _, tt := range []struct {
		name, began, instructions, with string
		sent                            int
	}{
		{"another step", "Be kind.", "Be kind.", "2", 1},
		{"another step, where the agent names the run", "You are of ${{ run.id }}.", "You are of ${{ run.id }}.", "2", 1},
		{"the agent", "Be kind.", "Be brief.", "1", 2},
	} {
		for _, fork := range []bool{false, true} {
			if fork && tt.sent > 1 {
				continue
			}
			t.Run(fmt.Sprint(tt.name, " fork ", fork), func(t *testing.T) {
				send := runtimetest.NewTool("test.send", func(context.Context, json.RawMessage) (any, error) { return "sent", nil })
				fast := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
					turns := []*runtime.Response{
						{ToolCalls: []runtime.ToolCall{{Name: "test.send", Arguments: json.RawMessage("{}")}}},
						{ToolCalls: []runtime.ToolCall{{Name: "human.ask", Arguments: json.RawMessage(`{"question":"Sure?"}`)}}},
						{Text: req.Messages[len(req.Messages)-1].Text},
					}
					return turns[len(slices.DeleteFunc(slices.Clone(req.Messages), func(m runtime.Message) bool { return m.Role != runtime.ToolRole }))], nil
				}}
				rt := &runtime.Runtime{Store: new(checkpoint.Memory), Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"fast": fast}, Tools: []runtime.Tool{send}}
				out, err := runtest.Load(t, fmt.Appendf(nil, text, tt.began, "1")).Run(t.Context(), nil, rt)
				if err != nil || out.Status != workflow.StatusPaused || len(send.Calls()) != 1 {
					t.Fatalf("%v %s, sent %d times", err, out.Status, len(send.Calls()))
				}
				changed := runtest.Load(t, fmt.Appendf(nil, text, tt.instructions, tt.with))
				token := out.Token
				if fork {
					out, err = workflow.Fork(t.Context(), out.RunID, "b", workflow.Edits{}, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
					if err != nil || out.Status != workflow.StatusPaused {
						t.Fatal(err, out.Status)
					}
					token = out.Token
				}
				out, err = workflow.Resume(t.Context(), token, map[string]any{"answer": "yes"}, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]any{"yes " + tt.with, tt.sent}, []any{out.Output, len(send.Calls())}); diff != "" {
					t.Errorf("output, sent (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// What an agent uses and the host does not have is found before the first step, and said once.
func TestWhatAgentsNeed(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`agents: {one: {model: fast, memory: {thread: t}, retrieve: {top_k: 1}, skills: [dig], tools: [file.read, human.ask]}}
steps: {a: {uses: agent, with: {prompt: go}}}
output: ${{ steps.a.output.text }}
`))
	for mode, want := range map[diagnostics.Mode]string{diagnostics.Default: "", diagnostics.Strict: "strict.failed"} {
		fast := runtimetest.Texts("done")
		out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": fast}, Diagnostics: mode})
		code, calls := "", 1
		if e := out.Failure(); e != nil {
			code, calls = e.Code, 0
		}
		var found []string
		for _, d := range out.Diagnostics {
			found = append(found, fmt.Sprintf("%s %s", d.Code, d.Message))
		}
		wantFound := []string{
			`capability.missing there is no memory; step "a" needs it`, `retriever.missing there is no retriever; step "a" needs it`,
			`capability.missing there is no skill loader; step "a" needs it`, `tool.missing no tool named "file.read" is configured; step "a" needs it`,
			"resume.noAdapter the run may wait for an answer, and there is no resume adapter to take it",
		}
		if diff := cmp.Diff([]any{want, calls, wantFound}, []any{code, len(fast.Requests()), found}); diff != "" {
			t.Errorf("%v: code, calls, diagnostics (-want +got):\n%s", mode, diff)
		}
	}
}

type house []runtime.Tool

func (h house) Tools() []runtime.Tool                        { return h }
func (h house) Instructions(context.Context) (string, error) { return "", nil }

// The tools of the environment are for agents, and there for them; for a step they are not.
func TestToolsOfTheEnvironment(t *testing.T) {
	bell := runtimetest.NewTool("env.bell", func(context.Context, json.RawMessage) (any, error) { return "ding", nil })
	rt := &runtime.Runtime{Diagnostics: diagnostics.Strict, Env: house{bell},
		Models: map[string]runtime.Model{"m": runtest.Rounds([]runtime.ToolCall{runtest.Wants("env.bell", "{}")})}}
	const agent = runtest.Head + "requires: {tools: [env.bell]}\nsteps:\n  a: {uses: agent, with: {agent: {model: m, tools: [env.bell]}, prompt: go}}\n"
	for recipe, want := range map[string]string{agent: "", agent + "  b: {uses: env.bell}\n": "strict"} {
		out, _ := runtest.Load(t, []byte(recipe)).Run(t.Context(), nil, rt)
		if e := out.Failure(); (e == nil) != (want == "") || e != nil && !strings.HasPrefix(e.Error(), want) {
			t.Errorf("%s\ngot %v", recipe, out.Err)
		}
	}
	if n := len(bell.Calls()); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// The pauses of an agent are in the order of its calls, whenever they were opened.
func TestPausesOfAgentsAreInTheOrderOfCalls(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`agents:
  boss: {model: m, tools: [test.wait, human.ask], approval: {test.wait: pause}, delegates: [clerk]}
  clerk: {model: m, tools: [human.ask]}
steps: {a: {uses: agent, with: {agent: boss, prompt: go}}}
`))
	wait := runtimetest.NewTool("test.wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
		if _, ok := resume.Answer(ctx); ok {
			return "waited", nil
		}
		return nil, resume.Suspend(resume.Pause{Kind: resume.External, Reason: "parcel"})
	})
	ask := runtime.ToolCall{Name: "human.ask", Arguments: json.RawMessage(`{"question":"?"}`)}
	m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if strings.Contains(req.Step, "#") {
			return &runtime.Response{ToolCalls: []runtime.ToolCall{ask}}, nil
		}
		return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.wait", Arguments: json.RawMessage("{}")},
			{Name: "delegate_clerk", Arguments: json.RawMessage(`{"task":"ask"}`)}, ask}}, nil
	}}
	rt := &runtime.Runtime{Store: new(checkpoint.Memory), Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{wait}}
	ids := func(out *workflow.Outcome) (list []string) {
		for _, p := range out.Pauses {
			list = append(list, p.ID)
		}
		return list
	}
	out, err := wf.Run(t.Context(), nil, rt)
	if diff := cmp.Diff([]string{"a:call1", "a/clerk#2:call1", "a:call3"}, ids(out)); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	out, err = workflow.Answer(t.Context(), out.RunID, "a:call1", map[string]any{"decision": "approve"}, rt, nil)
	want := []string{"a:call1.2", "a/clerk#2:call1", "a:call3"}
	if diff := cmp.Diff(want, ids(out)); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	if out, err = workflow.Recover(t.Context(), out.RunID, rt, nil); err != nil || !slices.Equal(ids(out), want) {
		t.Errorf("recovered: %v %v", ids(out), err)
	}
}
