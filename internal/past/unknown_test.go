package past_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// What is asked before a call is made again, under another definition and in a fork. a keeps its result, b does not.
func TestUnknown(t *testing.T) {
	begun := journal.CallBegun{Ordinal: 1, Effect: "external"}
	asks := func(id, step string) journal.PauseOpened {
		return journal.PauseOpened{Pause: resume.Pause{ID: id, Step: step, Kind: resume.System,
			Reason: journal.Indeterminate, Call: &resume.Call{Tool: "mail.send", Key: "k-" + id}}}
	}
	answered := func(id, decision string) journal.PauseAnswered {
		return journal.PauseAnswered{Pause: id, Next: resume.Answered, Answer: map[string]any{"decision": decision}}
	}
	call := func(step string, generation int) string {
		return step + " " + resume.Key("r1", generation, step, 1, "")
	}
	settled := func(step, key, decision string) string { return step + " " + key + " " + decision }
	kept := map[string]bool{"a": true}
	for _, tt := range []struct {
		name            string
		what            []any
		redefined, fork []string
	}{
		{"nothing", nil, nil, nil},
		{"calls that have ended", []any{"a", begun, "a", ended, "b", begun, "b", ended}, nil, nil},
		// A changed definition asks about every call that was under way: even a step that keeps its result had none.
		{"calls under way", []any{"a", begun, "b", begun},
			[]string{call("a", 1), call("b", 1)}, []string{call("a", 1)}},
		{"its outcome is unknown", []any{"b", begun, "b", journal.CallEnded{Unknown: true}}, []string{call("b", 1)}, nil},
		{"in the second generation", []any{"b", begun, "b", ended, journal.Restarted{Generation: 2}, "b", begun},
			[]string{call("b", 2)}, nil},
		{"asked about", []any{"b", begun, "b", asks("p", "b")}, []string{"b k-p"}, nil},
		{"asked about, and not open", []any{"b", begun, "b", asks("closed", "b")}, nil, nil},
		{"answered", []any{"b", asks("p", "b"), "b", answered("p", "fail")},
			[]string{settled("b", "k-p", "fail")}, []string{settled("b", "k-p", "fail")}},
		{"answered with retry", []any{"b", asks("p", "b"), "b", answered("p", "retry")}, nil, nil},
		{"answered, of a step that is kept", []any{"a", asks("p", "a"), "a", answered("p", "fail")},
			[]string{settled("a", "k-p", "fail")}, []string{settled("a", "k-p", "fail")}},
		{"asked about when it began again", []any{"b", asks("p", "b"), journal.Restarted{Generation: 2}},
			[]string{"b k-p"}, nil},
		{"before the definition changed", []any{"b", begun, journal.Redefined{Digest: "d2", Generation: 2}}, nil, nil},
		{"known when the definition changed", []any{
			journal.Redefined{Digest: "d2", Generation: 2, Unknown: []journal.UnknownCall{{Step: "b", Call: &resume.Call{Key: "old"}}}}},
			[]string{"b old"}, nil},
		{"settled in the run that it is a fork of", []any{"b", journal.CallEnded{Output: "x", Settled: true}},
			[]string{settled("b", "", "result")}, []string{settled("b", "", "result")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := read(t, tt.what...)
			for shared, want := range map[bool][]string{false: tt.redefined, true: tt.fork} {
				list, err := p.Unknown(kept, shared, func(pause string) bool { return pause != "closed" })
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, shown(list)); diff != "" {
					t.Errorf("shared: %t\n%s", shared, diff)
				}
			}
		})
	}
}

// shown are calls as text: the step, what it is about, the key, and the decision that a person gave.
func shown(list []journal.UnknownCall) (texts []string) {
	for _, d := range list {
		text := d.Step
		if d.About != "" {
			text += " " + d.About
		}
		text += " " + d.Call.Key
		if decision := past.Decision(d.Call.Given); decision != "" {
			text += " " + decision
		}
		texts = append(texts, text)
	}
	return texts
}

// A call of an agent that is under way is unknown until the agent has ended.
func TestUnknownInAgent(t *testing.T) {
	events := []agents.Event{
		{Kind: agents.Started, More: &agents.More{Start: &agents.Start{MaxSteps: 2}}},
		{Kind: agents.ModelBegan},
		{Kind: agents.ModelEnded, Messages: []runtime.Message{{Role: runtime.Assistant,
			ToolCalls: []runtime.ToolCall{{ID: "c1", Name: "mail.send", Arguments: []byte(`{"to":"ada"}`)}}}}},
		{Kind: agents.ToolBegan, Call: 1, Effect: runtime.External},
	}
	for i := range events {
		events[i].Seq = int64(i) + 1
	}
	if _, err := agents.Fold(events); err != nil {
		t.Fatal(err)
	}
	what := []any{"b", journal.AgentEvents{Events: events}}
	p := read(t, what...)
	list, err := p.Unknown(nil, false, func(string) bool { return true })
	want := []string{"b " + past.AboutCall("mail.send", map[string]any{"to": "ada"}) + " " + resume.Key("r1", 1, "b", 1, "")}
	if diff := cmp.Diff(want, shown(list)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	p = read(t, append(what, "b", ended)...)
	if list, err = p.Unknown(nil, false, func(string) bool { return true }); err != nil || list != nil {
		t.Errorf("after its end: %v, %v", list, err)
	}
}

func TestKeeps(t *testing.T) {
	kept := map[string]bool{"a": true, "b/c": true}
	for path, want := range map[string]bool{"a": true, "a/x#1/y": true, "ab": false, "b": false, "b/c/d": true, "b/cd": false} {
		if got := past.Keeps(kept, path); got != want {
			t.Errorf("Keeps(%q) = %t", path, got)
		}
	}
}
