package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const old = "2025-11-25" // the last version of the protocol in which servers send their questions

// asking are the ways to a server that may ask.
func asking(t *testing.T) map[string]mcp.Config {
	web := endpoint(t)
	web.restart(&sdk.StreamableHTTPOptions{Stateless: true}) // with sessions, the SDK has the old versions only
	ways := map[string]mcp.Config{
		"stdio": command(t, "full"), "stdio, old": command(t, "old"),
		"http": web.config(), "http, old": endpoint(t, old).config(),
	}
	for name, cfg := range ways {
		cfg.Elicit = true
		ways[name] = cfg
	}
	return ways
}

const who = `{message: "Who?", requestedSchema: {type: object, properties: {name: {type: string, minLength: 1}, age: {type: integer, default: 7}}, required: [name]}}`

// asker is a run of a recipe whose every execution has a runtime and servers of its own.
type asker struct {
	t     *testing.T
	cfg   mcp.Config
	store checkpoint.Store
	model *runtimetest.Model
	wf    *workflow.Workflow
}

func newAsker(t *testing.T, cfg mcp.Config, steps string) *asker {
	a := &asker{t: t, cfg: cfg, store: &checkpoint.Memory{}}
	a.model = &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
			return &runtime.Response{Text: last.Text}, nil
		}
		return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "mcp.test.ask",
			Arguments: json.RawMessage(`{"questions": [{"message": "One?"}, {"message": "Two?"}]}`)}}}, nil
	}}
	r, err := recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\nsteps:\n"+steps))
	if err != nil {
		t.Fatal(err)
	}
	var rt *runtime.Runtime
	a.with(func(open *runtime.Runtime) { rt = open })
	if a.wf, err = workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()}); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *asker) with(do func(*runtime.Runtime)) {
	s := open(a.t, a.cfg)
	defer s.Close()
	do(&runtime.Runtime{Tools: s.Tools(), Store: a.store, Models: map[string]runtime.Model{"m": a.model}})
}

func (a *asker) run() (out *workflow.Outcome) {
	a.with(func(rt *runtime.Runtime) { out, _ = a.wf.Run(a.t.Context(), nil, rt) })
	return out
}

func (a *asker) answer(paused *workflow.Outcome, answer any) (out *workflow.Outcome) {
	a.t.Helper()
	if len(paused.Pauses) != 1 {
		a.t.Fatalf("%s, %v, pauses %+v", paused.Status, paused.Err, paused.Pauses)
	}
	a.with(func(rt *runtime.Runtime) {
		rt.Resume = resume.PassThrough{}
		out, _ = workflow.Resume(a.t.Context(), paused.Token, answer, rt, nil)
	})
	return out
}

// answers are those that the tool "ask" says it has got, and the key of its call.
func answers(t *testing.T, output any) (said []map[string]any, key string) {
	t.Helper()
	text, _ := output.(string)
	key, list, _ := strings.Cut(text, " ")
	if err := json.Unmarshal([]byte(list), &said); err != nil {
		t.Fatalf("output %v: %v", output, err)
	}
	return said, key
}

// A question pauses the step; the run goes on in another runtime, with another session, and the server gets the answers
// to all its questions in the last call.
func TestElicit(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		t.Run(name, func(t *testing.T) {
			a := newAsker(t, cfg, "  a: {uses: mcp.test.ask, with: {questions: ["+who+`, {message: "Sure?"}]}}`+"\n")
			out := a.run()
			if len(out.Pauses) != 1 {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
			got := out.Pauses[0]
			if !strings.HasPrefix(got.Reason, "elicitation:") {
				t.Errorf("reason %q", got.Reason)
			}
			want := resume.Pause{ID: "a", Step: "a", Kind: resume.Human, Prompt: "Who?", Decisions: []string{"approve", "reject"}, Default: "approve",
				Schema: map[string]any{"type": "object", "required": []any{"name"}, "properties": map[string]any{
					"name": map[string]any{"type": "string", "minLength": int64(1)}, "age": map[string]any{"type": "integer", "default": int64(7)}}},
				Show:   map[string]any{"server": "test", "tool": "mcp.test.ask"},
				Reason: got.Reason, Token: got.Token, CreatedAt: got.CreatedAt}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pause (-want +got):\n%s", diff)
			}
			if refused := a.answer(out, map[string]any{"decision": "approve"}); refused.Failure() == nil || refused.Failure().Code != "answer.unfit" {
				t.Errorf("without a name: %s, %v", refused.Status, refused.Err)
			}
			out = a.answer(out, map[string]any{"name": "Ada"})
			if len(out.Pauses) != 1 || out.Pauses[0].Prompt != "Sure?" || out.Pauses[0].Schema != nil {
				t.Fatalf("%s, %v, %+v", out.Status, out.Err, out.Pauses)
			}
			out = a.answer(out, map[string]any{"decision": "reject"})
			said, key := answers(t, out.Artefact["a"])
			if diff := cmp.Diff([]map[string]any{{"accept": map[string]any{"name": "Ada", "age": 7.0}}, {"decline": nil}}, said); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if want := resume.Key(out.RunID, 1, "a", 1, ""); key != want {
				t.Errorf("key %s, want %s", key, want)
			}
		})
	}
}

