package resume_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type object = map[string]any

var (
	start = time.Date(2026, 1, 31, 12, 0, 0, 5e8, time.UTC)
	paris = time.FixedZone("", 3600)

	// full has every field of a pause, each in the form in which it is kept.
	full = resume.Pause{
		ID: "approve", Token: "r.secret", Kind: resume.Human, Step: "verify[2]/approve", Prompt: "Send <this>?",
		Decisions: []string{"approve", "reject"}, Schema: object{"type": "object"}, Show: object{"n": int64(1) << 60},
		Reason: "because", CreatedAt: start, ExpiresAt: start.Add(72 * time.Hour), RetryAt: start.Add(time.Hour),
		OnExpire: resume.Expiry{Answered: true, Value: object{"decision": "reject", "form": nil}},
	}
)

func TestPauseJSON(t *testing.T) {
	for _, tt := range []struct {
		pause resume.Pause
		want  string
	}{
		{full, `{"id":"approve","token":"r.secret","kind":"human","step":"verify[2]/approve","prompt":"Send <this>?",` +
			`"decisions":["approve","reject"],"schema":{"type":"object"},"show":{"n":1152921504606846976},"reason":"because",` +
			`"createdAt":"2026-01-31T12:00:00.5Z","expiresAt":"2026-02-03T12:00:00.5Z","retryAt":"2026-01-31T13:00:00.5Z"}`},
		{resume.Pause{ID: "p", Kind: resume.External, Step: "s", CreatedAt: start}, // nothing else has a value
			`{"id":"p","kind":"external","step":"s","createdAt":"2026-01-31T12:00:00.5Z"}`},
	} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(tt.pause); err != nil || b.String() != tt.want+"\n" {
			t.Errorf("got  %swant %s (%v)", b.String(), tt.want, err)
		}
	}
}

func TestRecord(t *testing.T) {
	rec, err := full.Record()
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Record{At: start, Kind: checkpoint.PauseOpened, Path: "verify[2]/approve", Data: json.RawMessage(
		`{"decisions":["approve","reject"],"dueAt":"2026-01-31T13:00:00.5Z","expiresAt":"2026-02-03T12:00:00.5Z","kind":"human",` +
			`"onExpire":{"set":{"decision":"reject","form":null}},"pause":"approve","prompt":"Send <this>?","reason":"because",` +
			`"schema":{"type":"object"},"show":{"n":1152921504606846976}}`)}
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}

	// What a tool may say in its own types is kept in one form.
	loose := full
	loose.Schema, loose.Show = json.RawMessage(`{"type": "object"}`), map[string]int{"n": 1 << 60}
	loose.CreatedAt, loose.ExpiresAt, loose.RetryAt = start.In(paris), full.ExpiresAt.In(paris), full.RetryAt.In(paris)
	loose.OnExpire.Value = struct {
		Decision string `json:"decision"`
		Form     any    `json:"form"`
	}{"reject", nil}
	if again, err := loose.Record(); err != nil || !cmp.Equal(again, rec) {
		t.Errorf("record (%v):\n%s", err, cmp.Diff(rec, again))
	}

	small := resume.Pause{ID: "p", Kind: resume.System, Step: "s", CreatedAt: start}
	for _, p := range []resume.Pause{full, small, {ID: "p", Kind: resume.External, Step: "s", CreatedAt: start, Show: false, OnExpire: resume.Expiry{Answered: true}}} {
		rec, err := p.Record()
		if err != nil {
			t.Fatal(err)
		}
		got, err := resume.Opened(rec)
		if diff := cmp.Diff(p, got, cmpopts.IgnoreFields(resume.Pause{}, "Token")); diff != "" || err != nil || got.Token != "" {
			t.Errorf("back from the record (-want +got): %v\n%s", err, diff)
		}
	}
}

// What a store makes of the record.
func TestRecordInSummary(t *testing.T) {
	rec, err := full.Record()
	if err != nil {
		t.Fatal(err)
	}
	sum, _, err := checkpoint.Begin(checkpoint.Run{ID: "r", Digest: "d", StartedAt: start}, []checkpoint.Record{rec})
	want := []checkpoint.Pause{{ID: "approve", Kind: "human", Step: "verify[2]/approve", Seq: 2, ExpiresAt: full.ExpiresAt, DueAt: full.RetryAt}}
	if diff := cmp.Diff(want, sum.Pauses); diff != "" || err != nil {
		t.Errorf("pauses (-want +got): %v\n%s", err, diff)
	}
}

