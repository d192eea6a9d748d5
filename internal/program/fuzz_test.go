package program_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// recipesHere returns the text of the recipes in the scenarios and among those that we ship.
func recipesHere(tb testing.TB) (texts []string) {
	for _, pattern := range []string{"../../testdata/scenarios/*.txtar", "../../recipes/*/recipe.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			tb.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				tb.Fatal(err)
			}
			if _, rest, ok := strings.Cut(string(text), "-- recipe.yaml --\n"); ok {
				rest, _, _ = strings.Cut(rest, "\n-- ")
				text = []byte(rest)
			}
			texts = append(texts, string(text))
		}
	}
	if len(texts) < 50 {
		tb.Fatalf("only %d recipes", len(texts))
	}
	return texts
}

// FuzzCompile takes any text as far as it goes: read, compile, show, run. Nothing panics, and every
// run has an outcome.
func FuzzCompile(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, text := range recipesHere(f) {
		f.Add(text)
	}
	sub := runtest.Head + "inputs: {n: {type: integer, default: 1}}\nsteps:\n  s: {uses: set, with: \"${{ inputs.n }}\"}\noutput: ${{ steps.s.output }}\n"
	f.Fuzz(func(t *testing.T, text string) {
		r, _ := recipe.Load(fstest.MapFS{"recipe.yaml": {Data: []byte(text)}, "sub.yaml": {Data: []byte(sub)}}, "recipe.yaml")
		if r == nil {
			return
		}
		wf, err := workflow.Compile(r, &workflow.Options{Tools: []runtime.ToolSpec{runtest.Lookup.Spec()}})
		if (wf == nil) != (err != nil) {
			t.Fatalf("Compile gave %v and %v", wf, err)
		}
		if err != nil {
			return
		}
		plan := wf.Plan()
		if _, err := plan.JSON(); err != nil || plan.Text()+plan.Mermaid()+plan.DOT() == "" {
			t.Fatal(err)
		}
		events := &trace.Recorder{}
		rt := &runtime.Runtime{
			Models: map[string]runtime.Model{}, Secrets: runtime.SecretMap{}, Trace: []trace.Sink{events}, Reporter: &runtest.Quiet{},
			Limits: runtime.Limits{Grace: time.Second, MaxItems: 100, MaxOutputBytes: 1 << 16, MaxRunBytes: 1 << 18},
		}
		for _, name := range plan.Requires.Tools {
			rt.Tools = append(rt.Tools, runtest.JSONTool{Name: name, F: runtest.Echo.(runtest.JSONTool).F})
		}
		for _, name := range plan.Requires.Models {
			rt.Models[name] = runtimetest.Texts("text", "{}", "[]", "1")
		}
		for _, name := range plan.Requires.Secrets {
			rt.Secrets.(runtime.SecretMap)[name] = "secret of " + name
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, err := wf.Run(ctx, nil, rt)
		if out == nil || out.Err != err || (err == nil) != (out.Status == workflow.StatusOK || out.Status == workflow.StatusPaused) {
			t.Fatalf("Run gave %+v and %v", out, err)
		}
		if e := out.Failure(); e != nil && (e.Code == "engine.panic" || e.Category == "" || e.Code == "") {
			t.Fatalf("%s %s: %v", e.Category, e.Code, e)
		}
		if _, err := json.Marshal(out); err != nil {
			t.Fatal(err)
		}
		last := len(out.Trace) - 1
		if out.Trace[0].Kind != trace.RunStart || out.Trace[last].Kind != trace.RunEnd || len(events.Events()) > last+1 {
			t.Fatalf("%d live events, trace %q", len(events.Events()), runtest.Lines(out))
		}
	})
}
