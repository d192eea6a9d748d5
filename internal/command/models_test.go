package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipes"
)

// A model that reads notes.md and then says what it found, in the words of three APIs.
var (
	chatAnswers = [2]string{
		`{"choices": [{"message": {"tool_calls": [{"id": "c1", "type": "function",
			"function": {"name": "file__read", "arguments": "{\"path\": \"notes.md\"}"}}]}, "finish_reason": "tool_calls"}]}`,
		`{"choices": [{"message": {"content": "Ada paints."}, "finish_reason": "stop"}]}`,
	}
	messagesAnswers = [2]string{
		`{"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "file__read",
			"input": {"path": "notes.md"}}], "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 2}}`,
		`{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Ada paints."}],
			"stop_reason": "end_turn", "usage": {"input_tokens": 20, "output_tokens": 2}}`,
	}
	geminiAnswers = [2]string{
		`{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "file__read", "args": {"path": "notes.md"}},
			"thoughtSignature": "c2ln"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}}`,
		`{"candidates": [{"content": {"role": "model", "parts": [{"text": "Ada paints."}]}, "finishReason": "STOP"}],
			"usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 2}}`,
	}
)

// Whoever has nothing but the key of a provider inits, runs, and has an answer of its model.
func TestInitAndRunWithAProvider(t *testing.T) {
	for _, p := range providers {
		t.Run(p.Name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					Model    string
					Messages []json.RawMessage
					Contents []json.RawMessage
				}
				keys, answers, called := r.Header.Get("Authorization"), chatAnswers, []byte(`"tool`)
				switch p.Provider {
				case "anthropic":
					keys, answers = "Bearer "+r.Header.Get("X-Api-Key"), messagesAnswers
				case "gemini":
					keys, answers, called = "Bearer "+r.Header.Get("X-Goog-Api-Key"), geminiAnswers, []byte(`"functionResponse"`)
				}
				if want := "Bearer sk-of-the-provider"; p.Key != "" && keys != want {
					t.Errorf("the request is authorized by %q, want %q", keys, want)
				}
				err := json.NewDecoder(r.Body).Decode(&in)
				if p.Provider == "gemini" {
					in.Messages = in.Contents
					in.Model, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/models/"), ":generateContent")
				}
				if err != nil || in.Model != p.Model {
					t.Errorf("asked for %q, %v", in.Model, err)
				}
				if bytes.Contains(in.Messages[len(in.Messages)-1], called) {
					fmt.Fprint(w, answers[1])
					return
				}
				fmt.Fprint(w, answers[0])
			}))
			defer srv.Close()
			t.Chdir(t.TempDir())
			if p.Key != "" {
				t.Setenv(p.Key, "sk-of-the-provider")
			}
			if got, stderr := command("init", "demo", "--provider", p.Name); got.Code != 0 {
				t.Fatal(stderr)
			}
			text, err := os.ReadFile("demo/braise.yaml")
			if err != nil {
				t.Fatal(err)
			}
			here := strings.Replace(string(text), fmt.Sprintf("base_url: %q", p.BaseURL), fmt.Sprintf("base_url: %q", srv.URL), 1)
			if p.BaseURL == "" {
				here = strings.Replace(here, "model: "+p.Model, fmt.Sprintf("model: %s, base_url: %q", p.Model, srv.URL), 1)
			}
			if err := os.WriteFile("demo/braise.yaml", []byte(here), 0o600); err != nil || here == string(text) {
				t.Fatalf("no address was put into %s: %v", text, err)
			}
			got, stderr := command("run", "demo", "--store", "memory:", "--quiet")
			want := "## Who does what until when?\n\nAda paints.\n\n## What is still open?\n\nAda paints.\n"
			if diff := cmp.Diff(want, got.Stdout); diff != "" || got.Code != 0 {
				t.Errorf("exit %d: %s (-want +got)\n%s", got.Code, stderr, diff)
			}
		})
	}
}

// Every template with models can be written for every provider: its configuration is valid, and names no script.
func TestInitForProviders(t *testing.T) {
	for _, template := range recipes.Names() {
		for _, p := range providers {
			files, err := templateFiles(template)
			if err != nil {
				t.Fatal(err)
			}
			models := strings.Contains(string(files[host.FileName]), "script")
			if got := useProvider(files, &p); got != models {
				t.Errorf("%s has models: %t, want %t", template, got, models)
			}
			text := files[host.FileName]
			config, err := host.ParseConfig(host.FileName, text, func(string) (string, bool) { return "sk-of-the-provider", true })
			if err != nil || strings.Contains(string(text), "script") {
				t.Errorf("%s for %s: %v\n%s", template, p.Name, err, text)
				continue
			}
			for name, m := range config.Models {
				var model, key string
				switch {
				case m.OpenAI != nil && p.Provider == "openai":
					model, key = m.OpenAI.Model, m.OpenAI.APIKey
				case m.Anthropic != nil && p.Provider == "anthropic":
					model, key = m.Anthropic.Model, m.Anthropic.APIKey
				case m.Gemini != nil && p.Provider == "gemini":
					model, key = m.Gemini.Model, m.Gemini.APIKey
				}
				if model != p.Model || (key != "") != (p.Key != "") {
					t.Errorf("%s for %s: the model %s is %+v", template, p.Name, name, m)
				}
			}
		}
	}
}

// Every template runs as it is written, with its scripts and without a key: to its end, or to a question for a person.
func TestInitRuns(t *testing.T) {
	for _, variable := range os.Environ() { // no key, and no configuration of the user
		if name, _, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "_API_KEY") || strings.HasPrefix(name, "BRAISE_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "parser: the first rule"}} { // for changelog
		args = append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Skipf("git: %v\n%s", err, out)
		}
	}
	for _, template := range recipes.Names() {
		if got, stderr := command("init", template, "--template", template); got.Code != 0 {
			t.Fatal(stderr)
		}
		t.Run(template, func(t *testing.T) {
			t.Chdir(template)
			got, stderr := command("run", "recipe.yaml", "--quiet")
			if paused := 4; got.Code != 0 && got.Code != paused {
				t.Errorf("exit %d: %s", got.Code, stderr)
			}
		})
	}
}

// The scenarios of a template need no script beside it.
func TestInitForAProviderIsTested(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, template := range []string{"starter", "evaluate"} {
		if got, stderr := command("init", template, "--template", template, "--provider", "openai"); got.Code != 0 {
			t.Fatal(stderr)
		}
		if got, stderr := command("test", template); got.Code != 0 {
			t.Errorf("%s: exit %d: %s%s", template, got.Code, got.Stdout, stderr)
		}
		if found, err := filepath.Glob(template + "/script*"); err != nil || found != nil {
			t.Errorf("there are scripts: %q, %v", found, err)
		}
	}
}

// docs/models.md has each provider as braise models has it.
func TestProvidersDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		key := "none"
		if p.Key != "" {
			key = "`" + p.Key + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s |", p.Name, key, strings.Join(p.Can, ", "))
		if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(row) + "$").Match(page) {
			t.Errorf("docs/models.md lacks the row\n%s", row)
		}
	}
}
