package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// scripted is a model that looks a customer up, then answers.
func scripted() runtime.Model {
	return &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}},
		{Text: "Customer 7 is Ann."},
	}}
}

// customers is the tool of the examples with agents.
var customers = runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup", Effect: runtime.ReadOnly},
	func(_ context.Context, in struct {
		ID int `json:"id"`
	}) (map[string]any, error) {
		return map[string]any{"name": "Ann"}, nil
	})

// A loop runs without a recipe.
func ExampleAgent() {
	lookup := customers
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Instructions: "Answer in one sentence.", Tools: []string{"crm.lookup"}, MaxSteps: 5}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}, Tools: []runtime.Tool{lookup}}

	wf := must(workflow.Agent(agent, nil))
	out, err := wf.Run(context.Background(), map[string]any{"prompt": "Who is customer 7?"}, host)
	fmt.Println(out.Output, err)
	// Output: map[steps:2 stop_reason:answer text:Customer 7 is Ann.] <nil>
}

// Steps of a recipe run agents that are written in Go.
func ExampleOptions_agents() {
	lookup := customers
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"crm.lookup"}, Own: []runtime.Tool{lookup}}
	text := []byte(`
apiVersion: braise/v1
name: ask
steps: {ask: {uses: agent, with: {agent: finder, prompt: Who is customer 7?}}}
output: ${{ steps.ask.output.text }}
`)
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}}

	recipe := must(recipe.Parse("ask.yaml", text))
	wf := must(workflow.Compile(recipe, &workflow.Options{Agents: map[string]*agentloop.Loop{"finder": agent}}))
	out, err := wf.Run(context.Background(), nil, host)
	fmt.Println(out.Output, err)
	// Output: Customer 7 is Ann. <nil>
}

// notes is an Inbox: what somebody wants to tell an agent that is at work.
type notes struct {
	mu   sync.Mutex
	list []runtime.Note
}

func (n *notes) Waiting(context.Context, string, string) ([]runtime.Note, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list), nil
}

func (n *notes) Taken(_ context.Context, _, _ string, ids ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = slices.DeleteFunc(n.list, func(note runtime.Note) bool { return slices.Contains(ids, note.ID) })
	return nil
}

// A message reaches an agent between two of its steps.
func ExampleAgent_steering() {
	inbox := &notes{}
	model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if req.Call == 1 {
			inbox.list = append(inbox.list, runtime.Note{ID: "n1", Text: "In Spanish, please."}) // while it works
			return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}}, nil
		}
		return &runtime.Response{Text: "asked last: " + req.Messages[len(req.Messages)-1].Text}, nil
	}}
	lookup := customers
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"crm.lookup"}}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: []runtime.Tool{lookup}, Inbox: inbox}

	out, err := must(workflow.Agent(agent, nil)).Run(context.Background(), map[string]any{"prompt": "Who is customer 7?"}, host)
	fmt.Println(out.Output.(map[string]any)["text"], err)
	// Output: asked last: In Spanish, please. <nil>
}

// An agent that pauses continues with the answer.
func ExampleAgent_approval() {
	lookup := customers
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"crm.lookup"}, Approval: map[string]agentloop.Approval{"*": agentloop.ApprovePause}}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}, Tools: []runtime.Tool{lookup},
		Resume: resume.PassThrough{}}

	wf := must(workflow.Agent(agent, nil))
	out, err := wf.Run(context.Background(), map[string]any{"prompt": "Who is customer 7?"}, host)
	for _, pause := range out.Pauses {
		fmt.Println(pause.ID, pause.Prompt, pause.Decisions, err)
	}
	out, err = wf.Resume(context.Background(), out.Token, map[string]any{"decision": "approve"}, host)
	fmt.Println(out.Output.(map[string]any)["text"], err)
	// Output:
	// agent:call1 agent "finder" wants to call tool "crm.lookup" [approve reject] <nil>
	// Customer 7 is Ann. <nil>
}

// An agent leaves the conversation to another one.
func ExampleAgent_handoff() {
	model := &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "handoff_billing", Arguments: json.RawMessage(`{}`)}}},
		{Text: "You get your money back."},
	}}
	billing := &agentloop.Loop{Name: "billing", Model: "fast", Instructions: "You work in billing.", Description: "Pays money back."}
	front := &agentloop.Loop{Name: "front", Model: "fast", Handoffs: map[string]*agentloop.Loop{"billing": billing}}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}}

	out, err := must(workflow.Agent(front, nil)).Run(context.Background(), map[string]any{"prompt": "I was charged twice."}, host)
	fmt.Println(out.Output, err)
	// Output: map[agent:billing steps:2 stop_reason:answer text:You get your money back.] <nil>
}
