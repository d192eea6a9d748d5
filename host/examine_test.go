package host_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
)

func ExampleConfig_Examine() {
	env := func(string) (string, bool) { return "", false } // os.LookupEnv as a rule
	config, err := host.ParseConfig("braise.yaml", []byte("secrets: {from_env: [CRM_TOKEN]}"), env)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range config.Examine(context.Background(), "") {
		fmt.Println(c.Status, c.Part, c.Name, c.Message)
	}
	// Output:
	// ok tool http.request on, for public addresses
	// ok tool exec.run off: every program is refused
	// ok tool file.read off: every path is refused
	// ok tool file.write off: every path is refused
	// fail secret CRM_TOKEN the environment variable is not set
	// ok store  memory: runs are not kept when the process ends
}

// endpoint lists models to callers with the key.
func endpoint(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/bare/models":
		http.NotFound(w, r)
	case r.URL.Path == "/broken/models":
		http.Error(w, "out of order", http.StatusInternalServerError)
	case r.URL.Path != "/v1/models":
		http.Error(w, "what?", http.StatusTeapot)
	case r.Header.Get("Authorization") != "Bearer sk-0123456789" && r.Header.Get("X-Api-Key") != "sk-0123456789" && r.Header.Get("X-Goog-Api-Key") != "sk-0123456789":
		http.Error(w, `{"error": {"message": "no such key"}}`, http.StatusUnauthorized)
	default:
		fmt.Fprint(w, `{"data": [{"id": "gpt-mini"}, {"id": "llama:latest"}], "models": [{"name": "models/gemini-mini"}]}`)
	}
}

func TestExamineModels(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(endpoint))
	defer srv.Close()
	gone := httptest.NewServer(http.HandlerFunc(endpoint))
	gone.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good.yaml"), "turns: [{text: hi}]")
	write(t, filepath.Join(dir, "bad.yaml"), "turnz: []")
	env := environ(map[string]string{"KEY": "sk-0123456789", "OLD": "sk-9876543210", "URL": srv.URL, "GONE": gone.URL})
	for _, tt := range []struct {
		model string
		want  host.CheckStatus
		says  string // in the message
		hint  string // in the hint
	}{
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckOK, `has the model "gpt-mini"`, ""},
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/v1", api_key: "${KEY}", max_parallel: 8, tpm: 200000}`, host.CheckOK,
			`has the model "gpt-mini"; at most 8 calls at once, 200000 tokens a minute`, ""},
		{`{provider: openai, model: llama, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckOK, `has the model "llama"`, ""},
		{`{provider: openai, model: gpt-mimi, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckWarn, `does not list the model "gpt-mimi"`, `did you mean "gpt-mini"?`},
		{`{provider: openai, model: xyz, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckWarn, `does not list the model "xyz"`, "more models than it lists"},
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/v1", api_key: "${OLD}"}`, host.CheckFail, "401", "does not take the key"},
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/v1"}`, host.CheckFail, "401", "wants a key"},
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/bare"}`, host.CheckWarn, "no list of models", "base_url"},
		{`{provider: openai, model: gpt-mini, base_url: "${URL}/broken"}`, host.CheckFail, "500", ""},
		{`{provider: openai, model: gpt-mini, base_url: "${GONE}/v1"}`, host.CheckFail, "connection refused", "is it running"},
		{`{provider: anthropic, model: gpt-mini, base_url: "${URL}/v1", api_key: "${KEY}", rpm: 50}`, host.CheckOK, `anthropic: the endpoint answers and has the model "gpt-mini"; at most 50 requests a minute`, ""},
		{`{provider: anthropic, model: gpt-mimi, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckWarn, `anthropic: the endpoint answers, but does not list the model "gpt-mimi"`, `did you mean "gpt-mini"?`},
		{`{provider: anthropic, model: gpt-mini, base_url: "${URL}/v1", api_key: "${OLD}"}`, host.CheckFail, "401", "does not take the key"},
		{`{provider: anthropic, model: gpt-mini, base_url: "${URL}/bare", api_key: "${KEY}"}`, host.CheckWarn, "anthropic: the endpoint answers, but has no list of models", "before /messages"},
		{`{provider: gemini, model: gemini-mini, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckOK, `gemini: the endpoint answers and has the model "gemini-mini"`, ""},
		{`{provider: gemini, model: gemini-mimi, base_url: "${URL}/v1", api_key: "${KEY}"}`, host.CheckWarn, `gemini: the endpoint answers, but does not list the model "gemini-mimi"`, `did you mean "gemini-mini"?`},
		{`{provider: gemini, model: gemini-mini, base_url: "${URL}/v1", api_key: "${OLD}"}`, host.CheckFail, "401", "does not take the key"},
		{`{provider: gemini, model: gemini-mini, base_url: "${URL}/bare", api_key: "${KEY}"}`, host.CheckWarn, "gemini: the endpoint answers, but has no list of models", "before /models, often in /v1beta"},
		{`{provider: script, file: good.yaml}`, host.CheckOK, "good.yaml", ""},
		{`{provider: script, file: bad.yaml}`, host.CheckFail, `unknown key "turnz"`, `did you mean "turns"?`},
		{`{provider: script, file: none.yaml}`, host.CheckFail, "braise.yaml:1:38: the script", ""},
	} {
		config, err := host.ParseConfig("braise.yaml", []byte("models: {m: "+tt.model+"}"), env)
		if err != nil {
			t.Fatalf("%s: %v", tt.model, err)
		}
		got := config.Examine(t.Context(), dir)[0]
		if got.Part != "model" || got.Name != "m" || got.Status != tt.want || !strings.Contains(got.Message, tt.says) || !strings.Contains(got.Hint, tt.hint) {
			t.Errorf("%s\ngot  %+v\nwant %s, %q, hint %q", tt.model, got, tt.want, tt.says, tt.hint)
		}
		if text := fmt.Sprint(got); strings.Contains(text, "sk-") {
			t.Errorf("%s: a key is shown: %s", tt.model, text)
		}
	}
}

