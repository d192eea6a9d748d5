package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

func testOnce(t *testing.T) {
	l, ports := simple(), &counting{conversations: conversations{}}
	l.Tools, l.TopK, l.Memory.Thread = []string{"human.ask"}, 1, "t"
	m := model(says("", `human.ask {"question":"?"}`), says("", `human.ask {"question":"!"}`), says("done"))
	in, j := input{}, after(t, nil)
	in.Memory, in.Retriever, in.Env, in.Journal = ports, ports, ports, j
	p := paused(t, l, in, host(m))
	for range 2 {
		in.Journal, in.Answers = after(t, j.events), []agents.Answer{{Pause: p[0].ID, Value: object{"answer": "yes"}}}
		res, err := run(t, l, in, host(m))
		j = in.Journal
		if e, ok := errors.AsType[*agents.PauseError](err); ok {
			p = e.Pauses
		} else {
			same(t, "result", res.Text, "done")
		}
	}
	same(t, "asked", ports.n, []string{"memory", "retrieve do it", "instructions"})
}

func TestMemory(t *testing.T) {
	t.Run("5.1 read first, written once", func(t *testing.T) {
		old := []runtime.Message{{Role: runtime.User, Text: "old"}}
		for _, tt := range []struct {
			name   string
			model  *runtimetest.Model
			change func(*agentloop.Loop)
			want   []string
		}{
			{name: "ok", model: model(says("", "t.a"), says("done")), want: []string{"user: do it", "assistant:  t.a", "tool: A", "assistant: done"}},
			{name: "stopped by a limit", model: model(says("", "t.a")), change: func(l *agentloop.Loop) { l.MaxSteps = 1 }, want: []string{"user: do it", "assistant:  t.a", "tool: A"}},
			{name: "failed", model: model(runtimetest.Answer{Err: errors.New("no")})},
			{name: "paused", model: model(says("", `human.ask {"question":"?"}`))},
			{name: "cancelled", model: &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return nil, context.Canceled }}},
		} {
			l, mem := simple(), conversations{"t": old}
			l.Instructions, l.Memory, l.Tools = "Be short.", runtime.Conversation{Thread: "t"}, []string{"t.a", "human.ask"}
			if tt.change != nil {
				tt.change(l)
			}
			in := input{}
			in.Memory = mem
			_, err := run(t, l, in, host(tt.model, tool("t.a", "", "A")))
			if (err == nil) != (tt.want != nil) {
				t.Errorf("%s: %v", tt.name, err)
			}
			same(t, tt.name, talk(mem["t run1/step"]), tt.want)
			same(t, "requests", talk(tt.model.Requests()[0].Messages), []string{"system: Be short.", "user: old", "user: do it"})
		}
	})
	t.Run("5.2 failures", func(t *testing.T) {
		for _, tt := range []struct{ thread, prompt, category, code, text string }{
			{"broken", "", "memory", "memory.load", "no memory"},
			{"full", "", "memory", "memory.save", "no room"},
			{"", "fail", "retriever", "retriever.failed", "no index"},
		} {
			l, in := simple(), input{Prompt: tt.prompt}
			l.Memory.Thread, l.TopK = tt.thread, 1
			in.Memory, in.Retriever = conversations{}, &documents{}
			j := after(t, nil)
			in.Journal = j
			_, err := run(t, l, in, host(model(says("done"))))
			failed(t, err, runtime.Category(tt.category), tt.code, tt.text)
			_, again := run(t, l, input{Journal: after(t, j.events)}, host(model()))
			failed(t, again, runtime.Category(tt.category), tt.code, tt.text)
		}
	})
	t.Run("5.2 a memory that panics", func(t *testing.T) {
		l, in := simple(), input{}
		l.Memory.Thread = "t"
		in.Memory = panicking{}
		_, err := run(t, l, in, host(model(says("done"))))
		failed(t, err, "memory", "memory.load", "panic: boo")
	})
	t.Run("5.1 and 5.2 without a port", func(t *testing.T) {
		l := simple()
		l.Memory.Thread, l.TopK = "t", 3
		res := must(t, l, input{}, host(model(says("done"))))
		same(t, "diagnostics", codes(res), []string{"capability.missing", "capability.missing"})
	})
}

