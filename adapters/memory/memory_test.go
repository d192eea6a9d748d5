package memory_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/postgres"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

var (
	_ runtime.Memory    = (*memory.Memory)(nil)
	_ agentloop.Archive = (*memory.Memory)(nil)
)

type store interface {
	checkpoint.Store
	checkpoint.Documents
}

// onStores runs a test on a memory of every store, each empty.
func onStores(t *testing.T, test func(t *testing.T, m *memory.Memory, s store)) {
	for name, open := range map[string]func(*testing.T) (store, error){
		"memory": func(*testing.T) (store, error) { return &checkpoint.Memory{}, nil },
		"jsonl":  func(t *testing.T) (store, error) { return jsonl.Open(t.TempDir()) },
		"sqlite": func(t *testing.T) (store, error) {
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
		},
		"postgres": openPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			test(t, memory.New(s), s)
		})
	}
}

// openPostgres opens a store in a schema of its own, which psql removes in the end.
func openPostgres(t *testing.T) (store, error) {
	server := os.Getenv("BRAISE_TEST_POSTGRES")
	if server == "" {
		server = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	psql := func(sql string) error {
		out, err := exec.Command("psql", server, "-v", "ON_ERROR_STOP=1", "-qc", sql).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("NO POSTGRES SERVER OR NO PSQL (set BRAISE_TEST_POSTGRES): %w %s", err, out)
		}
		return err
	}
	err := psql("SELECT 1")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		return nil, err
	}
	schema := "memory_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		if err := psql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + schema + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return postgres.Open(t.Context(), server, &postgres.Options{Schema: schema})
}

var thread = runtime.Conversation{Thread: "t1", Resource: "ann"}

// stored returns the documents of the conversation thread: their names are part of the format.
func stored(t *testing.T, s store) []checkpoint.Document {
	t.Helper()
	docs, err := s.Documents(t.Context(), `["conversation","t1","ann"]`)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// failing is a store that, while it is told so, takes no record of a saved memory.
type failing struct {
	store
	crash bool
}

func (f *failing) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	for _, rec := range recs {
		if f.crash && strings.Contains(string(rec.Data), fmt.Sprintf(`"kind":%q`, agents.MemorySaved)) {
			return errors.New("crashed")
		}
	}
	return f.store.Append(ctx, l, after, recs...)
}

// said prints messages, one on a line.
func said(messages []runtime.Message) (list []string) {
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Text
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" %s %s(%s)", c.ID, c.Name, c.Arguments)
		}
		list = append(list, line)
	}
	return list
}

