package workflow_test

import (
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A plan names the vars that expressions read, wherever they stand, but those that one of them reads with ?. and those
// of agents that nobody runs.
func TestPlanNamesVars(t *testing.T) {
	const agent = "agents: {a: {model: m, tools: [], %s}}\nsteps: {s: {uses: agent, with: {agent: a, prompt: x}}}\n"
	of := func(keys string) string { return strings.Replace(agent, "%s", keys, 1) }
	for _, tt := range []struct{ text, want string }{
		{"steps: {s: {uses: set, with: {a: ['${{ vars.A }}', 'x ${{ vars[\"B\"] }}']}}}\n", "A B"},
		{"steps: {s: {uses: set, with: '${{ vars }}'}}\n", ""},
		{"inputs: {n: string}\nsteps: {s: {uses: set, with: '${{ vars[inputs.n] }}'}}\n", ""},
		{"steps: {s: {uses: set, with: '${{ vars?.A ?? vars.B }}'}}\n", "B"},
		{"steps:\n  s: {uses: set, when: vars?.A != null, with: '${{ vars.A }}'}\n", ""},
		{"steps: {s: {uses: set, when: vars.A == vars.B, with: 1}}\n", "A B"},
		{"steps: {s: {uses: set, foreach: {in: ['${{ vars.A }}'], as: vars}, with: '${{ vars.x }}'}}\n", "A"},
		{"steps: {s: {uses: a.b, retry: {max_attempts: 2, when: vars.A == error.code}, on_error: {when: vars.B == error.code, do: continue}}}\n", "A B"},
		{"defaults: {retry: {tool: {when: vars.A == error.code}}}\nsteps: {s: {uses: a.b, rollback: {uses: a.c, with: {x: '${{ vars.B }}'}}}}\n", "A B"},
		{"steps: {s: {uses: loop, with: {steps: {x: {uses: set, with: '${{ vars.A }}'}}, until: vars.B == last, max_iterations: '${{ vars.C }}'}}}\n", "A B C"},
		{"steps: {s: {uses: set, with: 1}}\nfinally: {f: {uses: set, with: '${{ vars.A }}'}}\noutput: ${{ vars.B }}\n", "A B"},
		{"tools: {t.u: {description: d, steps: {x: {uses: set, with: '${{ vars.A }}'}}}}\nsteps: {s: {uses: t.u}}\n", "A"},
		{of("instructions: '${{ vars.A }}', until: vars.B == text, cwd: '${{ vars.C }}', memory: {thread: '${{ vars.D }}'}"), "A B C D"},
		{of("skills: ['${{ vars.A }}'], approval_to: ['${{ vars.B }}']"), "A B"},
		{"agents: {a: {model: m, tools: [], instructions: '${{ vars.A }}'}, b: {model: m, tools: [], instructions: '${{ vars.B }}', delegates: [a]}}\n" +
			"steps: {s: {uses: agent, with: {agent: b, prompt: x}}}\n", "A B"},
		{"agents: {a: {model: m, tools: [], instructions: '${{ vars.A }}'}}\nsteps: {s: {uses: set, with: 1}}\n", ""},
	} {
		plan := load(t, []byte(head+tt.text)).Plan()
		if got := strings.Join(plan.Requires.Vars, " "); got != tt.want {
			t.Errorf("%s%q, want %q", tt.text, got, tt.want)
		}
		if says := strings.Contains(plan.Text(), "needs vars: "+strings.ReplaceAll(tt.want, " ", ", ")+"\n"); says != (tt.want != "") {
			t.Errorf("%s\n%s", tt.text, plan.Text())
		}
	}
}

// A run has the vars of its beginning: without them it does not begin, and it goes on where there are none.
func TestVarsAreNeededToBegin(t *testing.T) {
	wf := load(t, []byte(head+"steps:\n  ask: {uses: human, with: {prompt: '${{ vars.A }}'}}\noutput: ${{ vars.A }}\n"))
	with := func(vars map[string]string) *runtime.Runtime {
		return &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Vars: vars,
			NoVars: map[string]string{"A": "somebody forgot it\n  hint: set it"}}
	}
	rt := with(nil)
	for name, begin := range map[string]func() error{
		"a run": func() error { _, err := wf.Run(t.Context(), nil, rt); return err },
		"a run in a queue": func() error {
			_, err := wf.Enqueue(t.Context(), nil, rt, nil)
			return err
		},
	} {
		err := begin()
		if e, ok := err.(*runtime.Error); !ok || e.Code != "var.missing" || !strings.Contains(err.Error(), "somebody forgot it\n  hint: set it") {
			t.Errorf("%s without the var: %v", name, err)
		}
	}
	found, err := wf.Check(t.Context(), rt)
	if err != nil || len(found) != 1 || found[0].Code != "var.missing" || found.HasErrors() {
		t.Errorf("a check: %v, %v", found, err)
	}
	full := with(map[string]string{"A": "x"})
	out, err := wf.Run(t.Context(), nil, full)
	if err != nil || out.Status != workflow.StatusPaused || len(out.Diagnostics) > 0 {
		t.Fatal(out.Status, err, out.Diagnostics)
	}
	rt.Store = full.Store
	out, err = workflow.Answer(t.Context(), out.RunID, "ask", yes, rt, &workflow.ResumeOptions{Complete: true})
	if err != nil || out.Output != "x" || len(out.Diagnostics) > 0 {
		t.Errorf("where there is no var: %s, %v, %v, %v", out.Status, out.Output, err, out.Diagnostics)
	}
}