func TestLayers(t *testing.T) {
	t.Run("5.3 order", func(t *testing.T) {
		for _, fails := range []bool{false, true} {
			var order []string
			layer := func(id string, slot int, scope string) agentloop.Layer {
				note := func(what, key string) error {
					order = append(order, what+" "+key)
					if strings.HasPrefix(id, what) {
						return errors.New("oh")
					}
					return nil
				}
				return agentloop.Layer{ID: id, Slot: slot, Scope: scope, Budget: 2,
					Init:    func(_ context.Context, key string) error { return note("init", key) },
					Recall:  func(_ context.Context, key, task string) (string, error) { return id + " knows", note("recall", key) },
					Store:   func(_ context.Context, key string, own []runtime.Message) error { return note("store", key) },
					Dispose: func(_ context.Context, key string) error { return note("dispose", key) }}
			}
			l := simple()
			l.Memory = runtime.Conversation{Thread: "t"}
			l.Layers = []agentloop.Layer{layer("b", 2, "resource"), layer("init-", 1, "global"), layer("a", 1, "execution"), layer("recall-", 3, "thread")}
			in := input{}
			in.Memory = conversations{}
			m := model(says("done"))
			if fails {
				m = model(runtimetest.Answer{Err: errors.New("no")})
			}
			res, err := run(t, l, in, host(m))
			if (err != nil) != fails {
				t.Fatal(err)
			}
			want := []string{"init b/resource/t", "init init-/global", "init a/execution/run1/step", "init recall-/thread/t",
				"recall a/execution/run1/step", "recall b/resource/t", "recall recall-/thread/t",
				"store a/execution/run1/step", "store b/resource/t", "store recall-/thread/t",
				"dispose recall-/thread/t", "dispose a/execution/run1/step", "dispose init-/global", "dispose b/resource/t"}
			if fails {
				want = append(want[:7:7], want[10:]...)
			}
			same(t, "order", order, want)
			same(t, "diagnostics", codes(res), []string{"agent.layerDisabled", "agent.layerDisabled"})
			same(t, "view", talk(m.Requests()[0].Messages), []string{"system: a knows\n\nb knows", "user: do it"})
		}
		l := simple()
		l.Layers = []agentloop.Layer{{ID: "a", Scope: "global"}, {ID: "a", Scope: "world", Budget: -1}}
		if err := l.Validate(); err == nil || strings.Count(err.Error(), "layer") != 3 {
			t.Error(err)
		}
	})
}