func TestUnfitPauses(t *testing.T) {
	for _, tt := range []struct {
		change func(p *resume.Pause)
		want   string
	}{
		{func(p *resume.Pause) { p.Kind = "" }, `unknown kind ""`},
		{func(p *resume.Pause) { p.Kind = "humane" }, `unknown kind "humane"` + "\n  hint: it is \"human\", \"external\" or \"system\""},
		{func(p *resume.Pause) { p.Decisions = []string{"yes", ""} }, `decisions: "" is empty or there twice`},
		{func(p *resume.Pause) { p.Decisions = []string{"yes", "no", "yes"} }, `decisions: "yes" is empty or there twice`},
		{func(p *resume.Pause) { p.Schema = "object" }, "schema is a string, not an object"},
		{func(p *resume.Pause) { p.Schema = json.RawMessage("{") }, "schema: "},
		{func(p *resume.Pause) { p.Show = math.NaN() }, "show: "},
		{func(p *resume.Pause) { p.OnExpire = resume.Expiry{Answered: true, Value: func() {}} }, "on_expire: "},
		{func(p *resume.Pause) { p.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "the year 10000 is not"},
		{func(p *resume.Pause) { p.RetryAt = time.Date(1, 1, 1, 0, 0, 0, 0, paris) }, "the year 0 is not"},
	} {
		p := full
		tt.change(&p)
		_, err := p.Record()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Record: %v, want %s", err, tt.want)
		}
		err = resume.Suspend(p)
		if _, ok := errors.AsType[*resume.Suspension](err); ok || !strings.HasPrefix(err.Error(), "cannot pause: "+tt.want) {
			t.Errorf("Suspend: %v, want %s", err, tt.want)
		}
	}
	for _, p := range []resume.Pause{{Kind: resume.Human, CreatedAt: start}, {Kind: resume.Human, ID: "p"}} {
		if _, err := p.Record(); err == nil || !strings.Contains(err.Error(), "it has no id or no time") {
			t.Errorf("Record without an id or a time: %v", err)
		}
	}
}

func TestSuspend(t *testing.T) {
	err := fmt.Errorf("crm: %w", resume.Suspend(resume.Pause{Kind: resume.External, Show: []string{"a"}, ExpiresAt: start.In(paris)}))
	s, ok := errors.AsType[*resume.Suspension](err)
	if !ok {
		t.Fatalf("%v is no Suspension", err)
	}
	want := resume.Pause{Kind: resume.External, Show: []any{"a"}, ExpiresAt: start}
	if diff := cmp.Diff(want, s.Pause); diff != "" {
		t.Errorf("pause (-want +got):\n%s", diff)
	}
}

func TestUnfitRecords(t *testing.T) {
	for _, tt := range []struct{ data, want string }{
		{``, "data: "},
		{`[]`, "no pause"},
		{`{}`, "no pause"},
		{`{"kind":"human"}`, "no pause"},
		{`{"pause":"p"}`, `unknown kind ""`},
		{`{"pause":"p","kind":"human","kind":"human"}`, "twice"},
		{`{"pause":1,"kind":"human"}`, "pause is a number"},
		{`{"pause":"p","kind":null}`, "kind is null"},
		{`{"pause":"p","kind":"human","prompt":[]}`, "prompt is a list"},
		{`{"pause":"p","kind":"human","decisions":"yes"}`, "decisions is a string"},
		{`{"pause":"p","kind":"human","decisions":["yes",2]}`, "a decision is a number"},
		{`{"pause":"p","kind":"human","decisions":["yes","yes"]}`, "twice"},
		{`{"pause":"p","kind":"human","schema":1}`, "schema is a number"},
		{`{"pause":"p","kind":"human","expiresAt":"soon"}`, "expiresAt: "},
		{`{"pause":"p","kind":"human","dueAt":0}`, "dueAt is a number"},
		{`{"pause":"p","kind":"human","onExpire":"panic"}`, "onExpire: "},
	} {
		rec := checkpoint.Record{Seq: 7, At: start, Kind: checkpoint.PauseOpened, Path: "s", Data: json.RawMessage(tt.data)}
		got, err := resume.Opened(rec)
		if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.HasPrefix(err.Error(), "record 7 (pause.opened): ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ErrCorrupt with %s", tt.data, err, tt.want)
		}
		if !cmp.Equal(got, resume.Pause{}) {
			t.Errorf("%s: %+v", tt.data, got)
		}
	}
	if _, err := resume.Opened(checkpoint.Record{Kind: checkpoint.PauseClosed, Data: json.RawMessage(`{"pause":"p","kind":"human"}`)}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("a record of another kind: %v", err)
	}
}

