package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

// doctor asks endpoints: one that answers, one that does not exist.
func TestDoctorAsksEndpoints(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data": [{"id": "tiny"}]}`)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct {
		url      string
		code     int
		worst    host.CheckStatus
		statuses map[string]host.CheckStatus
	}{
		{srv.URL, 0, host.CheckOK, map[string]host.CheckStatus{"here": host.CheckOK, "there": host.CheckOK}},
		{gone.URL, 8, host.CheckFail, map[string]host.CheckStatus{"here": host.CheckOK, "there": host.CheckFail}},
	} {
		path := filepath.Join(t.TempDir(), "braise.yaml")
		text := fmt.Sprintf("store: \"memory:\"\nmodels:\n  here: {provider: openai, model: tiny, base_url: %q}\n  there: {provider: openai, model: tiny, base_url: %q}\n", srv.URL, tt.url)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr}
		code, err := a.execute([]string{"doctor", "--config", path, "--output", "json"})
		if err != nil || code != tt.code || stderr.Len() > 0 {
			t.Errorf("exit %d, want %d: %v %s", code, tt.code, err, &stderr)
		}
		var got health
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != tt.worst {
			t.Errorf("status %s, want %s", got.Status, tt.worst)
		}
		statuses := map[string]host.CheckStatus{}
		for _, c := range got.Checks {
			if c.Part == "model" {
				statuses[c.Name] = c.Status
			}
		}
		if diff := cmp.Diff(tt.statuses, statuses); diff != "" {
			t.Errorf("models (-want +got)\n%s", diff)
		}
	}
}

// doctor --call asks the models of endpoints, and only these, for a word.
func TestDoctorCallsModels(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model     string
			MaxTokens int `json:"max_tokens"`
			Config    struct {
				MaxTokens int `json:"maxOutputTokens"`
			} `json:"generationConfig"`
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data": []}`)
			return
		}
		asked.Add(1)
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.MaxTokens+in.Config.MaxTokens == 0 {
			t.Errorf("asked for %+v, %v", in, err)
		}
		if r.URL.Path == "/models/google:generateContent" && r.Header.Get("X-Goog-Api-Key") == "sk-0123456789" {
			fmt.Fprint(w, `{"modelVersion": "google-2", "candidates": [{"content": {"parts": [{"text": "ready"}]}, "finishReason": "STOP"}],
				"usageMetadata": {"promptTokenCount": 2000, "cachedContentTokenCount": 1500, "candidatesTokenCount": 10, "thoughtsTokenCount": 20}}`)
			return
		}
		switch in.Model {
		case "tiny":
			fmt.Fprint(w, `{"model": "tiny-2", "choices": [{"message": {"content": "ready"}, "finish_reason": "stop"}],
				"usage": {"prompt_tokens": 2000, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 1500}}}`)
		case "mute":
			fmt.Fprint(w, `{"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error": {"message": "there is no such model"}}`)
		}
	}))
	defer srv.Close()
	t.Chdir(t.TempDir())
	config := func(models ...string) {
		text := "models:\n  canned: {provider: script, file: canned.yaml}\n  unset: {provider: openai, model: m, api_key: '${NOT_SET}'}\n"
		for _, model := range models {
			text += fmt.Sprintf("  %s: {provider: openai, model: %[1]s, base_url: %q}\n", model, srv.URL)
		}
		if len(models) > 1 {
			text += fmt.Sprintf("  google: {provider: gemini, model: google, base_url: %q, api_key: '${GEMINI_API_KEY}'}\n", srv.URL)
		}
		text += "prices: {tiny: {input: 1, cached_read: 0.1, output: 10}, google: {input: 1, cached_read: 0.1, output: 10}}\n"
		if err := errors.Join(os.WriteFile("braise.yaml", []byte(text), 0o600),
			os.WriteFile("canned.yaml", []byte("turns: [{text: hi}]"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GEMINI_API_KEY", "sk-0123456789")
	took := regexp.MustCompile(` in \d+ ms`)
	for _, tt := range []struct {
		models []string
		want   string // of the calls
		asked  int32
	}{
		{nil, "warn  call: no model is configured that an endpoint answers for\n", 0},
		{[]string{"tiny", "mute", "gone"}, "fail  call gone: model \"gone\": URL/chat/completions: status 404 Not Found: there is no such model\n" +
			"ok    call google: google-2 answered in MS; tokens: 2000 in, 1500 of them cached, 30 out; $0.00095\n" +
			"warn  call mute: mute answered in MS; tokens: 0 in, 0 of them cached, 0 out; the answer has no text\n" +
			"      hint: prices.mute of braise.yaml lets runs say what it costs\n" +
			"ok    call tiny: tiny-2 answered in MS; tokens: 2000 in, 1500 of them cached, 30 out; $0.00095\n", 4},
	} {
		config(tt.models...)
		asked.Store(0)
		got, stderr := command("doctor", "--call")
		_, calls, _ := strings.Cut(got.Stdout, "runs prune --older-than 7d removes old ones\n")
		calls = took.ReplaceAllString(strings.ReplaceAll(calls, srv.URL, "URL"), " in MS")
		if diff := cmp.Diff(tt.want, calls); diff != "" || got.Code != 8 || asked.Load() != tt.asked {
			t.Errorf("exit %d, asked %d times, want 8 and %d: %s (-want +got)\n%s", got.Code, asked.Load(), tt.asked, stderr, diff)
		}
	}

	config("tiny")
	asked.Store(0)
	if got, _ := command("doctor"); asked.Load() != 0 {
		t.Errorf("without --call %d models are asked:\n%s", asked.Load(), got.Stdout)
	}
	got, _ := command("doctor", "--call", "--output", "json")
	var all health
	if err := json.Unmarshal([]byte(got.Stdout), &all); err != nil {
		t.Fatal(err)
	}
	last := all.Checks[len(all.Checks)-1]
	last.Message, last.LatencyMS = "", 0
	want := host.Check{Part: "call", Name: "tiny", Status: host.CheckOK, Model: "tiny-2",
		Usage: &workflow.Usage{Calls: 1, InputTokens: 2000, CachedTokens: 1500, OutputTokens: 30, CostUSD: 0.00095}}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("check (-want +got)\n%s", diff)
	}
	if got, _ = command("doctor", "--call", "--model", "tiny=script:canned.yaml"); !strings.Contains(got.Stdout, "warn  call: no model") {
		t.Errorf("a script was asked:\n%s", got.Stdout)
	}
}
