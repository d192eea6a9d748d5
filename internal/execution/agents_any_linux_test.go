package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const anyAgents = `agents:
  boss: {model: m, tools: [fx.read, fx.idempotent, fx.external, fx.gate, human.ask], approval: {fx.external: %s}, delegates: [hand], tool_concurrency: %d, max_steps: 4}
  hand: {model: m, tools: [fx.read, fx.idempotent, fx.external, human.ask], approval: {fx.idempotent: %s}, tool_concurrency: %d, max_steps: 3}
steps:
  work: {uses: agent, with: {agent: boss, prompt: work}}
  beside: {uses: agent, with: {agent: hand, prompt: beside}}
  after: {uses: fx.external, needs: [work, beside], with: {as: after}}
output: ["${{ steps.work.output }}", "${{ steps.beside.output }}"]
`

// anyModel says something at random, but the same of each call in each run.
func anyModel(seed uint64) *runtimetest.Model {
	return &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		h := fnv.New64a()
		fmt.Fprint(h, req.Step, req.StepCall)
		dice := rand.New(rand.NewPCG(seed, h.Sum64()))
		resp := &runtime.Response{Text: fmt.Sprint(req.Step, req.StepCall), Usage: runtime.Usage{InputTokens: 1 + dice.IntN(9), OutputTokens: 1}}
		for i := range dice.IntN(5) {
			kid, as := fmt.Sprintf(`"id":"k%d"`, dice.IntN(2)), fmt.Sprintf("%s.%d.%d", req.Step, req.StepCall, i)
			what := []struct{ name, args string }{
				{"fx.read", `"as":"` + as + `"`}, {"fx.idempotent", `"as":"` + as + `"`}, {"fx.external", `"as":"` + as + `"`}, {"fx.gate", `"as":"` + as + `"`},
				{"human.ask", `"question":"?"`}, {"delegate_hand", `"task":"dig"`}, {"fx.none", ""},
				{"agent.spawn", kid}, {"agent.send", kid + `,"text":"play"`}, {"agent.wait", kid}, {"agent.close", kid},
			}[dice.IntN(11)]
			resp.ToolCalls = append(resp.ToolCalls, runtime.ToolCall{Name: what.name, Arguments: json.RawMessage("{" + what.args + "}")})
		}
		return resp, nil
	}}
}

// Agents that do anything: the process dies after a record, and whoever goes on comes to what an undisturbed run does.
func TestAgentsThatDoAnything(t *testing.T) {
	const seeds, parts = 12, 3
	part := uint64(seedtest.Part(t, parts))
	for seed := range uint64(seeds) {
		if testing.Short() && seed%parts != part {
			continue
		}
		dice := rand.New(rand.NewPCG(seed, 1))
		word := func() string { return []string{"pause", "never"}[dice.IntN(2)] }
		scene := agentScene{recipe: fmt.Sprintf(anyAgents, word(), 1+dice.IntN(3)*3, word(), 1+dice.IntN(2)*3), script: "turns: [{text: never}]"}
		wf := scene.load(t)
		host := func() *agentHost {
			h := newAgentHost(t, "one")
			h.rt.Models["m"] = anyModel(seed)
			return h
		}
		whole := host()
		out, _ := wf.Run(t.Context(), nil, whole.rt)
		out = whole.drive(t, out, nil)
		want := whole.cameTo(t, out)
		_, recs, _ := whole.kept.Load(t.Context(), "r1", 0)
		if want.Status != workflow.StatusOK {
			t.Fatalf("seed %d: %v", seed, out.Err)
		}
		for dies := dice.IntN(3); dies < len(recs); dies += 1 + dice.IntN(1+len(recs)/12) {
			h := host()
			store := h.rt.Store
			h.rt.Store = single{runtest.Claimed{Dead: &runtest.Dead{Store: &h.kept, After: dies}}}
			out, _ := wf.Run(t.Context(), nil, h.rt)
			out = h.drive(t, out, nil)
			if h.rt.Store = store; out.Err != nil {
				out, _ = workflow.Recover(t.Context(), "r1", h.rt, nil)
				out = h.drive(t, out, nil)
			}
			if diff := cmp.Diff(want, h.cameTo(t, out)); diff != "" {
				t.Fatalf("seed %d, died after %d of %d records: %v (-want +got)\n%s", seed, dies, len(recs), out.Err, diff)
			}
		}
	}
}
