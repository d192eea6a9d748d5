package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// batch: true makes a model answer in batches. What is asked by hand is asked at once.
func TestBatchModels(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			s := batchtest.New(t)
			dir := t.TempDir()
			config := filepath.Join(dir, "braise.yaml")
			text := fmt.Sprintf("models:\n  night: {provider: %s, model: big, base_url: %q, batch: true}\n"+
				"  day: {provider: %s, model: big, base_url: %q, batch: false}\nprices: {night: {input: 1, output: 1}}\n", provider, s.URL, provider, s.URL)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := host.Open(t.Context(), &host.Options{Config: config, Store: "sqlite:" + filepath.Join(dir, "runs.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			r, err := recipe.Parse("x.yaml", []byte("apiVersion: braise/v1\nname: x\nsteps:\n  each: {uses: model, foreach: {in: [1, 2]}, with: {model: night, prompt: \"q ${{ item }}\"}}\n"))
			if err != nil {
				t.Fatal(err)
			}
			wf, err := workflow.Compile(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			rt, err := h.Runtime(t.Context(), wf)
			if err != nil {
				t.Fatal(err)
			}
			_, night := rt.Models["night"].(runtime.PolledModel)
			_, day := rt.Models["day"].(runtime.PolledModel)
			if !night || day {
				t.Fatalf("night %T, day %T", rt.Models["night"], rt.Models["day"])
			}
			out, _ := wf.Run(t.Context(), nil, rt)
			if out.Status != workflow.StatusPaused || len(s.Batches()) != 1 {
				t.Fatalf("%s, %v, %v", out.Status, out.Err, s.Log())
			}
			out, _ = workflow.Answer(t.Context(), out.RunID, out.Pauses[0].ID, nil, rt, nil)
			want := map[string]any{"each": []any{map[string]any{"text": "re: q 1"}, map[string]any{"text": "re: q 2"}}}
			if diff := cmp.Diff(want, out.Artefact); diff != "" {
				t.Errorf("%v (-want +got):\n%s", out.Err, diff)
			}
			before := len(s.Batches())
			checks := h.CallModels(t.Context())
			i := slices.IndexFunc(checks, func(c host.Check) bool { return c.Name == "night" })
			if i < 0 || len(s.Batches()) != before || !slices.ContainsFunc(s.Log(), func(line string) bool {
				return strings.HasSuffix(line, "/completions") || line == "POST /v1/messages"
			}) {
				t.Errorf("%+v, %v", checks, s.Log())
			}
		})
	}
}

// Limits are for models that answer at once.
func TestBatchConfig(t *testing.T) {
	for text, want := range map[string]string{
		"models: {m: {provider: openai, model: x, batch: true, rpm: 5}}":          `"rpm" does not go with "batch"`,
		"models: {m: {provider: anthropic, model: x, tpm: 5, batch: true}}":       `"tpm" does not go with "batch"`,
		"models: {m: {provider: openai, model: x, batch: true, max_parallel: 5}}": `"max_parallel" does not go with "batch"`,
		"models: {m: {provider: gemini, model: x, batch: true}}":                  `the provider "gemini" takes no "batch"`,
		"models: {m: {provider: openai, model: x, batch: maybe}}":                 `"batch" must be`,
	} {
		_, err := host.ParseConfig("braise.yaml", []byte(text), environ(nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
