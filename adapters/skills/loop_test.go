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
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
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
	wf, err := workflow.Agent(agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := wf.Run(t.Context(), map[string]any{"prompt": "Go."}, rt)
	if err != nil {
		t.Fatal(err)
	}
	wished, snapshot := 0, map[string]any{}
	for _, e := range out.Trace {
		switch e.Kind {
		case trace.ToolStart:
			wished++
		case trace.LoopSnapshot:
			snapshot, _ = e.Data.Get("snapshot").(map[string]any)
		}
	}
	if got := model.Requests()[0].Messages[0]; got.Role != runtime.System || !strings.Contains(got.Text, "Pay back.") {
		t.Errorf("the model is told %+v", got)
	}
	if n := len(pay.Calls()) + len(read.Calls()); n > 0 || wished != 2 {
		t.Errorf("%d calls were made of %d that were wished", n, wished)
	}
	loaded, err := skills.FS(files).Load(t.Context(), []string{"refunds"})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"name": "refunds", "path": "refunds/SKILL.md", "sha256": loaded[0].SHA256}}
	if diff := cmp.Diff(want, snapshot["skills"]); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}
