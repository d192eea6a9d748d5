package dry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/state"
	"github.com/braise-run/braise/internal/dry"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// What a recipe would do is shown: the payment is not made.
func ExampleRuntime() {
	r, err := recipe.Parse("shop.yaml", []byte(`
apiVersion: braise/v1
name: shop
steps:
  pay: {uses: shop.pay, with: {amount: 42}, output: {schema: {type: object, properties: {receipt: {type: string, default: none}}}}}
output: ${{ steps.pay.output.receipt }}
`))
	if err != nil {
		fmt.Println(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		fmt.Println(err)
	}
	pay := runtimetest.NewTool("shop.pay", func(context.Context, json.RawMessage) (any, error) {
		fmt.Println("it is paid")
		return nil, nil
	})
	rt := dry.Runtime(&runtime.Runtime{Tools: []runtime.Tool{pay}}, wf, nil)
	out, err := wf.Run(context.Background(), nil, rt)
	for _, e := range out.Trace {
		if e.Kind == trace.Custom && e.Data.Get("name") == dry.Event {
			fmt.Println(e.Step, e.Data.Get("data"))
		}
	}
	fmt.Println(out.Status, out.Output, err)
	// Output:
	// pay map[answer:made up arguments:map[amount:42] call:shop.pay]
	// ok none <nil>
}

// counted counts events.
type counted int

func (c *counted) Emit(trace.Event) { *c++ }

// written notes what is written to what a runtime has.
type written struct{ list []string }

func (w *written) Search(context.Context, runtime.Query) (runtime.Found, error) {
	return runtime.Found{Documents: []runtime.Document{{Text: "found"}}}, nil
}

func (w *written) Update(context.Context, runtime.Change) (runtime.Updated, error) {
	w.list = append(w.list, "index")
	return runtime.Updated{}, nil
}

func (w *written) Load(context.Context, runtime.Conversation) ([]runtime.Message, error) {
	return []runtime.Message{{Role: runtime.User, Text: "before"}}, nil
}

func (w *written) Save(context.Context, runtime.Conversation, string, []runtime.Message) error {
	w.list = append(w.list, "memory")
	return nil
}

func (w *written) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	w.list = append(w.list, "model")
	return &runtime.Response{Text: "x"}, nil
}

// A dry run reads all that a runtime has, and writes nothing.
func TestWritesNothing(t *testing.T) {
	r, err := recipe.Parse("all.yaml", []byte(`
apiVersion: braise/v1
name: all
agents: {a: {model: m, tools: [], memory: {thread: t}}}
steps:
  look: {uses: test.look}
  act: {uses: test.act, needs: [look]}
  same: {uses: test.same, needs: [act]}
  depends: {uses: test.depends, foreach: {in: [read, write]}, with: {do: "${{ item }}"}}
  found: {uses: retrieve, with: {from: cellar, query: q}}
  index: {uses: index, needs: [found], with: {into: cellar, documents: [{source: a, text: a}]}}
  ask: {uses: agent, with: {agent: a, prompt: hi}}
  draft: {uses: model, with: {model: m, prompt: hi}, output: {schema: {type: object, required: [n], properties: {n: {type: integer}}}}}
  kept: {uses: state.get, with: {key: k}}
  keep: {uses: state.put, needs: [kept], with: {key: k, value: new}}
  again: {uses: state.get, needs: [keep], with: {key: k}}
finally: {told: {uses: test.act}}
output: ["${{ steps.look.output }}", "${{ steps.act.output }}", "${{ steps.depends.output }}", "${{ steps.found.output.documents[0].text }}", "${{ steps.draft.output.n }}", "${{ steps.kept.output.value }}", "${{ steps.again.output }}"]
`))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &written{}
	act := func(name string, effect runtime.Effect) *runtimetest.Tool {
		tool := runtimetest.NewTool(name, func(_ context.Context, args json.RawMessage) (any, error) {
			if effect != runtime.ReadOnly && !strings.Contains(string(args), "read") {
				w.list = append(w.list, name)
			}
			return "real", nil
		})
		tool.ToolSpec.Effect = effect
		return tool
	}
	depends := act("test.depends", runtime.External)
	depends.ToolSpec.EffectOf = func(args json.RawMessage) runtime.Effect {
		if strings.Contains(string(args), "read") {
			return runtime.ReadOnly
		}
		return ""
	}
	store := &checkpoint.Memory{}
	if _, err := state.Put(t.Context(), store, "all", state.Write{Key: "k", Value: json.RawMessage(`"old"`)}); err != nil {
		t.Fatal(err)
	}
	answers, err := script.ParseTools("tools.yaml", []byte("tools: {test.act: [{result: from the script}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var seen counted
	rt := &runtime.Runtime{Store: store, Tools: []runtime.Tool{act("test.look", runtime.ReadOnly), act("test.act", ""), act("test.same", runtime.Idempotent), depends},
		Models: map[string]runtime.Model{"m": w}, Searchers: map[string]runtime.Searcher{"cellar": w}, Memory: w,
		Trace: []trace.Sink{&seen}}
	out, err := wf.Run(t.Context(), nil, dry.Runtime(rt, wf, answers))
	if err != nil || len(w.list) > 0 || seen > 0 {
		t.Errorf("%v; written: %q, told: %d", err, w.list, seen)
	}
	got, _ := json.Marshal(out.Output)
	if want := `["real","from the script",["real",null],"found",0,"old",{"key":"k","value":"new","version":2}]`; string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if v, err := state.Get(t.Context(), store, "all", "k"); string(v.Value) != `"old"` || err != nil {
		t.Errorf("kept: %s, %v", v.Value, err)
	}
	if runs, _ := store.List(t.Context(), checkpoint.Filter{}); len(runs) > 0 {
		t.Errorf("%d runs are in the store", len(runs))
	}
	told := map[string]int{}
	for _, e := range out.Trace {
		if e.Kind == trace.Custom {
			told[e.Step]++
		}
	}
	for _, step := range []string{"act", "same", "depends[1]", "index", "draft", "keep", "told"} {
		if told[step] != 1 {
			t.Errorf("%s was told %d times: %v", step, told[step], told)
		}
	}
	for _, step := range []string{"look", "depends[0]", "found", "kept", "again"} {
		if told[step] != 0 {
			t.Errorf("%s was told", step)
		}
	}
}
