package agents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// requests returns the messages of the requests that a model got, as text.
func requests(t *testing.T, m *runtimetest.Model) (list [][]string) {
	for _, r := range m.Requests() {
		var messages []string
		for _, msg := range r.Messages {
			text, err := json.Marshal(msg) // arguments as they are
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, string(text))
		}
		list = append(list, messages)
	}
	return list
}

// trust 8.17: each request is the beginning of the next, and an execution that begins anywhere asks what an undisturbed
// one asks, byte for byte, however the model writes its arguments.
func TestRequestsAreTheSameBytes(t *testing.T) {
	answers := []runtimetest.Answer{
		says("one", `t.a {"y": 1, "x":2}`, "t.a {\"n\":1.0,\t\"s\":\"\\u00e9\\/\"}"),
		says("two", `t.a {"big":1e3,"neg":-0,"html":"<&>"}`, `t.a {"n":`, `t.a {"id":18446744073709551615}`, `t.a {"a":1,"a":2}`, `t.a   `),
		says("", `t.none {"b":[ ],"a":{ }}`),
		says("done"),
	}
	l := simple()
	l.ToolConcurrency = 2
	a := tool("t.a", runtime.ReadOnly, object{"b": 1.0, "a": "é"})
	whole, j := model(answers...), after(t, nil)
	res := must(t, l, input{Journal: j}, host(whole, a))
	want := requests(t, whole)
	for i := 1; i < len(want); i++ {
		if n := len(want[i-1]); len(want[i]) <= n || !slices.Equal(want[i][:n], want[i-1]) {
			t.Errorf("request %d does not begin as the one before:\n%q\n%q", i+1, want[i], want[i-1])
		}
	}
	same(t, "arguments", arguments(res.Calls), []string{`{"x":2,"y":1}`, `{"n":1,"s":"é/"}`, `{"big":1000,"html":"<&>","neg":0}`,
		`"{\"n\":"`, `{"id":18446744073709551615}`, `"{\"a\":1,\"a\":2}"`, `{}`, `{"a":{},"b":[]}`})
	for n, why := range map[int]string{3: "they are not JSON: ", 5: `member "a" appears twice`} {
		if c := res.Calls[n]; c.Code != "tool.arguments" || !strings.Contains(c.Result, why) {
			t.Errorf("call %d: %s %q", n+1, c.Code, c.Result)
		}
	}
	same(t, "what the tool got", len(a.Calls()), 5)
	for n := 1; n < len(j.events); n++ {
		done := after(t, j.events[:n])
		left := min(done.fold.Steps, len(answers))
		if done.fold.Phase == "asking" {
			left--
		}
		rest := model(answers[left:]...)
		must(t, l, input{Journal: done}, host(rest, a))
		if got := requests(t, rest); len(got)+left != len(want) || len(got) > 0 && !cmp.Equal(got, want[left:]) {
			t.Errorf("after event %d: requests (-want +got):\n%s", n, cmp.Diff(want[left:], got))
		}
	}
}

func arguments(calls []agentloop.Call) (list []string) {
	for _, c := range calls {
		list = append(list, string(c.Arguments))
	}
	return list
}
