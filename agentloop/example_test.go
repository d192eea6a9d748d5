package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// scripted is a model that looks a customer up, then answers.
func scripted() runtime.Model {
	return &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}},
		{Text: "Customer 7 is Ann."},
	}}
}

var lookup = runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup", Effect: runtime.ReadOnly},
	func(_ context.Context, in struct {
		ID int `json:"id"`
	}) (map[string]any, error) {
		return map[string]any{"name": "Ann"}, nil
	})

func ExampleLoop_Run() {
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Instructions: "Answer in one sentence.", Tools: []string{"crm.lookup"}, MaxSteps: 5}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}, Tools: []runtime.Tool{lookup}}

	res, err := agent.Run(context.Background(), agentloop.Input{Prompt: "Who is customer 7?"}, host)
	fmt.Println(res.Text, res.StopReason, res.Steps, err)
	for _, c := range res.Calls {
		fmt.Println(c.Name, string(c.Arguments), c.Result)
	}
	// Output:
	// Customer 7 is Ann. answer 2 <nil>
	// crm.lookup {"id":7} {"name":"Ann"}
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
func ExampleLoop_Run_steering() {
	inbox := &notes{}
	model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if req.Call == 1 {
			inbox.list = append(inbox.list, runtime.Note{ID: "n1", Text: "In Spanish, please."}) // while it works
			return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}}, nil
		}
		return &runtime.Response{Text: "asked last: " + req.Messages[len(req.Messages)-1].Text}, nil
	}}
	agent := &agentloop.Loop{Name: "finder", Model: "fast"}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: []runtime.Tool{lookup}, Inbox: inbox}

	res, err := agent.Run(context.Background(), agentloop.Input{Prompt: "Who is customer 7?"}, host)
	fmt.Println(res.Text, err)
	// Output: asked last: In Spanish, please. <nil>
}

// A long conversation is replaced by a summary, which is kept in an archive.
func ExampleCompaction() {
	model := &runtimetest.Model{Answers: []runtimetest.Answer{
		{ToolCalls: []runtime.ToolCall{{Name: "crm.lookup", Arguments: json.RawMessage(`{"id":7}`)}}},
		{Text: "Customer 7, who is asked for, is Ann."}, // the summary
		{Text: "Ann."},
	}}
	archive := new(memory.Memory)
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Compaction: &agentloop.Compaction{
		Due: func(p agentloop.Progress) bool { return p.StepsDone == 1 }, // p.Usage.InputTokens > 50_000, say
	}}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: []runtime.Tool{lookup}}

	res, err := agent.Run(context.Background(), agentloop.Input{Prompt: "Who is customer 7?", RunID: "r1", Path: "find", Archive: archive}, host)
	fmt.Println(res.Text, err)
	for _, m := range model.Requests()[2].Messages {
		fmt.Println(m.Role, m.Text)
	}
	// Output:
	// Ann. <nil>
	// user Summary of the conversation so far:
	// Customer 7, who is asked for, is Ann.
}

// slice is a Journal that lasts as long as the process.
type slice []agentloop.Event

func (s *slice) Events() []agentloop.Event { return *s }

func (s *slice) Append(_ context.Context, events ...agentloop.Event) error {
	*s = append(*s, events...)
	return nil
}

// A loop that pauses goes on with the same journal and the answers.
func ExamplePauseError() {
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Approval: map[string]agentloop.Approval{"*": agentloop.ApprovePause}}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}, Tools: []runtime.Tool{lookup}}
	in := agentloop.Input{Prompt: "Who is customer 7?", Path: "find", Journal: new(slice)}

	_, err := agent.Run(context.Background(), in, host)
	if p, ok := errors.AsType[*agentloop.PauseError](err); ok {
		for _, pause := range p.Pauses {
			fmt.Println(pause.ID, pause.Prompt, pause.Decisions)
			in.Answers = append(in.Answers, agentloop.Answer{Pause: pause.ID, Value: map[string]any{"decision": "approve"}})
		}
	}
	res, err := agent.Run(context.Background(), in, host)
	fmt.Println(res.Text, err)
	// Output:
	// find:call1 agent "finder" wants to call tool "crm.lookup" [approve reject]
	// Customer 7 is Ann. <nil>
}

// The state of a loop is the fold of its journal.
func ExampleFold() {
	journal := new(slice)
	agent := &agentloop.Loop{Name: "finder", Model: "fast"}
	host := &runtime.Runtime{Models: map[string]runtime.Model{"fast": scripted()}, Tools: []runtime.Tool{lookup}}
	if _, err := agent.Run(context.Background(), agentloop.Input{Prompt: "Who is customer 7?", Journal: journal}, host); err != nil {
		fmt.Println(err)
	}
	for n := range journal.Events() {
		s, err := agentloop.Fold(journal.Events()[:n+1])
		fmt.Println(journal.Events()[n].Kind, s.Phase, s.Steps, err)
	}
	// Output:
	// start ready 0 <nil>
	// model.begin asking 1 <nil>
	// model.end calling 1 <nil>
	// tool.begin calling 1 <nil>
	// tool.end ready 1 <nil>
	// model.begin asking 2 <nil>
	// model.end said 2 <nil>
	// end ended 2 <nil>
}
