package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

const inGoRecipe = runtest.Head + `agents: {boss: {model: m, tools: [], delegates: [finder]}}
steps:
  find: {uses: agent, with: {agent: finder, prompt: Find it.}}
  lead: {uses: agent, needs: [find], with: {agent: boss, prompt: Lead.}}
output: ["${{ steps.find.output.text }}", "${{ steps.lead.output.text }}"]
`

func inGo(t *testing.T, text string, agents map[string]*agentloop.Loop) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, &workflow.Options{Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// An agent from Go runs as a step and as a delegate, with tools of its own, and the plan says what it needs.
func TestAgentsInGo(t *testing.T) {
	look := runtimetest.NewTool("own.look", func(context.Context, json.RawMessage) (any, error) { return "seen", nil })
	finder := &agentloop.Loop{Name: "finder", Model: "fast", Tools: []string{"own.look", "crm.lookup"}, Own: []runtime.Tool{look},
		Approval: map[string]agentloop.Approval{"own.look": agentloop.ApproveNever}}
	agents := map[string]*agentloop.Loop{"finder": finder, "other": {Tools: agentloop.AllTools, Name: "other", Model: "unused"}}
	wf := inGo(t, inGoRecipe, agents)
	want := workflow.Requires{Models: []string{"fast", "m"}, Tools: []string{"crm.lookup"}, Agents: []string{"finder"}}
	if diff := cmp.Diff(want, wf.Plan().Requires, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("requires (-want +got)\n%s", diff)
	}
	fast := &runtimetest.Model{Answers: []runtimetest.Answer{{ToolCalls: []runtime.ToolCall{runtest.Wants("own.look", `{}`)}}, {Text: "found"}, {Text: "found again"}}}
	boss := &runtimetest.Model{Answers: []runtimetest.Answer{{ToolCalls: []runtime.ToolCall{runtest.Wants("delegate_finder", `{"task":"look"}`)}}, {Text: "led"}}}
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": boss, "fast": fast}, Tools: []runtime.Tool{customers}})
	if diff := cmp.Diff([]any{"found", "led"}, out.Output); diff != "" {
		t.Errorf("%v, output (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"found again"}, runtest.Said(boss)); diff != "" {
		t.Errorf("what the delegate said (-want +got)\n%s", diff)
	}
	if len(look.Calls()) != 1 {
		t.Errorf("the agent's own tool was called %d times", len(look.Calls()))
	}
}

// An expression gives an agent from Go as a delegate. The step itself begins with the only agent of the recipe.
func TestChosenDelegatesInGo(t *testing.T) {
	const text = runtest.Head + `inputs: {who: {type: array, items: {type: string}}}
agents: {boss: {model: m, tools: [], delegates: "${{ inputs.who }}"}}
steps: {lead: {uses: agent, with: {prompt: Lead.}}}
output: ${{ steps.lead.output }}
`
	wf := inGo(t, text, map[string]*agentloop.Loop{"finder": {Name: "finder", Model: "fast"},
		"other": {Name: "other", Model: "fast", Handoffs: map[string]*agentloop.Loop{"last": {Name: "last", Model: "fast"}}}})
	if diff := cmp.Diff([]string{"finder", "other"}, wf.Plan().Requires.Agents); diff != "" {
		t.Errorf("agents (-want +got)\n%s", diff)
	}
	for _, tt := range []struct {
		who  []any
		want any // the output
		code string
	}{
		{[]any{"finder"}, map[string]any{"text": "led", "steps": int64(2), "stop_reason": "answer"}, ""},
		{[]any{"findr"}, nil, "agent.unknown"},
	} {
		models := map[string]runtime.Model{"fast": runtimetest.Texts("found"), "m": &runtimetest.Model{Answers: []runtimetest.Answer{
			{ToolCalls: []runtime.ToolCall{runtest.Wants("delegate_finder", `{"task":"look"}`)}}, {Text: "led"}}}}
		out, _ := wf.Run(t.Context(), map[string]any{"who": tt.who}, &runtime.Runtime{Models: models})
		if diff := cmp.Diff(tt.want, out.Output); diff != "" {
			t.Errorf("%v: output (-want +got)\n%s", tt.who, diff)
		}
		if e := out.Failure(); e != nil && e.Code != tt.code || e == nil && tt.code != "" {
			t.Errorf("%v: error %v, want %q", tt.who, e, tt.code)
		}
	}
}

// Only the agents that a recipe may run count for its digest, and its own agent wins.
func TestDigestsWithAgentsInGo(t *testing.T) {
	digest := func(text string, agents map[string]*agentloop.Loop) string {
		return inGo(t, text, agents).Plan().Digest
	}
	own := runtest.Head + "agents: {boss: {model: m}}\nsteps: {ask: {uses: agent, with: {prompt: Go.}}}\n"
	boss, finder := &agentloop.Loop{Tools: agentloop.AllTools, Model: "x"}, &agentloop.Loop{Tools: agentloop.AllTools, Model: "fast"}
	plain := digest(own, nil)
	if got := digest(own, map[string]*agentloop.Loop{"boss": boss, "finder": finder}); got != plain {
		t.Errorf("agents that the recipe does not run change its digest from %s to %s", plain, got)
	}
	a, b := digest(inGoRecipe, map[string]*agentloop.Loop{"finder": finder, "boss": boss}), digest(inGoRecipe, map[string]*agentloop.Loop{"finder": finder})
	if c := digest(inGoRecipe, map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Model: "slow"}}); a != b || b == c {
		t.Errorf("digests: %s, %s with the same agent, %s with another one", a, b, c)
	}
	given := runtest.Head + "agents: {boss: {model: m}}\ninputs: {who: string}\nsteps: {ask: {uses: agent, with: {agent: \"${{ inputs.who }}\", prompt: Go.}}}\noutput: ${{ steps.ask.output.text }}\n"
	wf := inGo(t, given, map[string]*agentloop.Loop{"finder": finder})
	for who, want := range map[string]any{"finder": "fast", "boss": "m"} {
		out, err := wf.Run(t.Context(), map[string]any{"who": who}, &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("m"), "fast": runtimetest.Texts("fast")}})
		if out.Output != want {
			t.Errorf("agent %q says %v, %v", who, out.Output, err)
		}
	}
	if got := wf.Plan().Digest; got == digest(given, nil) {
		t.Errorf("an agent that an expression may name does not count for the digest %s", got)
	}
}

