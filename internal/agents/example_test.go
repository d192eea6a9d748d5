package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
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

// drive carries out what an Execution wants with one model and one tool, and returns the events for its journal.
func drive(execution *agents.Execution, state *agents.State, model runtime.Model, tool runtime.Tool) []agents.Event {
	var events []agents.Event
	var jobs []*agents.Job
	for {
		execution.Now = time.Now()
		switch a := execution.Next(); {
		case a.Over:
			return events
		case a.Record != nil:
			if err := state.Apply(a.Record); err != nil {
				execution.Broken(err)
				continue
			}
			events = append(events, *a.Record) // and into a store
		case a.Tell != nil: // subscribers
		case a.Job != nil:
			jobs = append(jobs, a.Job)
		default:
			job, reply := jobs[0], agents.Reply{}
			jobs = jobs[1:]
			switch job.Op {
			case agents.CallModel:
				reply.Response, reply.Err = model.Generate(context.Background(), job.Request)
			case agents.CallTool:
				reply.Output, reply.Err = tool.Call(context.Background(), job.Arguments)
			default:
				reply.Err = fmt.Errorf("nobody can make a call of %s", job.Op)
			}
			execution.Done(job, reply)
		}
	}
}

// An Execution says what to do; the driver makes the calls.
func ExampleBegin() {
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"crm.lookup"}, MaxSteps: 5}
	offer := &agents.Offer{
		Models: map[string]agents.ModelOffer{"fast": {}},
		Host:   []runtime.ToolSpec{lookup.Spec()},
		Limits: runtime.Limits{}.WithDefaults(),
	}
	var state agents.State // or what agents.Fold makes of the events of earlier executions
	execution, err := agents.Begin(agent, &state, agents.Terms{Prompt: "Who is customer 7?"}, offer)
	if err != nil {
		fmt.Println(err)
		return
	}
	drive(execution, &state, scripted(), lookup)

	res := execution.Result()
	fmt.Println(res.Text, res.StopReason, res.Steps, execution.Err())
	for _, c := range res.Calls {
		fmt.Println(c.Name, string(c.Arguments), c.Result)
	}
	// Output:
	// Customer 7 is Ann. answer 2 <nil>
	// crm.lookup {"id":7} {"name":"Ann"}
}

// The state of a loop is the fold of its journal.
func ExampleFold() {
	agent := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"crm.lookup"}}
	offer := &agents.Offer{
		Models: map[string]agents.ModelOffer{"fast": {}},
		Host:   []runtime.ToolSpec{lookup.Spec()},
		Limits: runtime.Limits{}.WithDefaults(),
	}
	var state agents.State
	execution, err := agents.Begin(agent, &state, agents.Terms{Prompt: "Who is customer 7?"}, offer)
	if err != nil {
		fmt.Println(err)
		return
	}
	events := drive(execution, &state, scripted(), lookup)
	for n := range events {
		s, err := agents.Fold(events[:n+1])
		fmt.Println(events[n].Kind, s.Phase, s.Steps, err)
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
