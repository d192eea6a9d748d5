package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// agentScene is a recipe with agents, and the answers of its model.
type agentScene struct{ recipe, script string }

const agentBoss = `agents:
  boss:
    model: m
    instructions: You are ${{ run.recipe }}.
    tools: [fx.read, fx.idempotent, fx.external, fx.gate, human.ask]
    approval: {fx.external: pause}
    skills: [greet]
    memory: {thread: main}
    retrieve: {top_k: 1}
    delegates: [digger]
    tool_concurrency: %d
  digger: {model: m, tools: [fx.external, human.ask], subagents: false, tool_concurrency: %[1]d}
steps:
  work:
    uses: agent
    with: {agent: boss, prompt: Work.}
    output: {schema: {type: object, required: [sum], properties: {sum: {type: integer}}}}
  after: {uses: fx.external, needs: [work], with: {as: after}}
output: ["${{ steps.work.output.sum }}", "${{ steps.after.output }}"]
`

const bossScript = `steps:
  work:
    - tool_calls:
        - {name: fx.read, args: {as: read}}
        - {name: fx.idempotent, args: {as: put}}
        - {name: fx.external, args: {as: send}}
        - {name: delegate_digger, args: {task: dig}}
        - {name: human.ask, args: {question: "How many?"}}
        - {name: fx.gate, args: {as: gate}}
    - tool_calls: [{name: agent.spawn, args: {id: kid}}, {name: agent.send, args: {id: kid, text: play}}, {name: agent.wait, args: {id: kid}}]
    - tool_calls: [{name: fx.external, args: {as: again}}, {name: fx.nothing}, {name: agent.close, args: {id: kid}}]
    - text: I am done.
    - expect: {contains: "That answer cannot be used"}
      json: {sum: 42}
  work/digger#4:
    - tool_calls: [{name: human.ask, args: {question: "How deep?"}}, {name: fx.external, args: {as: dig}}]
    - text: dug
  work/agent.kid#8:
    - tool_calls: [{name: fx.idempotent, args: {as: play}}, {name: fx.external, args: {as: kid}}]
    - text: played
`