func TestBadAgentsInGo(t *testing.T) {
	for _, tt := range []struct {
		name, agent, delegate string
		agents                map[string]*agentloop.Loop
		want                  []string // findings, or the error
	}{
		{"unknown", "findr", "finder", map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Model: "m"}}, []string{`5:36 agent.unknown there is no agent "findr" | did you mean "finder"?`}},
		{"unlike any", "xyz", "finder", map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Model: "m"}}, []string{`5:36 agent.unknown there is no agent "xyz" | known here: boss, finder`}},
		{"unknown delegate", "boss", "xyz", map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Model: "m"}}, []string{`3:50 recipe.unknownName there is no agent "xyz" | known here: boss, finder`}},
		{"nil", "boss", "finder", map[string]*agentloop.Loop{"finder": nil}, []string{`agent "finder" in Go is nil`}},
		{"no model", "boss", "finder", map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Name: "f"}}, []string{`agent "f": it names no model`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+"agents: {boss: {model: m, tools: [], delegates: ["+tt.delegate+"]}}\nsteps:\n  ask: {uses: agent, with: {agent: "+tt.agent+", prompt: Go.}}\n"))
			if err != nil {
				t.Fatal(err)
			}
			wf, err := workflow.Compile(r, &workflow.Options{Agents: tt.agents})
			var got []string
			if of, ok := errors.AsType[*runtime.Error](err); ok {
				got = []string{of.Err.Error()}
			} else if err != nil {
				got = runtest.Printed(err.(*diagnostics.Error).List)
			} else {
				got = runtest.Printed(wf.Diagnostics)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The store has the recipe and not the agents: a run goes on with its Workflow only, and with others only if they are
// accepted. Then the steps that may run a changed agent run again.
func TestResumeWithAgentsInGo(t *testing.T) {
	const text = runtest.Head + `agents: {asker: {model: m, tools: [human.ask]}}
steps:
  find: {uses: agent, with: {agent: finder, prompt: Find it.}}
  beside: {uses: agent, with: {agent: {model: m, tools: []}, prompt: Wait.}}
  ask: {uses: agent, needs: [find, beside], with: {agent: asker, prompt: Ask.}}
output: ["${{ steps.find.output.text }}", "${{ steps.beside.output.text }}", "${{ steps.ask.output.text }}"]
`
	finder := &agentloop.Loop{Tools: agentloop.AllTools, Name: "finder", Model: "fast"}
	wf := inGo(t, text, map[string]*agentloop.Loop{"finder": finder})
	host := func(fast string, m ...runtimetest.Answer) *runtime.Runtime {
		return &runtime.Runtime{Models: map[string]runtime.Model{"fast": runtimetest.Texts(fast), "m": &runtimetest.Model{Answers: m}}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}}
	}
	question := runtimetest.Answer{ToolCalls: []runtime.ToolCall{runtest.Wants("human.ask", `{"question":"?"}`)}}
	for _, tt := range []struct {
		name string
		opts *workflow.ResumeOptions
		host *runtime.Runtime
		code string
		want any
	}{
		{"the store's", nil, host("", runtimetest.Answer{Text: "done"}), "resume.needsWorkflow", nil},
		{"another one that is not accepted", &workflow.ResumeOptions{Workflow: inGo(t, text, map[string]*agentloop.Loop{"finder": {Name: "finder", Model: "fast"}})},
			host(""), "resume.definitionChanged", nil},
		{"the run's", &workflow.ResumeOptions{Workflow: wf}, host("", runtimetest.Answer{Text: "done"}), "", []any{"first", "beside", "done"}},
		{"another one", &workflow.ResumeOptions{Workflow: inGo(t, text, map[string]*agentloop.Loop{"finder": {Tools: agentloop.AllTools, Name: "finder", Model: "fast", MaxSteps: 3}}), AcceptChanged: true},
			host("second", runtimetest.Answer{Text: "done"}), "", []any{"second", "beside", "done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := host("first", runtimetest.Answer{Text: "beside"}, question)
			first.Store = &checkpoint.Memory{}
			tt.host.Store = first.Store
			out, _ := wf.Run(t.Context(), nil, first)
			if out.Status != workflow.StatusPaused {
				t.Fatal(out.Status, out.Err)
			}
			out, err := workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "yes"}, tt.host, tt.opts)
			of, _ := errors.AsType[*runtime.Error](err)
			if of == nil {
				of = &runtime.Error{}
			}
			if diff := cmp.Diff(tt.want, out.Output); diff != "" || of.Code != tt.code {
				t.Errorf("%v, output (-want +got)\n%s", err, diff)
			}
		})
	}
}

