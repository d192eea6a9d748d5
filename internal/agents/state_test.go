package agents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/seedtest"
	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

type event = agents.Event

// story numbers events.
func story(events ...event) []event {
	for i := range events {
		events[i].Seq = int64(i) + 1
	}
	return events
}

func answer(text string, calls ...string) []runtime.Message {
	return []runtime.Message{{Role: runtime.Assistant, Text: text, ToolCalls: says("", calls...).ToolCalls}}
}

var (
	start    = event{Kind: agents.Started, More: &agents.More{Start: &agents.Start{MaxSteps: 2}}}
	ask      = event{Kind: agents.ModelBegan}
	repair   = event{Kind: agents.ModelBegan, More: &agents.More{Repair: true}}
	begin    = event{Kind: agents.ToolBegan, Call: 1, Effect: runtime.External}
	result   = event{Kind: agents.ToolEnded, Call: 1, Text: "A"}
	finished = event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopAnswer}}
)

func hears(text string, calls ...string) event {
	return event{Kind: agents.ModelEnded, Messages: answer(text, calls...)}
}

func cut(text string, calls ...string) event {
	e := hears(text, calls...)
	e.Finish = runtime.FinishLength
	return e
}

func pause(for_ string, call int) event {
	return event{Kind: agents.Paused, More: &agents.More{Pause: &agents.Pause{Pause: resume.Pause{ID: "p", Kind: resume.Human}, For: for_, Call: call}}}
}

