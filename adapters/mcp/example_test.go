package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func ExampleOpen() {
	// A server, as others run it.
	crm := sdk.NewServer(&sdk.Implementation{Name: "crm", Version: "1"}, nil)
	type query struct {
		ID int `json:"id" jsonschema:"of the customer"`
	}
	sdk.AddTool(crm, &sdk.Tool{Name: "lookup", Description: "Find a customer.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, q query) (*sdk.CallToolResult, map[string]any, error) {
			return nil, map[string]any{"id": q.ID, "name": "Ada"}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return crm }, nil))
	defer web.Close()

	server, err := mcp.Open(context.Background(), mcp.Config{Name: "crm", URL: web.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rt := runtime.Runtime{Tools: server.Tools()}
	spec := rt.Tools[0].Spec()
	fmt.Println(spec.Name, spec.Effect)
	result, err := rt.Tools[0].Call(context.Background(), json.RawMessage(`{"id": 7}`))
	fmt.Println(string(result), err)
	// Output:
	// mcp.crm.lookup read_only
	// {"id":7,"name":"Ada"} <nil>
}

// A server that asks the user before it acts: the step waits for a person, and the tool is called again.
func ExampleConfig_elicit() {
	crm := sdk.NewServer(&sdk.Implementation{Name: "crm", Version: "1"}, nil)
	type merge struct {
		From int `json:"from"`
		Into int `json:"into"`
	}
	sdk.AddTool(crm, &sdk.Tool{Name: "merge"},
		func(ctx context.Context, req *sdk.CallToolRequest, m merge) (*sdk.CallToolResult, map[string]any, error) {
			said, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: fmt.Sprintf("Customer %d has open orders. Merge?", m.From)})
			if err != nil {
				return nil, nil, err
			}
			return nil, map[string]any{"merged": said.Action == "accept"}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return crm }, nil))
	defer web.Close()

	server, err := mcp.Open(context.Background(), mcp.Config{Name: "crm", URL: web.URL, Elicit: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rt := &runtime.Runtime{Tools: server.Tools(), Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	r, err := recipe.Parse("merge.yaml", []byte(`
apiVersion: braise/v1
name: merge
steps:
  merge: {uses: mcp.crm.merge, with: {from: 17, into: 4}}
output: ${{ steps.merge.output.merged }}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	wf, err := workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, _ := wf.Run(context.Background(), nil, rt)
	fmt.Println(out.Status, out.Pauses[0].Prompt, out.Pauses[0].Decisions)
	out, _ = workflow.Resume(context.Background(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	fmt.Println(out.Status, out.Output)
	// Output:
	// paused Customer 17 has open orders. Merge? [approve reject]
	// ok true
}
