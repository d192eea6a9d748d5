//go:build !race

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
)

// often is the longest list of a foreach.
const often = "\"${{ 1..10000 }}\""

// greedy are recipes that keep as much as they may.
var greedy = map[string]string{
	"steps":   "  a: {uses: recipe, foreach: {in: " + often + ", as: i}, with: {steps: {b: {uses: set, foreach: {in: " + often + ", as: j}, with: 1}}}}\n",
	"tools":   "  a: {uses: recipe, foreach: {in: " + often + ", as: i}, with: {steps: {b: {uses: test.one, foreach: {in: " + often + ", as: j}}}}}\n",
	"texts":   "  a: {uses: set, foreach: {in: " + often + ", as: i}, with: \"${{ join(map(1..1000, inputs.s), '') }}\"}\n",
	"numbers": "  a: {uses: set, foreach: {in: " + often + ", as: i}, with: \"${{ map(1..200000, # + 0.5) }}\"}\n",
	"lists":   "  a: {uses: set, foreach: {in: " + often + ", as: i}, with: \"${{ map(1..100000, []) }}\"}\n",
	"objects": "  a: {uses: set, foreach: {in: " + often + ", as: i}, with: \"${{ map(1..50000, ({'a': 1})) }}\"}\n",
	"answers": "  a: {uses: test.objects, foreach: {in: " + often + ", as: i}}\n",
	"largest": "  a: {uses: test.largest, foreach: {in: " + often + ", as: i}}\n",
	"strings": "  a: {uses: test.text, foreach: {in: " + often + ", as: i}}\n",
	"heavy":   "  a: {uses: test.heavy, foreach: {in: " + often + ", as: i}}\n",
	"refused": agentic("test.one", 64),
	"results": agentic("test.text", 1),
	"loop":    "  a: {uses: loop, with: {max_iterations: 1000, steps: {b: {uses: test.objects}}, output: \"${{ steps.b.output }}\"}}\n",
}

// agentic is an agent that asks for as many calls as it can, of a tool once and of others that are refused.
func agentic(tool string, calls int) string {
	return fmt.Sprintf("  a: {uses: agent, with: {agent: {model: \"%s %d\", tools: [%s], max_steps: 1000, on_repetition: go_on, subagents: false}, prompt: go}}\n",
		tool, calls, tool)
}

// asker is a model that asks for a call of one tool, and for others that are refused.
type asker struct {
	tool  string
	calls int
}

func (a asker) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	calls := make([]runtime.ToolCall, a.calls)
	for i := range calls {
		calls[i] = runtime.ToolCall{ID: fmt.Sprintf("c%d", i), Name: "test.none", Arguments: json.RawMessage(`{"path":"tiny"}`)}
	}
	calls[0].Name = a.tool
	return &runtime.Response{ToolCalls: calls, Usage: runtime.Usage{InputTokens: 1, OutputTokens: 1}}, nil
}

// TestGreedyRun is the run of TestDefaultsKeepARunSmall, in a process of its own.
func TestGreedyRun(t *testing.T) {
	text := greedy[os.Getenv("BRAISE_GREEDY")]
	if text == "" {
		t.Skip("for TestDefaultsKeepARunSmall")
	}
	const n = runtime.DefaultMaxOutputBytes
	rt := &runtime.Runtime{Tools: []runtime.Tool{
		says{"test.one", "1"},
		says{"test.objects", "[" + strings.Repeat(`{"":0},`, 10_000) + "0]"},
		says{"test.text", `"` + strings.Repeat("x", n-2) + `"`},
		says{"test.heavy", "[" + strings.Repeat(`{"":0},`, 20_000) + "0]"},
		says{"test.largest", "[" + strings.Repeat(`{"":0},`, n/7-1) + "0]"},
	}}
	rt.Models = map[string]runtime.Model{"test.one 64": asker{"test.one", 64}, "test.text 1": asker{"test.text", 1}}
	if os.Getenv("BRAISE_GREEDY_STORE") != "" {
		store, err := sqlite.Open(t.Context(), t.TempDir()+"/runs.db", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rt.Store = store
	}
	out, err := runtest.Load(t, []byte(runtest.Head+"inputs: {s: {type: string, default: x}}\nsteps:\n"+text)).Run(t.Context(), map[string]any{"s": strings.Repeat("x", 1000)}, rt)
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("status %s, %.200v, trace %d\n%s", out.Status, err, len(out.Trace), status)
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// trust 6.11, 8.14: the defaults of runtime.Limits keep one run below 512 MB, whatever its recipe and its agents do. The race detector takes
// several times the memory, so this file is not part of its builds.
func TestDefaultsKeepARunSmall(t *testing.T) {
	for name := range greedy {
		for _, store := range []string{"", "sqlite"} {
			if testing.Short() && (name != "strings" && name != "refused" || store == "") { // the greediest
				continue
			}
			t.Run(name+" "+store, func(t *testing.T) {
				cmd := exec.Command(os.Args[0], "-test.run=^TestGreedyRun$")
				cmd.Env = append(os.Environ(), "BRAISE_GREEDY="+name, "BRAISE_GREEDY_STORE="+store)
				text, err := cmd.CombinedOutput()
				m := peak.FindSubmatch(text)
				if err != nil || m == nil {
					t.Fatalf("%v\n%.2000s", err, text)
				}
				kb, _ := strconv.Atoi(string(m[1]))
				line, _, _ := strings.Cut(string(text), "\n")
				t.Logf("%d MB: %s", kb/1024, line)
				if kb > 512<<10 {
					t.Errorf("the run took %d MB", kb/1024)
				}
			})
		}
	}
}
