package runtimetest

import (
	"testing"

	"github.com/braise-run/braise/runtime"
)

func TestCheck(t *testing.T) {
	tools := []runtime.ToolSpec{{Name: "now"}, {Name: "look"}}
	ask := runtime.Message{Role: runtime.User, Text: "hi"}
	says := func(ids ...string) runtime.Message {
		msg := runtime.Message{Role: runtime.Assistant, Text: "Hello."}
		for _, id := range ids {
			msg.ToolCalls = append(msg.ToolCalls, call(id, "now", "{}"))
		}
		return msg
	}
	result := func(id string) runtime.Message { return runtime.Message{Role: runtime.ToolRole, ToolCallID: id} }
	for _, tt := range []struct {
		name  string
		asked Asked
		want  string
	}{
		{"a prompt", Asked{Messages: []runtime.Message{ask}}, ""},
		{"results in another order", Asked{Tools: tools, Messages: []runtime.Message{ask, says("1", "2"), result("2"), result("1"), ask}}, ""},
		{"nothing", Asked{}, "there are no messages"},
		{"a tool twice", Asked{Tools: append(tools, tools[0])}, `the tool "now" is declared twice`},
		{"a system message", Asked{Messages: []runtime.Message{{Role: runtime.System, Text: "x"}}},
			"message 1, of the role system, is neither the user's nor the assistant's"},
		{"the user twice", Asked{Messages: []runtime.Message{ask, ask}}, "message 2, of the role user, follows another of this role"},
		{"an empty message", Asked{Messages: []runtime.Message{{Role: runtime.User, Text: " \n"}}}, "message 1, of the role user, is empty"},
		{"a call of no tool", Asked{Messages: []runtime.Message{ask, says("1")}}, `message 2 calls the tool "now", which is not declared`},
		{"a result of no call", Asked{Tools: tools, Messages: []runtime.Message{ask, says("1"), result("1"), result("1")}},
			`message 4, of the role tool, answers no call before it: "1"`},
		{"a result is missing", Asked{Tools: tools, Messages: []runtime.Message{ask, says("1", "2"), result("1"), ask}},
			`message 4, of the role user, comes before the results of ["2"]`},
		{"the last result is missing", Asked{Tools: tools, Messages: []runtime.Message{ask, says("1")}}, `there are no results of ["1"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.asked.check(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
