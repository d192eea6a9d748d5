package workflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// keeps is a memory that forgets nothing, and whose first writing succeeds without saying so.
type keeps struct {
	runtime.Memory
	saved int
}

func (k *keeps) Save(ctx context.Context, c runtime.Conversation, turn string, messages []runtime.Message) error {
	err := k.Memory.Save(ctx, c, turn, messages)
	if k.saved++; k.saved == 1 && err == nil {
		err = &retry.Failure{Reason: retry.ServerError, Err: errors.New("gone before the answer")}
	}
	return err
}

// threads returns what two conversations have.
func threads(t *testing.T, m runtime.Memory) (list []string) {
	t.Helper()
	for _, c := range []runtime.Conversation{{Thread: "ada"}, {Thread: "ada", Resource: "shop"}, {Thread: "bob"}} {
		all, err := m.Load(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		text := c.Thread + c.Resource + ":"
		for _, m := range all {
			if m.Text != "" && m.Role != runtime.ToolRole {
				text += " " + string(m.Role) + "=" + m.Text
			}
		}
		list = append(list, text)
	}
	return list
}

// An agent reads and changes the conversation that it remembers, and no other one.
func TestMemoryTools(t *testing.T) {
	const all = "tools: [memory.read, memory.append, memory.clear]"
	note := wants("memory.append", `{"text":"noted"}`)
	for _, tt := range []struct {
		name, agents string
		calls        []runtime.ToolCall
		want, left   []string
	}{
		{"its own thread", "clerk: {model: m, subagents: false, memory: {thread: ada}, " + all + "}",
			[]runtime.ToolCall{note, wants("memory.read", `{}`)},
			[]string{`{"appended":true}`, `{"earlier":0,"messages":[{"role":"user","text":"hi"},{"role":"assistant","text":"noted"}]}`},
			[]string{"ada: user=hi assistant=noted user=go assistant=calling assistant=done", "adashop:", "bob: user=secret"}},
		{"its own resource", "clerk: {model: m, subagents: false, memory: {thread: ada, resource: shop}, " + all + "}",
			[]runtime.ToolCall{note, wants("memory.read", `{"last":1}`)},
			[]string{`{"appended":true}`, `{"earlier":0,"messages":[{"role":"assistant","text":"noted"}]}`},
			[]string{"ada: user=hi", "adashop: assistant=noted user=go assistant=calling assistant=done", "bob: user=secret"}},
		{"nobody else's", "clerk: {model: m, subagents: false, memory: {thread: ada}, " + all + "}",
			[]runtime.ToolCall{wants("memory.read", `{"thread":"bob"}`), wants("memory.append", `{"text":"x","resource":"shop"}`),
				wants("memory.append", `{"text":"x","role":"user"}`), wants("memory.clear", `{"thread":"bob"}`)},
			[]string{`error: arguments of "memory.read": /thread: is not a known property`,
				`error: arguments of "memory.append": /resource: is not a known property`,
				`error: arguments of "memory.append": /role: is not a known property`,
				`error: arguments of "memory.clear": /thread: is not a known property`},
			[]string{"ada: user=hi user=go assistant=calling assistant=done", "adashop:", "bob: user=secret"}},
		{"forgotten, but for what it says", "clerk: {model: m, subagents: false, memory: {thread: ada}, " + all + "}",
			[]runtime.ToolCall{wants("memory.clear", `{}`)}, []string{`{"cleared":true}`},
			[]string{"ada: user=go assistant=calling assistant=done", "adashop:", "bob: user=secret"}},
		{"none", `clerk: {model: m, subagents: false, memory: {thread: "${{ '' }}"}, ` + all + "}",
			[]runtime.ToolCall{note}, []string{`error: there is no tool "memory.append".`},
			[]string{"ada: user=hi", "adashop:", "bob: user=secret"}},
		{"not listed", "clerk: {model: m, subagents: false, memory: {thread: bob}}",
			[]runtime.ToolCall{wants("memory.read", `{}`)}, []string{`error: there is no tool "memory.read".`},
			[]string{"ada: user=hi", "adashop:", "bob: user=secret user=go assistant=calling assistant=done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, mem := rounds(tt.calls), new(memory.Memory)
			for thread, text := range map[string]string{"ada": "hi", "bob": "secret"} {
				said := []runtime.Message{{Role: runtime.User, Text: text}}
				if err := mem.Save(t.Context(), runtime.Conversation{Thread: thread}, "before", said); err != nil {
					t.Fatal(err)
				}
			}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &quiet{}, Memory: mem}
			wf := load(t, []byte(head+"agents: {"+tt.agents+"}\nsteps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}\n"))
			if _, err := wf.Run(t.Context(), nil, rt); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, said(m)); diff != "" {
				t.Errorf("results (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.left, threads(t, mem)); diff != "" {
				t.Errorf("conversations (-want +got)\n%s", diff)
			}
		})
	}
}

