package host_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

const unsetConfig = `models:
  fast: {provider: script, file: fast.yaml}
  big: {provider: openai, model: big, api_key: "${BRAISE_TEST_UNSET}"}
tools:
  exec: {allow: ["${BRAISE_TEST_UNSET}/bin/tool"]}
  file: {base: "${BRAISE_TEST_UNSET}"}
  http: {timeout: "${BRAISE_TEST_UNSET}"}
mcp:
  crm: {url: "https://crm.test/mcp", headers: {Authorization: "Bearer ${BRAISE_TEST_UNSET}"}}
retriever: {index: "${BRAISE_TEST_UNSET}"}
skills: "${BRAISE_TEST_UNSET}/skills"
telemetry: {otlp: "https://otlp.test", headers: {api-key: "${BRAISE_TEST_UNSET}"}}
`

// discard is a Reporter that tells nobody.
type discard struct{}

func (discard) Warn(string, ...slog.Attr) {}

// trust 4.5: a variable that is not set is missed by the runs that need it, which say where it is named, and by no other.
func TestUnsetVariables(t *testing.T) {
	const agent = "{uses: agent, with: {agent: {model: %s, tools: [%s]}, prompt: hi}}"
	for _, tt := range []struct {
		name, step, code string
		line             int
	}{
		{"nothing", "{uses: set, with: 1}", "", 0},
		{"another model", "{uses: model, with: {model: fast, prompt: hi}}", "", 0},
		{"the model", "{uses: model, with: {model: big, prompt: hi}}", "model.missing", 3},
		{"the model by an expression", "{uses: model, with: {model: \"${{ 'b' + 'ig' }}\", prompt: hi}}", "model.missing", 3},
		{"the model of an agent", fmt.Sprintf(agent, "big", ""), "model.missing", 3},
		{"exec.run", "{uses: exec.run, with: {argv: [tool]}}", "tool.missing", 5},
		{"file.write", "{uses: file.write, with: {path: a, content: b}}", "tool.missing", 6},
		{"http.request", "{uses: http.request, with: {url: 'http://h'}}", "tool.missing", 7},
		{"a server", "{uses: mcp.crm.lookup}", "tool.missing", 9},
		{"a server, by an agent", fmt.Sprintf(agent, "fast", "mcp.crm.lookup"), "tool.missing", 9},
		{"the retriever", "{uses: retrieve, with: {query: x}}", "retriever.missing", 10},
		{"skills", "{uses: agent, with: {agent: {model: fast, tools: [], skills: [dig]}, prompt: hi}}", "capability.missing", 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var warned []string
			h, dir := install(t, host.Options{Store: host.MemoryStore, Reporter: discard{}, Warn: func(m string) { warned = append(warned, m) }}, map[string]string{
				"braise.yaml": unsetConfig, "fast.yaml": "turns: [{text: hello}]",
				"recipe.yaml": "apiVersion: braise/v1\nname: needs\nsteps:\n  a: " + tt.step + "\n"})
			at := func(line int) string {
				return fmt.Sprintf("environment variable BRAISE_TEST_UNSET is not set (%s:%d)", filepath.ToSlash(filepath.Join(dir, "braise.yaml")), line)
			}
			if got := strings.Join(warned, ""); !strings.Contains(got, at(12)) {
				t.Errorf("trust 4.5: telemetry: warned %q, want %q", got, at(12))
			}
			out := h.Run(t.Context(), loaded(t, h, dir), nil)
			if tt.code == "" {
				if out.Status != workflow.StatusOK {
					t.Errorf("trust 4.5: what needs no variable failed: %v", out.Err)
				}
				return
			}
			e := out.Failure()
			if e == nil || e.Code != tt.code || host.ExitCode(out) != host.ExitMissing || !strings.Contains(e.Error(), at(tt.line)) ||
				!strings.Contains(e.Error(), "hint: export BRAISE_TEST_UNSET=") {
				t.Errorf("trust 4.5: got %v (exit %d)\nwant %s, exit 8, %s", out.Err, host.ExitCode(out), tt.code, at(tt.line))
			}
			if found := fmt.Sprint(out.Diagnostics); tt.name != "the model by an expression" && !strings.Contains(found, at(tt.line)) {
				t.Errorf("trust 4.5: before the first step: %s", found)
			}
		})
	}
}

// trust 4.5: without a store that the configuration names, no run goes into another one.
func TestUnsetStore(t *testing.T) {
	text := map[string]string{"braise.yaml": "store: 'postgres://u:${BRAISE_TEST_UNSET}@db/runs'", "recipe.yaml": askRecipe}
	h, dir := install(t, host.Options{}, text)
	out := h.Run(t.Context(), loaded(t, h, dir), nil)
	if out.Status != workflow.StatusError || host.ExitCode(out) != host.ExitMissing || !strings.Contains(out.Err.Error(), "the store is not configured: environment variable BRAISE_TEST_UNSET is not set") {
		t.Errorf("trust 4.5: %s: %v, exit %d", out.Status, out.Err, host.ExitCode(out))
	}
	h, dir = install(t, host.Options{Store: host.MemoryStore}, text)
	if out = h.Run(t.Context(), loaded(t, h, dir), nil); out.Status != workflow.StatusPaused {
		t.Errorf("trust 4.5: with another store: %s: %v", out.Status, out.Err)
	}
}
