package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
)

// turns is a model that calls a tool in each of its turns but the last.
type turns int

func (n turns) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	if req.StepCall > int(n) {
		return &runtime.Response{Text: "done"}, nil
	}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t.add", Arguments: fmt.Appendf(nil, `{"n":%d}`, req.StepCall)}}}, nil
}

type adder struct{}

func (adder) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "t.add", Effect: runtime.ReadOnly, Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
}

func (adder) Call(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil }

// 20 turns with one call each.
func BenchmarkLoop(b *testing.B) {
	l := &agentloop.Loop{Tools: agentloop.AllTools, Model: "m", MaxSteps: 30, MaxSubagents: -1}
	offer := &agents.Offer{Models: map[string]agents.ModelOffer{"m": {}}, Limits: runtime.Limits{}.WithDefaults(),
		Host: []runtime.ToolSpec{adder{}.Spec()}}
	b.ReportAllocs()
	for b.Loop() {
		var state agents.State
		execution, err := agents.Begin(l, &state, agents.Terms{Prompt: "add"}, offer)
		if err != nil {
			b.Fatal(err)
		}
		drive(execution, &state, turns(20), adder{})
		if res, err := execution.Result(), execution.Err(); err != nil || res.Steps != 21 {
			b.Fatal(err, res.Steps)
		}
	}
}
