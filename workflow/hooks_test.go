package workflow_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const hookedRecipe = head + `steps:
  fetch: {uses: test.echo, with: {token: "${{ secrets.TOKEN }}", n: 1}}
  ask: {uses: model, needs: [fetch], with: {model: fast, prompt: Say hello.}}
  note: {uses: set, needs: [ask], with: "${{ steps.ask.output.text }}"}
output: ${{ steps.note.output }}
`

var allPoints = []runtime.Point{runtime.RunInit, runtime.StepBefore, runtime.StepAfter, runtime.ModelBefore, runtime.ModelAfter,
	runtime.ToolBefore, runtime.ToolAfter, runtime.RunFinish}

// diary is a plugin that writes down every moment.
type diary struct {
	mutex sync.Mutex
	lines []string
}

func (d *diary) plugin(key string) runtime.Plugin {
	p := runtime.Plugin{Key: key, Hooks: runtime.Hooks{}}
	for _, point := range allPoints {
		p.Hooks[point] = func(_ context.Context, m runtime.Moment) error {
			line := key + " " + string(m.Point)
			for _, s := range []string{m.Step, m.Name, m.Status} {
				if s != "" {
					line += " " + s
				}
			}
			if m.Args != nil {
				text, _ := value.JSON(m.Args)
				line += fmt.Sprintf(" args %s", text)
			}
			if m.Request != nil {
				line += " asks " + m.Request.Messages[0].Text
			}
			if m.Response != nil {
				line += " says " + m.Response.Text
			}
			if m.Output != nil {
				text, _ := value.JSON(m.Output)
				line += fmt.Sprintf(" gives %s", text)
			}
			if m.Err != nil {
				line += " fails: " + m.Err.Error()
			}
			if m.Run != "r1" {
				line += " in the run " + m.Run
			}
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.lines = append(d.lines, line)
			return nil
		}
	}
	return p
}

func hookedRuntime(plugins ...runtime.Plugin) *runtime.Runtime {
	return &runtime.Runtime{
		Models:   map[string]runtime.Model{"fast": runtimetest.Texts("hello swordfish-1")},
		Tools:    []runtime.Tool{tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { return args, nil })},
		Secrets:  runtime.SecretMap{"TOKEN": "swordfish-1"},
		Plugins:  plugins,
		NewRunID: func() string { return "r1" },
	}
}

func TestHooksSeeTheRun(t *testing.T) {
	d := new(diary)
	out, err := load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(d.plugin("a"), d.plugin("b")))
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
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("moments (-want +got)\n%s", diff)
	}
	if len(out.Diagnostics) > 0 {
		t.Errorf("diagnostics: %v", out.Diagnostics)
	}
}

// hook is a plugin with one hook.
func hook(key string, point runtime.Point, f runtime.Hook) runtime.Plugin {
	return runtime.Plugin{Key: key, Hooks: runtime.Hooks{point: f}}
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
		{"a tool", hook("guard", runtime.ToolBefore, deny), "fetch", `plugin "guard" denies the call of tool "test.echo": not on my watch`},
		{"a model", hook("guard", runtime.ModelBefore, deny), "ask", `plugin "guard" denies the call of model "fast": not on my watch`},
		{"a step", hook("guard", runtime.StepBefore, deny), "fetch", `plugin "guard" denies the step: not on my watch`},
		{"a panic before a step", hook("guard", runtime.StepBefore, boom), "fetch", `plugin "guard" denies the step: panic: boom`},
		{"a panic before a tool", hook("guard", runtime.ToolBefore, boom), "fetch", `plugin "guard" denies the call of tool "test.echo": panic: boom`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called := 0
			rt := hookedRuntime(tt.plugin)
			model := rt.Models["fast"].(*runtimetest.Model)
			rt.Tools = []runtime.Tool{tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { called++; return args, nil })}
			out, err := load(t, []byte(hookedRecipe)).Run(t.Context(), nil, rt)
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
				d := new(diary)
				out, err := load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(hook("bad", point, tt.hook), d.plugin("good")))
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
				if len(d.lines) != 12 {
					t.Errorf("the other plugin was called %d times, want 12", len(d.lines))
				}
			})
		}
	}
}

func TestHooksThatDoNotReturn(t *testing.T) {
	t.Run("ends its goroutine", func(t *testing.T) {
		for _, point := range allPoints {
			end := func(context.Context, runtime.Moment) error { goruntime.Goexit(); return nil }
			out, err := load(t, []byte(hookedRecipe)).Run(t.Context(), nil, hookedRuntime(hook("bad", point, end)))
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
		for _, point := range allPoints {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				rt := hookedRuntime(hook("bad", point, func(context.Context, runtime.Moment) error { time.Sleep(time.Hour); return nil }))
				rt.Reporter = &quiet{}
				begin := time.Now()
				out, _ := load(t, []byte(hookedRecipe)).Run(ctx, nil, rt)
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
	wf := load(t, []byte(hookedRecipe))
	host := hookedRuntime()
	rt := hookedRuntime(runtime.Plugin{Key: "kit", Models: host.Models, Tools: host.Tools})
	rt.Models, rt.Tools = nil, nil
	if out, err := wf.Run(t.Context(), nil, rt); err != nil || out.Output != "hello ***" || len(out.Diagnostics) > 0 {
		t.Errorf("output %v, error %v, diagnostics %v", out.Output, err, out.Diagnostics)
	}
}

func TestPluginFindings(t *testing.T) {
	nothing := func(context.Context, runtime.Moment) error { return nil }
	wf := load(t, []byte(head+"steps: {a: {uses: set, with: 1}}\n"))
	rt := &runtime.Runtime{Plugins: []runtime.Plugin{
		hook("guard", runtime.ToolBefore, nothing),
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
