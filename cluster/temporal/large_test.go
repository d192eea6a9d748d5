package temporal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// tireless is a model whose agent makes 200 calls of a tool before it answers.
type tireless struct{}

func (tireless) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	calls := 0
	for _, m := range req.Messages {
		if m.Role == runtime.ToolRole {
			calls++
		}
	}
	if calls == 200 {
		return &runtime.Response{Text: fmt.Sprint("after ", calls)}, nil
	}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: fmt.Sprint("c", calls), Name: "large.page",
		Arguments: fmt.Appendf(nil, `{"n": %d}`, calls)}}}, nil
}

type page struct {
	N int `json:"n"`
}

// A run of 5,000 items, and one of an agent with 200 turns whose conversation grows to 400 KB, end right. Their workflows
// take several executions, none of them near the limits of the server.
func TestServerLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t).Client(codec.Options(client.Options{Logger: quiet{}}))
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": tireless{}}, Limits: runtime.Limits{MaxParallel: 64},
		Tools: []runtime.Tool{
			runtime.NewTool(runtime.ToolSpec{Name: "large.add", Effect: runtime.Idempotent},
				func(_ context.Context, in page) (any, error) { return in.N + 1, nil }),
			runtime.NewTool(runtime.ToolSpec{Name: "large.page", Effect: runtime.ReadOnly},
				func(_ context.Context, in page) (any, error) {
					return strings.Repeat(fmt.Sprintf("page %d. ", in.N), 230)[:2000], nil
				}),
		}}
	working(t, c, rt, nil)
	e := &Engine{Client: c}
	for _, tt := range []struct {
		id, recipe, want string
		events           int
	}{
		{"items", head + "steps: {each: {uses: large.add, foreach: {in: \"${{ 1..5000 }}\", as: i}, with: {n: \"${{ i }}\"}}}\n" +
			"output: \"${{ sum(steps.each.output) }}\"\n", fmt.Sprint(5000*5001/2 + 5000), 0},
		{"agent", head + "agents: {op: {model: m, instructions: work, tools: [large.page], max_steps: 300}}\n" +
			"steps: {a: {uses: agent, with: {agent: op, prompt: hi}}}\noutput: \"${{ steps.a.output.text }}\"\n", "after 200", 250},
	} {
		t.Run(tt.id, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			began := time.Now()
			if _, err := e.Start(ctx, compiled(t, tt.recipe), nil, &Options{ID: tt.id, MaxEvents: tt.events}); err != nil {
				t.Fatal(err)
			}
			out, err := e.Wait(ctx, tt.id)
			if out == nil || out.Status != flow.StatusOK || fmt.Sprint(out.Output) != tt.want {
				t.Fatalf("%+v, %v", out, err)
			}
			executions := executionsOf(t, c, tt.id)
			for _, e := range executions {
				t.Logf("%d events, %d bytes", e.HistoryLength, e.HistorySizeBytes)
				if e.HistoryLength > maxEvents || e.HistorySizeBytes > 10<<20 {
					t.Errorf("an execution has %d events, %d bytes", e.HistoryLength, e.HistorySizeBytes)
				}
			}
			if len(executions) < 4 {
				t.Errorf("%d executions", len(executions))
			}
			t.Logf("%d executions in %v", len(executions), time.Since(began).Round(time.Second))
		})
	}
}

// size is that of the history of an execution.
type size struct{ HistoryLength, HistorySizeBytes int64 }

// executionsOf are the executions of a workflow, when visibility knows all of them.
func executionsOf(t *testing.T, c client.Client, id string) (list []size) {
	t.Helper()
	for {
		list = nil
		resp, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'"})
		if err != nil {
			t.Fatal(err)
		}
		open := len(resp.Executions) == 0
		for _, e := range resp.Executions {
			open = open || e.CloseTime == nil
			about, err := c.DescribeWorkflowExecution(t.Context(), id, e.Execution.RunId)
			if err != nil {
				t.Fatal(err)
			}
			info := about.WorkflowExecutionInfo
			list = append(list, size{info.HistoryLength, info.HistorySizeBytes})
		}
		if !open {
			return list
		}
		<-time.After(100 * time.Millisecond)
	}
}