func testIllegal(t *testing.T) {
	answered := event{Kind: agents.Answered, More: &agents.More{Answer: &agents.Answer{Pause: "p"}}}
	handoff := func(call int, agent string) event {
		return event{Kind: agents.HandedOff, Call: call, More: &agents.More{Agent: agent}}
	}
	child := func(e event) event { e.Frame = "dig#1"; return e }
	deep := child(event{Kind: agents.Started, More: &agents.More{Start: &agents.Start{MaxSteps: 1, Depth: 1}}})
	for _, tt := range []struct {
		name   string
		before []event
		then   event
		want   string // "": it is legal
	}{
		{"nothing before the start", nil, ask, "the loop has not begun"},
		{"a second start", []event{start}, start, "the loop is ready"},
		{"no steps", nil, event{Kind: agents.Started, More: &agents.More{Start: &agents.Start{}}}, "no step to go"},
		{"a start without anything", nil, event{Kind: agents.Started}, "no step to go"},
		{"an unknown kind", []event{start}, event{Kind: "dance"}, "unknown kind"},
		{"memory", []event{start}, event{Kind: agents.MemoryLoaded}, ""},
		{"memory twice", []event{start, {Kind: agents.MemoryLoaded}}, event{Kind: agents.MemoryLoaded}, "it comes once"},
		{"memory after a step", []event{start, ask, hears("", "t.a"), begin, result}, event{Kind: agents.MemoryLoaded}, "before the first step"},
		{"an answer without a call", []event{start}, hears("hi"), "the loop is ready"},
		{"two answers", []event{start, ask, hears("hi")}, hears("hi"), "the loop is said"},
		{"the user's words as an answer", []event{start, ask}, event{Kind: agents.ModelEnded, Messages: []runtime.Message{{Role: runtime.User}}}, "not an answer to a call"},
		{"a call of the model under way", []event{start, ask}, ask, "the loop is asking"},
		{"a call of the model while calls are open", []event{start, ask, hears("", "t.a")}, ask, "the loop is calling"},
		{"a step too many", []event{start, ask, hears("", "t.a"), begin, result, ask, hears("", "t.a"), {Kind: agents.ToolEnded, Call: 2, Code: "x"}}, ask, "the limit is 2 steps"},
		{"a repair", []event{start, ask, hears("x")}, repair, ""},
		{"a tenth repair", append([]event{start, ask, hears("x")}, slices.Repeat([]event{repair, hears("y")}, 9)...), repair, ""},
		{"an eleventh repair", append([]event{start, ask, hears("x")}, slices.Repeat([]event{repair, hears("y")}, 10)...), repair, "the loop is said"},
		{"a result", []event{start, ask, hears("", "t.a"), begin}, result, ""},
		{"an error without a beginning", []event{start, ask, hears("", "t.a")}, event{Kind: agents.ToolEnded, Call: 1, Code: "x"}, ""},
		{"trust 7.10: a call of a cut answer, of an earlier version", []event{start, ask, cut("", "t.a"), begin}, result, ""},
		{"trust 7.10: a cut answer as the answer, of an earlier version", []event{start, ask, cut("hi")}, finished, ""},
		{"trust 3.1: a cut answer", []event{start, ask, cut("hi")}, event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopCut}}, ""},
		{"trust 3.1: an answer that was not cut", []event{start, ask, hears("hi")}, event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopCut}}, "cannot stop"},
		{"a result without a call", []event{start, ask, hears("hi")}, result, "there is no call 1"},
		{"a result of another call", []event{start, ask, hears("", "t.a"), begin}, event{Kind: agents.ToolEnded, Call: 2}, "there is no call 2"},
		{"a result without a beginning", []event{start, ask, hears("", "t.a")}, result, "has not begun"},
		{"a second result", []event{start, ask, hears("", "t.a", "t.b"), begin, result}, result, "call 1 has its result"},
		{"a result of the round before", []event{start, ask, hears("", "t.a"), begin, result, ask, hears("", "t.b")}, result, "there is no call 1"},
		{"a hand-off", []event{start, ask, hears("", "handoff_a"), begin}, handoff(1, "a"), ""},
		{"a hand-off before its call", []event{start, ask, hears("", "handoff_a")}, handoff(1, "a"), "cannot hand off"},
		{"a hand-off to nobody", []event{start, ask, hears("", "handoff_a"), begin}, handoff(1, ""), "cannot hand off"},
		{"a hand-off twice", []event{start, ask, hears("", "handoff_a"), begin, handoff(1, "a")}, handoff(1, "a"), "cannot hand off"},
		{"two hand-offs of an answer", []event{start, ask, hears("", "handoff_a", "handoff_b"), begin, handoff(1, "a"), result, {Kind: agents.ToolBegan, Call: 2}}, handoff(2, "b"), "cannot hand off"},
		{"documents before a hand-off", []event{start, ask, hears("", "handoff_a"), begin, handoff(1, "a")}, event{Kind: agents.Retrieved}, "before the first step"},
		{"documents after a hand-off", []event{start, {Kind: agents.Retrieved}, ask, hears("", "handoff_a"), begin, handoff(1, "a"), result}, event{Kind: agents.Retrieved}, ""},
		{"two beginnings", []event{start, ask, hears("", "t.a"), begin}, begin, "has begun"},
		{"a beginning after a no", []event{start, ask, hears("", "t.a"), {Kind: agents.Permission, Call: 1}}, begin, "may not"},
		{"again before it began", []event{start, ask, hears("", "t.a")}, event{Kind: agents.ToolAgain, Call: 1}, "has not begun"},
		{"two decisions", []event{start, ask, hears("", "t.a"), {Kind: agents.Permission, Call: 1, More: &agents.More{Allow: true}}}, event{Kind: agents.Permission, Call: 1}, "is decided"},
		{"approval after the beginning", []event{start, ask, hears("", "t.a"), begin}, pause(agents.ForApproval, 1), "cannot wait"},
		{"a human before the beginning", []event{start, ask, hears("", "t.a")}, pause(agents.ForHuman, 1), "cannot wait"},
		{"a result while it waits", []event{start, ask, hears("", "t.a"), begin, pause(agents.ForHuman, 1)}, result, "waits for an answer"},
		{"two pauses", []event{start, ask, hears("", "t.a"), begin, pause(agents.ForHuman, 1)}, pause(agents.ForHuman, 1), "cannot wait"},
		{"an answer to no pause", []event{start, ask, hears("", "t.a"), begin}, answered, "no such pause"},
		{"an answer", []event{start, ask, hears("", "t.a"), begin, pause(agents.ForHuman, 1)}, answered, ""},
		{"two answers to a pause", []event{start, ask, hears("", "t.a"), begin, pause(agents.ForHuman, 1), answered}, answered, "no such pause"},
		{"a pause without an id", []event{start, ask}, event{Kind: agents.Paused}, "no pause"},
		{"the model answers while it waits", []event{start, ask, pause(agents.ForModel, 0)}, hears("hi"), "the loop is asking"},
		{"a word in between", []event{start, ask}, event{Kind: agents.Steered}, "the loop is asking"},
		{"an archive without a name", []event{start}, event{Kind: agents.Compacted}, "names no archive"},
		{"the end without an answer", []event{start}, finished, "cannot stop"},
		{"the end while calls are open", []event{start, ask, hears("", "t.a")}, finished, "cannot stop"},
		{"an end for no reason", []event{start, ask, hears("x")}, event{Kind: agents.Ended, More: &agents.More{Stop: "bored"}}, "cannot stop"},
		{"the cap before the cap", []event{start, ask, hears("", "t.a"), begin, result}, event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopMaxSteps}}, "cannot stop"},
		{"repetition without one", []event{start, ask, hears("", "t.a"), begin, result}, event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopRepetition}}, "cannot stop"},
		{"an error without a word", []event{start}, event{Kind: agents.Ended, More: &agents.More{Stop: agentloop.StopError}}, "cannot stop"},
		{"anything after the end", []event{start, ask, hears("x"), finished}, ask, "the loop has ended"},
		{"a second end", []event{start, ask, hears("x"), finished}, finished, "the loop has ended"},
		{"saved twice", []event{start, ask, hears("x"), {Kind: agents.MemorySaved}}, event{Kind: agents.MemorySaved}, "the loop is said"},
		{"a child", []event{start, ask, hears("", "delegate_dig"), begin}, deep, ""},
		{"a child of no call", []event{start, ask, hears("x")}, deep, `no open call has the child "dig#1"`},
		{"a child of a call that has not begun", []event{start, ask, hears("", "delegate_dig")}, deep, "no open call"},
		{"a child at its parent's depth", []event{start, ask, hears("", "delegate_dig"), begin}, child(start), "depth 0 below depth 0"},
		{"a child that has not begun", []event{start, ask, hears("", "delegate_dig"), begin}, child(ask), "not begun"},
		{"a result before the child's", []event{start, ask, hears("", "delegate_dig"), begin, deep}, result, `before its child "dig#1" has ended`},
		{"a child that goes on from nothing", []event{start, ask, hears("", "agent.send"), begin},
			child(event{Kind: agents.Started, More: &agents.More{Start: &agents.Start{MaxSteps: 1, Depth: 1, Continues: "x#1"}}}), "which has not ended"},
		{"a sub-agent of no call", []event{start}, event{Kind: agents.SubagentSet, Call: 1, More: &agents.More{Subagent: &agents.Subagent{ID: "x"}}}, "there is no call 1"},
		{"closing nobody", []event{start, ask, hears("", "agent.close"), begin}, event{Kind: agents.SubagentSet, Call: 1, More: &agents.More{Subagent: &agents.Subagent{ID: "x", Closed: true}}}, "not one to open or close"},
	} {
		events := story(append(tt.before[:len(tt.before):len(tt.before)], tt.then)...)
		n := len(events) - 1
		before, err := agents.Fold(events[:n])
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		text := canonical(t, before)
		after, err := agents.Reduce(before, events[n])
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if canonical(t, before) != text || err != nil && canonical(t, after) != text {
			t.Errorf("%s: the state has changed", tt.name)
		}
	}
	for _, seq := range []int64{0, 1, 3} {
		s, _ := agents.Fold(story(start))
		e := ask
		if e.Seq = seq; true {
			if _, err := agents.Reduce(s, e); err == nil || !strings.Contains(err.Error(), "does not follow event 1") {
				t.Errorf("sequence %d: %v", seq, err)
			}
		}
	}
}