// A call that is cancelled says so; it does not hang.
func TestExamineCancelled(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(endpoint))
	defer srv.Close()
	config, err := host.ParseConfig("braise.yaml", []byte(`{models: {m: {provider: openai, model: x, base_url: "`+srv.URL+`/v1"}}, telemetry: {otlp: "`+srv.URL+`"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := map[string]host.CheckStatus{"model": host.CheckFail, "telemetry": host.CheckWarn}
	for _, got := range config.Examine(ctx, "") {
		if status, ok := want[got.Part]; ok && (got.Status != status || !strings.Contains(got.Message, "cancel")) {
			t.Errorf("got %+v", got)
		}
	}
}

func TestExamineTools(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	for _, tt := range []struct {
		tools string
		want  [3]string // http.request, exec.run, file.read
	}{
		{`{}`, [3]string{"ok on, for public addresses", "ok off: every program is refused", "ok off: every path is refused"}},
		{`{http: {allow_private: true}, exec: {allow: [sh], dir: .}, file: {base: .}}`,
			[3]string{"ok on, for private addresses too", "ok on, for sh", "ok on, below tools.file.base"}},
		{`{exec: {allow: [sh, no-such-program, ./none]}, file: {base: later}}`,
			[3]string{"ok on, for public addresses", "warn on, but not found: no-such-program, ./none", "warn on, but tools.file.base does not exist yet"}},
		{`{exec: {allow: [sh], dir: later}, file: {base: file}}`,
			[3]string{"ok on, for public addresses", "fail on, but tools.exec.dir is not a folder", "fail on, but tools.file.base is not a folder"}},
	} {
		config, err := host.ParseConfig("braise.yaml", []byte("tools: "+tt.tools), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got [3]string
		for i, c := range config.Examine(t.Context(), dir)[:3] {
			got[i] = string(c.Status) + " " + c.Message
			if c.Hint == "" {
				t.Errorf("%s: %s does not say what that means", tt.tools, c.Name)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.tools, diff)
		}
	}
}

// Secrets are named, never shown.
func TestExamineSecrets(t *testing.T) {
	env := environ(map[string]string{"GOOD": "hunter2hunter2", "SHORT": "hunter2\r\n\n", "EMPTY": "", "BLANK": "\r\n",
		"KEY": "hunter2hunter2\n", "PEM": "hunter2\nhunter2\n"})
	config, err := host.ParseConfig("braise.yaml", []byte("secrets: {from_env: [SHORT, GOOD, NONE, GOOD, EMPTY, BLANK, KEY, PEM]}"), env)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	checks := config.Examine(t.Context(), "")
	for _, c := range checks {
		if c.Part == "secret" {
			got = append(got, fmt.Sprint(c.Status, " ", c.Name, ": ", c.Message))
		}
	}
	want := []string{"fail BLANK: the environment variable is empty", "fail EMPTY: the environment variable is empty", "ok GOOD: set",
		"ok KEY: set", "fail NONE: the environment variable is not set", "warn PEM: set, with a line break or another control character inside",
		"fail SHORT: shorter than 8 bytes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if text := fmt.Sprint(checks); strings.Contains(text, "hunter2") {
		t.Errorf("a secret is shown: %s", text)
	}
}

// The check connects to the collector and sends nothing. A missing collector is no
// failure, as runs work without it.
func TestExamineCollector(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was sent", r.Method, r.URL) }))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	env := environ(map[string]string{"URL": srv.URL, "GONE": gone.URL, "KEY": "sk-0123456789"})
	for _, tt := range []struct {
		telemetry string
		want      host.CheckStatus
		says      string // in the message
		hint      string // in the hint
	}{
		{`{otlp: "${URL}/${KEY}", headers: {X-Api-Key: "${KEY}"}}`, host.CheckOK, "can be reached", "without content"},
		{`{otlp: "${URL}", content: true}`, host.CheckOK, "can be reached", "what models and tools are given"},
		{`{otlp: "${GONE}/${KEY}"}`, host.CheckWarn, "connection refused", "runs work, but their telemetry is lost"},
	} {
		config, err := host.ParseConfig("braise.yaml", []byte("telemetry: "+tt.telemetry), env)
		if err != nil {
			t.Fatal(err)
		}
		var got []host.Check
		for _, c := range config.Examine(t.Context(), "") {
			if c.Part == "telemetry" {
				got = append(got, c)
			}
		}
		if len(got) != 1 || got[0].Status != tt.want || !strings.Contains(got[0].Message, tt.says) || !strings.Contains(got[0].Hint, tt.hint) {
			t.Errorf("%s\ngot  %+v\nwant %s, %q, hint %q", tt.telemetry, got, tt.want, tt.says, tt.hint)
		}
		if text := fmt.Sprint(got); strings.Contains(text, "sk-") {
			t.Errorf("%s: a key is shown: %s", tt.telemetry, text)
		}
	}
}

func TestExamineSkillsAndMemory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "skills/dig/SKILL.md"), "---\nname: dig\ndescription: d\n---\n")
	write(t, filepath.Join(dir, "skills/cut/SKILL.md"), "---\nname: kut\ndescription: d\nlicence: MIT\n---\n")
	write(t, filepath.Join(dir, "skills/big/SKILL.md"), strings.Repeat("x", 1<<20+1))
	write(t, filepath.Join(dir, "skills/README.md"), "x")
	write(t, filepath.Join(dir, "empty/README.md"), "x")
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"{}", nil},
		{"skills: ./skills", []string{
			"fail skill big: skills: DIR/skills/big/SKILL.md: it has more than 1048576 bytes | ",
			`fail skill cut: DIR/skills/cut/SKILL.md:2:7: the skill "kut" is in the folder "cut" | a skill has the name of its folder`,
			"ok skill dig: DIR/skills/dig/SKILL.md | "}},
		{"skills: empty", []string{"warn skill : there is none in DIR/empty | a skill is a folder with a SKILL.md"}},
		{"skills: none", []string{`fail skill : skills: the folder "DIR/none" cannot be opened: no such file or directory | agents with skills fail`}},
		{"instructions_from: [skills/README.md, none.md]", []string{
			"ok instructions skills/README.md: every agent is told what it says | ",
			"fail instructions none.md: open DIR/none.md: no such file or directory | no recipe can run"}},
		{"memory: {store: false}", nil},
		{"memory: {store: true}", []string{"warn memory : on, but conversations are gone when the process ends | another store keeps them"}},
		{`{memory: {store: true}, store: "memory:"}`, []string{"warn memory : on, but conversations are gone when the process ends | another store keeps them"}},
		{"{memory: {store: true}, store: sqlite:runs.db}", []string{"ok memory : on: conversations of agents are kept in the store | "}},
	} {
		config, err := host.ParseConfig("braise.yaml", []byte(tt.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range config.Examine(t.Context(), dir) {
			if c.Part == "skill" || c.Part == "memory" || c.Part == "instructions" {
				got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %s %s: %s | %s", c.Status, c.Part, c.Name, c.Message, c.Hint), filepath.ToSlash(dir), "DIR"))
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.text, diff)
		}
	}
}

// Without a braise.yaml nothing fails.
func TestExamineNothing(t *testing.T) {
	for _, c := range (*host.Config)(nil).Examine(t.Context(), "") {
		if c.Status != host.CheckOK {
			t.Errorf("got %+v", c)
		}
	}
}

// What is examined is the installation that Open opens: found as Open finds it, with the models and the store of the options.
func TestExamineOptions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "canned.yaml", "turns: [{text: hi}]")
	status := func(opts *host.Options) (map[string]string, error) {
		checks, err := opts.Examine(t.Context())
		got := map[string]string{}
		for _, c := range checks {
			if c.Part == "config" || c.Part == "model" || c.Part == "store" {
				got[strings.TrimSpace(c.Part+" "+c.Name)] = string(c.Status) + ": " + strings.ReplaceAll(c.Message, dir, "DIR")
			}
		}
		return got, err
	}
	got, err := status(&host.Options{Store: "jsonl:runs", Models: []string{"fast=script:canned.yaml"}})
	want := map[string]string{
		"config":     "warn: no braise.yaml was found in DIR: no models, no secrets",
		"model fast": `ok: script: answers come from "DIR/canned.yaml"`,
		"store":      "ok: jsonl DIR/runs: does not exist yet, the first run makes it",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("without a configuration (-want +got)\n%s%v", diff, err)
	}

	write(t, "braise.yaml", "models: {fast: {provider: script, file: gone.yaml}}\nstore: 'memory:'\n")
	got, err = status(nil)
	want = map[string]string{
		"config":     "ok: braise.yaml is valid",
		"model fast": `fail: braise.yaml:1:41: the script "gone.yaml" cannot be read: no such file or directory`,
		"store":      "ok: memory: runs are not kept when the process ends",
	}
	if diff := cmp.Diff(want, got); diff != "" || err == nil {
		t.Errorf("with a script that is gone (-want +got)\n%s%v", diff, err)
	}

	write(t, "braise.yaml", "modles: {}\n")
	got, err = status(&host.Options{Config: "braise.yaml"})
	want = map[string]string{"config": `fail: braise.yaml:1:1: unknown key "modles"`}
	if diff := cmp.Diff(want, got); diff != "" || err == nil {
		t.Errorf("with an unknown key (-want +got)\n%s%v", diff, err)
	}
}
