package program_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const choiceInputs = "inputs: {deep: {type: boolean, default: false}, model: {default: m}, tools: {default: [test.echo]}, skills: {default: []}}\n"

// format-next 3.3: names that an expression shows are checked before the first step, as those that stand in a list; of
// others the plan says that there may be some.
func TestWhatExpressionsMayNameOfAgents(t *testing.T) {
	for _, tt := range []struct {
		agent    string
		requires workflow.Requires
		want     []string // codes of the findings of a run on a host with model m, test.echo and no skills
	}{
		{"model: m, tools: '${{ inputs.tools }}'", workflow.Requires{Models: []string{"m"}, Tools: []string{}, Open: []string{"tools"}}, nil},
		{"model: '${{ inputs.model }}', tools: []", workflow.Requires{Models: []string{}, Tools: []string{}, Open: []string{"models"}}, nil},
		{`model: '${{ inputs.deep ? "x" : "m" }}', tools: []`, workflow.Requires{Models: []string{"m", "x"}, Tools: []string{}}, []string{"model.missing"}},
		{`model: m, tools: '${{ inputs.deep ? ["test.gone"] : ["test.echo"] }}'`, workflow.Requires{Models: []string{"m"}, Tools: []string{"test.echo", "test.gone"}}, []string{"tool.missing"}},
		{`model: m, tools: [test.gone, '${{ inputs.deep ? inputs.model : "" }}']`, workflow.Requires{Models: []string{"m"}, Tools: []string{"test.gone"}, Open: []string{"tools"}}, []string{"tool.missing"}},
		{`model: m, tools: [], skills: ['${{ inputs.deep ? "s" : "" }}']`, workflow.Requires{Models: []string{"m"}, Tools: []string{}, Skills: []string{"s"}}, []string{"capability.missing"}},
		{"model: m, tools: [], skills: '${{ inputs.skills }}'", workflow.Requires{Models: []string{"m"}, Tools: []string{}, Open: []string{"skills"}}, []string{"capability.missing"}},
		{"model: m, tools: '${{ inputs.tools }}', approval: {test.echo: always}", workflow.Requires{Models: []string{"m"}, Tools: []string{}, Open: []string{"tools"}}, []string{"agent.noApprover"}},
		{`model: m, tools: '${{ inputs.deep ? ["test.echo"] : [] }}', approval: {test.echo: always}`, workflow.Requires{Models: []string{"m"}, Tools: []string{"test.echo"}}, []string{"agent.noApprover"}},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			tt.requires.Secrets = []string{}
			wf := runtest.Load(t, []byte(runtest.Head+choiceInputs+"steps: {a: {uses: agent, with: {agent: {subagents: false, "+tt.agent+"}, prompt: go}}}\n"))
			if diff := cmp.Diff(tt.requires, wf.Plan().Requires); diff != "" {
				t.Errorf("requires (-want +got)\n%s", diff)
			}
			for _, strict := range []bool{false, true} {
				model := runtimetest.Texts("done")
				rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{runtest.Echo}}
				if strict {
					rt.Diagnostics = diagnostics.Strict
				}
				out, _ := wf.Run(t.Context(), nil, rt)
				var codes []string
				for _, d := range out.Diagnostics {
					codes = append(codes, string(d.Code))
				}
				if diff := cmp.Diff(tt.want, codes); diff != "" {
					t.Errorf("strict %t: codes (-want +got)\n%s", strict, diff)
				}
				if refused := strict && tt.want != nil; refused != (len(model.Requests()) == 0) && !strings.Contains(tt.agent, "test.gone, '") {
					t.Errorf("strict %t: %d requests", strict, len(model.Requests()))
				}
			}
		})
	}
}