// Whatever comes, Reduce and Fold say the same, nothing panics, and what is refused changes nothing.
func TestReduceAnything(t *testing.T) {
	kinds := []agents.Kind{agents.Started, agents.MemoryLoaded, agents.Steered, agents.Compacted, agents.ModelBegan, agents.ModelAgain, agents.ModelEnded,
		agents.Permission, agents.ToolBegan, agents.ToolAgain, agents.ToolEnded, agents.Paused, agents.Answered, agents.SubagentSet, agents.MemorySaved, agents.Ended}
	rapid.Check(t, func(t *rapid.T) {
		var s agents.State
		var taken []event
		for range 60 {
			e := event{Seq: s.Seq + 1, Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Call: rapid.IntRange(0, 5).Draw(t, "call"),
				Frame: rapid.SampledFrom([]string{"", "", "", "", "x#1", "x#2", "x#1/y#1", "#", "/"}).Draw(t, "frame"),
				Text:  rapid.SampledFrom([]string{"", "a"}).Draw(t, "text")}
			more := rapid.IntRange(0, 9).Draw(t, "more") > 0
			if more {
				e.More = &agents.More{Allow: rapid.Bool().Draw(t, "allow"), Repair: rapid.Bool().Draw(t, "repair"),
					Stop: rapid.SampledFrom([]agentloop.StopReason{agentloop.StopAnswer, agentloop.StopMaxSteps, agentloop.StopError, agentloop.StopUntil}).Draw(t, "stop")}
			}
			switch {
			case e.Kind == agents.ModelEnded:
				e.Messages = answer("x", make([]string, rapid.IntRange(0, 3).Draw(t, "calls"))...)
			case !more:
			case e.Kind == agents.Started:
				e.Start = &agents.Start{MaxSteps: 3, Depth: strings.Count(e.Frame, "#")}
			case e.Kind == agents.Paused:
				e.Pause = &agents.Pause{Pause: resume.Pause{ID: "p"}, Call: e.Call, For: rapid.SampledFrom([]string{agents.ForApproval, agents.ForHuman, agents.ForModel}).Draw(t, "for")}
			case e.Kind == agents.Answered:
				e.Answer = &agents.Answer{Pause: "p", Value: object{"answer": "x"}}
			case e.Kind == agents.SubagentSet:
				e.Subagent = &agents.Subagent{ID: "x", Closed: e.Allow}
			}
			before := encode(t, s)
			next, err := agents.Reduce(s, e)
			if encode(t, s) != before || err != nil && encode(t, next) != before {
				t.Fatalf("%s changed what it was given", e.Kind)
			}
			if s = next; err == nil {
				taken = append(taken, e)
			}
		}
		fold, err := agents.Fold(taken)
		if err != nil || encode(t, fold) != encode(t, s) {
			t.Fatalf("%v\nfold   %s\nreduce %s", err, encode(t, fold), encode(t, s))
		}
	})
}

func encode(t *rapid.T, v any) string {
	text, err := value.JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzEvent(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(`{"seq":1,"kind":"start","start":{"maxSteps":1}}`)
	f.Add(`{"seq":1,"kind":"pause","pause":{"id":"p","show":9007199254740993,"schema":{"type":"object"},"expiry":{"Answered":true,"Value":1}}}`)
	f.Add(`{"seq":2,"kind":"answer","answer":{"pause":"p","value":{"n":9007199254740993}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		_, _ = agents.Reduce(agents.State{}, e)
		first, err := value.JSON(e)
		if err != nil {
			return // a raw value that no text can hold
		}
		var back event
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if again := canonical(t, back); again != string(first) {
			t.Errorf("%s and back: %s", first, again)
		}
	})
}
