package agents_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// compacting is a loop whose every request is too large, once there is something to replace.
func compacting(keep int) *agentloop.Loop {
	l := simple()
	l.Tools = []string{"t.a", "human.ask"}
	l.Compaction = &agentloop.Compaction{Above: 1, Keep: keep, Model: "small", Prompt: "Sum up."}
	return l
}

// trust 1.9: the task and the last messages stay whole, and a result stays with its call.
func TestCompactKeeps(t *testing.T) {
	m, small := model(says("", "t.a"), says("", "t.a", "t.a"), says("done")), model(says("one"), says("two"))
	rt := host(m, tool("t.a", "", "A"))
	rt.Models["small"] = small
	j := after(t, nil)
	in := input{}
	in.Journal = j
	res := must(t, compacting(2), in, rt)
	for i, want := range [][]string{
		{"user: do it"},
		{"user: do it", "assistant:  t.a", "tool: A"},
		{"user: Summary of the conversation so far:\none", "user: do it", "assistant:  t.a t.a", "tool: A", "tool: A"},
	} {
		same(t, "view", talk(m.Requests()[i].Messages), want)
	}
	same(t, "what is summarised", talk(small.Requests()[0].Messages), []string{"user: do it", "assistant:  t.a", "tool: A", "user: Sum up."})
	same(t, "requests for a summary", len(small.Requests()), 1)
	same(t, "the whole conversation", len(res.Messages), 7)
	same(t, "usage", res.Usage, runtime.Usage{InputTokens: 40, OutputTokens: 4})
	var trace []string
	for _, line := range lines(res.Trace) {
		if strings.HasPrefix(line, "model.") || strings.HasPrefix(line, "compact") {
			trace = append(trace, strings.Fields(line)[0])
		}
	}
	same(t, "trace", trace, []string{"model.start", "model.end", "model.start", "model.end", "compact", "model.start", "model.end"})
	i := slices.IndexFunc(j.events, func(e agents.Event) bool { return e.Kind == agents.Compacted })
	same(t, "event", canonical(t, j.events[i]),
		`{"from":3,"kind":"compact","seq":`+string(canonical(t, j.events[i].Seq))+`,"summary":"one","usage":{"input_tokens":10,"output_tokens":1}}`)
	same(t, "barrier", j.events[i].Barrier(), true)

	// Nothing that was recorded is asked for again, wherever the journal ends.
	for n := range j.events {
		if j.events[n].Kind != agents.Compacted && j.events[n].Kind != agents.ModelEnded {
			continue
		}
		left := 3
		for _, e := range j.events[:n+1] {
			if e.Kind == agents.ModelEnded {
				left--
			}
		}
		answers := []runtimetest.Answer{says("", "t.a"), says("", "t.a", "t.a"), says("done")}
		m, small := model(answers[3-left:]...), model(says("one"))
		rt := host(m, tool("t.a", "", "A"))
		rt.Models["small"] = small
		in.Journal = after(t, j.events[:n+1])
		res := must(t, compacting(2), in, rt)
		same(t, "text", res.Text, "done")
		same(t, "calls", len(m.Requests()), left)
		want := 1
		if n >= i {
			want = 0
		}
		same(t, "summaries", len(small.Requests()), want)
	}
}

// trust 1.9: a repair turn is a call of the model as well.
func TestCompactBeforeARepair(t *testing.T) {
	l := compacting(1)
	l.Schema = json.RawMessage(`{"type":"integer"}`)
	m, small := model(says("none"), says("7")), model(says("it said none"))
	rt := host(m, tool("t.a", "", 1))
	rt.Models["small"] = small
	must(t, l, input{}, rt)
	same(t, "view", talk(m.Requests()[1].Messages)[:2], []string{"user: Summary of the conversation so far:\nit said none", "user: do it"})
	same(t, "size of the view", len(m.Requests()[1].Messages), 3)
}

