package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
)

// build makes a Runtime of a configuration in dir.
func build(t testing.TB, dir, text string, env map[string]string) (*runtime.Runtime, error) {
	t.Helper()
	c, err := host.ParseConfig("braise.yaml", []byte(text), environ(env))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := c.Runtime(dir)
	if err == nil {
		if err := rt.Validate(); err != nil {
			t.Errorf("not valid: %v", err)
		}
	}
	return rt, err
}

func ask(t testing.TB, rt *runtime.Runtime, model string) string {
	t.Helper()
	resp, err := rt.Models[model].Generate(t.Context(), &runtime.Request{Step: "s", Call: 1, StepCall: 1, Model: model,
		Messages: []runtime.Message{{Role: runtime.User, Text: "hi"}}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Text
}

func call(t testing.TB, rt *runtime.Runtime, tool, args string) (map[string]any, error) {
	t.Helper()
	for _, candidate := range rt.Tools {
		if candidate.Spec().Name == tool {
			out, err := candidate.Call(t.Context(), json.RawMessage(args))
			if err != nil {
				return nil, err
			}
			var result map[string]any
			if err := json.Unmarshal(out, &result); err != nil {
				t.Fatal(err)
			}
			return result, nil
		}
	}
	t.Fatalf("no tool %q", tool)
	return nil, nil
}

func TestRuntime(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "testdata/fast.yaml"), "turns: [{text: from fast}]")
	absolute := filepath.Join(t.TempDir(), "abs.yaml")
	write(t, absolute, "turns: [{text: from abs}]")
	write(t, filepath.Join(dir, "space/note.txt"), "inside")
	write(t, filepath.Join(dir, "outside.txt"), "outside")

	rt, err := build(t, dir, `
models:
  fast: {provider: script, file: testdata/fast.yaml}
  abs:  {provider: script, file: "${ABS}"}
tools:
  exec: {allow: [cat], dir: space}
  file: {base: ./space}
secrets: {from_env: [CRM_TOKEN, UNSET]}
limits: {max_parallel: 3, grace: 2s}
`, map[string]string{"ABS": absolute, "CRM_TOKEN": "0123456789", "HOME": "/root"})
	if err != nil {
		t.Fatal(err)
	}

	if got := ask(t, rt, "fast"); got != "from fast" {
		t.Errorf("model fast: got %q", got)
	}
	if got := ask(t, rt, "abs"); got != "from abs" {
		t.Errorf("model abs: got %q", got)
	}

	if got, err := call(t, rt, "file.read", `{"path": "note.txt"}`); err != nil || got["content"] != "inside" {
		t.Errorf("file.read: got %v, %v, want the file in the base folder", got, err)
	}
	if got, err := call(t, rt, "file.read", `{"path": "../outside.txt"}`); err == nil {
		t.Errorf("file.read outside the base folder: got %v, want an error", got)
	}
	if got, err := call(t, rt, "exec.run", `{"argv": ["cat", "note.txt"]}`); err != nil || got["stdout"] != "inside" {
		t.Errorf("exec.run: got %v, %v, want the file in its folder", got, err)
	}
	if got, err := call(t, rt, "exec.run", `{"argv": ["ls"]}`); err == nil {
		t.Errorf("exec.run of a program that is not allowed: got %v, want an error", got)
	}

	if want := (runtime.Limits{MaxParallel: 3, Grace: 2e9}); rt.Limits != want {
		t.Errorf("got limits %+v, want %+v", rt.Limits, want)
	}

	if got, err := rt.Secrets.Secret(t.Context(), "CRM_TOKEN"); err != nil || got != "0123456789" {
		t.Errorf("secret: got %q, %v", got, err)
	}
	for _, name := range []string{"UNSET", "HOME"} { // not set; set, but not listed
		if got, err := rt.Secrets.Secret(t.Context(), name); !errors.Is(err, runtime.ErrNoSecret) || got != "" {
			t.Errorf("secret %s: got %q, %v, want %v", name, got, err, runtime.ErrNoSecret)
		}
	}
}