var agentScenes = map[string]agentScene{
	// One call after the other, and together.
	"one":   {fmt.Sprintf(agentBoss, 1), bossScript},
	"eight": {fmt.Sprintf(agentBoss, 8), bossScript},
	// Agents in a foreach and in the branches of a fork, some of which wait for people.
	"bodies": {`agents:
  clerk: {model: m, tools: [fx.idempotent, fx.external, human.ask], approval: {fx.external: pause}, subagents: false}
steps:
  each:
    uses: agent
    foreach: {in: [a, b], as: item, max_parallel: 1}
    with: {agent: clerk, prompt: "Do ${{ item }}."}
  both:
    uses: fork
    with:
      branches:
        left: {steps: {l: {uses: agent, with: {agent: clerk, prompt: left}}}, output: "${{ steps.l.output.text }}"}
        right: {steps: {r: {uses: agent, with: {agent: clerk, prompt: right}}}, output: "${{ steps.r.output.text }}"}
  after: {uses: fx.external, needs: [each, both], with: {as: after}}
output: ["${{ steps.each.output }}", "${{ steps.both.output }}", "${{ steps.each.calls }}"]
`, `steps:
  each[0]: [{tool_calls: [{name: fx.external, args: {as: "each[0]"}}]}, {text: zero}]
  each[1]: [{tool_calls: [{name: human.ask, args: {question: "Well?"}}, {name: fx.idempotent, args: {as: "each[1]"}}]}, {text: one}]
  both/left/l: [{tool_calls: [{name: fx.external, args: {as: left}}]}, {tool_calls: [{name: fx.external, args: {as: left2}}]}, {text: left}]
  both/right/r: [{tool_calls: [{name: fx.idempotent, args: {as: right}}]}, {text: right}]
`},
	// The model is told of calls with unknown outcome, and gets its turns by their number in the run.
	"report": {`agents:
  clerk: {model: m, tools: [fx.idempotent, fx.external], on_indeterminate: report, subagents: false}
steps:
  first: {uses: model, with: {model: m, prompt: first}}
  work: {uses: agent, needs: [first], with: {agent: clerk, prompt: work}}
  last: {uses: model, needs: [work], with: {model: m, prompt: last}}
  after: {uses: fx.external, needs: [last], with: {as: after}}
output: ["${{ steps.first.output.text }}", "${{ steps.work.output.text }}", "${{ steps.last.output.text }}"]
`, `turns:
  - text: one
  - tool_calls: [{name: fx.external, args: {as: send}}, {name: fx.idempotent, args: {as: put}}]
  - tool_calls: [{name: fx.external, args: {as: again}}]
  - text: two
  - text: three
`},
	// Calls that are refused, rejected with a reason or approved with other arguments, and agents that come to a limit.
	"refused": {`agents:
  boss: {model: m, tools: [fx.idempotent, fx.external], approval: {fx.external: pause, fx.idempotent: refuse}, subagents: false}
  eager: {model: m, tools: [fx.idempotent, fx.external], max_calls: 2, max_steps: 1, on_limit: fail, subagents: false}
steps:
  work: {uses: agent, with: {agent: boss, prompt: work}}
  hurry: {uses: agent, needs: [work], on_error: continue, with: {agent: eager, prompt: hurry}}
  after: {uses: fx.external, needs: [work, hurry], trigger: all_done, with: {as: after}}
output: ["${{ steps.work.output.stop_reason }}", "${{ steps.work.finish }}", "${{ steps.work.usage.calls }}", "${{ steps.hurry.error.code }}"]
`, `steps:
  work:
    - tool_calls: [{name: fx.external, args: {as: rejected}}, {name: fx.idempotent, args: {as: refused}}, {name: fx.external, args: {as: wrong}}]
    - {text: I would say th, finish: length}
  hurry:
    - tool_calls: [{name: fx.external, args: {as: first}}, {name: fx.idempotent, args: {as: second}}, {name: fx.idempotent, args: {as: third}}]
`},
	// An agent with a memory, whose conversation is replaced by a summary twice.
	"compact": {`agents:
  clerk:
    model: m
    instructions: Do what you are told.
    tools: [fx.read, fx.external]
    memory: {thread: main}
    subagents: false
    compact: {above: 1, keep: 4, prompt: Sum up.}
steps:
  work: {uses: agent, with: {agent: clerk, prompt: Work.}}
  after: {uses: fx.external, needs: [work], with: {as: after}}
output: ["${{ steps.work.output.text }}", "${{ steps.work.usage.calls }}"]
`, `steps:
  work:
    - tool_calls: [{name: fx.read, args: {as: first}}]
    - tool_calls: [{name: fx.external, args: {as: second}}]
    - {text: Be quick., expect: {contains: [Work., Hurry., Sum up.]}}
    - {tool_calls: [{name: fx.external, args: {as: third}}], expect: {contains: [Work., Be quick.], not_contains: [Hurry., Sum up.]}}
    - {text: Both are done., expect: {contains: [Be quick., Sum up.]}}
    - {text: done, expect: {contains: [Work., Both are done.], not_contains: Be quick.}}
`},
	// An agent hands off to another, whose model, tools and skills expressions give, which has gates and documents of its
	// own, and hands back.
	"handoff": {`defaults: {model: m}
inputs: {model: {default: m}, tools: {default: [fx.external]}, greet: {default: true}}
agents:
  front: {instructions: You greet., tools: [fx.external], skills: [greet], memory: {thread: main}, subagents: false, handoffs: [clerk]}
  clerk: {model: "${{ inputs.model }}", instructions: You pay., tools: "${{ inputs.tools }}", approval: {fx.external: pause}, retrieve: {top_k: 1}, skills: ['${{ inputs.greet ? "greet" : "" }}'], subagents: false, handoffs: [front]}
steps:
  work: {uses: agent, with: {agent: front, prompt: Work.}}
  after: {uses: fx.external, needs: [work], with: {as: after}}
output: ["${{ steps.work.output.agent }}", "${{ steps.work.output.text }}"]
`, `steps:
  work:
    - tool_calls: [{name: handoff_clerk}, {name: fx.external, args: {as: first}}]
    - {tool_calls: [{name: fx.external, args: {as: second}}, {name: handoff_front}], expect: {contains: [You pay., A document., Say hello.], not_contains: You greet.}}
    - {text: done, expect: {contains: [You greet., Say hello.], not_contains: [You pay., A document.]}}
`},
}

func (s agentScene) load(t *testing.T) *workflow.Workflow {
	return runtest.Load(t, []byte(runtest.Head+s.recipe))
}

// agentRun is what a run with agents has come to, as far as it is the same however it came there.
type agentRun struct {
	Status workflow.Status
	Output any
	Steps  map[string]any
	Loops  map[string]any // by path
	Memory []runtime.Message
	Done   map[string]string // effects, by what they are of: external or idempotent
}

// agentRunOf returns what a run came to, by its outcome, its journal, and what was done to the world. It checks what
// holds of every run: no external effect happens twice, and each call has one key.
func agentRunOf(t *testing.T, id string, out *workflow.Outcome, recs []checkpoint.Record, log []effect, memory []runtime.Message) agentRun {
	t.Helper()
	run := agentRun{out.Status, out.Output, out.Artefact, map[string]any{}, memory, map[string]string{}}
	events := map[string][]agents.Event{}
	for _, rec := range recs {
		events[rec.Path] = append(events[rec.Path], agentEvents(rec)...)
	}
	keys := map[string]bool{"": true}
	for path, list := range events {
		if len(list) == 0 {
			continue
		}
		state, err := agents.Fold(list)
		if err != nil {
			t.Fatal(err)
		}
		loopsOf(path, &state, run.Loops)
		keysOf(path, &state, func(path string, n int) { keys[resume.Key(id, 1, path, n, "")] = true })
	}
	times, key := map[string]int{}, map[string]string{}
	for _, e := range log {
		if e.What != "external" && e.What != "idempotent" {
			continue
		}
		run.Done[e.Path] = e.What
		if times[e.Path]++; e.What == "external" && times[e.Path] > 1 {
			t.Errorf("the external effect of %s happened %d times", e.Path, times[e.Path])
		}
		if times[e.Path] > 1 && key[e.Path] != e.Key || !keys[e.Key] && e.Key != resume.Key(id, 1, e.Path, 1, "") {
			t.Errorf("%s was called with the key %s, which is another call's or none", e.Path, e.Key)
		}
		key[e.Path] = e.Key
	}
	return run
}

