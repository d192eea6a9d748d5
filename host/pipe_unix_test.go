//go:build unix

package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/braise-run/braise/adapters/skills"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/scenario"
	"github.com/braise-run/braise/workflow"
)

// A pipe is refused wherever a file is read, and not waited for: trust 6.10.
func TestPipesAreRefused(t *testing.T) {
	const head = "apiVersion: braise/v1\nname: x\n"
	pipeIn := func(t *testing.T, name string, files map[string]string) string {
		dir := t.TempDir()
		files[name] = ""
		for file, text := range files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			var err error
			if file == name {
				err = syscall.Mkfifo(path, 0o600)
			} else {
				err = os.WriteFile(path, []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	load := func(dir string) error { _, err := host.LoadRecipe(filepath.Join(dir, "recipe.yaml")); return err }
	for _, tt := range []struct {
		name, pipe string
		files      map[string]string
		read       func(dir string) error
	}{
		{"a recipe", "recipe.yaml", map[string]string{}, load},
		{"a ref", "other.yaml", map[string]string{"recipe.yaml": head + "steps:\n  a: {uses: recipe, with: {ref: other.yaml}}\n"}, load},
		{"a prompt", "prompt.md", map[string]string{"recipe.yaml": head + "steps:\n  a: {uses: model, with: {model: m, prompt: {file: prompt.md}}}\n"}, load},
		{"an agent", "agents/x.md", map[string]string{"recipe.yaml": head + "steps:\n  a: {uses: set, with: {x: 1}}\n"}, load},
		{"a configuration", "braise.yaml", map[string]string{},
			func(dir string) error { _, err := host.LoadConfig(filepath.Join(dir, "braise.yaml")); return err }},
		{"a script", "script.yaml", map[string]string{"braise.yaml": "models: {m: {provider: script, file: script.yaml}}\n"},
			func(dir string) error {
				_, err := host.Open(t.Context(), &host.Options{Config: filepath.Join(dir, "braise.yaml")})
				return err
			}},
		{"a cassette", "cassette.jsonl", map[string]string{},
			func(dir string) error {
				_, err := host.Replay(&runtime.Runtime{}, filepath.Join(dir, "cassette.jsonl"), &workflow.Plan{})
				return err
			}},
	} {
		t.Run("trust 6.10 "+tt.name, func(t *testing.T) {
			err := tt.read(pipeIn(t, tt.pipe, tt.files))
			wrong, ok := errors.AsType[*diagnostics.Error](err)
			if !ok || wrong.List[0].Code != "recipe.file" || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("trust 6.10 a skill", func(t *testing.T) {
		dir := pipeIn(t, "dig/SKILL.md", map[string]string{})
		if _, err := skills.Dir(dir).Load(t.Context(), []string{"dig"}); err == nil || !strings.Contains(err.Error(), "it is not a file") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("trust 6.10 a scenario", func(t *testing.T) {
		if _, err := scenario.Check(t.Context(), filepath.Join(pipeIn(t, "x.txtar", map[string]string{}), "x.txtar"), nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("error %v", err)
		}
	})
}