func TestCompaction(t *testing.T) {
	loop := func() *agentloop.Loop {
		l := simple()
		l.Tools = []string{"t.long", "human.ask"}
		l.Compaction = &agentloop.Compaction{Model: "small", MaxResult: 3, Due: func(p agentloop.Progress) bool { return p.StepsDone == 2 }}
		return l
	}
	script := func() *runtimetest.Model {
		return model(says("", "t.long"), says("", "t.long"), says("", `human.ask {"question":"?"}`), says("done"))
	}
	t.Run("5.4 archive, marker, summary", func(t *testing.T) {
		m, small, files := script(), model(says("all of it")), archive{}
		rt := host(m, tool("t.long", "", "äöü"))
		rt.Models["small"] = small
		in, j := input{}, after(t, nil)
		in.Archive, in.Journal = files, j
		j.fail = func(e agents.Event) error {
			if e.Kind == agents.Compacted && (files["run1/step-1"] != "all of it" || e.Text != "run1/step-1") {
				t.Errorf("marker %q, archive %v", e.Text, files)
			}
			return nil
		}
		p := paused(t, loop(), in, rt)
		same(t, "what is summarised", talk(small.Requests()[0].Messages), []string{"user: do it", "assistant:  t.long", "tool: ä [cut]", "assistant:  t.long", "tool: ä [cut]",
			"user: Summarise the conversation above for whoever continues it: the task, what was found and done, what is left to do."})
		same(t, "view", talk(m.Requests()[2].Messages), []string{"user: Summary of the conversation so far:\nall of it"})
		if text := canonical(t, j.events); strings.Contains(text, "all of it") {
			t.Error("the summary is in the journal")
		}
		for _, lost := range []bool{false, true} {
			m := model(says("done"))
			rt.Models["m"] = m
			if lost {
				clear(files)
			}
			in.Journal, in.Answers = after(t, j.events), []agents.Answer{{Pause: p[0].ID, Value: object{"answer": "yes"}}}
			res := must(t, loop(), in, rt)
			first := "user: Summary of the conversation so far:\nall of it"
			var found []string
			if lost {
				first, found = `user: [The archive "run1/step-1", with the summary of the conversation so far, is missing.]`, []string{"agent.archiveMissing"}
			}
			same(t, "view", talk(m.Requests()[0].Messages), []string{first, "assistant:  human.ask", "tool: yes"})
			same(t, "diagnostics", codes(res), found)
			same(t, "the whole conversation", len(res.Messages), 8)
			same(t, "usage", res.Usage, runtime.Usage{InputTokens: 50, OutputTokens: 5})
		}
	})
	t.Run("5.4 what fails leaves history as it was", func(t *testing.T) {
		for name, break_ := range map[string]func(*agentloop.Loop, *input, *runtime.Runtime){
			"no archive":      func(_ *agentloop.Loop, in *input, _ *runtime.Runtime) { in.Archive = nil },
			"a full archive":  func(_ *agentloop.Loop, in *input, _ *runtime.Runtime) { in.Archive = archive{"full": ""} },
			"no model":        func(l *agentloop.Loop, _ *input, _ *runtime.Runtime) { l.Compaction.Model = "none" },
			"a failing model": func(_ *agentloop.Loop, _ *input, rt *runtime.Runtime) { rt.Models["small"] = model() },
			"no summary": func(_ *agentloop.Loop, _ *input, rt *runtime.Runtime) {
				rt.Models["small"] = model(says(" "))
			},
		} {
			m, l, in := model(says("", "t.long"), says("", "t.long"), says("done")), loop(), input{}
			rt := host(m, tool("t.long", "", "long"))
			in.Archive, rt.Models["small"] = archive{}, model(says("all"))
			break_(l, &in, rt)
			res := must(t, l, in, rt)
			same(t, name, codes(res), []string{"agent.compactFailed"})
			same(t, name, len(m.Requests()[2].Messages), 5)
		}
	})
	t.Run("5.4 a finished answer is not dropped", func(t *testing.T) {
		l := simple()
		l.Compaction = &agentloop.Compaction{Due: func(agentloop.Progress) bool { return true }}
		in := input{}
		in.Archive = archive{}
		res := must(t, l, in, host(model(says("done"))))
		same(t, "result", fmt.Sprint(res.Text, len(res.Messages)), "done2")
	})
}

func TestSteering(t *testing.T) {
	t.Run("5.5 at step boundaries, recorded before use", func(t *testing.T) {
		box := &inbox{notes: []runtime.Note{{ID: "1", Text: "be quick"}}}
		j := after(t, nil)
		j.fail = func(e agents.Event) error {
			if e.Kind == agents.Steered && len(box.taken) > 0 && box.taken[len(box.taken)-1] == e.Notes[0].ID {
				t.Error("taken before it was recorded")
			}
			return nil
		}
		m := model(says("", "t.a"), says("done"))
		a := runtimetest.NewTool("t.a", func(context.Context, json.RawMessage) (any, error) {
			box.notes = append(box.notes, runtime.Note{ID: "2", Text: "and kind"}, runtime.Note{ID: "2", Text: "and kind"})
			return nil, nil
		})
		in := input{Journal: j}
		in.Inbox = box
		must(t, simple(), in, host(m, a))
		same(t, "first request", talk(m.Requests()[0].Messages), []string{"user: do it", "user: be quick"})
		same(t, "second request", talk(m.Requests()[1].Messages), []string{"user: do it", "user: be quick", "assistant:  t.a", "tool: (no output)", "user: and kind"})
		same(t, "left in the inbox", len(box.notes), 0)

		// A crash between the record and the inbox: the note is not used twice.
		for n, e := range j.events {
			if e.Kind != agents.Steered {
				continue
			}
			m, box := model(says("", "t.a"), says("done")), &inbox{notes: slices.Clone(e.Notes)}
			in.Journal, in.Inbox = after(t, j.events[:n+1]), box
			must(t, simple(), in, host(m, tool("t.a", "", nil)))
			last := m.Requests()[len(m.Requests())-1]
			if got := strings.Count(strings.Join(talk(last.Messages), "\n"), e.Notes[0].Text); got != 1 || len(box.notes) != 0 {
				t.Errorf("%q appears %d times", e.Notes[0].Text, got)
			}
		}
	})
}
