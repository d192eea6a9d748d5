package gemini_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// price is that of a model in dollars per million tokens.
var price = runtime.Price{Input: 2, Output: 10, CachedRead: 0.1}

// process is a Runtime as a new process would make it: of the same file and the same provider. It streams if asked to.
func process(t *testing.T, file string, model runtime.Model, stream bool) *runtime.Runtime {
	t.Helper()
	store, err := sqlite.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	look := runtime.NewTool(runtime.ToolSpec{Name: "page.read", Description: "Reads a page.", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct {
			Page int `json:"page"`
		}) (string, error) {
			return fmt.Sprintf("Page %d. ", in.Page) + strings.Repeat("It was a dark and stormy night. ", 60), nil
		})
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Models: map[string]runtime.Model{"m": model},
		Tools: []runtime.Tool{look}, Prices: map[string]runtime.Price{"m": price}}
	if stream {
		rt.Trace = []trace.Sink{pieces{}}
	}
	return rt
}

// pieces is a sink that wants answers in pieces, so that models stream.
type pieces struct{}

func (pieces) Emit(trace.Event)     {}
func (pieces) Detail() trace.Detail { return trace.Detail{Deltas: true} }

func compiled(t *testing.T, source string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("loop.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// An agent of twenty turns reads nearly all of its conversation from the provider's cache, and its cost is the bill,
// also after another process has resumed it in the middle. Nothing in the recipe is about caching.
func TestTwentyTurnsComeFromTheCache(t *testing.T) {
	const turns = 20
	wf := compiled(t, `apiVersion: braise/v1
name: reader
steps:
  read:
    uses: agent
    with:
      agent: {model: m, tools: [page.read, human.ask], max_steps: 100, instructions: "`+strings.Repeat("You are a careful reader of long books. ", 100)+`"}
      prompt: Read the book.
output: ${{ steps.read.output.text }}
`)
	for _, name := range []string{"gemini-3.8-flash", "gemini-2.5-flash"} {
		p, model := serve(t, gemini.Options{Model: name, Reasoning: "low"}, func(r *sent) answer {
			n := 1 // of the turn
			for _, c := range r.Contents {
				if c.Role == "model" {
					n++
				}
			}
			parts := []map[string]any{thought(fmt.Sprintf("Page %d is next.", n))}
			switch {
			case n == turns:
				return answer{parts: []map[string]any{signed(text("I have read it."))}, output: 12, thoughts: 7}
			case n == turns/2:
				return answer{parts: append(parts, signed(use("", "human__ask", map[string]any{"question": "Go on?"}))), output: 40}
			}
			for i := range 1 + n%3*5 { // up to eleven calls in a turn; the first is signed
				read := use(fmt.Sprintf("f%d_%d", n, i), "page__read", map[string]any{"page": n*100 + i})
				if i == 0 {
					read = signed(read)
				}
				parts = append(parts, read)
			}
			return answer{parts: parts, output: 30 + n, thoughts: n}
		})
		file := filepath.Join(t.TempDir(), "runs.db")
		out, err := wf.Run(t.Context(), nil, process(t, file, model, false))
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatalf("%v, %v, %v", out.Status, err, p.faults)
		}
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "yes"},
			process(t, file, connect(t, p.srv, gemini.Options{Model: name, Reasoning: "low"}), true), nil)
		if err != nil || out.Output != "I have read it." || len(p.faults) > 0 || len(p.usages) != turns {
			t.Fatalf("%d answers, %v, %v: %v", len(p.usages), out.Output, err, p.faults)
		}

		bill, before, thoughts := 0.0, 0, 0
		for i, u := range p.usages {
			prompt, cached := u["promptTokenCount"], u["cachedContentTokenCount"]
			bill += float64(prompt-cached)*price.Input + float64(cached)*price.CachedRead +
				float64(u["candidatesTokenCount"]+u["thoughtsTokenCount"])*price.Output
			if thoughts += u["thoughtsTokenCount"]; i > 0 && cached*100 < before*90 {
				t.Errorf("%s: turn %d reads %d tokens from the cache; the request before had %d", name, i+1, cached, before)
			}
			before = prompt
		}
		if math.Abs(out.Usage.CostUSD*1e6-bill) > turns { // each call is rounded to a millionth
			t.Errorf("%s: the cost is $%f, the bill $%f", name, out.Usage.CostUSD, bill/1e6)
		}
		if u := out.Usage; u.CachedTokens == 0 || u.CacheWriteTokens != 0 || u.Calls != turns || u.ReasoningTokens != int64(thoughts) {
			t.Errorf("%s: the usage is %+v", name, u)
		}
	}
}

