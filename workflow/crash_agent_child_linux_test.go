package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// agentCrashVar has an agentJob in JSON.
const agentCrashVar = "BRAISE_CRASH_AGENT"

// agentJob is what a child is told that runs agents.
type agentJob struct {
	crashJob
	Scene string
	Split bool // each record has a write of its own, after which it may die
	Last  bool // of several open pauses the last is answered first
}

// agentResult is what that child prints.
type agentResult struct {
	crashResult
	Snapshots map[string]string // of loops that ended in this process, by path
	Memory    []runtime.Message // of the thread main
}

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
	"one":  {fmt.Sprintf(agentBoss, 1), bossScript},
	"four": {fmt.Sprintf(agentBoss, 4), bossScript},
	// Agents in a foreach and in the branches of a fork, some of which wait for people.
	"bodies": {`agents:
  clerk: {model: m, tools: [fx.idempotent, fx.external, human.ask], approval: {fx.external: pause}, subagents: false}
steps:
  each:
    uses: agent
    foreach: {in: [a, b], as: item}
    with: {agent: clerk, prompt: "Do ${{ item }}."}
  both:
    uses: fork
    with:
      branches:
        left: {steps: {l: {uses: agent, with: {agent: clerk, prompt: left}}}, output: "${{ steps.l.output.text }}"}
        right: {steps: {r: {uses: agent, with: {agent: clerk, prompt: right}}}, output: "${{ steps.r.output.text }}"}
  after: {uses: fx.external, needs: [each, both], with: {as: after}}
output: ["${{ steps.each.output }}", "${{ steps.both.output }}"]
`, `steps:
  each[0]: [{tool_calls: [{name: fx.external, args: {as: "each[0]"}}]}, {text: zero}]
  each[1]: [{tool_calls: [{name: human.ask, args: {question: "Well?"}}, {name: fx.idempotent, args: {as: "each[1]"}}]}, {text: one}]
  both/left/l: [{tool_calls: [{name: fx.external, args: {as: left}}]}, {tool_calls: [{name: fx.external, args: {as: left2}}]}, {text: left}]
  both/right/r: [{tool_calls: [{name: fx.idempotent, args: {as: right}}]}, {text: right}]
`},
	// The model is told of calls of which nobody knows, and gets its turns by their number in the run.
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
}

func (s agentScene) load(t *testing.T) *workflow.Workflow { return load(t, []byte(head+s.recipe)) }

func TestAgentCrashChild(t *testing.T) {
	text := os.Getenv(agentCrashVar)
	if text == "" {
		t.Skip("this is what the other tests of crashes start")
	}
	var job agentJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	store, err := openWorld(job.Store, job.Place)
	if err != nil {
		t.Fatal(err)
	}
	c := &agentChild{crashChild{job: job.crashJob, at: os.Getenv(failpointVar), do: os.Getenv(failActVar), store: store}, job}
	workflow.SetTimes(usualLease, time.Hour)
	workflow.SetFailpoint(c.reached)
	result := c.run(t)
	workflow.SetFailpoint(nil)
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	os.Exit(0)
}

type agentChild struct {
	crashChild
	job agentJob
}