// trust 1.9: a request that is refused as too long is made once more, behind a summary. A crash in between changes
// nothing, and a second refusal fails the loop.
func TestCompactWhenRefused(t *testing.T) {
	refused := runtimetest.Answer{Err: &retry.Failure{Status: 400, Err: &runtime.Error{Category: runtime.CategoryModel, Code: "model.tooLong", Err: errors.New("9000 tokens")}}}
	l := compacting(1)
	l.Compaction.Above = 1 << 30
	for _, again := range []bool{false, true} {
		last := says("done")
		if again {
			last = refused
		}
		m, small := model(says("", "t.a"), says("", "t.a"), refused, last), model(says("all"))
		rt := host(m, tool("t.a", "", "A"))
		rt.Models["small"] = small
		res, err := run(t, l, input{}, rt)
		same(t, "view", talk(m.Requests()[3].Messages), []string{"user: Summary of the conversation so far:\nall", "user: do it", "assistant:  t.a", "tool: A"})
		same(t, "requests", len(m.Requests()), 4)
		same(t, "summaries", len(small.Requests()), 1)
		if again {
			failed(t, err, runtime.CategoryModel, "model.tooLong", "9000 tokens")
		} else {
			same(t, "error", err, error(nil))
			same(t, "text", res.Text, "done")
		}
	}
	rt := host(model(refused), tool("t.a", "", "A")) // there is nothing to replace
	_, err := run(t, l, input{}, rt)
	failed(t, err, runtime.CategoryModel, "model.tooLong", "9000 tokens")
}

// trust 1.9: a summary that fails, or is none, fails the call of the model that it is for; one that is suspended
// suspends it.
func TestCompactFails(t *testing.T) {
	for name, tt := range map[string]struct {
		answer runtimetest.Answer
		code   string
		text   string
	}{
		"a failure": {runtimetest.Answer{Err: errors.New("boo")}, "model.failed", "boo"},
		"a blank":   {says(" "), "model.empty", `model "small" gave no summary`},
	} {
		m := model(says("", "t.a"), says("", "t.a"), says("done"))
		rt := host(m, tool("t.a", "", "A"))
		rt.Models["small"] = model(tt.answer)
		_, err := run(t, compacting(2), input{}, rt)
		failed(t, err, runtime.CategoryModel, tt.code, tt.text)
		same(t, name, len(m.Requests()), 2)
	}
	m := model(says("", "t.a"), says("", "t.a"), says("done"))
	rt := host(m, tool("t.a", "", "A"))
	rt.Models["small"] = model(runtimetest.Answer{Err: resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "May I?"})}, says("all"))
	in, j := input{}, after(t, nil)
	in.Journal = j
	p := paused(t, compacting(2), in, rt)
	same(t, "pause", p[0].For, agents.ForModel)
	in.Journal, in.Answers = after(t, j.events), []agents.Answer{{Pause: p[0].ID, Value: true}}
	same(t, "text", must(t, compacting(2), in, rt).Text, "done")

	rt = host(model(says("", "t.a"), says("", "t.a")), tool("t.a", "", "A"))
	_, err := run(t, compacting(2), input{}, rt)
	failed(t, err, runtime.CategoryConfig, "model.missing", `no model named "small" is configured`)
}

