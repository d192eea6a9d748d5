package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Every kind of this version and every built-in tool has an example. It compiles without a diagnostic, is laid out as fmt
// would, and runs.
func TestExamples(t *testing.T) {
	fast, err := script.Parse("answers.yaml", []byte("turns: [{json: {kind: billing}}]"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "owls.md"), []byte("Owls fly."), 0o644); err != nil {
		t.Fatal(err)
	}
	manual := retriever.SQLite(filepath.Join(dir, "manual.db"), retriever.DatabaseOptions{})
	rt := &runtime.Runtime{Resume: resume.PassThrough{},
		Models: map[string]runtime.Model{"fast": fast}, Memory: new(memory.Memory), Retriever: retriever.New(dir, retriever.Options{}),
		Searchers: map[string]runtime.Searcher{"manual": manual}, Files: builtin.Files(builtin.FileOptions{Base: dir}),
		Tools: builtin.Tools(builtin.Options{File: &builtin.FileOptions{Base: dir}}), Store: &checkpoint.Memory{},
	}
	wantOutput := map[string]any{
		"set":        map[string]any{"text": "Hello, World!", "letters": int64(5)},
		"model":      "billing",
		"agent":      "billing",
		"recipe":     []any{int64(1), int64(4), int64(9)},
		"fail":       int64(20),
		"fork":       int64(3),
		"send":       int64(42),
		"receive":    int64(42),
		"say":        "Hello, Ada.",
		"state.get":  []any{},
		"state.put":  int64(1),
		"file.write": int64(14),
		"index":      map[string]any{"added": int64(1), "updated": int64(0), "deleted": int64(0), "skipped": int64(0)},
	}
	for _, e := range entries(rt) {
		t.Run(e.Name, func(t *testing.T) {
			r, err := recipe.Parse(e.Name+".yaml", []byte(e.Example))
			if err != nil {
				t.Fatal(err)
			}
			wf, err := workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()})
			if err != nil {
				t.Fatal(err)
			}
			found, err := wf.Check(t.Context(), rt)
			if err != nil || len(found) > 0 {
				t.Errorf("Check: %v %v", found, err)
			}
			if !strings.Contains(e.Example, "uses: "+e.Name+"\n") {
				t.Errorf("no step uses %s", e.Name)
			}
			if text, err := recipe.Format(e.Name+".yaml", []byte(e.Example)); err != nil || string(text) != e.Example {
				t.Errorf("fmt would write:\n%s%v", text, err)
			}
			want, runs := wantOutput[e.Name]
			if !runs { // it needs the world
				return
			}
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.Output); diff != "" {
				t.Errorf("output (-want +got)\n%s", diff)
			}
		})
	}
}