// A call that is made again replaces what it has added, and a memory that cannot forget has no memory.clear.
func TestMemoryToolsOfAnyMemory(t *testing.T) {
	mem := &keeps{Memory: new(memory.Memory)}
	wf := load(t, []byte(head+`steps:
  add: {uses: memory.append, with: {thread: ada, role: user, text: once}, retry: {max_attempts: 2, backoff: 1ms, retry_on: [5xx]}}
`))
	rt := &runtime.Runtime{Memory: mem}
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ada: user=once", "adashop:", "bob:"}, threads(t, mem)); diff != "" || mem.saved != 2 {
		t.Errorf("%d writings (-want +got)\n%s", mem.saved, diff)
	}
	effects := map[string]runtime.Effect{}
	for _, spec := range rt.ToolSpecs() {
		effects[spec.Name] = spec.Effect
	}
	if diff := cmp.Diff(map[string]runtime.Effect{"memory.read": "read_only", "memory.append": "idempotent"}, effects); diff != "" {
		t.Errorf("tools (-want +got)\n%s", diff)
	}
}

// What is read is bounded; the newest message is always whole.
func TestMemoryReadIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name          string
		sizes         []int
		last          int64
		want, earlier int64
	}{
		{"all", []int{10, 10}, 5, 2, 0},
		{"as many as asked for", []int{10, 10, 10}, 2, 2, 1},
		{"as much as fits", []int{10, 40 << 10, 20 << 10, 20 << 10}, 5, 2, 2},
		{"the newest", []int{10, 60 << 10}, 5, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []runtime.Message
			for _, size := range tt.sizes {
				list = append(list, runtime.Message{Role: runtime.User, Text: strings.Repeat("x", size)}, runtime.Message{Role: runtime.ToolRole, Text: "no"})
			}
			mem := new(memory.Memory)
			if err := mem.Save(t.Context(), runtime.Conversation{Thread: "ada"}, "before", list); err != nil {
				t.Fatal(err)
			}
			wf := load(t, []byte(head+`inputs: {last: integer}
steps: {read: {uses: memory.read, with: {thread: ada, last: "${{ inputs.last }}"}}}
output: ["${{ len(steps.read.output.messages) }}", "${{ steps.read.output.earlier }}"]
`))
			out, err := wf.Run(t.Context(), map[string]any{"last": tt.last}, &runtime.Runtime{Memory: mem})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tt.want, tt.earlier}, out.Output); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A delegate has the conversation of its caller if it inherits it; sub-agents have none.
func TestMemoryToolsOfChildren(t *testing.T) {
	for _, tt := range []struct {
		name  string
		calls []runtime.ToolCall
		want  string
	}{
		{"a delegate", []runtime.ToolCall{wants("delegate_helper", `{"task":"go"}`)},
			`{"earlier":0,"messages":[{"role":"user","text":"hi"}]}`},
		{"a sub-agent", []runtime.ToolCall{wants("agent.spawn", `{"id":"x"}`), wants("agent.send", `{"id":"x","text":"go"}`)},
			`error: there is no tool "memory.read". known here: delegate_helper`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told string
			m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				switch last := req.Messages[len(req.Messages)-1]; {
				case !strings.Contains(req.Step, "#") && req.StepCall == 1:
					return &runtime.Response{ToolCalls: tt.calls}, nil
				case strings.Contains(req.Step, "#") && last.Role != runtime.ToolRole:
					return &runtime.Response{ToolCalls: []runtime.ToolCall{wants("memory.read", `{}`)}}, nil
				case strings.Contains(req.Step, "#"):
					told = last.Text
				}
				return &runtime.Response{Text: "done"}, nil
			}}
			mem := new(memory.Memory)
			if err := mem.Save(t.Context(), runtime.Conversation{Thread: "ada"}, "before", []runtime.Message{{Role: runtime.User, Text: "hi"}}); err != nil {
				t.Fatal(err)
			}
			wf := load(t, []byte(head+`agents:
  clerk: {model: m, memory: {thread: ada}, tools: [memory.read], delegates: [helper]}
  helper: {model: m, description: Helps., memory: inherit, tools: [memory.read]}
steps: {ask: {uses: agent, with: {agent: clerk, prompt: go}}}
`))
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Reporter: &quiet{}, Memory: mem}
			if _, err := wf.Run(t.Context(), nil, rt); err != nil {
				t.Fatal(err)
			}
			if told != tt.want {
				t.Errorf("it was told %s, want %s", told, tt.want)
			}
		})
	}
}