// An agent that pauses is resumed as the one that it was, from the store alone: its model, its tools, its approvals.
func TestChosenAgentIsResumed(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+choiceInputs+`agents:
  clerk: {model: "${{ inputs.model }}", tools: "${{ inputs.tools }}", approval: {test.echo: pause}, deny: [test.sub.it], subagents: false}
steps: {a: {uses: agent, with: {prompt: go}}}
output: ${{ steps.a.output.text }}
`))
	var asked []string
	answers := func(name string) runtime.Model {
		return &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
			asked = append(asked, name)
			for _, tool := range req.Tools {
				asked = append(asked, tool.Name)
			}
			if len(asked) == 2 {
				return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.echo", Arguments: []byte(`{"a":1}`)}}}, nil
			}
			return &runtime.Response{Text: "done"}, nil
		}}
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": answers("m"), "x": answers("x")},
		Tools: []runtime.Tool{runtest.Echo, named("test.other"), named("test.sub.it")}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), map[string]any{"model": "x", "tools": []any{" test.echo", "", "test.echo"}}, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%s, %v", out.Status, err)
	}
	out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
	if err != nil || out.Output != "done" {
		t.Errorf("%v, %v", out.Output, err)
	}
	if want := []string{"x", "test.echo", "x", "test.echo"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	asked = nil
	fork, err := workflow.Fork(t.Context(), out.RunID, "a", workflow.Edits{Inputs: map[string]any{"tools": []any{"test.other"}}}, rt, nil)
	if want := []string{"m", "test.other"}; len(asked) < 2 || !slices.Equal(asked[:2], want) {
		t.Errorf("asked %q in a fork with other inputs, want %q: %v, %v", asked, want, fork.Output, err)
	}
}

// In the steps of a recipe's tool an expression gives an agent none of the recipe's tools, for it might be the one that
// runs; a list may, if no circle comes of it.
func TestChosenToolsInAToolOfTheRecipe(t *testing.T) {
	const text = runtest.Head + choiceInputs + `agents: {clerk: {model: m, tools: %q, subagents: false}}
tools:
  book.it: {description: Books., steps: {a: {uses: agent, with: {agent: clerk, prompt: go}}}, output: "${{ steps.a.output.text }}"}
  look.up: {description: Looks., steps: {a: {uses: set, with: 1}}}
steps: {a: {uses: book.it, with: {}}}
output: ${{ steps.a.output }}
`
	for _, tt := range []struct{ tools, given, want string }{
		{`"${{ inputs.tools }}"`, "test.echo", ""},
		{`"${{ inputs.tools }}"`, "look.up", "tool.missing"},
		{`"${{ inputs.tools }}"`, "book.it", "tool.missing"},
		{`[look.up, "${{ inputs.tools[0] }}"]`, "test.echo", ""},
		{`[look.up, "${{ inputs.tools[0] }}"]`, "book.it", "tool.missing"},
	} {
		wf := runtest.Load(t, []byte(strings.Replace(text, "%q", tt.tools, 1)))
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("done")}, Tools: []runtime.Tool{runtest.Echo}}
		out, err := wf.Run(t.Context(), map[string]any{"tools": []any{tt.given}}, rt)
		if ok := tt.want == ""; ok != (err == nil) || !ok && out.Failure().Code != tt.want {
			t.Errorf("%s gives %s: %v, want %q", tt.tools, tt.given, err, tt.want)
		}
	}
	_, list := runtest.CompileFiles(t, map[string]string{"recipe.yaml": strings.Replace(text, "%q", `[book.it, "${{ inputs.tools[0] }}"]`, 1)}, nil)
	if got := runtest.Printed(list); len(got) != 1 || !strings.Contains(got[0], "a tool that calls itself: book.it") {
		t.Errorf("findings %q", got)
	}
}

