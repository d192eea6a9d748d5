package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// cachingEndpoint is an endpoint that caches prompts as OpenAI does: from 1,024 tokens on, in steps of 128.
type cachingEndpoint struct {
	t      *testing.T
	wire   runtimetest.Wire
	before string // the prompt of the request before
	turns  int
	bill   float64 // millionths of a US dollar, each call rounded up as a run does it
}

var cachedPrice = runtime.Price{Input: 2, CachedRead: 0.2, Output: 8}

const bytesOfToken = 4

func (e *cachingEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	asked, err := e.wire.Read(r, body)
	if err != nil {
		e.t.Errorf("the request is refused: %v", err)
		answer(400, err.Error())(w, r)
		return
	}
	prompt := string(encode(asked.Tools)) + asked.System
	if len(asked.Thinking) != e.turns {
		e.t.Errorf("turn %d: %d thoughts came back", e.turns+1, len(asked.Thinking))
	}
	for _, msg := range asked.Messages {
		prompt += string(encode(msg))
	}
	same := 0
	for same < min(len(prompt), len(e.before)) && prompt[same] == e.before[same] {
		same++
	}
	cached := same / bytesOfToken / 128 * 128
	if cached < 1024 {
		cached = 0
	}
	if share := float64(cached) / float64(len(e.before)/bytesOfToken); e.turns > 0 && share < 0.9 {
		e.t.Errorf("turn %d: %.0f %% of the request before are read from the cache", e.turns+1, 100*share)
	}
	e.before = prompt
	e.turns++
	reply := &runtimetest.Reply{Thinking: fmt.Sprintf("Turn %d.", e.turns), Finish: runtime.FinishCalls, Usage: runtime.Usage{InputTokens: len(prompt) / bytesOfToken,
		CachedTokens: cached, OutputTokens: 30}}
	switch e.turns {
	case 20:
		reply.Text, reply.Finish = "Done.", runtime.FinishStop
	case 10:
		reply.Calls = []runtime.ToolCall{{ID: "c10", Name: "crm__pay", Arguments: json.RawMessage(`{}`)}}
	default:
		reply.Calls = []runtime.ToolCall{{ID: fmt.Sprintf("c%d", e.turns), Name: "crm__lookup",
			Arguments: json.RawMessage(fmt.Sprintf(`{"id":%d}`, e.turns))}}
	}
	cost := 2*float64(reply.Usage.InputTokens-cached) + 0.2*float64(cached) + 8*float64(reply.Usage.OutputTokens)
	e.bill += math.Ceil(cost - 1e-9)
	answer(200, e.wire.Whole(asked, reply))(w, r)
}

// The requests of an agent begin as those before them, so the provider reads nearly all of them from its cache; what
// the run says it costs is what the provider charges, also when it went on in another process.
func TestAgentIsCached(t *testing.T) {
	t.Run("chat completions", func(t *testing.T) { testCached(t, chatWire{}, openai.Options{APIKey: key}) })
	t.Run("responses", func(t *testing.T) {
		testCached(t, responsesWire{}, openai.Options{APIKey: key, API: openai.ResponsesAPI, Model: "gpt-5-mini"})
	})
}

func testCached(t *testing.T, wire runtimetest.Wire, opts openai.Options) {
	const source = `
apiVersion: braise/v1
name: work
agents:
  clerk:
    model: fast
    instructions: INSTRUCTIONS
    tools: [crm.lookup, crm.pay]
    approval: {crm.pay: pause}
    max_steps: 20
steps: {work: {uses: agent, with: {agent: clerk, prompt: Look at all customers.}}}
`
	r, err := recipe.Parse("work.yaml", []byte(strings.Replace(source, "INSTRUCTIONS", strings.Repeat("Be brief. ", 1000), 1)))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := &cachingEndpoint{t: t, wire: wire}
	srv := serve(t, endpoint.ServeHTTP)
	file := filepath.Join(t.TempDir(), "runs.db")
	process := func(run func(rt *runtime.Runtime) (*workflow.Outcome, error)) *workflow.Outcome {
		store, err := sqlite.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		look := runtimetest.NewTool("crm.lookup", func(_ context.Context, args json.RawMessage) (any, error) {
			return strings.Repeat(string(args), 200), nil
		})
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": connect(t, srv, opts)},
			Tools: []runtime.Tool{look, runtimetest.NewTool("crm.pay", nil)}, Store: store, Resume: resume.PassThrough{},
			Prices: map[string]runtime.Price{"fast": cachedPrice}}
		out, err := run(rt)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	paused := process(func(rt *runtime.Runtime) (*workflow.Outcome, error) { return wf.Run(t.Context(), nil, rt) })
	if paused.Status != workflow.StatusPaused || endpoint.turns != 10 {
		t.Fatalf("%s after %d turns", paused.Status, endpoint.turns)
	}
	out := process(func(rt *runtime.Runtime) (*workflow.Outcome, error) {
		return wf.Resume(t.Context(), paused.Token, map[string]any{"decision": "approve"}, rt)
	})
	if out.Status != workflow.StatusOK || endpoint.turns != 20 || out.Usage.Calls != 20 {
		t.Fatalf("%s after %d turns: %+v", out.Status, endpoint.turns, out.Usage)
	}
	if got := math.Round(out.Usage.CostUSD * 1e6); got != endpoint.bill {
		t.Errorf("the run costs %v millionths of a dollar, the provider charges %v", got, endpoint.bill)
	}
	if share := float64(out.Usage.CachedTokens) / float64(out.Usage.InputTokens); share < 0.8 {
		t.Errorf("%.0f %% of the input are read from the cache", 100*share)
	}
}