func FuzzOpened(f *testing.F) {
	rec, err := full.Record()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(rec.Data))
	f.Add([]byte(`{"pause":"p","kind":"system","dueAt":"0001-01-01T00:00:00+01:00","onExpire":"reject","more":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := resume.Opened(checkpoint.Record{At: start, Kind: checkpoint.PauseOpened, Path: "s", Data: data})
		if err != nil {
			return
		}
		rec, err := p.Record()
		if err != nil {
			t.Fatalf("%s: no record of the pause: %v", data, err)
		}
		again, err := resume.Opened(rec)
		if diff := cmp.Diff(p, again); diff != "" || err != nil {
			t.Errorf("%s and back: %v\n%s", data, err, diff)
		}
	})
}

// needsReply stands for a check of the schema {reply: string, required}: it takes objects with a reply.
func needsReply(_, v any) error {
	if m, _ := v.(object); m["reply"] == nil {
		return fmt.Errorf("no reply in %v", v)
	}
	return nil
}

func anything(_, _ any) error { return nil }

func TestCheck(t *testing.T) {
	type fits = func(schema, v any) error
	choice, form, payload := []string{"approve", "reject"}, object{"type": "object"}, object{"type": "object"}
	for _, tt := range []struct {
		name      string
		decisions []string
		schema    any
		matches   fits
		answer    any
		want      any
		err       string
	}{
		{"a decision", choice, nil, anything, object{"decision": "approve"}, object{"decision": "approve", "form": nil}, ""},
		{"other Go types", choice, nil, anything, map[string]string{"decision": "approve"}, object{"decision": "approve", "form": nil}, ""},
		{"a form without a schema", choice, nil, needsReply, object{"decision": "approve", "form": int64(1)}, object{"decision": "approve", "form": int64(1)}, ""},
		{"a form", choice, form, needsReply, object{"decision": "approve", "form": object{"reply": "yes"}}, object{"decision": "approve", "form": object{"reply": "yes"}}, ""},
		{"a bad form", choice, form, needsReply, object{"decision": "approve", "form": object{}}, nil, `the form for human pause "p" of step "s": no reply in map[]`},
		{"a null form", choice, form, needsReply, object{"decision": "approve", "form": nil}, nil, "no reply in <nil>"},
		{"an empty form that does not do", choice, form, needsReply, object{"decision": "approve"}, nil, "no reply in map[]"},
		{"an empty form that does", choice, form, anything, object{"decision": "approve"}, object{"decision": "approve", "form": object{}}, ""},
		{"nothing to fill in", choice, form, needsReply, object{"decision": "reject"}, object{"decision": "reject", "form": nil}, ""},
		{"a bad form all the same", choice, form, needsReply, object{"decision": "reject", "form": object{}}, nil, "no reply"},
		{"retry", []string{"retry", "result", "fail"}, form, needsReply, object{"decision": "retry"}, object{"decision": "retry", "form": nil}, ""},
		{"fail", []string{"retry", "result", "fail"}, form, needsReply, object{"decision": "fail"}, object{"decision": "fail", "form": nil}, ""},
		{"result", []string{"retry", "result", "fail"}, form, needsReply, object{"decision": "result"}, nil, "no reply"},
		{"no check of schemas", choice, form, nil, object{"decision": "approve", "form": "?"}, object{"decision": "approve", "form": "?"}, ""},
		{"another decision", choice, nil, anything, object{"decision": "Approve"}, nil,
			`the answer to human pause "p" of step "s": unknown decision "Approve"` + "\n  hint: it is \"approve\" or \"reject\""},
		{"a long decision", choice, nil, anything, object{"decision": strings.Repeat("x", 1e6)}, nil, `unknown decision "` + strings.Repeat("x", 40) + `"`},
		{"a decision that is no string", choice, nil, anything, object{"decision": true}, nil, "has no decision\n  hint: it is \"approve\" or \"reject\""},
		{"no object", choice, nil, anything, "approve", nil, "has no decision"},
		{"nothing", choice, nil, anything, nil, nil, "has no decision"},
		{"another member", choice, nil, anything, object{"decision": "approve", "reply": 1, "from": 2}, nil, `unknown member "from"`},
		{"a payload", nil, payload, needsReply, object{"reply": int64(1)}, object{"reply": int64(1)}, ""},
		{"a bad payload", nil, payload, needsReply, object{}, nil, `the answer for human pause "p" of step "s": no reply in map[]`},
		{"any payload", nil, nil, needsReply, []string{"a"}, []any{"a"}, ""},
		{"null", nil, nil, needsReply, nil, nil, ""},
		{"no JSON", nil, nil, anything, math.Inf(1), nil, `the answer to human pause "p" of step "s": `},
	} {
		p := &resume.Pause{ID: "p", Kind: resume.Human, Step: "s", Decisions: tt.decisions, Schema: tt.schema}
		got, err := p.Check(tt.answer, tt.matches)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", tt.name, diff)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
	}
}

// The schema that is checked is the pause's.
func TestCheckTakesTheSchema(t *testing.T) {
	p := &resume.Pause{Kind: resume.External, Schema: object{"type": "string"}}
	_, err := p.Check("x", func(schema, v any) error {
		if !cmp.Equal(schema, p.Schema) || v != "x" {
			return fmt.Errorf("matches(%v, %v)", schema, v)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnswerOf(t *testing.T) {
	for _, tt := range []struct {
		decision   string
		form, want any
	}{
		{"approve", object{"reply": "x"}, object{"decision": "approve", "form": object{"reply": "x"}}},
		{"approve", nil, object{"decision": "approve"}},
		{"", object{"answer": "42"}, object{"answer": "42"}},
		{"", nil, nil},
	} {
		if diff := cmp.Diff(tt.want, resume.AnswerOf(tt.decision, tt.form)); diff != "" {
			t.Errorf("AnswerOf(%q, %v) (-want +got):\n%s", tt.decision, tt.form, diff)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want resume.Expiry
		ok   bool
	}{
		{nil, resume.Expiry{}, true},
		{"fail", resume.Expiry{}, true},
		{"reject", resume.Expiry{Answered: true, Value: object{"decision": "reject", "form": nil}}, true},
		{object{"set": "x"}, resume.Expiry{Answered: true, Value: "x"}, true},
		{object{"set": nil}, resume.Expiry{Answered: true}, true},
		{"Reject", resume.Expiry{}, false},
		{"", resume.Expiry{}, false},
		{false, resume.Expiry{}, false},
		{object{}, resume.Expiry{}, false},
		{object{"sets": 1}, resume.Expiry{}, false},
		{object{"set": 1, "fail": 1}, resume.Expiry{}, false},
		{[]any{"fail"}, resume.Expiry{}, false},
	} {
		got, err := resume.ParseExpiry(tt.in)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != tt.ok {
			t.Errorf("%v: %v (-want +got)\n%s", tt.in, err, diff)
		}
	}
}

func TestDue(t *testing.T) {
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	never, set := time.Time{}, resume.Expiry{Answered: true, Value: "x"}
	for _, tt := range []struct {
		name           string
		retry, expires time.Time
		on             resume.Expiry
		now            time.Time
		want           resume.Next
		answer         any
	}{
		{"no times", never, never, set, at(1000), resume.Wait, nil},
		{"before the expiry", never, at(2), set, at(2).Add(-1), resume.Wait, nil},
		{"expired", never, at(2), set, at(2), resume.Answered, "x"},
		{"long expired", never, at(2), set, at(99), resume.Answered, "x"},
		{"expired, fail", never, at(2), resume.Expiry{}, at(2), resume.Failed, nil},
		{"expired, null", never, at(2), resume.Expiry{Answered: true}, at(2), resume.Answered, nil},
		{"before the retry", at(2), never, set, at(2).Add(-1), resume.Wait, nil},
		{"retry", at(2), never, set, at(2), resume.GoOn, nil},
		{"retry, then expiry: before", at(1), at(2), set, at(0), resume.Wait, nil},
		{"retry, then expiry: between", at(1), at(2), set, at(1), resume.GoOn, nil},
		{"retry, then expiry: late", at(1), at(2), set, at(3), resume.GoOn, nil},
		{"expiry, then retry: between", at(2), at(1), set, at(1), resume.Answered, "x"},
		{"expiry, then retry: late", at(2), at(1), resume.Expiry{}, at(3), resume.Failed, nil},
		{"both at once", at(1), at(1), set, at(1), resume.GoOn, nil},
		{"in another zone", at(1).In(paris), never, set, at(1), resume.GoOn, nil},
	} {
		p := &resume.Pause{RetryAt: tt.retry, ExpiresAt: tt.expires, OnExpire: tt.on}
		if next, answer := p.Due(tt.now); next != tt.want || answer != tt.answer {
			t.Errorf("%s: %s, %v, want %s, %v", tt.name, next, answer, tt.want, tt.answer)
		}
	}
}
