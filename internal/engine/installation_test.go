package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

// trust 1.1, 7.3: of what a tool, the installation and the recipe ask for, the strictest holds; what the installation
// denies is not offered, or, where that depends on the arguments, refused. Steps are no concern of it.
func TestApprovalOfTheInstallation(t *testing.T) {
	for _, tt := range []struct {
		name, own string
		approval  map[string]string
		deny      []string
		status    string
		says      string // in the result that the model gets; "": the call was made
	}{
		{"nothing", "never", nil, nil, "ok", ""},
		{"stricter than the agent", "never", map[string]string{"t.send": "pause"}, nil, "paused", ""},
		{"by the effect", "never", map[string]string{"external": "pause"}, nil, "paused", ""},
		{"the most specific key", "never", map[string]string{"*": "refuse", "t.*": "never"}, nil, "ok", ""},
		{"the agent is stricter", "pause", map[string]string{"t.send": "never"}, nil, "paused", ""},
		{"refused", "never", map[string]string{"t.send": "refuse"}, nil, "ok", "refuse"},
		{"denied", "never", nil, []string{"t.send"}, "ok", "there is no tool"},
		{"all is denied", "never", nil, []string{"*"}, "ok", "there is no tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &runtest.Effects{}
			rt := runtest.Approving(e)
			rt.Approver, rt.Approval, rt.Deny, rt.Reporter = nil, tt.approval, tt.deny, &runtest.Quiet{}
			out, _ := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: agent, with: {agent: {model: m, tools: [t.send], approval: `+tt.own+`}, prompt: 't.send {"n":1}'}}
output: ${{ steps.a.output.text }}
`)).Run(t.Context(), nil, rt)
			if string(out.Status) != tt.status {
				t.Fatalf("trust 1.1: %s: %v, want %s", out.Status, out.Err, tt.status)
			}
			want := `sent {"n":1}`
			if tt.says != "" {
				want = tt.says
			}
			if text := fmt.Sprint(out.Output); tt.status == "ok" && !strings.Contains(text, want) {
				t.Errorf("trust 1.1: the model was told %q, want %q", text, want)
			}
		})
	}
}

// witness is a sink that counts, and an approver that says yes.
type witness struct{ events, asked int }

func (n *witness) Emit(trace.Event) { n.events++ }
func (n *witness) Approve(context.Context, runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	n.asked++
	return runtime.ApprovalDecision{Allow: true}, nil
}

// trust 1.13: a run uses the ports of plugins as it does those of the host, when it is resumed too.
func TestPortsOfPlugins(t *testing.T) {
	n := &witness{}
	plugin := runtime.Plugin{Key: "all", Approver: n, Trace: []trace.Sink{n}, Prices: map[string]runtime.Price{"m": {Input: 1, Output: 1}},
		Retriever: runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) {
			return []runtime.Document{{ID: "a", Text: "found"}}, nil
		})}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts("x")}, Plugins: []runtime.Plugin{plugin},
		Tools: []runtime.Tool{runtimetest.NewTool("t.send", func(context.Context, json.RawMessage) (any, error) { return 1, nil })},
		Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, Diagnostics: diagnostics.Strict}
	wf := runtest.Load(t, []byte(runtest.Head+`limits: {cost_usd: 5}
requires: {capabilities: [retriever, approver, trace]}
steps:
  ask: {uses: human, with: {prompt: Go on}}
  docs: {uses: retrieve, needs: [ask], with: {query: x}}
  say: {uses: model, needs: [ask], with: {model: m, prompt: hi}}
output: ${{ steps.docs.output.documents[0].text }}
`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatalf("trust 1.13: %v", err)
	}
	before := n.events
	if out, err = wf.Resume(t.Context(), out.Token, runtest.Yes, rt); err != nil || out.Output != "found" || before == 0 || n.events <= before {
		t.Errorf("trust 1.13: %v, %v; the sink had %d events, then %d", out.Output, err, before, n.events)
	}
	if len(rt.Trace) != 0 {
		t.Error("trust 1.13: the runtime was changed")
	}
}
