package past_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// journalOf is a journal whose events are a second apart. Those with a path have it in front of what happened.
func journalOf(what ...any) (events []journal.Event) {
	events = []journal.Event{
		{What: journal.Created{Recipe: "r", Digest: "d1"}},
		{What: journal.Begun{Inputs: map[string]any{"n": int64(1)}}},
	}
	path := ""
	for _, w := range what {
		if s, ok := w.(string); ok {
			path = s
			continue
		}
		events = append(events, journal.Event{Path: path, What: w.(journal.What)})
		path = ""
	}
	for i := range events {
		events[i].At = noon.Add(time.Duration(i) * time.Second)
	}
	return events
}

func read(t *testing.T, what ...any) *past.Past {
	t.Helper()
	p, err := past.Read("r1", journalOf(what...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadNeedsABeginning(t *testing.T) {
	for name, events := range map[string][]journal.Event{"empty": nil, "created": journalOf()[:1]} {
		if p, err := past.Read("r1", events); !errors.Is(err, checkpoint.ErrCorrupt) || p != nil {
			t.Errorf("%s: Read = %v, %v", name, p, err)
		}
	}
}

// ended is a step that has ended.
var ended = journal.CallEnded{Output: "x"}

func TestRead(t *testing.T) {
	recipe := map[string]any{"name": "r"}
	type says struct {
		Digest, Recipe   string
		From, Generation int
		Last             int // the index of the first event
		Events           int // in Last
		Undone           []string
		Closing          journal.What
		Worked           time.Duration
		Traceparent      string
		Tools            map[string]string
	}
	for _, tt := range []struct {
		name string
		what []any
		want says
	}{
		{"begun", nil, says{Digest: "d1", Generation: 1, Events: 2, Worked: time.Second}},
		{"worked on twice", []any{journal.Execution{}, "a", ended, journal.Paused{},
			journal.Execution{Worked: time.Second}, "b", ended},
			says{Digest: "d1", Generation: 1, Events: 7, Worked: 2 * time.Second}},
		{"an answer begins it again", []any{"a", ended, "ask", journal.PauseAnswered{Pause: "p", Generation: 2}, "a", ended},
			says{Digest: "d1", Generation: 2, Last: 4, Events: 1, Worked: 4 * time.Second}},
		{"an answer that does not", []any{"a", ended, "ask", journal.PauseAnswered{Pause: "p"}},
			says{Digest: "d1", Generation: 1, Events: 4, Worked: 3 * time.Second}},
		{"rolled back", []any{"a", ended, "a!rollback", journal.RollbackBegun{}, "a!rollback", journal.RollbackEnded{}},
			says{Digest: "d1", Generation: 1, Events: 5, Undone: []string{"a", "a"}, Worked: 4 * time.Second}},
		{"begun again after it", []any{"a!rollback", journal.RollbackBegun{}, journal.Restarted{Generation: 3}, "b", ended},
			says{Digest: "d1", Generation: 3, Last: 4, Events: 1, Worked: 4 * time.Second}},
		{"its finally", []any{"a", ended, journal.FinallyBegun{Status: "error"}, "last", ended,
			"last!rollback", journal.RollbackBegun{}},
			says{Digest: "d1", Generation: 1, Events: 3, Closing: journal.FinallyBegun{Status: "error"},
				Worked: 5 * time.Second}},
		{"cancelled, then its finally", []any{journal.Cancelled{Reason: "no"}, journal.FinallyBegun{Status: "cancelled"}},
			says{Digest: "d1", Generation: 1, Events: 3, Closing: journal.Cancelled{Reason: "no"},
				Worked: 3 * time.Second}},
		{"redefined", []any{"a", ended, "a!rollback", journal.RollbackBegun{}, journal.Execution{Worked: time.Second},
			journal.Redefined{Digest: "d2", Definition: recipe, Generation: 2}, "b", ended},
			says{Digest: "d2", Recipe: `{"name":"r"}`, From: 5, Generation: 2, Last: 5, Events: 2, Worked: 3 * time.Second}},
		{"redefined twice", []any{journal.Redefined{Digest: "d2", Definition: recipe, Generation: 2},
			journal.Redefined{Digest: "d3", Generation: 3}, journal.Restarted{Generation: 4}},
			says{Digest: "d3", From: 3, Generation: 4, Last: 5, Worked: 4 * time.Second}},
		{"traced", []any{journal.Traced{Traceparent: "one"}, journal.Traced{Traceparent: "two"}},
			says{Digest: "d1", Generation: 1, Events: 4, Traceparent: "one", Worked: 3 * time.Second}},
		{"tools", []any{journal.Execution{Tools: map[string]string{"x": "1"}},
			journal.Execution{Tools: map[string]string{"x": "2", "y": "3"}}},
			says{Digest: "d1", Generation: 1, Events: 4, Tools: map[string]string{"x": "1", "y": "3"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := read(t, tt.what...)
			text, err := p.Definition.Recipe()
			if err != nil {
				t.Fatal(err)
			}
			got := says{p.Definition.Digest, string(text), p.Definition.From, p.Generation, 0, len(p.Last), p.Undone, p.Closing,
				p.Worked, p.Traceparent, p.Tools}
			if len(p.Last) > 0 {
				for &p.Events[got.Last] != &p.Last[0] {
					got.Last++
				}
			} else {
				got.Last = len(p.Events)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if len(p.Before())+len(p.Present()) != len(p.Events) || len(p.Before()) != tt.want.From {
				t.Errorf("%d events before, %d of the present definition", len(p.Before()), len(p.Present()))
			}
		})
	}
}

func TestSteps(t *testing.T) {
	p := read(t, "gone", ended, journal.Restarted{Generation: 2}, "each[1]", ended, "each[2]/in", ended)
	digests := map[string]string{"each": "e", "each/in": "i", "later": "l"}
	want := map[string]string{"each": "e", "each/in": "i", "later": "l", "each[1]": "e", "each[2]/in": "i"}
	if diff := cmp.Diff(want, p.Steps(digests)); diff != "" {
		t.Error(diff)
	}
	if len(digests) != 3 {
		t.Errorf("Steps has changed its argument: %v", digests)
	}
}

func TestSignals(t *testing.T) {
	events := journalOf(journal.SignalDropped{ID: "dropped"}, "a", ended,
		"agent", journal.AgentEvents{Events: []agents.Event{{Kind: agents.Steered, More: &agents.More{Notes: []runtime.Note{{ID: "note"}}}}}})
	events[3].Signal = "answer"
	p, err := past.Read("r1", events)
	want := map[string]bool{"dropped": true, "answer": true, "note": true}
	if diff := cmp.Diff(want, p.Signals); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestIdle(t *testing.T) {
	idle, traced := journal.Execution{}, journal.Traced{Traceparent: "x"}
	for _, tt := range []struct {
		name string
		what []any
		asks int // the event that somebody asked for; 0: none
		want int
	}{
		{"nothing recorded", []any{idle, traced, idle, idle}, 0, 3},
		{"no more than are asked for", []any{idle, idle, idle, idle}, 0, 3},
		{"the last recorded something", []any{idle, idle, idle, "a", ended}, 0, 0},
		{"since something was recorded", []any{idle, "a", ended, idle, idle}, 0, 2},
		{"somebody asked for one", []any{idle, idle, idle}, 3, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := read(t, tt.what...)
			if tt.asks > 0 {
				p.Events[tt.asks].By = "ada"
			}
			if got := p.Idle(3); got != tt.want {
				t.Errorf("Idle = %d, want %d", got, tt.want)
			}
			if tt.asks > 0 {
				p.Events[tt.asks].By, p.Events[tt.asks].Signal = "", "s"
			}
			if got := p.Idle(3); got != tt.want {
				t.Errorf("with a signal: Idle = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	failed := &journal.Failure{Code: "no"}
	asks := journal.PauseOpened{Pause: resume.Pause{ID: "p", Reason: journal.Indeterminate}}
	other := journal.PauseOpened{Pause: resume.Pause{ID: "p"}}
	inAgent := asks
	inAgent.Agent = &journal.AgentPause{}
	result := map[string]any{"decision": "result", "form": "x"}
	retry := map[string]any{"decision": "retry"}
	answered := func(answer any) journal.PauseAnswered {
		return journal.PauseAnswered{Pause: "p", Next: resume.Answered, Answer: answer}
	}
	for _, tt := range []struct {
		name   string
		before journal.What // nil: nothing
		what   journal.What
		want   past.End
		over   bool
	}{
		{"a call", nil, journal.CallEnded{Output: "x"}, past.End{Output: "x", Call: true}, true},
		{"a call that failed", nil, journal.CallEnded{Failure: failed}, past.End{Failure: failed, Call: true}, true},
		{"a call given", nil, journal.CallGiven{Output: "x"}, past.End{Output: "x", Call: true}, true},
		{"a wait", nil, journal.WaitOver{Output: "x"}, past.End{Output: "x"}, true},
		{"said", nil, journal.Said{Text: "x"}, past.End{Output: map[string]any{"text": "x", "value": nil}}, true},
		{"an answer", other, answered("x"), past.End{Output: "x"}, true},
		{"an answer before a step", journal.PauseOpened{Pause: resume.Pause{ID: "p", Kind: resume.System, Reason: journal.Breakpoint}}, answered("x"), past.End{}, false},
		{"a call begun", nil, journal.CallBegun{}, past.End{}, false},
		{"a pause", nil, other, past.End{}, false},
		{"the end of a call", asks, answered(result),
			past.End{Output: result, Settled: &past.Settlement{Answer: result}}, true},
		{"the call again", asks, answered(retry), past.End{Output: retry}, true},
		{"nobody answered", asks, journal.PauseAnswered{Pause: "p", Next: resume.Failed}, past.End{}, true},
		{"the end of a call in an agent", inAgent, answered(result), past.End{Output: result}, true},
		{"of a fork", nil, journal.CallEnded{Output: "x", Settled: true},
			past.End{Output: "x", Call: true, Settled: &past.Settlement{}}, true},
		{"of a fork, failed", nil, journal.CallEnded{Failure: failed, Settled: true},
			past.End{Failure: failed, Call: true, Settled: &past.Settlement{Failure: failed}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ends past.Ends
			if tt.before != nil {
				if _, over := ends.Next(&journal.Event{Path: "a", What: tt.before}); over {
					t.Error("a question ends its step")
				}
			}
			got, over := ends.Next(&journal.Event{Path: "a", What: tt.what})
			if diff := cmp.Diff(tt.want, got); diff != "" || over != tt.over {
				t.Errorf("over: %t\n%s", over, diff)
			}
		})
	}
}

func TestAnswerTo(t *testing.T) {
	answered := func(pause string, next resume.Next) journal.PauseAnswered {
		return journal.PauseAnswered{Pause: pause, Next: next}
	}
	events := journalOf("ask", answered("ask", resume.Answered), "ask", answered("ask", resume.Answered),
		"ask", answered("ask", resume.GoOn), "late", answered("late", resume.Failed))
	if e := past.AnswerTo(events, "ask"); e != &events[3] {
		t.Errorf("the answer to ask is %+v", e)
	}
	for _, pause := range []string{"late", "other"} {
		if e := past.AnswerTo(events, pause); e != nil {
			t.Errorf("the answer to %s is %+v", pause, e)
		}
	}
}
