package anthropic_test

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

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// price is that of a model in dollars per million tokens.
var price = runtime.Price{Input: 3, Output: 15, CachedRead: 0.3, CacheWrite: 3.75}

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
	say := func(r *sent) answer {
		n := len(r.Messages)/2 + 1
		calls := []map[string]any{thought(fmt.Sprintf("Page %d is next.", n))}
		switch {
		case n == turns:
			return answer{blocks: []map[string]any{text("I have read it.")}, output: 12}
		case n == turns/2:
			return answer{blocks: append(calls, use("toolu_ask", "human__ask", map[string]any{"question": "Go on?"})), output: 40}
		}
		for i := range 1 + n%3*5 { // up to eleven calls in a turn: more blocks than the provider looks back for
			calls = append(calls, use(fmt.Sprintf("toolu_%d_%d", n, i), "page__read", map[string]any{"page": n*100 + i}))
		}
		return answer{blocks: calls, output: 30 + n}
	}
	p, model := serve(t, anthropic.Options{}, say)
	file := filepath.Join(t.TempDir(), "runs.db")
	out, err := wf.Run(t.Context(), nil, process(t, file, model, false))
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%v, %v", out.Status, err)
	}
	out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "yes"}, process(t, file, connect(t, p.srv, anthropic.Options{}), true), nil)
	if err != nil || out.Output != "I have read it." || len(p.faults) > 0 || len(p.usages) != turns {
		t.Fatalf("%d answers, %v, %v: %v", len(p.usages), out.Output, err, p.faults)
	}

	bill, before := 0.0, 0
	for i, u := range p.usages {
		read, written, rest := u["cache_read_input_tokens"], u["cache_creation_input_tokens"], u["input_tokens"]
		bill += float64(rest)*price.Input + float64(read)*price.CachedRead + float64(written)*price.CacheWrite + float64(u["output_tokens"])*price.Output
		if i > 0 && read*100 < before*90 {
			t.Errorf("turn %d reads %d tokens from the cache; the request before had %d", i+1, read, before)
		}
		before = read + written + rest
	}
	if math.Abs(out.Usage.CostUSD*1e6-bill) > turns { // each call is rounded to a millionth
		t.Errorf("the cost is $%f, the bill $%f", out.Usage.CostUSD, bill/1e6)
	}
	if out.Usage.CachedTokens == 0 || out.Usage.CacheWriteTokens == 0 || out.Usage.Calls != turns {
		t.Errorf("the usage is %+v", out.Usage)
	}
}