// What an expression gives an agent is held to what its deny and the installation say, as what a list gives.
func TestExpressionsGiveNoMoreThanLists(t *testing.T) {
	for _, tt := range []struct {
		name, agent string
		host        func(rt *runtime.Runtime)
		want        string // the code of the error, paused, refused or called
	}{
		{"nothing forbids it", "", func(*runtime.Runtime) {}, "called"},
		{"deny of the agent", "deny: [test.drop]", func(*runtime.Runtime) {}, "tool.denied"},
		{"deny of the agent, by the effect", "deny: [external]", func(*runtime.Runtime) {}, "tool.denied"},
		{"deny of the installation", "", func(rt *runtime.Runtime) { rt.Deny = []string{"test.*"} }, "tool.denied"},
		{"tools of the installation", "", func(rt *runtime.Runtime) { rt.Agents.Tools = []string{"test.echo"} }, "tool.denied"},
		{"approval of the agent", "approval: {test.drop: pause}", func(*runtime.Runtime) {}, "paused"},
		{"approval of the installation", "approval: never", func(rt *runtime.Runtime) { rt.Approval = map[string]string{"test.drop": "pause"} }, "paused"},
		{"approval of the installation that nobody can give", "", func(rt *runtime.Runtime) { rt.Approval = map[string]string{"external": "refuse"} }, "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
				if req.Messages[len(req.Messages)-1].Role == runtime.ToolRole {
					return &runtime.Response{Text: "done"}, nil
				}
				return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.drop", Arguments: []byte("{}")}}}, nil
			}}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{},
				Tools: []runtime.Tool{runtest.Echo, runtest.Tool("test.drop", func(context.Context, map[string]any) (any, error) { calls++; return nil, nil })}}
			tt.host(rt)
			wf := runtest.Load(t, []byte(runtest.Head+choiceInputs+"agents: {clerk: {model: m, tools: '${{ inputs.tools }}', "+tt.agent+"}}\nsteps: {a: {uses: agent, with: {prompt: go}}}\n"))
			out, err := wf.Run(t.Context(), map[string]any{"tools": []any{"test.drop"}}, rt)
			got := "refused"
			switch {
			case err != nil:
				got = out.Failure().Code
			case out.Status == workflow.StatusPaused:
				got = "paused"
			case calls > 0:
				got = "called"
			}
			if got != tt.want || (calls > 0) != (tt.want == "called") {
				t.Errorf("%s, %d calls, want %s: %v", got, calls, tt.want, err)
			}
		})
	}
}

// A run of a recipe that an earlier version took goes on: what is no good expression is a name, as it was then.
func TestStoredRecipesKeepNames(t *testing.T) {
	const gate = "  gate: {uses: human, with: {prompt: Really?}}\n"
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("done")}, Tools: []runtime.Tool{runtest.Echo}, Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n"+gate)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	old := runtest.Must(recipe.Parse("recipe.yaml", []byte(runtest.Head+"steps:\n"+gate+`  ask: {uses: agent, needs: [gate], with: {prompt: go, agent: {model: m, tools: ["${{ item }}", test.echo]}}}
output: ${{ steps.ask.output.text }}
`)))
	rt.Store = withDefinition{rt.Store, runtest.Must(old.Definition())}
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil)
	var got []string
	for _, d := range out.Diagnostics {
		got = append(got, string(d.Level)+" "+string(d.Code))
	}
	if diff := cmp.Diff([]string{"warn expr.unknownName", "warn tool.missing"}, got); err != nil || out.Output != "done" || diff != "" {
		t.Errorf("%v, %v (-want +got)\n%s", out.Output, err, diff)
	}
}

// Loop.NeedsTools makes a warning about a tool that is not there an error, and one that may not be called, too.
func TestLoopThatNeedsItsTools(t *testing.T) {
	for _, tt := range []struct {
		tools, deny []string
		code        string
	}{
		{[]string{"test.echo"}, nil, ""},
		{[]string{"test.echo"}, []string{"test.other"}, ""},
		{[]string{"test.ecko"}, nil, "tool.missing"},
		{[]string{"test.echo"}, []string{"test.*"}, "tool.denied"},
		{[]string{"human.ask"}, []string{"human.ask"}, "tool.denied"},
	} {
		for _, needs := range []bool{false, true} {
			model := runtimetest.Texts("done")
			agent := &agentloop.Loop{Model: "m", Tools: tt.tools, Deny: tt.deny, NeedsTools: needs}
			out, err := runtest.Must(workflow.Agent(agent, nil)).Run(t.Context(), map[string]any{"prompt": "go"},
				&runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{runtest.Echo}})
			code := tt.code
			switch {
			case !needs && code == "tool.missing":
				code = "agent.unknownTool" // trust 8.4
			case !needs:
				code = ""
			}
			if fails := code != ""; fails != (err != nil) || fails && out.Failure().Code != code {
				t.Errorf("%q without %q, needs %t: %v", tt.tools, tt.deny, needs, err)
			}
		}
	}
}