// trust 1.9: later runs read the summary and what follows it, and a turn that another agent saved meanwhile.
func TestCompactMarksTheThread(t *testing.T) {
	l := compacting(2)
	l.Memory.Thread = "t"
	mem := conversations{"t": {{Role: runtime.System, Text: "s"}, {Role: runtime.User, Text: "old"}, {Role: runtime.Assistant, Text: "older"}}}
	in := input{}
	in.Memory = mem
	m := model(says("", "t.a"), says("done"), says("again"))
	rt := host(m, tool("t.a", "", "A"))
	rt.Models["small"] = model(says("early"), says("late"), says("last"))
	must(t, l, in, rt)
	same(t, "first view", talk(m.Requests()[0].Messages), []string{"user: Summary of the conversation so far:\nearly", "assistant: older", "user: do it"})
	same(t, "saved", talk(mem["t run1/step"]), []string{"user: Summary of the conversation so far:\nlate", "user: do it", "assistant:  t.a", "tool: A", "assistant: done"})
	mem["t"] = slices.Concat(mem["t"], []runtime.Message{{Role: runtime.User, Text: "meanwhile"}}, mem["t run1/step"])
	l.Compaction = nil
	must(t, l, in, rt)
	same(t, "later view", talk(m.Requests()[2].Messages), []string{"user: Summary of the conversation so far:\nlate", "user: meanwhile",
		"user: do it", "assistant:  t.a", "tool: A", "assistant: done", "user: do it"})
	for _, message := range m.Requests()[2].Messages {
		same(t, "parts", len(message.Parts), 0)
	}
}

// seeing is a model that takes files.
type seeing struct{ *runtimetest.Model }

func (seeing) Metadata() runtime.Metadata { return runtime.Metadata{Options: []string{"files"}} }

// withFiles prints messages, with the files that go with them.
func withFiles(messages []runtime.Message) []string {
	list := talk(messages)
	for i, m := range messages {
		for _, f := range m.Files {
			list[i] += " + " + f.URL
		}
	}
	return list
}

// A model that makes a summary is shown files if it takes some, else their names. The task keeps its own in the view. What a
// memory keeps has names only.
func TestCompactFiles(t *testing.T) {
	for _, takes := range []bool{false, true} {
		small := model(says("a cat"))
		m := seeing{model(says("", "t.a"), says("done"))}
		rt := host(m, tool("t.a", "", "A"))
		rt.Models["small"] = small
		if takes {
			rt.Models["small"] = seeing{small}
		}
		l := compacting(1)
		l.Memory.Thread = "t"
		mem := conversations{"t": {{Role: runtime.User, Text: "earlier", Files: []runtime.File{{URL: "https://example.com/c.png"}}}}}
		j := after(t, nil)
		must(t, l, input{Journal: j, Memory: mem, Files: []runtime.File{{URL: "b.png"}, {URL: "data:image/gif;base64,R0lGODlhCg=="}},
			Before: []agents.Message{{Role: runtime.User, Text: "first", Files: []runtime.File{{URL: "a.png"}}}}}, rt)
		summed := "user: first\n[file: a.png]"
		if takes {
			summed = "user: first + a.png"
		}
		same(t, "what is summarised", withFiles(small.Requests()[0].Messages), []string{"user: earlier\n[file: https://example.com/c.png]", summed, "user: Sum up."})
		same(t, "view", withFiles(m.Requests()[1].Messages), []string{"user: Summary of the conversation so far:\na cat",
			"user: do it + b.png + data:image/gif;base64,R0lGODlhCg==", "assistant:  t.a", "tool: A"})
		same(t, "saved", withFiles(mem["t run1/step"]), []string{"user: Summary of the conversation so far:\na cat",
			"user: do it\n[file: b.png]\n[file: image/gif]", "assistant:  t.a", "tool: A", "assistant: done"})
		same(t, "the whole conversation", withFiles(j.fold.Messages[:3]), []string{"user: earlier\n[file: https://example.com/c.png]", "user: first + a.png",
			"user: do it + b.png + data:image/gif;base64,R0lGODlhCg=="})
	}
}

// A prompt that is empty, and has files, is a task.
func TestFilesWithoutAPrompt(t *testing.T) {
	s, err := agents.Fold([]agents.Event{{Seq: 1, Kind: agents.Started, More: &agents.More{Start: &agents.Start{MaxSteps: 1, Files: []runtime.File{{URL: "a.png"}},
		Before: []agents.Message{{Role: runtime.User, Text: "first"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "messages", withFiles(s.Messages), []string{"user: first", "user:  + a.png"})
	same(t, "its own", s.Own, 1)
}
