package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

// trust 8.6: a run does not write the configuration in use, what that names, the recipe with its agents and sub-recipes,
// the store, and a cassette.
func TestRunsDoNotWriteWhatConfiguresThem(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"my.yaml":          "tools: {file: {base: .}}\nstore: sqlite:runs.db\nskills: skills\ninstructions_from: [HOUSE.md]\nmodels: {m: {provider: script, file: script.yaml}}\n",
		"HOUSE.md":         "Be kind.",
		"script.yaml":      "turns: [{text: done}]\n",
		"skills/k/note.md": "x",
		"recipe.yaml":      "apiVersion: braise/v1\nname: r\ninputs: {path: string}\nagents: {a: {model: m, instructions: {file: text.md}}}\nsteps:\n  sub: {uses: recipe, with: {ref: sub.yaml}}\n  w: {uses: file.write, with: {path: \"${{ inputs.path }}\", content: new}}\n  ask: {uses: agent, needs: [w], with: {agent: a, prompt: go}}\n",
		"text.md":          "You help.",
		"agents/b.md":      "---\nmodel: m\n---\nYou too.",
		"sub.yaml":         "apiVersion: braise/v1\nname: sub\nsteps: {one: {uses: set, with: {value: 1}}}\noutput: 1\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.Open(t.Context(), &host.Options{Config: filepath.Join(dir, "my.yaml"), Recipe: filepath.Join(dir, "recipe.yaml"), Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.Keep(filepath.Join(dir, "tape.json"), "")
	wf, err := h.Load(t.Context(), filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := h.Runtime(t.Context(), wf)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string) error {
		_, err := wf.Run(t.Context(), map[string]any{"path": path}, rt)
		return err
	}
	for _, path := range []string{"my.yaml", "HOUSE.md", "script.yaml", "skills/k/note.md", "skills/new/SKILL.md", "recipe.yaml", "text.md", "agents/b.md", "agents/new.md", "agents/deep/new.md", "sub.yaml", "runs.db", "runs.db-wal", "tape.json"} {
		if err := write(path); err == nil || !strings.Contains(err.Error(), "may not be written") {
			t.Errorf("%s: %v", path, err)
		}
		if text, known := files[path]; known {
			if content, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(content) != text {
				t.Errorf("%s holds %q, %v", path, content, err)
			}
		}
	}
	for _, path := range []string{"new.yaml", "work/out.txt"} {
		if err := write(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// trust 8.6: a run that is resumed with the configuration of its beginning, from a folder that has none, writes neither
// that, nor its recipe, whose files only the store knows, nor the store, nor what the host was told to keep.
func TestResumedRunsDoNotWriteWhatConfiguresThem(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	files := map[string]string{
		"my.yaml":   "tools: {file: {base: .}}\n",
		"tape.json": "{}",
		"sub.yaml":  "apiVersion: braise/v1\nname: sub\nsteps: {one: {uses: set, with: {value: 1}}}\noutput: 1\n",
		"recipe.yaml": `apiVersion: braise/v1
name: r
inputs: {path: string}
steps:
  sub: {uses: recipe, with: {ref: sub.yaml}}
  ask: {uses: human, with: {prompt: "Go?"}}
  w: {uses: file.write, needs: [ask, sub], with: {path: "${{ inputs.path }}", content: new}}
`,
	}
	for name, text := range files {
		write(t, name, text)
	}
	store := "sqlite:" + filepath.Join(home, "runs.db")
	h, wf := opened(t, &host.Options{Config: "my.yaml", Recipe: "recipe.yaml", Store: store})
	paths := []string{"my.yaml", "recipe.yaml", "agents/new.md", "sub.yaml", "runs.db", "runs.db-wal", "tape.json", "free.txt"}
	tokens := map[string]string{}
	for _, path := range paths {
		out := h.Run(t.Context(), wf, map[string]any{"path": path})
		if out.Status != workflow.StatusPaused {
			t.Fatalf("%s: %v", path, out.Err)
		}
		tokens[path] = out.Token
	}

	t.Chdir(t.TempDir())
	elsewhere, err := host.Open(t.Context(), &host.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	elsewhere.Keep(filepath.Join(home, "tape.json"))
	for _, path := range paths {
		out := elsewhere.Resume(t.Context(), tokens[path], approved, nil)
		if refused := out.Err != nil && strings.Contains(out.Err.Error(), "may not be written"); refused == (path == "free.txt") {
			t.Errorf("%s: %s, %v", path, out.Status, out.Err)
		}
		if text, known := files[path]; known {
			if content, err := os.ReadFile(filepath.Join(home, path)); err != nil || string(content) != text {
				t.Errorf("%s holds %q, %v", path, content, err)
			}
		}
	}
}
