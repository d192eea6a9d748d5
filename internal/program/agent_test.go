package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// trust 8.4: an agent is offered the tools that it lists, of the host and of its recipe.
func TestAgentsHaveTheToolsThatTheyList(t *testing.T) {
	const file = runtest.Head + `tools:
  own.it: {description: Ours., steps: {a: {uses: set, with: {value: 1}}}, output: 1}
steps: {ask: {uses: agent, with: {agent: {model: m, AGENT}, prompt: go}}}
`
	for _, tt := range []struct{ agent, want string }{
		{"subagents: false", ""},
		{"tools: [test.echo], subagents: false", "test.echo"},
		{"tools: [own.it], subagents: false", "own.it"},
		{"tools: all, subagents: false", "own.it test.echo"},
		{"tools: all, deny: [test.echo], subagents: false", "own.it"},
		{"max_steps: 2", "agent.close agent.send agent.spawn agent.wait"},
		{"tools: []", ""},
		{"tools: '${{ [\"own.it\"] }}', subagents: false", "own.it"},
	} {
		model := runtimetest.Texts("done")
		wf := runtest.Load(t, []byte(strings.Replace(file, "AGENT", tt.agent, 1)))
		if _, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{runtest.Echo}}); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range model.Requests()[0].Tools {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.agent, got, tt.want)
		}
	}
}

// trust 8.4: what only makes sense with tools is an error without them. In a recipe that a run began with it is not.
func TestAgentsWithoutToolsHaveNoApprovals(t *testing.T) {
	for _, key := range []string{"approval: pause", "deny: [test.echo]", "max_calls: 3", "tool_concurrency: 2"} {
		recipe := runtest.Head + "steps:\n  a: {uses: agent, with: {agent: {model: m, " + key + "}, prompt: go}}\n"
		wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": recipe}, nil)
		word, _, _ := strings.Cut(key, ":")
		if wf != nil || len(list) != 1 || list[0].Position.Line == 0 || list[0].Hint != "list them, or write tools: all for all that are allowed" ||
			list[0].Message != "agent \"a\" has "+word+", and no tools" {
			t.Errorf("%s: %s", key, runtest.Printed(list))
		}
		for _, tools := range []string{"all", "[test.echo]"} {
			if wf, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": strings.Replace(recipe, "model: m", "model: m, tools: "+tools, 1)}, nil); wf == nil {
				t.Errorf("%s: %s", key, runtest.Printed(list))
			}
		}
	}
	_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": runtest.Head + "steps:\n  a: {uses: agent, with: {agent: {model: m, tools: ['${{ inputs.t }}']}, prompt: go}}\ninputs: {t: string}\n"}, nil)
	if list.HasErrors() {
		t.Fatal(runtest.Printed(list))
	}
	wf := runtest.Load(t, []byte(runtest.Head+"inputs: {t: string}\nsteps:\n  a: {uses: agent, with: {agent: {model: m, tools: ['${{ inputs.t }}']}, prompt: go}}\n"))
	out, err := wf.Run(t.Context(), map[string]any{"t": "*"}, &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("done")}, Tools: []runtime.Tool{runtest.Echo}})
	if err == nil || out.Failure().Code != "agent.arguments" {
		t.Errorf("an expression that gives all: %v", err)
	}
}

// trust 8.4: a plan shows which tools each agent has, and which approvals they need.
func TestPlanShowsTheToolsOfAgents(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`agents:
  clerk: {model: m, tools: all, approval: {test.echo: pause, "exec.run:git": always}, deny: [test.gone], delegates: [help]}
  help: {model: m, subagents: false}
  asker: {model: m, tools: [human.ask, docs.search, file.read], subagents: false}
steps:
  a: {uses: agent, with: {agent: clerk, prompt: go}}
  b: {uses: agent, with: {agent: asker, prompt: go}}
`))
	rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, named("exec.run"), named("test.gone"), named("pay.bill")},
		Approval: map[string]string{"pay.bill": "refuse"}, Searchers: map[string]runtime.Searcher{"default": &runtest.Shelves{}}}
	want := []string{
		`agent clerk of step a: all tools, now agent.*, delegate_help, exec.run, exec.run:git (always), pay.bill (refuse), test.echo (pause)`,
		`agent help of step a: none`,
		`agent asker of step b: docs.search, file.read, human.ask`,
	}
	plan := wf.Plan()
	plan.Agents = wf.ToolsOfAgents(rt)
	var got []string
	for line := range strings.Lines(plan.Text()) {
		if strings.HasPrefix(line, "agent ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	in := runtest.Must(workflow.Agent(&agentloop.Loop{Model: "m", Own: []runtime.Tool{runtest.Echo}, MaxSubagents: -1}, nil)).ToolsOfAgents(rt)
	if len(in) != 1 || len(in[0].Tools) != 1 || in[0].Tools[0].Tool != "test.echo" {
		t.Errorf("an agent in Go: %v", in)
	}
}

// trust 8.4: the definition of an earlier run is compiled, whatever its agents lack, and its workflow resumes the run.
func TestAgentsOfEarlierRunsCompile(t *testing.T) {
	for _, agent := range []string{"approval: pause", "tool_choice: test.gone", "tools: ['*']"} {
		r := runtest.Must(recipe.Parse("r.yaml", []byte(runtest.Head+"steps:\n  a: {uses: agent, with: {agent: {model: m, "+agent+"}, prompt: go}}\n")))
		if p, err := program.CompileStored(r); err != nil {
			t.Errorf("%s: %v", agent, err)
		} else if p, err = p.Under(program.Rules{}); err != nil || !p.Earlier() || p.Rules().Listed {
			t.Errorf("%s, as earlier: %v", agent, err)
		}
	}
}
