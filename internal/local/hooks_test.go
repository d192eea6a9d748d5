package local_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const hookedRecipe = runtest.Head + `steps:
  fetch: {uses: test.echo, with: {token: "${{ secrets.TOKEN }}", n: 1}}
  ask: {uses: model, needs: [fetch], with: {model: fast, prompt: Say hello.}}
  note: {uses: set, needs: [ask], with: "${{ steps.ask.output.text }}"}
output: ${{ steps.note.output }}
`

func hookedRuntime(plugins ...runtime.Plugin) *runtime.Runtime {
	return &runtime.Runtime{
		Models:   map[string]runtime.Model{"fast": runtimetest.Texts("hello swordfish-1")},
		Tools:    []runtime.Tool{runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { return args, nil })},
		Secrets:  runtime.SecretMap{"TOKEN": "swordfish-1"},
		Plugins:  plugins,
		NewRunID: func() string { return "r1" },
	}
}

func TestHooksSeeTheRun(t *testing.T) {
	d := new(runtest.Diary)
	out, err := runtest.Load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(d.Plugin("a"), d.Plugin("b")))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range []string{
		"run.init",
		"step.before fetch",
		`tool.before fetch test.echo args {"n":1,"token":"***"}`,
		`tool.after fetch test.echo args {"n":1,"token":"***"} gives {"n":1,"token":"***"}`,
		`step.after fetch succeeded gives {"n":1,"token":"***"}`,
		"step.before ask",
		"model.before ask fast asks Say hello.",
		"model.after ask fast asks Say hello. says hello ***",
		`step.after ask succeeded gives {"text":"hello ***"}`,
		"step.before note",
		`step.after note succeeded gives "hello ***"`,
		`run.finish ok gives "hello ***"`,
	} {
		want = append(want, "a "+line, "b "+line) // in registration order
	}
	if diff := cmp.Diff(want, d.Lines); diff != "" {
		t.Errorf("moments (-want +got)\n%s", diff)
	}
	if len(out.Diagnostics) > 0 {
		t.Errorf("diagnostics: %v", out.Diagnostics)
	}
}

func TestHooksDenyCalls(t *testing.T) {
	boom := func(context.Context, runtime.Moment) error { panic("boom") }
	no := errors.New("not on my watch")
	deny := func(context.Context, runtime.Moment) error { return no }
	for _, tt := range []struct {
		name   string
		plugin runtime.Plugin
		step   string
		want   string
	}{
		{"a tool", runtest.Hook("guard", runtime.ToolBefore, deny), "fetch", `plugin "guard" denies the call of tool "test.echo": not on my watch`},
		{"a model", runtest.Hook("guard", runtime.ModelBefore, deny), "ask", `plugin "guard" denies the call of model "fast": not on my watch`},
		{"a step", runtest.Hook("guard", runtime.StepBefore, deny), "fetch", `plugin "guard" denies the step: not on my watch`},
		{"a panic before a step", runtest.Hook("guard", runtime.StepBefore, boom), "fetch", `plugin "guard" denies the step: panic: boom`},
		{"a panic before a tool", runtest.Hook("guard", runtime.ToolBefore, boom), "fetch", `plugin "guard" denies the call of tool "test.echo": panic: boom`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called := 0
			rt := hookedRuntime(tt.plugin)
			model := rt.Models["fast"].(*runtimetest.Model)
			rt.Tools = []runtime.Tool{runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { called++; return args, nil })}
			out, err := runtest.Load(t, []byte(hookedRecipe)).Run(t.Context(), nil, rt)
			e := out.Failure()
			if e == nil || e.Category != runtime.CategoryConfirmation || e.Code != "hook.denied" || e.Step != tt.step || e.Err.Error() != tt.want {
				t.Fatalf("error %+v, %v", e, err)
			}
			if strings.HasSuffix(tt.want, no.Error()) != errors.Is(err, no) {
				t.Errorf("errors.Is: %v", err)
			}
			if tt.step == "fetch" && called > 0 || len(model.Requests()) > 0 {
				t.Errorf("the tool was called %d times, the model %d times", called, len(model.Requests()))
			}
		})
	}
}

