package execution_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// nobody is an Approver that is never asked.
type nobody struct{ runtime.Approver }

// trust 4.1: conflicts of what is offered, and pauses that nobody could end, stop a strict run before its first step.
func TestStrictConflicts(t *testing.T) {
	const plain = "steps: {a: {uses: test.echo, with: {n: 1}}}\n"
	models := map[string]runtime.Model{"m": runtimetest.Texts("x")}
	tools := []runtime.Tool{runtest.Echo}
	for _, tt := range []struct {
		name, steps string
		rt          runtime.Runtime
		code        diagnostics.Code
	}{
		{"a provider that nobody offers, without plugins", plain, runtime.Runtime{Tools: tools,
			Providers: map[string]string{"model:fast": "nobody"}}, "provider.unknown"},
		{"two plugins", plain, runtime.Runtime{Tools: tools,
			Plugins: []runtime.Plugin{{Key: "a", Models: models}, {Key: "b", Models: models}}}, "provider.conflict"},
		{"a plugin whose slot is taken", plain, runtime.Runtime{Tools: tools,
			Plugins: []runtime.Plugin{{Key: "a"}, {Key: "b", OverrideKey: "a"}}}, "plugin.dropped"},
		{"a plugin that overrides nothing", plain, runtime.Runtime{Tools: tools,
			Plugins: []runtime.Plugin{{Key: "a"}, {Key: "b", Mode: runtime.Override, OverrideKey: "aa"}}}, "plugin.overridesNothing"},
		{"a tool of host and plugin", plain, runtime.Runtime{Tools: tools,
			Plugins: []runtime.Plugin{{Key: "a", Tools: tools}}}, "tool.shadowed"},
		{"a tool twice", plain, runtime.Runtime{Tools: []runtime.Tool{runtest.Echo, runtest.Echo}}, "tool.shadowed"},
		{"an option that the model does not take", "steps: {a: {uses: model, with: {model: m, prompt: hi, images: ['https://example.com/a.png']}}}\n",
			runtime.Runtime{Models: models}, "model.option"},
		{"an option of an agent", "agents: {one: {model: m, tools: [], tool_choice: none}}\n" +
			"steps: {a: {uses: agent, with: {prompt: go}}}\n", runtime.Runtime{Models: models}, "model.option"},
		{"a question", "steps: {a: {uses: human, with: {prompt: Really?, decisions: [yes]}}}\n", runtime.Runtime{},
			"resume.noAdapter"},
		{"an event", "steps: {a: {uses: wait, with: {event: paid}}}\n", runtime.Runtime{}, "resume.noAdapter"},
		{"a call whose outcome may be unknown", "steps: {a: {uses: test.echo, with: {}, on_indeterminate: pause}}\n",
			runtime.Runtime{Tools: tools}, "resume.noAdapter"},
		{"a limit of a step", "steps: {a: {uses: test.echo, with: {}, limits: {tokens: 9, on_exceeded: pause}}}\n",
			runtime.Runtime{Tools: tools}, "resume.noAdapter"},
		{"a limit of the run", "limits: {tokens: 9, on_exceeded: pause}\n" + plain, runtime.Runtime{Tools: tools},
			"resume.noAdapter"},
		{"an approval", "agents: {one: {model: m, tools: [test.echo], approval: {test.echo: pause}}}\n" +
			"steps: {a: {uses: agent, with: {prompt: go}}}\n", runtime.Runtime{Tools: tools, Models: models},
			"resume.noAdapter"},
		{"a question of an agent", "agents: {one: {model: m, tools: [human.ask]}}\n" +
			"steps: {a: {uses: agent, with: {prompt: go}}}\n", runtime.Runtime{Models: models}, "resume.noAdapter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+tt.steps))
			out, _ := wf.Run(t.Context(), nil, &tt.rt)
			i := slices.IndexFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool { return d.Code == tt.code })
			if i < 0 || out.Diagnostics[i].Kind != diagnostics.KindContract || out.Diagnostics[i].Level != diagnostics.Warn {
				t.Errorf("found %v, want the contract warning %s", out.Diagnostics, tt.code)
			}
			tt.rt.Diagnostics = diagnostics.Strict
			out, _ = wf.Run(t.Context(), nil, &tt.rt)
			if e := out.Failure(); e == nil || e.Code != "strict.failed" || len(out.Artefact) > 0 {
				t.Errorf("strict: %v", out.Err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		wf := runtest.Load(t, []byte(runtest.Head+`agents: {one: {model: m, tools: [test.echo], approval: {test.echo: pause}}}
steps: {a: {uses: agent, with: {prompt: go}}, b: {uses: wait, with: {duration: 1ms}}}
`))
		for name, rt := range map[string]*runtime.Runtime{
			"with an adapter":  {Resume: resume.PassThrough{}},
			"with an approver": {Approver: nobody{}},
		} {
			rt.Models, rt.Tools, rt.Diagnostics = models, tools, diagnostics.Strict
			if list, err := wf.Check(t.Context(), rt); err != nil || len(list) > 0 {
				t.Errorf("%s: %v, %v", name, list, err)
			}
		}
	})
}

// trust 4.1: a recipe can require what the host has beside models and tools.
func TestRequiredPorts(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"requires: {capabilities: [store, cache, resume, trace]}\nsteps: {a: {uses: set, with: 1}}\n"))
	missing := func(rt *runtime.Runtime) (names []string) {
		list, err := wf.Check(t.Context(), rt)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			names = append(names, d.Message)
		}
		return names
	}
	if got := missing(&runtime.Runtime{Store: &checkpoint.Memory{}, Cache: &checkpoint.MemoryCache{}, Resume: resume.PassThrough{},
		Trace: []trace.Sink{new(trace.Recorder)}}); got != nil {
		t.Errorf("with all of them: %q", got)
	}
	want := []string{`no capability named "cache" is configured; the recipe requires it`,
		`no capability named "resume" is configured; the recipe requires it`,
		`no capability named "store" is configured; the recipe requires it`, `no capability named "trace" is configured; the recipe requires it`}
	if diff := cmp.Diff(want, missing(&runtime.Runtime{})); diff != "" {
		t.Errorf("without (-want +got)\n%s", diff)
	}
}

// trust 4.1: the reporter hears each diagnostic once: of the compile, of what is missing, of the run, of a refusal.
func TestReporterHearsFindings(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  maybe: {uses: set, when: "run.id == ''", with: {n: 1}}
  reads: {uses: set, trigger: all_done, with: "${{ steps.maybe.output.n }}", on_error: continue}
  gone: {uses: test.gone, on_error: continue, rollback: {uses: test.gone}}
`))
	log := &runtest.Quiet{}
	out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Reporter: log})
	var want []string
	for _, d := range out.Diagnostics {
		want = append(want, d.Message)
	}
	if len(want) < 2 {
		t.Fatalf("found %q", want)
	}
	if diff := cmp.Diff(want, log.Coded); diff != "" || log.Texts != nil {
		t.Errorf("heard %q and (-want +got)\n%s", log.Texts, diff)
	}
	log = &runtest.Quiet{}
	_, _ = workflow.Resume(t.Context(), "no token", nil, &runtime.Runtime{Reporter: log, Resume: resume.PassThrough{}}, nil)
	if diff := cmp.Diff([]string{"the token is unknown, used or expired"}, log.Coded); diff != "" {
		t.Errorf("refused (-want +got)\n%s", diff)
	}
}