// The messages of an agent are in the next run, once, and only if the agent succeeded.
func TestLoop(t *testing.T) {
	onStores(t, func(t *testing.T, m *memory.Memory, s store) {
		loop := &agentloop.Loop{Tools: agentloop.AllTools, Name: "clerk", Model: "m", Instructions: "Be short.", Memory: thread, MaxSubagents: -1,
			Approval: map[string]agentloop.Approval{"t.gated": agentloop.ApprovePause}}
		wf, err := workflow.Agent(loop, nil)
		if err != nil {
			t.Fatal(err)
		}
		journal := &failing{store: s}
		host := func(id string, model *runtimetest.Model) *runtime.Runtime {
			return &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Memory: m,
				Tools: []runtime.Tool{runtimetest.NewTool("t.find", nil), runtimetest.NewTool("t.gated", nil)},
				Store: journal, NewRunID: func() string { return id }}
		}
		run := func(id, prompt string, model *runtimetest.Model) (*workflow.Outcome, error) {
			return wf.Run(t.Context(), map[string]any{"prompt": prompt}, host(id, model))
		}
		call := func(name string) runtimetest.Answer {
			return runtimetest.Answer{ToolCalls: []runtime.ToolCall{{ID: "1", Name: name, Arguments: json.RawMessage(`{"b":1.0,"a":"<&>"}`)}}}
		}
		first := &runtimetest.Model{Answers: []runtimetest.Answer{call("t.find"), {Text: "It is Ann."}}}
		if _, err := run("run-1", "Who is 7?", first); err != nil {
			t.Fatal(err)
		}
		second := runtimetest.Texts("Still Ann.")
		if _, err := run("run-2", "And now?", second); err != nil {
			t.Fatal(err)
		}
		history := []string{"user: Who is 7?", `assistant:  1 t.find({"a":"<&>","b":1})`, `tool: {"a":"<&>","b":1}`, "assistant: It is Ann."}
		sees := append([]string{"system: Be short."}, history...)
		same(t, "what the second run sees", said(second.Requests()[0].Messages), append(sees, "user: And now?"))

		before := stored(t, s)
		same(t, "turns", []string{before[0].Name, before[1].Name}, []string{"run-1/agent", "run-2/agent"})
		broken := &runtimetest.Model{Answers: []runtimetest.Answer{call("t.find"), {Err: errors.New("out of order")}}}
		if _, err := run("run-3", "Again?", broken); err == nil {
			t.Error("a model that fails: no error")
		}
		out, err := run("run-4", "Again?", &runtimetest.Model{Answers: []runtimetest.Answer{call("t.gated")}})
		if out.Status != workflow.StatusPaused {
			t.Errorf("a call that needs an approval: %s, %v", out.Status, err)
		}
		same(t, "documents after runs that did not succeed", stored(t, s), before)

		// A crash after the save and before the journal has it: the turn is saved again, in its place.
		journal.crash = true
		if _, err := run("run-5", "Sure?", runtimetest.Texts("Yes.")); err == nil || !strings.Contains(err.Error(), "crashed") {
			t.Errorf("a journal that fails: %v", err)
		}
		crashed := stored(t, s)
		journal.crash = false
		if _, err := run("run-6", "Bye.", runtimetest.Texts("Bye.")); err != nil {
			t.Fatal(err)
		}
		if _, err := wf.Recover(t.Context(), "run-5", host("", runtimetest.Texts("Yes."))); err != nil {
			t.Fatal(err)
		}
		same(t, "documents after a crash", stored(t, s)[:3], crashed)
		all, err := m.Load(t.Context(), thread)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the conversation", said(all), append(history, "user: And now?", "assistant: Still Ann.", "user: Sure?", "assistant: Yes.", "user: Bye.", "assistant: Bye."))
	})
}