func TestRuntimeSkills(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "skills/dig/SKILL.md"), "---\nname: dig\ndescription: d\n---\nDeep.\n")
	rt, err := build(t, dir, "skills: ./skills", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rt.Skills.Load(t.Context(), []string{"dig"})
	if err != nil || len(got) != 1 || got[0].Text != "Deep." || got[0].Path != filepath.ToSlash(dir)+"/skills/dig/SKILL.md" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// bare is a store that keeps runs alone.
type bare struct{ checkpoint.Store }

func TestUseStore(t *testing.T) {
	thread := runtime.Conversation{Thread: "t"}
	said := []runtime.Message{{Role: runtime.User, Text: "hello"}}
	config := func(text string) *host.Config {
		c, err := host.ParseConfig("braise.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	store := &checkpoint.Memory{}
	for _, tt := range []struct {
		name   string
		config *host.Config
		store  checkpoint.Store
		memory bool
	}{
		{"no configuration", nil, store, false},
		{"none", config("{}"), store, false},
		{"off", config("memory: {store: false}"), store, false},
		{"in the store", config("memory: {store: true}"), store, true},
		{"in the store, again", config("memory: {store: true}"), store, true},
		{"in the process", config("memory: {store: true}"), nil, true},
	} {
		var rt runtime.Runtime
		if err := tt.config.UseStore(&rt, tt.store); err != nil {
			t.Fatal(err)
		}
		if (rt.Memory != nil) != tt.memory || rt.Store != tt.store {
			t.Fatalf("%s: %+v", tt.name, rt)
		}
		if !tt.memory {
			continue
		}
		before, err := rt.Memory.Load(t.Context(), thread)
		if err != nil || (len(before) == 1) != (tt.name == "in the store, again") {
			t.Errorf("%s: %v, %v", tt.name, before, err)
		}
		if err := rt.Memory.Save(t.Context(), thread, "turn", said); err != nil {
			t.Error(err)
		}
	}
	err := config("memory: {store: true}").UseStore(&runtime.Runtime{}, bare{store})
	if err == nil || err.Error() != "memory: a host_test.bare keeps no conversations" {
		t.Errorf("a store without documents: %v", err)
	}
}

func TestRuntimeOfAnEndpoint(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.URL.Path + " " + r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key") + " " + r.Header.Get("X-Title")
		fmt.Fprintf(w, `{"choices": [{"message": {"content": %q}}], "content": [{"type": "text", "text": %[1]q}], "stop_reason": "end_turn",
			"candidates": [{"content": {"parts": [{"text": %[1]q}]}, "finishReason": "STOP"}]}`, said)
	}))
	t.Cleanup(srv.Close)
	rt, err := build(t, "", `
models:
  local: {provider: openai, model: m, base_url: "${URL}/v1", api_key: "${KEY}", headers: {X-Title: mine}}
  claude: {provider: anthropic, model: m, base_url: "${URL}/v1", api_key: "${KEY}", headers: {X-Title: mine}}
  google: {provider: gemini, model: m, base_url: "${URL}/v1beta", api_key: "${KEY}", headers: {X-Title: mine}}
`, map[string]string{"URL": srv.URL, "KEY": "0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ask(t, rt, "local"), "/v1/chat/completions Bearer 0123456789 mine"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := ask(t, rt, "claude"), "/v1/messages 0123456789 mine"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := ask(t, rt, "google"), "/v1beta/models/m:generateContent 0123456789 mine"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	for _, m := range []host.Model{{Provider: "openai"}, {Provider: "openai", OpenAI: &openai.Options{}}, {Provider: "anthropic"}, {Provider: "anthropic", Anthropic: &anthropic.Options{}},
		{Provider: "gemini"}, {Provider: "gemini", Gemini: &gemini.Options{}}, {Provider: "other"}} {
		c := host.Config{Models: map[string]host.Model{"fast": m}}
		if _, err := c.Runtime(""); err == nil || !strings.HasPrefix(err.Error(), `model "fast": `) {
			t.Errorf("%+v: got %v, want an error that names the model", m, err)
		}
	}
}

func TestRuntimeWithoutConfig(t *testing.T) {
	var c *host.Config
	rt, err := c.Runtime("")
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Validate(); err != nil {
		t.Error(err)
	}
	if len(rt.Models) != 0 || rt.Secrets != nil {
		t.Errorf("got models %v and secrets %v, want none", rt.Models, rt.Secrets)
	}
	var names []string
	for _, tool := range rt.Tools {
		names = append(names, tool.Spec().Name)
	}
	if diff := cmp.Diff([]string{"http.request", "exec.run", "file.read", "file.write"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for tool, args := range map[string]string{
		"exec.run":  `{"argv": ["true"]}`,
		"file.read": `{"path": "host.go"}`,
	} {
		if got, err := call(t, rt, tool, args); err == nil {
			t.Errorf("%s: got %v, want a refusal", tool, got)
		}
	}
}

func TestRuntimeRefusesScripts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "turns:\n  - txt: a\n")
	write(t, filepath.Join(dir, "hunter2/bad.yaml"), "turns: 1")
	_, err := build(t, dir, `
models:
  missing: {provider: script, file: none.yaml}
  bad:     {provider: script, file: bad.yaml}
  quiet:   {provider: script, file: "${KEY}/none.yaml"}
  quiet2:  {provider: script, file: "${KEY}/bad.yaml"}
`, map[string]string{"KEY": "hunter2"})
	list, ok := errors.AsType[*diagnostics.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *diagnostics.Error", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error holds a variable's value: %v", err)
	}
	at := func(name string) string { return filepath.ToSlash(filepath.Join(dir, name)) }
	want := []string{
		at("${KEY}/bad.yaml") + `:1:8 recipe.wrongType "turns" must be a list, not an integer`,
		at("bad.yaml") + ":2:5 recipe.missingKey a turn needs one of text, json, tool_calls, error",
		at("bad.yaml") + `:2:5 recipe.unknownKey unknown key "txt"`,
		fmt.Sprintf("braise.yaml:3:37 recipe.file the script %q cannot be read: no such file or directory", at("none.yaml")),
		fmt.Sprintf("braise.yaml:5:37 recipe.file the script %q cannot be read: no such file or directory", at("${KEY}/none.yaml")),
	}
	var got []string
	for _, d := range list.List {
		got = append(got, fmt.Sprintf("%s %s %s", d.Position, d.Code, d.Message))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func TestOpenWithModels(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "canned.yaml", "turns: [{text: canned}]")
	write(t, "a=b:c.yaml", "turns: [{text: odd}]")
	write(t, "bad.yaml", "turn: []")
	write(t, "braise.yaml", "models: {fast: {provider: script, file: 'a=b:c.yaml'}}")

	for _, tt := range []struct {
		models []string
		name   string
		want   string
	}{
		{nil, "fast", "odd"},
		{[]string{"fast=script:canned.yaml"}, "fast", "canned"},
		{[]string{"new=script:a=b:c.yaml", "fast=script:canned.yaml"}, "new", "odd"},
	} {
		h, err := host.Open(t.Context(), &host.Options{Models: tt.models})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if got := ask(t, h.Bare(), tt.name); got != tt.want {
			t.Errorf("with %q, %s answers %q, want %q", tt.models, tt.name, got, tt.want)
		}
	}
	for spec, want := range map[string]string{
		"fast":                     `model "fast": it is given as NAME=script:FILE`,
		"=script:canned.yaml":      `model "=script:canned.yaml": it is given as NAME=script:FILE`,
		"fast=canned.yaml":         `model "fast=canned.yaml": it is given as NAME=script:FILE`,
		"fast=script:":             `model "fast=script:": it is given as NAME=script:FILE`,
		"fast=openai:gpt-5-mini":   "model \"fast\": a model cannot be overridden with \"openai\"\n  hint: it is given as NAME=script:FILE",
		"fast=script:missing.yaml": `the script "missing.yaml" cannot be read: no such file or directory [recipe.file]`,
		"fast=script:bad.yaml":     "bad.yaml:1:1: unknown key \"turn\" [recipe.unknownKey]\n  hint: did you mean \"turns\"?",
	} {
		if _, err := host.Open(t.Context(), &host.Options{Models: []string{spec}}); err == nil || err.Error() != want {
			t.Errorf("with %q: got %v\nwant %s", spec, err, want)
		}
	}
}

func ExampleConfig_Runtime() {
	dir, err := os.MkdirTemp("", "braise")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "canned.yaml"), []byte("turns: [{text: Hello}]"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	config, err := host.ParseConfig("braise.yaml", []byte(`
models:
  fast: {provider: script, file: canned.yaml}
limits: {max_parallel: 2}
`), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := config.Runtime(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := rt.Models["fast"].Generate(context.Background(), &runtime.Request{Call: 1, StepCall: 1})
	fmt.Println(resp.Text, err, rt.Limits.MaxParallel)
	// Output: Hello <nil> 2
}