// run does what is left to do.
func (c *agentChild) run(t *testing.T) (result agentResult) {
	scene := agentScenes[c.job.Scene]
	model, err := script.Parse("script.yaml", []byte(scene.script))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := jsonl.Open(filepath.Join(c.job.Dir, "memory")) // of this run alone
	if err != nil {
		t.Fatal(err)
	}
	mem := memory.New(docs)
	c.rt = &runtime.Runtime{
		Store: c.store, Resume: resume.PassThrough{}, Reporter: &quiet{}, NewRunID: func() string { return c.job.Run },
		Models: map[string]runtime.Model{"m": loggedModel{model, &c.crashChild}},
		Tools:  []runtime.Tool{c.tool("read", runtime.ReadOnly), c.tool("idempotent", runtime.Idempotent), c.tool("external", ""), gateTool{c}},
		Memory: mem, Env: agentEnv{}, Inbox: inbox{c}, Skills: agentSkills{},
		Retriever: shelf(func(context.Context, string, int) ([]runtime.Document, error) {
			return []runtime.Document{{ID: "d", Text: "A document."}}, nil
		}),
	}
	if c.job.Split {
		c.rt.Store = splitStore{c.store, c}
	}
	ctx := context.Background()
	result.Snapshots = map[string]string{}
	seen := func(out *workflow.Outcome) *workflow.Outcome {
		maps.Copy(result.Snapshots, endSnapshots(out))
		return out
	}
	out, _ := workflow.Recover(ctx, c.job.Run, c.rt, nil)
	for codeOf(out) == "run.busy" {
		<-time.After(5 * time.Millisecond)
		out, _ = workflow.Recover(ctx, c.job.Run, c.rt, nil)
	}
	if codeOf(out) == "run.notFound" {
		out, _ = scene.load(t).Run(ctx, nil, c.rt)
	}
	for seen(out); out.Status == workflow.StatusPaused; seen(out) {
		p := out.Pauses[0]
		if c.job.Last {
			p = out.Pauses[len(out.Pauses)-1]
		}
		out, _ = workflow.Resume(ctx, p.Token, c.answer(p), c.rt, nil)
	}
	if result.Memory, err = mem.Load(ctx, runtime.Conversation{Thread: "main"}); err != nil {
		t.Fatal(err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	result.Status, result.Code, result.Output, result.Artefact, result.Hits = out.Status, codeOf(out), out.Output, out.Artefact, c.hits
	if out.Err != nil {
		fmt.Fprintln(os.Stderr, out.Err)
	}
	return result
}

// endSnapshots returns the snapshots of the loops that ended in a leg, by path.
func endSnapshots(out *workflow.Outcome) map[string]string {
	last, ended := map[string]string{}, map[string]string{}
	for _, e := range out.Trace {
		switch e.Kind {
		case agentloop.LoopSnapshot:
			text, _ := json.Marshal(e.Data.Get("snapshot"))
			last[e.Step] = string(text)
		case agentloop.AgentEnd:
			if reason := e.Data.Get("stopReason"); reason != "paused" && reason != "cancelled" {
				ended[e.Step] = fmt.Sprint(reason, " ", last[e.Step])
			}
		}
	}
	return ended
}

// answer says yes, 42, and of a call whose end is unknown what the effect log says.
func (c *agentChild) answer(p resume.Pause) any {
	if p.Reason != "indeterminate" {
		if p.Decisions == nil {
			return map[string]any{"answer": "42"}
		}
		return map[string]any{"decision": "approve", "form": map[string]any{"scope": "session"}}
	}
	as := p.Step
	if show, ok := p.Show.(map[string]any); ok {
		args, _ := show["arguments"].(map[string]any)
		as, _ = args["as"].(string)
	}
	for _, e := range effectsIn(c.job.Dir) {
		if e.What == "external" && e.Path == as {
			return map[string]any{"decision": "result", "form": resultOf(as)}
		}
	}
	return map[string]any{"decision": "retry"}
}

// gateTool asks before it does anything.
type gateTool struct{ child *agentChild }

func (t gateTool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "fx.gate"} }

func (t gateTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if _, ok := resume.Answer(ctx); !ok {
		return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "Open?", Decisions: []string{"approve"}, Schema: map[string]any{"type": "object"}})
	}
	return t.child.tool("external", "").Call(ctx, args)
}

// splitStore writes one record after the other: a process may die after each.
type splitStore struct {
	checkpoint.Store
	child *agentChild
}

func (s splitStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	for i, rec := range recs {
		if err := s.Store.Append(ctx, l, after+int64(i), rec); err != nil {
			return err
		}
		for _, e := range agentEvents(rec) {
			s.child.reached(eventPoint(e.Kind))
		}
	}
	return nil
}

func eventPoint(kind agentloop.Kind) string { return "agent " + string(kind) }

// agentEvents returns what a record says of an agent.
func agentEvents(rec checkpoint.Record) []agentloop.Event {
	var data struct{ Events []agentloop.Event }
	if rec.Kind == "agent.event" {
		if err := json.Unmarshal(rec.Data, &data); err != nil {
			panic(err)
		}
	}
	return data.Events
}

// inbox has a word for the agent in the step work, which it may take once.
type inbox struct{ child *agentChild }

func (b inbox) taken() []string { return readLines[string](filepath.Join(b.child.job.Dir, "taken")) }

func (b inbox) Waiting(_ context.Context, _, step string) ([]runtime.Note, error) {
	if step != "work" || slices.Contains(b.taken(), "n1") {
		return nil, nil
	}
	return []runtime.Note{{ID: "n1", Text: "Hurry."}}, nil
}

func (b inbox) Taken(_ context.Context, _, _ string, ids ...string) error {
	for _, id := range ids {
		b.child.add("taken", id)
	}
	return nil
}

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
