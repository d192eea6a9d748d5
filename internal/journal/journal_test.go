package journal_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/resume"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// Every record that an earlier version wrote is the same to the byte when its event is encoded again.
func TestEventsOfEarlierVersions(t *testing.T) {
	dirs, err := filepath.Glob("../../workflow/testdata/journals/*/*/store")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("journals: %v, %v", dirs, err)
	}
	records := 0
	for _, dir := range dirs {
		copied := t.TempDir()
		copyFolder(t, dir, copied)
		store, err := jsonl.Open(copied)
		if err != nil {
			t.Fatal(err)
		}
		sums, err := store.List(t.Context(), checkpoint.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, sum := range sums {
			_, recs, err := store.Load(t.Context(), sum.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				sameAgain(t, dir+"/"+sum.ID, rec)
				records++
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if records < 1000 {
		t.Errorf("looked at %d records, want at least 1000", records)
	}
}

func sameAgain(t *testing.T, name string, rec checkpoint.Record) {
	t.Helper()
	e, err := journal.Decode(rec)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	switch e.What.(type) {
	case nil:
		t.Errorf("%s: record %d: kind %s means nothing", name, rec.Seq, rec.Kind)
		return
	case journal.Created:
		return // the store writes it
	}
	got, err := journal.Encode(e)
	got.Seq = rec.Seq
	if diff := cmp.Diff(rec, got, cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })); diff != "" || err != nil {
		t.Errorf("%s: record %d (-want +got): %v\n%s\n%s", name, rec.Seq, err, diff, rec.Data)
	}
}

// trust 7.1, 7.10: what is known of a step's models is read back as it was, and a record without it has none.
func TestFinishAndUsage(t *testing.T) {
	used := journal.ModelUse{Model: "m", Draws: []int{1}, Used: journal.Amount{Tokens: 9, Micros: 4, Sent: 6, Calls: 1}}
	for _, what := range []journal.What{
		journal.CallEnded{Output: "x", Models: &used, Answer: journal.Answer{Finish: "length"}}, journal.CallGiven{Output: "x", Answer: journal.Answer{Finish: "stop", Calls: []any{map[string]any{"tool": "kb.search"}}}},
		journal.AgentEvents{Used: used.Used}, journal.CallEnded{Output: "x"}, journal.CallGiven{Output: "x"},
		journal.CallEnded{Output: "x", Models: &journal.ModelUse{Used: journal.Amount{Tokens: 9, Micros: 4}}}, // of an earlier version
	} {
		rec, err := journal.Encode(journal.Event{At: noon, Path: "a", What: what})
		if err != nil {
			t.Fatal(err)
		}
		got, err := journal.Decode(rec)
		if diff := cmp.Diff(what, got.What); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", rec.Data, err, diff)
		}
	}
}

// The progress of a call comes back as it was, with all answers, and a record without earlier ones has none.
func TestProgress(t *testing.T) {
	for _, want := range []journal.Progress{
		{Attempts: 2, Calls: 3, Repairs: []string{"a"}},
		{Answered: true, Replies: []resume.Reply{{To: "two", Answer: int64(1<<53 + 1)}}},
		{Answered: true, Replies: []resume.Reply{{To: "one", Answer: map[string]any{"n": int64(1<<53 + 1)}}, {To: "nil"}, {To: "two"}}},
		{Replies: []resume.Reply{{To: "one", Answer: "x"}}},
	} {
		what := journal.PauseOpened{Pause: resume.Pause{ID: "a", Kind: resume.System}, Progress: want}
		rec, err := journal.Encode(journal.Event{At: noon, Path: "a", What: what})
		if err != nil {
			t.Fatal(err)
		}
		e, err := journal.Decode(rec)
		got, _ := e.What.(journal.PauseOpened)
		if diff := cmp.Diff(want, got.Progress); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", rec.Data, err, diff)
		}
	}
}

