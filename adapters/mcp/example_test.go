package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/runtime"
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