// loopsOf adds what a loop and its children said, did and used, and how they ended.
func loopsOf(path string, s *agents.State, into map[string]any) {
	var calls []any
	for _, c := range s.Calls {
		calls = append(calls, []any{c.Name, string(c.Arguments), c.Effect, c.Allowed, c.Result, c.Code})
	}
	into[path] = map[string]any{"messages": s.Messages, "calls": calls, "usage": s.Usage, "steps": s.Steps, "stop": s.Stop, "grants": s.Grants, "phase": s.Phase,
		"guide": s.Guide, "skills": s.Skills, "found": s.Found, "taken": s.Taken, "subagents": s.Subagents, "handoffs": s.Handoffs, "saved": s.Saved}
	for name, child := range s.Children {
		loopsOf(path+"/"+name, child, into)
	}
}

// keysOf tells of the calls of a loop and its children.
func keysOf(path string, s *agents.State, call func(path string, n int)) {
	for n := range s.Calls {
		call(path, n+1)
	}
	for name, child := range s.Children {
		keysOf(path+"/"+name, child, call)
	}
}

// endSnapshots returns the snapshots of the loops that ended in an execution, by path.
func endSnapshots(out *workflow.Outcome) map[string]string {
	last, ended := map[string]string{}, map[string]string{}
	for _, e := range out.Trace {
		switch e.Kind {
		case trace.LoopSnapshot:
			text, _ := json.Marshal(e.Data.Get("snapshot"))
			last[e.Step] = string(text)
		case trace.AgentEnd:
			if reason := e.Data.Get("stopReason"); reason != "paused" && reason != "cancelled" {
				ended[e.Step] = fmt.Sprint(reason, " ", last[e.Step])
			}
		}
	}
	return ended
}

// agentAnswer says yes, 42, no to what is called rejected, right in place of what is called wrong, and of a call whose end
// is unknown whether it happened.
func agentAnswer(p resume.Pause, log []effect) any {
	if p.Reason != "indeterminate" {
		if p.Decisions == nil {
			return map[string]any{"answer": "42"}
		}
		switch as := argumentOf(p); as {
		case "rejected":
			return map[string]any{"decision": "reject", "form": map[string]any{"reason": "not today"}}
		case "wrong":
			return map[string]any{"decision": "approve", "form": map[string]any{"arguments": map[string]any{"as": "right"}}}
		}
		return map[string]any{"decision": "approve", "form": map[string]any{"scope": "session"}}
	}
	as := argumentOf(p)
	if slices.ContainsFunc(log, func(e effect) bool { return e.What == "external" && e.Path == as }) {
		return map[string]any{"decision": "result", "form": map[string]any{"did": as}}
	}
	return map[string]any{"decision": "retry"}
}

// argumentOf is the argument as of the call that a pause is about, or the path of its step.
func argumentOf(p resume.Pause) string {
	show, _ := p.Show.(map[string]any)
	args, _ := show["arguments"].(map[string]any)
	if as, ok := args["as"].(string); ok {
		return as
	}
	return p.Step
}

// gateTool asks before it does anything.
type gateTool struct{ runtime.Tool }

func (t gateTool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "fx.gate"} }

func (t gateTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if _, ok := resume.Answer(ctx); !ok {
		return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "Open?", Decisions: []string{"approve"}, Schema: map[string]any{"type": "object"}})
	}
	return t.Tool.Call(ctx, args)
}

// agentEvents returns what a record says of an agent.
func agentEvents(rec checkpoint.Record) []agents.Event {
	var data struct{ Events []agents.Event }
	if rec.Kind == "agent.event" {
		if err := json.Unmarshal(rec.Data, &data); err != nil {
			panic(err)
		}
	}
	return data.Events
}

// shelfOfOne finds one document.
var shelfOfOne = runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) {
	return []runtime.Document{{ID: "d", Text: "A document."}}, nil
})

type agentEnv struct{}

func (agentEnv) Instructions(context.Context) (string, error) { return "Be kind.", nil }
func (agentEnv) Tools() []runtime.Tool                        { return nil }

type agentSkills struct{}

func (agentSkills) Load(_ context.Context, names []string) ([]runtime.Skill, error) {
	var list []runtime.Skill
	for _, name := range names {
		list = append(list, runtime.Skill{Scope: "repo", Name: name, Path: name + "/SKILL.md", SHA256: "00", Text: "Say hello."})
	}
	return list, nil
}
