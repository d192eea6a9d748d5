package local_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// pieces is a model that streams its answer word by word and describes itself.
type pieces struct{ text string }

func (p pieces) Metadata() runtime.Metadata {
	return runtime.Metadata{Provider: "example", Model: "pieces-1"}
}

func (p pieces) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return &runtime.Response{Text: p.text, Usage: runtime.Usage{InputTokens: 3, OutputTokens: 2}, Finish: "stop", Model: "pieces-1.2"}, nil
}

func (p pieces) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	for _, word := range strings.SplitAfter(p.text, " ") {
		emit(runtime.Delta{Text: word})
	}
	return p.Generate(ctx, req)
}

// seen lists a sink's events of steps, without the ends of steps that are not calls of tools.
func seen(w *runtest.Watcher) (list []string) {
	for _, e := range w.Events() {
		switch e.Kind {
		case trace.AdapterCall, trace.ModelEnd, trace.ModelDelta, trace.StepEnd:
			line := string(e.Kind) + " " + e.Step
			for _, a := range e.Data {
				if a.Key != "durationMs" && a.Key != "status" {
					text, _ := value.JSON(a.Value)
					line += fmt.Sprintf(" %s=%s", a.Key, text)
				}
			}
			list = append(list, line)
		}
	}
	return list
}

func TestDetails(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  fetch: {uses: test.echo, with: {token: "${{ secrets.TOKEN }}", n: 1}}
  ask: {uses: model, needs: [fetch], with: {model: fast, system: Be brief., prompt: Say hello.}}
`))
	rt := &runtime.Runtime{
		Models:  map[string]runtime.Model{"fast": pieces{"hello swordfish-1 you"}},
		Tools:   []runtime.Tool{runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { return args, nil })},
		Secrets: runtime.SecretMap{"TOKEN": "swordfish-1"},
	}
	const (
		tool  = `adapter.call fetch kind="tool" name="test.echo"`
		model = ` kind="model" model="pieces-1" name="fast" provider="example"`
		end   = ` finish="stop" model="pieces-1.2" usage={"input_tokens":3,"output_tokens":2}`
	)
	for _, tt := range []struct {
		name   string
		detail trace.Detail
		want   []string
	}{
		{"none", trace.Detail{}, []string{tool, "step.end fetch", "adapter.call ask" + model, "model.end ask" + end, "step.end ask"}},
		{"content", trace.Detail{Content: true}, []string{
			`adapter.call fetch content={"n":1,"token":"***"} kind="tool" name="test.echo"`,
			`step.end fetch content={"n":1,"token":"***"}`,
			`adapter.call ask content={"messages":[{"role":"system","text":"Be brief."},{"role":"user","text":"Say hello."}]}` + model,
			`model.end ask content={"text":"hello *** you"}` + end,
			"step.end ask",
		}},
		{"deltas", trace.Detail{Deltas: true}, []string{tool, "step.end fetch", "adapter.call ask" + model,
			`model.delta ask text="hello *** you"`, "model.end ask" + end, "step.end ask"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &runtest.Watcher{Level: tt.detail}
			with := *rt
			with.Trace = []trace.Sink{w}
			out, err := wf.Run(t.Context(), nil, &with)
			if err != nil {
				t.Fatal(err)
			}
			got := seen(w)
			if tt.detail.Deltas { // what is held back for the secret's sake comes in two pieces
				got = joined(got)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
			kept := &runtest.Watcher{}
			for _, e := range out.Trace {
				kept.Emit(e)
			}
			if diff := cmp.Diff([]string{tool, "step.end fetch", "adapter.call ask" + model, "model.end ask" + end, "step.end ask"}, seen(kept)); diff != "" {
				t.Errorf("the outcome's trace (-want +got)\n%s", diff)
			}
		})
	}
}

// What goes into an agent's model is shown without secrets, with who provides the model.
func TestDetailsOfAgents(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  fetch: {uses: test.echo, with: {token: "${{ secrets.TOKEN }}"}}
  ask: {uses: agent, needs: [fetch], with: {agent: {model: fast, tools: [], instructions: It is swordfish-1.}, prompt: Say hello.}}
`))
	w := &runtest.Watcher{Level: trace.Detail{Content: true}}
	_, err := wf.Run(t.Context(), nil, &runtime.Runtime{
		Models:  map[string]runtime.Model{"fast": pieces{"hello swordfish-1 you"}},
		Tools:   []runtime.Tool{runtest.Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) { return args, nil })},
		Secrets: runtime.SecretMap{"TOKEN": "swordfish-1"},
		Trace:   []trace.Sink{w},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range w.Events() {
		if e.Kind == "model.start" || e.Kind == trace.ModelEnd {
			got = append(got, e.Line())
		}
	}
	want := []string{
		`model.start ask content={"messages":[{"role":"system","text":"It is ***."},{"role":"user","text":"Say hello."}]} messages=2 model=fast provider=example providerModel=pieces-1 step=1`,
		`model.end ask content={"role":"assistant","text":"hello *** you"} finish=stop model=pieces-1.2 usage={"input_tokens":3,"output_tokens":2}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

// The pieces of an agent's answer come between its model.start and its model.end, and add up to the answer that it
// gives without them: the outcome is the same.
func TestAgentsStream(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  ask: {uses: agent, with: {agent: {model: fast}, prompt: Say hello.}}
output: ${{ steps.ask.output.text }}
`))
	const answer = "hello to you all"
	run := func(sinks ...trace.Sink) *workflow.Outcome {
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": pieces{answer}}, Trace: sinks})
		if err != nil || out.Output != answer {
			t.Fatal(err, out.Output)
		}
		return out
	}
	w := &runtest.Watcher{Level: trace.Detail{Deltas: true}}
	streamed, plain := run(w), run()
	if diff := cmp.Diff(runtest.Lines(plain), runtest.Lines(streamed)); diff != "" {
		t.Errorf("the outcomes' traces (-plain +streamed):\n%s", diff)
	}
	open, text := false, ""
	for _, e := range w.Events() {
		switch e.Kind {
		case "model.start":
			open = true
		case trace.ModelEnd:
			open = false
		case trace.ModelDelta:
			if piece, _ := e.Data.Get("text").(string); open && e.Step == "ask" {
				text += piece
			}
		}
	}
	if text != answer || open {
		t.Errorf("the pieces add up to %q", text)
	}
}

// joined joins model.delta events that follow each other.
func joined(list []string) (out []string) {
	const delta = `model.delta ask text="`
	for _, line := range list {
		if n := len(out); n > 0 && strings.HasPrefix(line, delta) && strings.HasPrefix(out[n-1], delta) {
			out[n-1] = strings.TrimSuffix(out[n-1], `"`) + strings.TrimPrefix(line, delta)
			continue
		}
		out = append(out, line)
	}
	return out
}