// trust 2.7, 5.6, 5.7: restarts, spans and events of adapters come back as they were.
func TestTracedAndTold(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for _, want := range []journal.Event{
		{At: at, What: journal.Restarted{Generation: 3}},
		{At: at, By: "ada", Signal: "take:1", What: journal.Execution{Owner: "vm/1", Worked: time.Second, Parallel: 4}},
		{At: at, What: journal.Execution{Owner: "vm/1", Parallel: 4, Limits: &journal.Limits{Items: 1, Steps: 2, OutputBytes: 3, RunBytes: 4}}},
		{At: at, What: journal.Breakpoints{Steps: []string{"pay", "each[1]/do"}}},
		{At: at, What: journal.Execution{}}, {At: at, What: journal.Execution{Limits: &journal.Limits{}}},
		{At: at, Path: "ask", What: journal.PauseClosed{Pause: "ask"}, Begins: &journal.Execution{Owner: "vm/1", Worked: 7, Parallel: 2}},
		{At: at, Path: "ask", After: 4, What: journal.PauseAnswered{Pause: "ask", Next: resume.Answered, Answer: "yes", Restart: true}},
		{At: at, Path: "told", After: 3, What: journal.Said{Text: "Ticket 7", Value: map[string]any{"id": int64(7)}}},
		{At: at, Path: "each[1]/told", After: 9, What: journal.Said{Text: ""}},
		{At: at, Path: "look", After: 2, What: journal.CallFiles{Files: []journal.File{{Path: "a.png", SHA256: "00", MediaType: "image/png", Bytes: 7}}}},
		{At: at, What: journal.Traced{Traceparent: "00-1-2-01"}},
		{At: at, Path: "pay[2]", What: journal.Told{Events: []journal.Custom{
			{At: at.Add(time.Second), Name: "paid", Data: map[string]any{"n": int64(1)}}, {At: at, Name: "done"},
		}}},
	} {
		rec, err := journal.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		rec.Seq = 1
		got, err := journal.Decode(rec)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
}

func TestDecodeDamage(t *testing.T) {
	for _, tt := range []struct {
		kind checkpoint.Kind
		data string
	}{
		{"call.ended", `{`},
		{"call.ended", `[]`},
		{"call.ended", `null`},
		{"agent.event", `{"events":"none"}`},
		{"agent.event", `{"calls":[{"n":"1"}]}`},
		{checkpoint.PauseOpened, `{}`},
		{checkpoint.PauseOpened, `{"pause":"p","kind":"humane"}`},
	} {
		_, err := journal.Decode(checkpoint.Record{Seq: 7, At: noon, Kind: tt.kind, Path: "s", Data: json.RawMessage(tt.data)})
		if !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s %s: got %v, want ErrCorrupt", tt.kind, tt.data, err)
		}
	}
	e, err := journal.Decode(checkpoint.Record{Seq: 7, At: noon, Kind: "timer.set", Data: json.RawMessage(`{"n":3}`)})
	if e.What != nil || err != nil {
		t.Errorf("a kind of a later version: got %v, %v", e.What, err)
	}
}

// Whatever a record holds, its event is the same when it is encoded and decoded again.
func FuzzDecode(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("call.ended", `{"n":3,"output":{"a":1},"draws":[1,2],"model":"m","usage":{"tokens":3,"micros":4}}`)
	f.Add("call.ended", `{"n":3,"error":{"category":"tool","code":"x","message":"gone"},"unknown":true,"settled":true}`)
	f.Add("pause.opened", `{"n":3,"pause":"p","kind":"system","call":{"attempts":1,"repairs":["a","b"],"answer":null},"agent":{"step":"s","tries":2}}`)
	f.Add("pause.answered", `{"n":3,"pause":"p","next":"answered","answer":{"decision":"retry"},"kept":true,"generation":2}`)
	f.Add("run.redefined", `{"digest":"d","generation":2,"kept":[{"step":"s","answer":1}],"doubts":[{"step":"s"}],"worked":12,"definition":{}}`)
	f.Add("agent.event", `{"n":1,"calls":[{"model":"m","n":1,"step":"s"}],"waits":true,"began":2}`)
	f.Add("step.denied", `{"n":2,"error":{"category":"confirmation","code":"hook.denied","message":"no"}}`)
	f.Add("step.said", `{"n":2,"text":"Ticket 7","value":{"id":7}}`)
	f.Add("run.execution", `{"owner":"vm/1","by":"ada","worked":12,"parallel":4,"signal":"take:1"}`)
	f.Add("run.input", `{"inputs":{},"owner":"vm/1","parallel":4}`)
	f.Add("run.breakpoints", `{"steps":["pay",7]}`)
	f.Add("token.minted", `{"pause":"p","hash":"00ff","expiresAt":"2026-01-31T12:00:00Z"}`)
	f.Fuzz(func(t *testing.T, kind, data string) {
		e, err := journal.Decode(checkpoint.Record{Seq: 1, At: noon, Kind: checkpoint.Kind(kind), Path: "s", Data: json.RawMessage(data)})
		if err != nil || e.What == nil {
			return
		}
		if _, ok := e.What.(journal.Created); ok {
			return
		}
		rec, err := journal.Encode(e)
		if err != nil {
			t.Fatalf("%s %s: %v", kind, data, err)
		}
		again, err := journal.Decode(rec)
		if err != nil {
			t.Fatalf("%s %s, then %s: %v", kind, data, rec.Data, err)
		}
		twice, err := journal.Encode(again)
		if err != nil || string(twice.Data) != string(rec.Data) {
			t.Errorf("%s %s: got %s, want %s (%v)", kind, data, twice.Data, rec.Data, err)
		}
	})
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
