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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
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
		{func(p *resume.Pause) { p.Decisions = []string{"yes", ""} }, `decisions: "" is empty or repeated`},
		{func(p *resume.Pause) { p.Decisions = []string{"yes", "no", "yes"} }, `decisions: "yes" is empty or repeated`},
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
		{`{"pause":"p","kind":"human","decisions":["yes","yes"]}`, "repeated"},
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

// numbers compares numbers by what they are worth: a float64 without a fraction comes back as an int64.
var numbers = cmp.FilterValues(func(a, b any) bool { return number(a) && number(b) }, cmp.Comparer(value.Equal))

func number(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func FuzzOpened(target *testing.F) {
	f := seedtest.Fuzz(target)
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
		if diff := cmp.Diff(p, again, numbers); diff != "" || err != nil {
			t.Errorf("%s and back: %v\n%s", data, err, diff)
		}
	})
}

func TestCheck(t *testing.T) {
	choice, anything := []string{"approve", "reject"}, object{"type": "object"}
	reply := object{"type": "object", "required": []any{"reply"}} // as a form, and as a payload
	for _, tt := range []struct {
		name      string
		decisions []string
		schema    any
		answer    any
		want      any
		err       string
	}{
		{"a decision", choice, nil, object{"decision": "approve"}, object{"decision": "approve", "form": nil}, ""},
		{"other Go types", choice, nil, map[string]string{"decision": "approve"}, object{"decision": "approve", "form": nil}, ""},
		{"a form without a schema", choice, nil, object{"decision": "approve", "form": int64(1)}, object{"decision": "approve", "form": int64(1)}, ""},
		{"a form", choice, reply, object{"decision": "approve", "form": object{"reply": "yes"}}, object{"decision": "approve", "form": object{"reply": "yes"}}, ""},
		{"a bad form", choice, reply, object{"decision": "approve", "form": object{}}, nil, `the form for human pause "p" of step "s": /reply: is required`},
		{"a null form", choice, reply, object{"decision": "approve", "form": nil}, nil, "must be an object, not null"},
		{"an empty form that does not do", choice, reply, object{"decision": "approve"}, nil, "/reply: is required"},
		{"an empty form that does", choice, anything, object{"decision": "approve"}, object{"decision": "approve", "form": object{}}, ""},
		{"nothing to fill in", choice, reply, object{"decision": "reject"}, object{"decision": "reject", "form": nil}, ""},
		{"a bad form all the same", choice, reply, object{"decision": "reject", "form": object{}}, nil, "/reply: is required"},
		{"retry", []string{"retry", "result", "fail"}, reply, object{"decision": "retry"}, object{"decision": "retry", "form": nil}, ""},
		{"fail", []string{"retry", "result", "fail"}, reply, object{"decision": "fail"}, object{"decision": "fail", "form": nil}, ""},
		{"result", []string{"retry", "result", "fail"}, reply, object{"decision": "result"}, nil, "/reply: is required"},
		{"a schema that is none", choice, object{"type": "text"}, object{"decision": "approve"}, nil, `the form for human pause "p" of step "s": its schema: `},
		{"another decision", choice, nil, object{"decision": "Approve"}, nil,
			`the answer to human pause "p" of step "s": unknown decision "Approve"` + "\n  hint: it is \"approve\" or \"reject\""},
		{"a long decision", choice, nil, object{"decision": strings.Repeat("x", 1e6)}, nil, `unknown decision "` + strings.Repeat("x", 40) + `"`},
		{"a decision that is no string", choice, nil, object{"decision": true}, nil, "has no decision\n  hint: it is \"approve\" or \"reject\""},
		{"no object", choice, nil, "approve", nil, "has no decision"},
		{"nothing", choice, nil, nil, nil, "has no decision"},
		{"another member", choice, nil, object{"decision": "approve", "reply": 1, "from": 2}, nil, `unknown member "from"`},
		{"a payload", nil, reply, object{"reply": int64(1)}, object{"reply": int64(1)}, ""},
		{"a bad payload", nil, reply, object{}, nil, `the answer for human pause "p" of step "s": /reply: is required`},
		{"any payload", nil, nil, []string{"a"}, []any{"a"}, ""},
		{"null", nil, nil, nil, nil, ""},
		{"no JSON", nil, nil, math.Inf(1), nil, `the answer to human pause "p" of step "s": `},
	} {
		p := &resume.Pause{ID: "p", Kind: resume.Human, Step: "s", Decisions: tt.decisions, Schema: tt.schema}
		got, err := p.Check(tt.answer)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", tt.name, diff)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
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

func TestCheckExpiry(t *testing.T) {
	number, yes := object{"type": "integer", "default": 1}, []string{"approve"}
	fields := object{"type": "object", "required": []any{"why"}}
	for _, tt := range []struct {
		p    resume.Pause
		set  any
		want string
	}{
		{resume.Pause{Schema: number}, 3, ""},
		{resume.Pause{Schema: number}, "no", "what on_expire sets: must be an integer, not a string"},
		{resume.Pause{Schema: number}, nil, "what on_expire sets: must be an integer, not null"}, // not the default
		{resume.Pause{}, "no", ""},
		{resume.Pause{Schema: fields, Decisions: yes}, "late", ""},
		{resume.Pause{Schema: fields, Decisions: yes}, object{"decision": "approve", "form": nil}, ""},
		{resume.Pause{Schema: fields, Decisions: yes}, object{"form": object{"why": 1}}, ""},
		{resume.Pause{Schema: fields, Decisions: yes}, object{"form": object{}}, "what on_expire sets: /why: is required"},
	} {
		tt.p.OnExpire = resume.Expiry{Answered: true, Value: tt.set}
		got := ""
		if err := tt.p.CheckExpiry(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v, set %v: %q, want %q", tt.p.Schema, tt.set, got, tt.want)
		}
	}
	if err := (&resume.Pause{Schema: number}).CheckExpiry(); err != nil {
		t.Errorf("a pause that fails when it expires: %v", err)
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

// An answer that is left out is the default of the schema, where it has one.
func TestCheckPresets(t *testing.T) {
	type m = map[string]any
	name, number := m{"type": "string", "default": "Ada"}, m{"type": "integer", "default": int64(3)}
	place := m{"type": "object", "properties": m{"floor": m{"type": "integer", "default": int64(0)}, "city": m{"type": "string"}}}
	for _, tt := range []struct {
		schema, answer, want any // want nil: it does not fit
	}{
		{name, "Grace", "Grace"},
		{name, "", "Ada"},
		{name, nil, "Ada"},
		{name, int64(7), nil},
		{number, "", int64(3)},
		{number, int64(0), int64(0)},
		{m{"type": "string"}, nil, nil},
		{m{"type": "integer"}, "", nil},
		{place, m{"city": "Turin"}, m{"city": "Turin", "floor": int64(0)}},
		{place, m{"floor": int64(2)}, m{"floor": int64(2)}},
	} {
		p := resume.Pause{Kind: resume.Human, ID: "ask", Step: "ask", Schema: tt.schema}
		got, err := p.Check(tt.answer)
		if (err != nil) != (tt.want == nil) || err == nil && !cmp.Equal(got, tt.want) {
			t.Errorf("%v: %v: %v, %v, want %v", tt.schema, tt.answer, got, err, tt.want)
		}
	}
}

// Trust 2.5: a lone decision need not be named, and the defaults of a form are filled in.
func TestCheckFillsIn(t *testing.T) {
	form := map[string]any{"type": "object", "properties": map[string]any{
		"amount": map[string]any{"type": "integer", "default": int64(5)}, "why": map[string]any{"type": "string"}}}
	lone, two := []string{"send"}, []string{"approve", "reject"}
	type m = map[string]any
	for _, tt := range []struct {
		name      string
		decisions []string
		schema    any
		answer    any
		want      any // nil: it does not fit
	}{
		{"nothing said", lone, nil, nil, m{"decision": "send", "form": nil}},
		{"an empty object", lone, nil, m{}, m{"decision": "send", "form": nil}},
		{"named anyway", lone, nil, m{"decision": "send"}, m{"decision": "send", "form": nil}},
		{"the form alone", lone, form, m{"why": "x"}, m{"decision": "send", "form": m{"why": "x", "amount": int64(5)}}},
		{"as a member", lone, form, m{"form": m{"amount": int64(7)}}, m{"decision": "send", "form": m{"amount": int64(7)}}},
		{"another decision", lone, nil, m{"decision": "no"}, nil},
		{"no object", lone, nil, "send", nil},
		{"one of two", two, form, m{"decision": "approve"}, m{"decision": "approve", "form": m{"amount": int64(5)}}},
		{"a rejection has no form", two, form, m{"decision": "reject"}, m{"decision": "reject", "form": nil}},
		{"two, none named", two, form, m{"why": "x"}, nil},
		{"left out: the form alone", nil, form, m{"why": "x"}, m{"decision": "approve", "form": m{"why": "x", "amount": int64(5)}}},
		{"left out: as a member", nil, form, m{"form": m{}}, m{"decision": "approve", "form": m{"amount": int64(5)}}},
		{"left out: named", nil, form, m{"decision": "reject"}, m{"decision": "reject", "form": nil}},
		{"left out: nothing filled in", nil, form, m{}, nil},
		{"left out: nothing said", nil, form, nil, nil},
		{"left out: what does not fit", nil, form, m{"why": 7}, nil},
	} {
		p := resume.Pause{Kind: resume.Human, ID: "ask", Step: "ask", Decisions: tt.decisions, Schema: tt.schema}
		if tt.decisions == nil { // as a human step opens it that has a form
			p.Decisions, p.Default = two, "approve"
		}
		got, err := p.Check(tt.answer)
		if (err != nil) != (tt.want == nil) || err == nil && !cmp.Equal(got, tt.want) {
			t.Errorf("trust 2.5: %s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}