func TestConversations(t *testing.T) {
	onStores(t, func(t *testing.T, m *memory.Memory, s store) {
		ctx := t.Context()
		conversations := []runtime.Conversation{{Thread: "a"}, {Thread: "a", Resource: "b"}, {Thread: "a\",\"b"}, {Thread: "A"},
			{Thread: "\x00\n"}, {Thread: "日本", Resource: "../.."}}
		for i, c := range conversations {
			for _, turn := range []string{"r2/x", "r1/x", "r2/x"} {
				err := m.Save(ctx, c, turn, []runtime.Message{{Role: runtime.System, Text: "secret"}, {Role: runtime.User, Text: fmt.Sprint(turn, i)}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, c := range conversations {
			got, err := m.Load(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%q", c), said(got), []string{fmt.Sprint("user: r2/x", i), fmt.Sprint("user: r1/x", i)})
		}
		if err := m.Forget(ctx, conversations[0]); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{0, 2} {
			if got, err := m.Load(ctx, conversations[i]); len(got) != want || err != nil {
				t.Errorf("%q: %d messages, %v, want %d", conversations[i], len(got), err, want)
			}
		}
		if got, err := m.Load(ctx, runtime.Conversation{Thread: "none"}); got != nil || err != nil {
			t.Errorf("no conversation: %v, %v", got, err)
		}
		if err := m.Save(ctx, thread, "r/x", nil); err != nil {
			t.Error(err)
		}
		same(t, "an empty turn", stored(t, s), []checkpoint.Document{{Name: "r/x", Text: `{"format":1,"messages":[]}` + "\n"}})
	})
}

func TestRefused(t *testing.T) {
	m, ctx := new(memory.Memory), t.Context()
	user := []runtime.Message{{Role: runtime.User, Text: "hi"}}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no thread", m.Save(ctx, runtime.Conversation{Resource: "r"}, "t", user), "memory: the conversation has no thread"},
		{"no turn", m.Save(ctx, thread, "", user), `memory: document "": not fit for the store: it has no name`},
		{"not UTF-8", m.Save(ctx, runtime.Conversation{Thread: "\xff"}, "t", user), `memory: conversation: the name "\xff" is not UTF-8`},
		{"no such role", m.Save(ctx, thread, "t", []runtime.Message{{Role: "robot"}}), `memory: turn "t": unknown role "robot"`},
		{"no archive", m.Put(ctx, "", "text"), `memory: document "": not fit for the store: it has no name`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, tt.err, tt.want)
		}
	}
	if got, err := m.Load(ctx, thread); got != nil || err != nil {
		t.Errorf("Load: %v, %v, want nothing", got, err)
	}
}

func TestCorrupt(t *testing.T) {
	for _, tt := range []struct {
		text string
		want error
		says string
	}{
		{``, checkpoint.ErrCorrupt, ""},
		{`{"format":1,"messages":[{"role":"user"`, checkpoint.ErrCorrupt, ""},
		{`{"format":1,"messages":[]}{}`, checkpoint.ErrCorrupt, "there is more after it"},
		{`{"format":1,"messages":[{"role":"user","text":1}]}`, checkpoint.ErrCorrupt, "messages.text"},
		{`{"format":1,"messages":[{"role":"system","text":"x"}]}`, checkpoint.ErrCorrupt, `unknown role "system"`},
		{`{"format":1,"messages":[],"more":1}`, checkpoint.ErrCorrupt, `unknown field "more"`},
		{`{"messages":[]}`, checkpoint.ErrCorrupt, "its format is 0"},
		{`{"format":2,"talk":[]}`, checkpoint.ErrVersion, "2, not 1"},
	} {
		s := &checkpoint.Memory{}
		if err := s.PutDocument(t.Context(), `["conversation","t1","ann"]`, checkpoint.Document{Name: "run-1/ask", Text: tt.text}); err != nil {
			t.Fatal(err)
		}
		_, err := memory.New(s).Load(t.Context(), thread)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), `thread "t1": turn "run-1/ask"`) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v and %q", tt.text, err, tt.want, tt.says)
		}
	}
}

func TestArchive(t *testing.T) {
	onStores(t, func(t *testing.T, m *memory.Memory, _ store) {
		ctx := t.Context()
		for _, text := range []string{"first", "second\x00\n", ""} {
			if err := m.Put(ctx, "run-1/ask-1", text); err != nil {
				t.Fatal(err)
			}
			got, ok, err := m.Get(ctx, "run-1/ask-1")
			if got != text || !ok || err != nil {
				t.Errorf("Get: %q, %v, %v, want %q", got, ok, err, text)
			}
		}
		if _, ok, err := m.Get(ctx, "run-1/ask-2"); ok || err != nil {
			t.Errorf("Get of an unknown name: %v, %v", ok, err)
		}
	})
}

func TestClosed(t *testing.T) {
	s := &checkpoint.Memory{}
	m := memory.New(s)
	s.Close()
	_, err := m.Load(t.Context(), thread)
	_, _, getErr := m.Get(t.Context(), "a")
	for _, err := range []error{err, getErr, m.Save(t.Context(), thread, "t", nil), m.Put(t.Context(), "a", ""), m.Forget(t.Context(), thread)} {
		if !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("%v, want %v", err, checkpoint.ErrClosed)
		}
	}
}
