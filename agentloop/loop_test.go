package agentloop_test

import (
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
)

func TestShape(t *testing.T) {
	t.Run("1.2 result", func(t *testing.T) {
		m := model(says("let me look", `crm.lookup {"id": 7}`), says("it is Ann"))
		rt := host(m, tool("crm.lookup", runtime.ReadOnly, object{"name": "Ann"}))
		j := after(t, nil)
		res := must(t, &agentloop.Loop{Name: "finder", Model: "m", Instructions: "Be short.", MaxSubagents: -1}, agentloop.Input{Journal: j}, rt)
		same(t, "text", res.Text, "it is Ann")
		same(t, "steps", res.Steps, 2)
		same(t, "stop reason", res.StopReason, agentloop.StopAnswer)
		same(t, "results", results(res), []string{`{"name":"Ann"}`})
		same(t, "usage", res.Usage, runtime.Usage{InputTokens: 20, OutputTokens: 2})
		same(t, "messages", talk(res.Messages), []string{"user: do it", "assistant: let me look crm.lookup", `tool: {"name":"Ann"}`, "assistant: it is Ann"})
		same(t, "journal", j.kinds(), []string{"start", "model.begin", "model.end", "tool.begin", "tool.end", "model.begin", "model.end", "end"})
		same(t, "trace", lines(res.Trace), []string{
			"agent.start step agent=finder depth=0 model=m",
			"model.start step messages=2 model=m step=1",
			`model.end step finish="" usage={"input_tokens":10,"output_tokens":1}`,
			`tool.calls.begin step tools=["crm.lookup"]`,
			"tool.start step call=1 tool=crm.lookup",
			"tool.end step call=1 tool=crm.lookup",
			"model.start step messages=4 model=m step=2",
			`model.end step finish="" usage={"input_tokens":10,"output_tokens":1}`,
			`agent.item step item=plan steps=2 tools=["crm.lookup"]`,
			"agent.item step bytes=9 item=response",
			"agent.end step stopReason=answer",
		})
	})
}
