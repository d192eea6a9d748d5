package host_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

const faultyConfig = `models:
  fast: {provider: script, file: fast.yaml}
  big: {provider: openai, model: big, api_key: "${EMPTY}"}
  split: {provider: openai, model: big, api_key: "${LINES}"}
  head: {provider: openai, model: big, headers: {X-Key: "Key ${LINES}"}}
  away: {provider: openai, model: big, base_url: "https://${EMPTY}/v1"}
  canned: {provider: script, file: "${EMPTY}"}
tools:
  exec: {allow: ["${EMPTY}"]}
mcp:
  crm: {url: "https://crm.test/mcp", headers: {Authorization: "Bearer ${EMPTY}"}}
  erp: {url: "https://erp.test/mcp", headers: {Authorization: "Bearer ${LINES}"}}
  prog: {command: [sh], env: {API_KEY: "${EMPTY}"}}
telemetry: {otlp: "https://otlp.test", headers: {api-key: "${LINES}"}}
secrets: {from_env: [EMPTY, UNSET]}
`

// A variable that is empty where a value is needed, or that holds what no header can have, is missed by the runs that
// need it, which name it, and by no other.
func TestFaultyVariables(t *testing.T) {
	const (
		isEmpty = "EMPTY is empty"
		noHead  = "LINES holds the control character U+000A, and no header can"
		asEmpty = "hint: export EMPTY=…"
		asLines = "hint: a key is one line without tabs; line ends behind it do not matter"
		model   = "{uses: model, with: {model: %s, prompt: hi}}"
	)
	t.Setenv("EMPTY", "")
	t.Setenv("LINES", "hunter2\nX-Admin: hunter2")
	for _, tt := range []struct {
		step, code string
		line       int
		why, hint  string
	}{
		{fmt.Sprintf(model, "fast"), "", 0, "", ""},
		{fmt.Sprintf(model, "big"), "model.missing", 3, isEmpty, asEmpty},
		{fmt.Sprintf(model, "split"), "model.missing", 4, noHead, asLines},
		{fmt.Sprintf(model, "head"), "model.missing", 5, noHead, asLines},
		{fmt.Sprintf(model, "away"), "model.missing", 6, isEmpty, asEmpty},
		{fmt.Sprintf(model, "canned"), "model.missing", 7, isEmpty, asEmpty},
		{"{uses: exec.run, with: {argv: [tool]}}", "tool.missing", 9, isEmpty, asEmpty},
		{"{uses: mcp.crm.lookup}", "tool.missing", 11, isEmpty, asEmpty},
		{"{uses: mcp.erp.lookup}", "tool.missing", 12, noHead, asLines},
		{"{uses: mcp.prog.lookup}", "tool.missing", 13, isEmpty, asEmpty},
		{"{uses: http.request, with: {url: 'http://h', headers: {a: '${{ secrets.EMPTY }}'}}}", "secret.missing", 15, isEmpty, asEmpty},
		{"{uses: http.request, with: {url: 'http://h', headers: {a: '${{ secrets.UNSET }}'}}}", "secret.missing", 15,
			"UNSET is not set", "hint: export UNSET=…"},
	} {
		t.Run(tt.step, func(t *testing.T) {
			var warned []string
			h, dir := install(t, host.Options{Store: host.MemoryStore, Reporter: discard{}, Warn: func(m string) { warned = append(warned, m) }}, map[string]string{
				"braise.yaml": faultyConfig, "fast.yaml": "turns: [{text: hello}]",
				"recipe.yaml": "apiVersion: braise/v1\nname: needs\nsteps:\n  a: " + tt.step + "\n"})
			at := func(why string, line int) string {
				return fmt.Sprintf("environment variable %s (%s:%d)", why, filepath.ToSlash(filepath.Join(dir, "braise.yaml")), line)
			}
			if got := strings.Join(warned, ""); !strings.Contains(got, at(noHead, 14)) {
				t.Errorf("telemetry: warned %q, want %q", got, at(noHead, 14))
			}
			out := h.Run(t.Context(), loaded(t, h, dir), nil)
			if tt.code == "" {
				if out.Status != workflow.StatusOK {
					t.Errorf("what needs no variable failed: %v", out.Err)
				}
				return
			}
			e := out.Failure()
			if e == nil || e.Code != tt.code || host.ExitCode(out) != host.ExitMissing || !strings.Contains(e.Error(), at(tt.why, tt.line)) ||
				!strings.Contains(e.Error(), tt.hint) || strings.Contains(fmt.Sprint(e, out.Diagnostics), "hunter2") {
				t.Errorf("got %v (exit %d)\nwant %s, exit 8, %s, %s", out.Err, host.ExitCode(out), tt.code, at(tt.why, tt.line), tt.hint)
			}
			if found := fmt.Sprint(out.Diagnostics); !strings.Contains(found, at(tt.why, tt.line)) {
				t.Errorf("before the first step: %s", found)
			}
		})
	}
}

