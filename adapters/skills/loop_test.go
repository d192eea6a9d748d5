package skills_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/skills"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// An agent sees the skills that it lists; what they say of tools allows nothing.
func TestAgent(t *testing.T) {
	files := fstest.MapFS{
		"refunds/SKILL.md": {Data: []byte("---\nname: refunds\ndescription: d\nallowed-tools: t.pay t.read\n---\nPay back.\n")},
		"other/SKILL.md":   {Data: []byte("broken")},
	}
	call := func(name string) runtimetest.Answer {
		return runtimetest.Answer{ToolCalls: []runtime.ToolCall{{ID: "1", Name: name, Arguments: json.RawMessage("{}")}}}
	}
	model := &runtimetest.Model{Answers: []runtimetest.Answer{call("t.pay"), call("t.read"), {Text: "done"}}}
	pay, read := runtimetest.NewTool("t.pay", nil), runtimetest.NewTool("t.read", nil)
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{pay, read}, Skills: skills.FS(files)}
	agent := &agentloop.Loop{Name: "clerk", Model: "m", Skills: []string{"refunds"}, Tools: []string{"t.pay"},
		Approval: map[string]agentloop.Approval{"t.pay": agentloop.ApproveAlways}}
	res, err := agent.Run(t.Context(), agentloop.Input{Prompt: "Go."}, rt)
	if err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[0].Messages[0]; got.Role != runtime.System || !strings.Contains(got.Text, "Pay back.") {
		t.Errorf("the model is told %+v", got)
	}
	if n := len(pay.Calls()) + len(read.Calls()); n > 0 || len(res.Calls) != 2 {
		t.Errorf("%d calls were made of %d that were wished", n, len(res.Calls))
	}
	loaded, err := skills.FS(files).Load(t.Context(), []string{"refunds"})
	if err != nil {
		t.Fatal(err)
	}
	want := []agentloop.SkillRef{{Name: "refunds", Path: "refunds/SKILL.md", SHA256: loaded[0].SHA256}}
	if diff := cmp.Diff(want, res.Snapshot.Skills); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}