// An agent's call waits as a step's does.
func TestElicitInAgent(t *testing.T) {
	for _, name := range []string{"stdio", "stdio, old"} {
		a := newAsker(t, asking(t)[name], "  a: {uses: agent, with: {agent: {model: m, tools: [mcp.test.ask]}, prompt: go}}\n")
		out := a.answer(a.run(), map[string]any{"decision": "approve"})
		if len(out.Pauses) != 1 || out.Pauses[0].Prompt != "Two?" {
			t.Fatalf("%s: %s, %v, %+v", name, out.Status, out.Err, out.Pauses)
		}
		out = a.answer(out, map[string]any{"decision": "approve"})
		result, _ := out.Artefact["a"].(map[string]any)
		said, key := answers(t, result["text"])
		if len(said) != 2 || key != resume.Key(out.RunID, 1, "a", 1, "") || len(a.model.Requests()) != 2 {
			t.Errorf("%s: %v, key %s, %d requests", name, said, key, len(a.model.Requests()))
		}
	}
}

// A question that is asked again in the same call, as after an answer that the server does not take, is another one.
func TestElicitAgain(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		a := newAsker(t, cfg, "  a: {uses: mcp.test.ask, with: {questions: ["+who+", "+who+"]}}\n")
		out := a.answer(a.answer(a.run(), map[string]any{"name": "Ada"}), map[string]any{"name": "Bob", "age": 8})
		said, _ := answers(t, out.Artefact["a"])
		if diff := cmp.Diff([]map[string]any{{"accept": map[string]any{"name": "Ada", "age": 7.0}}, {"accept": map[string]any{"name": "Bob", "age": 8.0}}}, said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Outside of a run nobody can be asked.
func TestElicitOutsideOfARun(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		got, err := call(t.Context(), t, open(t, cfg), "ask", `{"questions": [{"message": "One?"}]}`)
		if want := `"\u003cnil\u003e [{\"decline\":null}]"`; err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}

// Without the setting, a server does not learn that there is somebody to ask.
func TestElicitIsOff(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		cfg.Elicit = false
		_, err := call(t.Context(), t, open(t, cfg), "ask", `{"questions": [{"message": "One?"}]}`)
		if err == nil {
			t.Fatalf("%s: it was answered", name)
		}
		if old := strings.Contains(name, "old"); old != strings.Contains(err.Error(), "client does not support") ||
			old == strings.Contains(err.Error(), "it asks for input\n  hint: elicit of the server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is no question to a person is refused, and the server's call, or ours, says so.
func TestQuestionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		s := open(t, cfg)
		for question, want := range map[string]string{
			`{"mode": "url", "message": "Pay", "url": "https://pay.test", "elicitationId": "1"}`: `"url"`,
			`{"message": "m", "requestedSchema": {"type": "string"}}`:                            "object",
			`{"message": "` + strings.Repeat("m", 70_000) + `"}`:                                 "its question has 70009 bytes, more than 65536",
		} {
			if !strings.Contains(name, "old") {
				want = strings.Replace(want, `"url"`, "only forms are supported, not pages of the Web", 1)
			}
			ctx := resume.WithIdempotencyKey(t.Context(), "key")
			_, err := call(ctx, t, s, "ask", `{"questions": [`+question+`]}`)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %.60s: %v, want %s", name, question, err, want)
			}
		}
	}
}

// A call may ask a hundred times.
func TestElicitTooOften(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		s := open(t, cfg)
		ask := func(n int) error {
			_, err := call(t.Context(), t, s, "ask", `{"questions": [`+strings.Repeat(`{"message": "?"},`, n-1)+`{"message": "?"}]}`)
			return err
		}
		if err := ask(100); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := ask(101); err == nil || !strings.Contains(err.Error(), "one call may ask 100 times at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that does not end its call is not waited for longer than for any other. Its session is over then, so that
// no question of that call is taken for one of the next.
func TestElicitAndHang(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stdio, old", "http, old"} {
		cfg := asking(t)[name]
		cfg.Timeout = time.Second
		s := open(t, cfg)
		ctx := resume.WithIdempotencyKey(t.Context(), "key")
		_, err := call(ctx, t, s, "ask", `{"questions": [{"message": "One?"}], "hang": true}`)
		checkAsks(t, err, "One?")
		if got, err := call(ctx, t, s, "put", `{}`); err != nil || got != `"key"` {
			t.Errorf("%s: then %s, %v", name, got, err)
		}
	}
}

func checkAsks(t *testing.T, err error, prompt string) {
	t.Helper()
	if asked, ok := err.(*resume.Suspension); !ok || asked.Pause.Prompt != prompt {
		t.Errorf("got %v, want the question %q", err, prompt)
	}
}

// The calls of a server that may ask are made one after the other, and one that waits for its turn can be given up.
func TestElicitOneAtATime(t *testing.T) {
	s := open(t, asking(t)["stdio, old"])
	began := filepath.Join(t.TempDir(), "began")
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan error)
	go func() {
		_, err := call(ctx, t, s, "hang", `{"began": "`+began+`"}`)
		hangs <- err
	}()
	waitFor(t, began)
	soon, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := call(soon, t, s, "echo", `{}`); err != context.DeadlineExceeded {
		t.Errorf("beside another call: %v", err)
	}
	cancel()
	if err := <-hangs; err == nil {
		t.Error("the one that hangs has ended")
	}
	if _, err := call(t.Context(), t, s, "echo", `{}`); err != nil {
		t.Errorf("the next one: %v", err)
	}
	s.Close()
	if _, err := call(t.Context(), t, s, "echo", `{}`); err == nil || !strings.Contains(err.Error(), "it was closed") {
		t.Errorf("closed: %v", err)
	}
}

// Secrets of the server are kept out of questions.
func TestElicitRedacts(t *testing.T) {
	for _, mode := range []string{"full", "old"} {
		cfg := command(t, mode, "SECRET", "hunter22hunter")
		cfg.Elicit = true
		_, err := call(resume.WithIdempotencyKey(t.Context(), "key"), t, open(t, cfg), "ask", `{"questions": [{"message": "Is it hunter22hunter?",
			"requestedSchema": {"type": "object", "properties": {"x": {"type": "string", "description": "not hunter22hunter"}}}}]}`)
		checkAsks(t, err, "Is it ***?")
		if asked, ok := err.(*resume.Suspension); ok && strings.Contains(fmt.Sprint(asked.Pause.Schema), "hunter22") {
			t.Errorf("%s: %v", mode, asked.Pause.Schema)
		}
	}
}

// The result of a call that was told that its question is not answered yet is dropped, and an answer to another question is
// none to this one.
func TestElicitDropsTheResult(t *testing.T) {
	t.Parallel()
	for name, cfg := range asking(t) {
		dir := t.TempDir()
		told := filepath.Join(dir, "told")
		ctx := &resume.CallContext{Context: t.Context(), RunID: "r", Generation: 1, Path: "a", Ordinal: 1,
			Detail: &resume.CallDetail{Answered: true, Replies: []resume.Reply{{To: "elicitation:0000000000000000", Answer: map[string]any{"decision": "approve"}}}}}
		_, err := call(ctx, t, open(t, cfg), "ask", `{"questions": [{"message": "One?"}], "cancelled": "`+told+`"}`)
		checkAsks(t, err, "One?")
		if _, err := os.Stat(told); (err == nil) != strings.Contains(name, "old") {
			t.Errorf("%s: told: %v", name, err)
		}
	}
}