// doctor names the variables with faults.
func TestFaultyVariablesAreExamined(t *testing.T) {
	env := environ(map[string]string{"EMPTY": "", "LINES": "hunter2\nhunter2"})
	text := faultyConfig + "engine: '${EMPTY}'\nserve: {tokens: {ci: {token: '${EMPTY}', roles: [start]}}}\n"
	config, err := host.ParseConfig("b.yaml", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range config.Examine(t.Context(), t.TempDir()) {
		if strings.Contains(c.Message, "variable") {
			got[strings.TrimSpace(c.Part+" "+c.Name)] = c.Message
		}
	}
	const off = "it is not configured: environment variable "
	const noHead = off + "LINES holds the control character U+000A, and no header can "
	want := map[string]string{
		"model big": off + "EMPTY is empty (b.yaml:3)", "model split": noHead + "(b.yaml:4)", "model head": noHead + "(b.yaml:5)",
		"model away": off + "EMPTY is empty (b.yaml:6)", "model canned": off + "EMPTY is empty (b.yaml:7)",
		"tool exec.run": off + "EMPTY is empty (b.yaml:9)", "mcp crm": off + "EMPTY is empty (b.yaml:11)",
		"mcp erp": noHead + "(b.yaml:12)", "mcp prog": off + "EMPTY is empty (b.yaml:13)", "telemetry": noHead + "(b.yaml:14)",
		"engine": off + "EMPTY is empty (b.yaml:16)", "serve": off + "EMPTY is empty (b.yaml:17)",
		"secret EMPTY": "the environment variable is empty", "secret UNSET": "the environment variable is not set",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The line ends behind a key that was read from a file do not matter, and no key with a line break is sent.
func TestKeysEndInLineEnds(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+", "+r.Header.Get("X-Key"))
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "`+r.Header.Get("Authorization")+`"}}]}`)
	}))
	defer srv.Close()
	t.Setenv("KEY", "sk-0123456789abcdef\r\n")
	t.Setenv("TOKEN", "correct-horse\n\n")
	t.Setenv("PEM", "correct-horse\nX-Admin: 1")
	h, dir := install(t, host.Options{Store: host.MemoryStore}, map[string]string{
		"braise.yaml": "models: {m: {provider: openai, model: m, api_key: \"${KEY}\", base_url: \"" + srv.URL + "\", headers: {X-Key: \"Key ${KEY}\"}}}\n" +
			"tools: {http: {allow_private: true}}\nsecrets: {from_env: [TOKEN, PEM]}\n",
		"recipe.yaml": "apiVersion: braise/v1\nname: r\nsteps:\n  ask: {uses: model, with: {model: m, prompt: hi}}\n" +
			"  get: {needs: [ask], uses: http.request, with: {url: '" + srv.URL + "', headers: {Authorization: 'Bearer ${{ secrets.TOKEN }}'}}}\n" +
			"  bad: {needs: [get], uses: http.request, with: {url: '" + srv.URL + "', headers: {X-Key: '${{ secrets.PEM }}'}}}\n",
	})
	out := h.Run(t.Context(), loaded(t, h, dir), nil)
	want := []string{"Bearer sk-0123456789abcdef, Key sk-0123456789abcdef", "Bearer correct-horse, "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	const why = `the header "X-Key" holds a line break or another control character`
	if out.Err == nil || !strings.Contains(out.Err.Error(), why) {
		t.Errorf("got %v, want %s", out.Err, why)
	}
}