// Thoughts and signatures go back unchanged and in their places, whether they came in pieces or not, and also after
// another process has resumed the run. Calls without ids have the same one for their result.
func TestThoughtsGoBack(t *testing.T) {
	wf := compiled(t, `apiVersion: braise/v1
name: thinker
steps: {ask: {uses: agent, with: {agent: {model: m, tools: [human.ask, page.read]}, prompt: "Who is it?"}}}
output: ${{ steps.ask.output.text }}
`)
	for _, name := range []string{"gemini-3.8-flash", "gemini-2.5-flash"} {
		for _, stream := range []bool{false, true} {
			p, model := serve(t, gemini.Options{Model: name, Reasoning: "high"}, func(r *sent) answer {
				if len(r.Contents) > 1 {
					return answer{parts: []map[string]any{thought("So it is."), text("Ann")}}
				}
				return answer{parts: []map[string]any{thought("Who <may> \"it\" be? é"), text("I ask, "), {"executableCode": map[string]any{"code": "1"}}, text("and read."),
					signed(use("", "human__ask", map[string]any{"question": "Who?"})), use("", "page__read", map[string]any{"page": 1}), text("Wait.")}}
			})
			file := filepath.Join(t.TempDir(), "runs.db")
			out, err := wf.Run(t.Context(), nil, process(t, file, model, stream))
			if err != nil || out.Status != workflow.StatusPaused {
				t.Fatalf("%v, %v, %v", out.Status, err, p.faults)
			}
			out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "Ann"}, process(t, file, model, stream), nil)
			if err != nil || out.Output != "Ann" {
				t.Fatalf("%s, stream %t: the output is %v, %v, %v", name, stream, out.Output, err, p.faults)
			}
			last := p.got[len(p.got)-1]
			want := "user: \"Who is it?\"\n" +
				"model: (Who <may> \"it\" be? é) \"I ask, \" #{\"code\":\"1\"} \"and read.\" call_1_1=human__ask({\"question\":\"Who?\"})~ call_1_2=page__read({\"page\":1}) \"Wait.\"\n" +
				"user: call_1_1→human__ask:"
			if got := words(last); !strings.HasPrefix(got, want) || !strings.Contains(got, " call_1_2→page__read:\"Page 1. It was") || last.stream != stream {
				t.Errorf("%s, stream %t (-want +got):\n%s", name, stream, cmp.Diff(want, got))
			}
		}
	}
}

// A signature that was changed is refused, for good.
func TestAChangedSignatureIsRefused(t *testing.T) {
	_, m := serve(t, gemini.Options{}, nil)
	_, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a"),
		ordered(assistant("", call("1", "look", `{}`)), "gemini-3.8-flash", `[{"call":true,"signature":"`+signature("other", nil)+`"}]`), result("1", "x")}})
	want := failed{"", 400, 0, "", "status 400 Bad Request: contents[1]: parts[0]: Thought signature is not valid"}
	if diff := cmp.Diff(want, failure(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The same conversation is the same bytes, however often it is rendered.
func TestRequestsOfAThreadBeginAlike(t *testing.T) {
	messages := []runtime.Message{system("Be kind."), user("a")}
	var before []string
	for n := range 6 {
		p, m := serve(t, gemini.Options{}, says(text("ok")))
		if _, err := m.Generate(t.Context(), &runtime.Request{Messages: messages, Tools: []runtime.ToolSpec{{Name: "look"}, {Name: "read"}}}); err != nil {
			t.Fatal(err)
		}
		now := []string{string(jsonOf(p.got[0].SystemInstruction)), string(jsonOf(p.got[0].Tools))}
		for _, c := range p.got[0].Contents {
			for _, part := range c.Parts {
				now = append(now, c.Role+string(jsonOf(part)))
			}
		}
		if len(now) < len(before) || !slices.Equal(before, now[:len(before)]) {
			t.Errorf("request %d does not begin as the one before:\n%s", n+1, cmp.Diff(before, now))
		}
		before = now
		id, other := fmt.Sprint(n), fmt.Sprint(n, "b")
		messages = append(messages, assistant("", runtime.ToolCall{ID: id, Name: "look", Arguments: json.RawMessage(`{}`)}, runtime.ToolCall{ID: other, Name: "read", Arguments: json.RawMessage(`{}`)}),
			result(other, "that"), result(id, "it"), system("Layer."))
	}
}