// Hooks that only observe change nothing, whatever they do.
func TestHooksThatFailAreReported(t *testing.T) {
	for _, tt := range []struct {
		name string
		hook runtime.Hook
		want string // in the message
	}{
		{"error", func(context.Context, runtime.Moment) error { return errors.New("no disk") }, "no disk"},
		{"panic", func(context.Context, runtime.Moment) error { panic("boom") }, "panic: boom"},
	} {
		for _, point := range []runtime.Point{runtime.RunInit, runtime.StepAfter, runtime.ModelAfter, runtime.ToolAfter, runtime.RunFinish} {
			t.Run(tt.name+" at "+string(point), func(t *testing.T) {
				d := new(runtest.Diary)
				out, err := runtest.Load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(runtest.Hook("bad", point, tt.hook), d.Plugin("good")))
				if err != nil || out.Output != "hello ***" {
					t.Fatalf("output %v, error %v", out.Output, err)
				}
				want := map[runtime.Point][]string{runtime.StepAfter: {"fetch", "ask", "note"},
					runtime.ModelAfter: {"ask"}, runtime.ToolAfter: {"fetch"}}[point]
				if want == nil {
					want = []string{""}
				}
				var got []string
				for _, e := range out.Diagnostics {
					if e.Code != diagnostics.CodeHookFailed || e.Level != diagnostics.Warn || !strings.Contains(e.Message, `hook "`+string(point)+`" of plugin "bad" failed: `+tt.want) {
						t.Errorf("diagnostic %+v", e)
					}
					got = append(got, e.Step)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("steps (-want +got)\n%s", diff)
				}
				if len(d.Lines) != 12 {
					t.Errorf("the other plugin was called %d times, want 12", len(d.Lines))
				}
			})
		}
	}
}

func TestHooksThatDoNotReturn(t *testing.T) {
	t.Run("ends its goroutine", func(t *testing.T) {
		for _, point := range runtest.AllPoints {
			end := func(context.Context, runtime.Moment) error { goruntime.Goexit(); return nil }
			out, err := runtest.Load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(runtest.Hook("bad", point, end)))
			switch {
			case point == runtime.StepBefore:
				if e := out.Failure(); e == nil || e.Code != "hook.denied" {
					t.Errorf("%s: error %v", point, err)
				}
			case strings.HasPrefix(string(point), "tool") || strings.HasPrefix(string(point), "model"):
				if e := out.Failure(); e == nil || e.Code != "step.panic" {
					t.Errorf("%s: error %v", point, err)
				}
			case err != nil || len(out.Diagnostics) == 0:
				t.Errorf("%s: error %v, diagnostics %v", point, err, out.Diagnostics)
			}
		}
	})
	t.Run("hangs", func(t *testing.T) {
		for _, point := range runtest.AllPoints {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				rt := hookedRuntime(runtest.Hook("bad", point, func(context.Context, runtime.Moment) error { time.Sleep(time.Hour); return nil }))
				rt.Reporter = &runtest.Quiet{}
				begin := time.Now()
				out, _ := runtest.Load(t, []byte(hookedRecipe)).Run(ctx, nil, rt)
				want := workflow.StatusCancelled
				if point == runtime.RunFinish {
					want = workflow.StatusOK
				}
				if took := time.Since(begin); out.Status != want || took > time.Minute+11*time.Second {
					t.Errorf("%s: status %s after %v: %v", point, out.Status, took, out.Err)
				}
				time.Sleep(2 * time.Hour) // what was left behind returns
			})
		}
	})
}

func TestPluginsBringModelsAndTools(t *testing.T) {
	wf := runtest.Load(t, []byte(hookedRecipe))
	host := hookedRuntime()
	rt := hookedRuntime(runtime.Plugin{Key: "kit", Models: host.Models, Tools: host.Tools})
	rt.Models, rt.Tools = nil, nil
	if out, err := wf.Run(t.Context(), nil, rt); err != nil || out.Output != "hello ***" || len(out.Diagnostics) > 0 {
		t.Errorf("output %v, error %v, diagnostics %v", out.Output, err, out.Diagnostics)
	}
}

func TestPluginFindings(t *testing.T) {
	nothing := func(context.Context, runtime.Moment) error { return nil }
	wf := runtest.Load(t, []byte(runtest.Head+"steps: {a: {uses: set, with: 1}}\n"))
	rt := &runtime.Runtime{Plugins: []runtime.Plugin{
		runtest.Hook("guard", runtime.ToolBefore, nothing),
		{Key: "search", Requires: []runtime.Requirement{{Kind: runtime.RequireTool, Name: "web.search"}, {Kind: runtime.RequireSecret, Name: "KEY"}}},
		{Key: "guard"},
	}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`warn plugin.dropped`, `warn plugin.requirement`, `warn plugin.requirement`, `warn plugin.lifecycleNotScheduled`,
	}
	var got []string
	for _, d := range out.Diagnostics {
		got = append(got, fmt.Sprintf("%s %s", d.Level, d.Code))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got)\n%s", diff)
	}
	rt.Diagnostics = diagnostics.Strict
	if out, err := wf.Run(t.Context(), nil, rt); err == nil || out.Failure().Code != string(diagnostics.CodeStrict) || len(out.Artefact) > 0 {
		t.Errorf("strict: %v", err)
	}
}