// Thoughts and their signatures go back unchanged and in their places, whether they came in pieces or not, and also
// after another process has resumed the run.
func TestThoughtsGoBack(t *testing.T) {
	wf := compiled(t, `apiVersion: braise/v1
name: thinker
steps: {ask: {uses: agent, with: {agent: {model: m, tools: [human.ask, page.read]}, prompt: "Who is it?"}}}
output: ${{ steps.ask.output.text }}
`)
	for _, name := range []string{"claude-sonnet-5-5", "claude-haiku-4-5"} {
		for _, stream := range []bool{false, true} {
			p, model := serve(t, anthropic.Options{Model: name, Reasoning: "high"}, func(r *sent) answer {
				if len(r.Messages) > 1 {
					return answer{blocks: []map[string]any{thought("So it is."), text("Ann")}}
				}
				return answer{blocks: []map[string]any{thought("Who <may> \"it\" be? é"), text("I ask, "), {"type": "redacted_thinking", "data": "eHl6"},
					text("and read."), use("toolu_1", "human__ask", map[string]any{"question": "Who?"}), thought("And also"), use("toolu_2", "page__read", map[string]any{"page": 1})}}
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
				"assistant: (Who <may> \"it\" be? é) \"I ask, \" (#eHl6) \"and read.\" toolu_1=human__ask({\"question\":\"Who?\"}) (And also) toolu_2=page__read({\"page\":1})\n" +
				"user: toolu_1→"
			if got := words(last); !strings.HasPrefix(got, want) || last.Stream != stream || last.Thinking == nil {
				t.Errorf("%s, stream %t, thinking %v (-want +got):\n%s", name, stream, last.Thinking, cmp.Diff(want, got))
			}
		}
	}
}

// A thought that was changed is refused, for good.
func TestAChangedThoughtIsRefused(t *testing.T) {
	changed := thought("Hm.")
	changed["thinking"] = "Ha."
	_, m := serve(t, anthropic.Options{}, nil)
	_, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a"), {Role: runtime.Assistant, Text: "b",
		Parts: []runtime.Part{{Of: "anthropic/claude-sonnet-5-5", Name: "order", Data: jsonOf([]any{changed, 1})}}}, user("c")}})
	want := failed{"", 400, 0, "", "status 400 Bad Request: messages.1: content.0: Invalid `signature` in `thinking` block"}
	if diff := cmp.Diff(want, failure(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The same conversation is the same bytes up to the marks of the cache, however often it is rendered.
func TestRequestsOfAThreadBeginAlike(t *testing.T) {
	messages := []runtime.Message{system("Be kind."), user("a")}
	var before []any
	for n := range 6 {
		p, m := serve(t, anthropic.Options{}, func(*sent) answer { return answer{blocks: []map[string]any{text("ok")}} })
		if _, err := m.Generate(t.Context(), &runtime.Request{Messages: messages, Tools: []runtime.ToolSpec{{Name: "look"}}}); err != nil {
			t.Fatal(err)
		}
		var now []any
		for _, turn := range p.got[0].Messages {
			for _, b := range turn.Content {
				b.Cache = nil
				now = append(now, string(jsonOf(b)))
			}
		}
		if len(now) < len(before) || !slices.Equal(before, now[:len(before)]) {
			t.Errorf("request %d does not begin as the one before:\n%s", n+1, cmp.Diff(before, now))
		}
		before = now
		id := fmt.Sprint(n)
		messages = append(messages, assistant("", runtime.ToolCall{ID: id, Name: "look", Arguments: json.RawMessage(`{}`)}), result(id, "it"), system("Layer."))
	}
}

// Where the marks stand: at the end of what the next request begins with, and nowhere where there is none.
func TestMarks(t *testing.T) {
	look := []runtime.ToolSpec{{Name: "look"}, {Name: "read"}}
	thread := []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "x"), assistant("b", call("2", "look", `{}`), call("3", "look", `{}`)), result("2", "y"), result("3", "z")}
	for _, tt := range []struct {
		name string
		req  runtime.Request
		want string
	}{
		{"one question", runtime.Request{Messages: []runtime.Message{user("a")}}, ""},
		{"one question with instructions", runtime.Request{Messages: []runtime.Message{system("S"), user("a")}}, "system 0"},
		{"the first turn of an agent", runtime.Request{Messages: []runtime.Message{system("S"), user("a"), user("b")}, Tools: look}, "system 0, message 0.1"},
		{"with a layer of this run", runtime.Request{Messages: []runtime.Message{system("S"), system("Skill"), system("Layer"), user("a")}, Tools: look}, "system 1, system 2, message 0.0"},
		{"without instructions", runtime.Request{Messages: []runtime.Message{user("a")}, Tools: look}, "tool 1, message 0.0"},
		{"a later turn", runtime.Request{Messages: thread, Tools: look}, "tool 1, message 2.0, message 4.1"},
		{"a conversation without tools", runtime.Request{Messages: []runtime.Message{user("a"), assistant("b"), user("c")}}, "message 0.0, message 2.0"},
	} {
		p, m := serve(t, anthropic.Options{}, func(*sent) answer { return answer{blocks: []map[string]any{text("ok")}} })
		if _, err := m.Generate(t.Context(), &tt.req); err != nil {
			t.Fatal(err)
		}
		var got []string
		r := p.got[0]
		for i, tool := range r.Tools {
			if tool.Cache != nil {
				got = append(got, fmt.Sprintf("tool %d", i))
			}
		}
		for i, b := range r.System {
			if b.Cache != nil {
				got = append(got, fmt.Sprintf("system %d", i))
			}
		}
		for i, turn := range r.Messages {
			for j, b := range turn.Content {
				if b.Cache != nil {
					got = append(got, fmt.Sprintf("message %d.%d", i, j))
				}
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
