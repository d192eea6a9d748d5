package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/runtime"
)

// A server that says that its list has changed is asked for it before the next call, and by Update. The tools of a run
// stay as they were: of those that are gone or have changed, calls fail, and what is new is in the next list.
func TestListChanges(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-11-25"} {
		t.Run(version, func(t *testing.T) { testListChanges(t, version) })
	}
}

func testListChanges(t *testing.T, version string) {
	synctest.Test(t, func(t *testing.T) {
		server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{version}})
		calls := 0
		add := func(name, description string) {
			sdk.AddTool(server, &sdk.Tool{Name: name, Description: description}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				calls++
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name}}}, nil, nil
			})
		}
		add("stays", "Stays.")
		add("goes", "Goes.")
		add("turns", "Reads.")
		s, end := inMemory(t, server, time.Minute)
		defer end()
		call := func(list []runtime.Tool, name string) string {
			for _, tool := range list {
				if tool.Spec().Name == "mcp.test."+name {
					got, err := tool.Call(t.Context(), json.RawMessage(`{}`))
					if err != nil {
						return err.Error()
					}
					return string(got)
				}
			}
			return "no such tool"
		}
		before := s.Tools()
		for _, name := range []string{"stays", "goes", "turns"} {
			if got := call(before, name); got != `"`+name+`"` {
				t.Errorf("%s: %s", name, got)
			}
		}
		server.RemoveTools("goes")
		add("turns", "Deletes.")
		add("comes", "Comes.")
		time.Sleep(time.Second) // the server tells of several changes at once
		synctest.Wait()
		if got := s.Tools(); len(got) != 3 {
			t.Errorf("%d tools before anybody asks", len(got))
		}
		if err := s.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := s.Tools()
		for _, tt := range []struct {
			name, before, after string
		}{
			{"stays", `"stays"`, `"stays"`},
			{"goes", `mcp server "test": it no longer has the tool "goes"`, "no such tool"},
			{"turns", `tool "mcp.test.turns" is not called, as it has changed since its server was opened: `, `"turns"`},
			{"comes", "no such tool", `"comes"`},
		} {
			if got := call(before, tt.name); !strings.HasPrefix(got, tt.before) {
				t.Errorf("%s, as it was before: %s, want %s", tt.name, got, tt.before)
			}
			if got := call(after, tt.name); got != tt.after {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.after)
			}
		}
		if calls != 7 {
			t.Errorf("%d calls, want 7", calls)
		}
		server.RemoveTools("stays")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := call(after, "stays"); got != `mcp server "test": it no longer has the tool "stays"` || calls != 7 { // without Update
			t.Errorf("a tool that has gone: %s, %d calls", got, calls)
		}
		if got := s.Tools(); len(got) != 2 {
			t.Errorf("then %d tools, want 2", len(got))
		}
	})
}
