package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// thinker is an endpoint that refuses a request which leaves out what it said before.
func thinker(t *testing.T, refused *int) http.HandlerFunc {
	const first = `"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "thought": {"n": 1.5}, "tool_calls": [
		{"id": "1", "type": "function", "function": {"name": "human__ask", "arguments": "{\"question\":\"Who?\"}"},
		"extra_content": {"google": {"thought_signature": "abc<"}}}]`
	return func(w http.ResponseWriter, r *http.Request) {
		var req struct{ Messages []map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		if len(req.Messages) < 2 {
			answer(200, `{"choices": [{"message": {`+first+`}, "finish_reason": "tool_calls"}]}`)(w, r)
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte("{"+first+"}"), &want); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, req.Messages[1]); diff != "" {
			*refused++
			t.Errorf("what comes back of the answer (-want +got):\n%s", diff)
			answer(400, `{"error": {"message": "the reasoning is missing"}}`)(w, r)
			return
		}
		answer(200, `{"choices": [{"message": {"content": "Ann"}, "finish_reason": "stop"}]}`)(w, r)
	}
}

// trust 3.5: what an endpoint says that nobody reads is given back to it, also after a pause, from the journal, and
// whether the answer came in pieces or not.
func TestPartsComeBack(t *testing.T) {
	const source = `apiVersion: braise/v1
name: parts
steps: {ask: {uses: agent, with: {agent: {model: m, tools: [human.ask]}, prompt: "Who is it?"}}}
output: ${{ steps.ask.output.text }}
`
	r, err := recipe.Parse("parts.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	m := connect(t, serve(t, thinker(t, &refused)), openai.Options{})
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Store: &checkpoint.Memory{},
		Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%v: %v", out.Status, err)
	}
	out, err = wf.Resume(t.Context(), out.Pauses[0].Token, map[string]any{"answer": "Ann"}, rt)
	if err != nil || out.Output != "Ann" || refused > 0 {
		t.Errorf("the output is %v, %d requests were refused: %v", out.Output, refused, err)
	}
}

// trust 3.5: parts of one model are not given to another one.
func TestPartsOfOthers(t *testing.T) {
	var got []map[string]any
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var req struct{ Messages []map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		got = req.Messages
		answer(200, `{"choices": [{"message": {"content": "x"}}]}`)(w, r)
	})
	m := connect(t, srv, openai.Options{})
	_, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{{Role: runtime.Assistant, Text: "a", Parts: []runtime.Part{
		{Of: "other/m", Name: "thought", Data: json.RawMessage(`1`)}, {Of: "127.0.0.1/m", Name: "thought", Data: json.RawMessage(`2`)},
		{Of: "127.0.0.1/m", Name: "role", Data: json.RawMessage(`"system"`)},
	}}}})
	want := []map[string]any{{"role": "assistant", "content": "a", "thought": 2.0}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
}

// Thinking that comes in very many pieces comes back whole, and soon.
func TestThinkingInManyPieces(t *testing.T) {
	const pieces = 30_000
	m := connect(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range pieces {
			fmt.Fprint(w, `data: {"choices":[{"delta":{"reasoning_content":"so it is\n"}}]}`, "\n\n")
		}
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}]}`, "\n\ndata: [DONE]\n\n")
	}), openai.Options{})
	began := time.Now()
	resp, err := m.Stream(t.Context(), &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "Go"}}}, func(runtime.Delta) {})
	if err != nil || len(resp.Parts) != 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	var text string
	if err := json.Unmarshal(resp.Parts[0].Data, &text); err != nil || text != strings.Repeat("so it is\n", pieces) {
		t.Errorf("%d bytes came back, want %d (%v)", len(text), 9*pieces, err)
	}
	if took := time.Since(began); took > time.Minute { // reading all again for each piece takes minutes on an idle machine
		t.Errorf("it took %v", took)
	}
}