// An agent of the recipe hands off to one from Go, and one from Go to another: the output says who answered.
func TestHandoffsOfAgentsInGo(t *testing.T) {
	last := &agentloop.Loop{Tools: agentloop.AllTools, Name: "last", Model: "last"}
	finder := &agentloop.Loop{Tools: agentloop.AllTools, Name: "finder", Model: "fast", Handoffs: map[string]*agentloop.Loop{"last": last}}
	wf := inGo(t, runtest.Head+`agents: {boss: {model: m, tools: [], handoffs: [finder]}}
steps:
  first: {uses: agent, with: {agent: boss, prompt: Go.}}
  second: {uses: agent, needs: [first], with: {agent: finder, prompt: Go.}}
output: ["${{ steps.first.output.agent }}", "${{ steps.second.output.agent }}"]
`, map[string]*agentloop.Loop{"finder": finder})
	off := func(name string) runtimetest.Answer {
		return runtimetest.Answer{ToolCalls: []runtime.ToolCall{runtest.Wants("handoff_"+name, `{}`)}}
	}
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{
		"m":    &runtimetest.Model{Answers: []runtimetest.Answer{off("finder")}},
		"fast": &runtimetest.Model{Answers: []runtimetest.Answer{{Text: "found"}, off("last")}}, "last": runtimetest.Texts("done")}})
	if diff := cmp.Diff([]any{"finder", "last"}, out.Output); diff != "" {
		t.Errorf("%v, output (-want +got)\n%s", err, diff)
	}
}
