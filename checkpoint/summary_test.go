package checkpoint_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// journal reads records in short: kind, then their data. They are a second apart, the first at noon.
func journal(lines ...string) []checkpoint.Record {
	var recs []checkpoint.Record
	for i, line := range lines {
		kind, data, _ := strings.Cut(line, " ")
		rec := checkpoint.Record{Seq: int64(i + 1), At: noon.Add(time.Duration(i) * time.Second), Kind: checkpoint.Kind(kind)}
		if data != "" {
			rec.Data = json.RawMessage(data)
		}
		recs = append(recs, rec)
	}
	return recs
}

const created = `run.created {"digest":"d","format":1,"recipe":"greet","run":"run"}`

func TestFold(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	day := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	run := checkpoint.Run{ID: "run", Recipe: "greet", Digest: "d", StartedAt: noon}
	for _, tt := range []struct {
		name  string
		lines []string
		want  checkpoint.Summary
		due   time.Time
	}{
		{"created", nil, checkpoint.Summary{Status: checkpoint.Running}, time.Time{}},
		{"opaque records change nothing", []string{"step.end", `agent.turn {"pause":"p","status":"ok"}`,
			`timer.set {"dueAt":"2026-02-01T00:00:00Z","timer":"t"}`}, checkpoint.Summary{Status: checkpoint.Running}, time.Time{}},
		{"ended", []string{`run.ended {"status":"ok"}`}, checkpoint.Summary{Status: checkpoint.OK, EndedAt: at(1)}, time.Time{}},
		{"the end kills pauses", []string{
			`pause.opened {"kind":"human","pause":"p"}`, `pause.opened {"dueAt":"2026-02-01T00:00:00Z","kind":"wait","pause":"q"}`, `run.ended {"status":"cancelled"}`},
			checkpoint.Summary{Status: checkpoint.Cancelled, EndedAt: at(3)}, time.Time{}},
		{"an open pause is not a paused run", []string{`pause.opened {"kind":"human","pause":"p","prompt":"?"}`},
			checkpoint.Summary{Status: checkpoint.Running, Pauses: []checkpoint.Pause{{ID: "p", Kind: "human", Seq: 2}}}, time.Time{}},
		{"paused; closing a pause or minting a token leaves it so", []string{
			`pause.opened {"kind":"human","pause":"p"}`, `pause.opened {"dueAt":"2026-02-01T00:00:00.5Z","expiresAt":"2026-02-01T01:00:00+01:00","kind":"system","pause":"q"}`,
			`run.paused`, `pause.closed {"pause":"p"}`, `token.minted {"hash":"00ff","pause":"q"}`, `token.minted {"expiresAt":"2026-02-01T00:00:00Z","hash":"01","pause":"q"}`},
			checkpoint.Summary{Status: checkpoint.Paused, Pauses: []checkpoint.Pause{{ID: "q", Kind: "system", Seq: 3, DueAt: day.Add(5e8), ExpiresAt: day,
				Tokens: []checkpoint.Token{{Hash: "00ff"}, {Hash: "01", ExpiresAt: day}}}}}, day},
		{"answered", []string{`pause.opened {"kind":"human","pause":"p"}`, `run.paused`, `pause.answered {"answer":{},"pause":"p"}`},
			checkpoint.Summary{Status: checkpoint.Running}, time.Time{}},
		{"a run that is running begins another execution", []string{`run.execution {"owner":"o"}`, `run.execution`},
			checkpoint.Summary{Status: checkpoint.Running}, time.Time{}},
		{"an execution of a paused run leaves it so", []string{`run.paused`, `run.execution`}, checkpoint.Summary{Status: checkpoint.Paused}, time.Time{}},
		{"the usage is that of the last pause or the end", []string{`run.paused {"usage":{"calls":1,"inputTokens":2,"micros":9,"outputTokens":3}}`, `run.paused`},
			checkpoint.Summary{Status: checkpoint.Paused, Usage: checkpoint.Usage{Calls: 1, InputTokens: 2, OutputTokens: 3, Micros: 9}}, time.Time{}},
		{"failed", []string{`run.paused {"usage":{"calls":1,"micros":9}}`,
			`run.ended {"error":{"code":"tool.failed","message":"503","step":"a"},"status":"error","usage":{"calls":2}}`},
			checkpoint.Summary{Status: checkpoint.Failed, EndedAt: at(2), Usage: checkpoint.Usage{Calls: 2},
				Error: checkpoint.Failure{Code: "tool.failed", Message: "503", Step: "a"}}, time.Time{}},
		{"opened again", []string{`pause.opened {"kind":"human","pause":"p"}`, `pause.answered {"pause":"p"}`, `pause.opened {"kind":"human","pause":"p"}`},
			checkpoint.Summary{Status: checkpoint.Running, Pauses: []checkpoint.Pause{{ID: "p", Kind: "human", Seq: 4}}}, time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := append([]string{created}, tt.lines...)
			tt.want.Run, tt.want.Seq, tt.want.UpdatedAt = run, int64(len(lines)), at(len(lines)-1)
			got, err := checkpoint.Fold("run", journal(lines...))
			if err != nil {
				t.Fatal(err)
			}
			// Through JSON, as a store may keep it; an empty list is none then.
			text, err := json.Marshal(got)
			var kept checkpoint.Summary
			if err == nil {
				err = json.Unmarshal(text, &kept)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, kept); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			if due := got.Due(); !due.Equal(tt.due) {
				t.Errorf("due %v, want %v", due, tt.due)
			}
		})
	}
}

func TestFoldRefuses(t *testing.T) {
	gap := journal(created, "a", "b")
	gap[2].Seq = 4
	twice := journal(created, "a", "b")
	twice[2].Seq = 2
	for _, tt := range []struct {
		name string
		recs []checkpoint.Record
		want error
		text string
	}{
		{"empty", nil, checkpoint.ErrCorrupt, "empty"},
		{"no beginning", journal("a"), checkpoint.ErrCorrupt, "begins with run.created"},
		{"two beginnings", journal(created, created), checkpoint.ErrCorrupt, "only one"},
		{"a gap", gap, checkpoint.ErrCorrupt, "record 4 (b): behind record 2"},
		{"a number twice", twice, checkpoint.ErrCorrupt, "record 2 (b): behind record 2"},
		{"another run", journal(strings.Replace(created, `"run"}`, `"other"}`, 1)), checkpoint.ErrCorrupt, `it is of run "other"`},
		{"a later format", journal(strings.Replace(created, "1", "2", 1)), checkpoint.ErrVersion, ": 2"},
		{"a format that is a text", journal(strings.Replace(created, "1", `"1"`, 1)), checkpoint.ErrVersion, ": 1"},
		{"no digest", journal(strings.Replace(created, "digest", "dig", 1)), checkpoint.ErrCorrupt, "no digest"},
		{"labels in a list", journal(strings.Replace(created, `"recipe"`, `"labels":[],"recipe"`, 1)), checkpoint.ErrCorrupt, "labels is a list, not an object"},
		{"a label that is a number", journal(strings.Replace(created, `"recipe"`, `"labels":{"k":1},"recipe"`, 1)), checkpoint.ErrCorrupt, "k is a number, not a string"},
		{"a label without a key", journal(strings.Replace(created, `"recipe"`, `"labels":{"":"v"},"recipe"`, 1)), checkpoint.ErrCorrupt, "label"},
		{"a queue that is a number", journal(strings.Replace(created, `"recipe"`, `"queue":1,"recipe"`, 1)), checkpoint.ErrCorrupt, "queue is a number, not a string"},
		{"a bad parent", journal(strings.Replace(created, `"recipe"`, `"parent":"../x","recipe"`, 1)), checkpoint.ErrCorrupt, "parent"},
		{"data is a list", journal(strings.Fields(created)[0] + " []"), checkpoint.ErrCorrupt, "data is a list"},
		{"data is no JSON", journal(created, "run.ended {"), checkpoint.ErrCorrupt, "data: "},
		{"a member twice", journal(created, `run.ended {"status":"ok","status":"error"}`), checkpoint.ErrCorrupt, "data: "},
		{"behind the end", journal(created, `run.ended {"status":"ok"}`, "a"), checkpoint.ErrCorrupt, "behind the end"},
		{"an end that is none", journal(created, `run.ended {"status":"paused"}`), checkpoint.ErrCorrupt, `cannot end as "paused"`},
		{"a pause without an id", journal(created, `pause.opened {"kind":"human"}`), checkpoint.ErrCorrupt, "no pause"},
		{"a pause without a kind", journal(created, `pause.opened {"pause":"p"}`), checkpoint.ErrCorrupt, "no kind"},
		{"a pause opened twice", journal(created, `pause.opened {"kind":"human","pause":"p"}`, `pause.opened {"kind":"human","pause":"p"}`), checkpoint.ErrCorrupt, `pause "p" is open already`},
		{"a bad expiry", journal(created, `pause.opened {"expiresAt":"soon","kind":"human","pause":"p"}`), checkpoint.ErrCorrupt, "expiresAt: "},
		{"an expiry that is a number", journal(created, `pause.opened {"expiresAt":5,"kind":"human","pause":"p"}`), checkpoint.ErrCorrupt, "expiresAt is a number, not a string"},
		{"an answer to nothing", journal(created, `pause.answered {"pause":"p"}`), checkpoint.ErrCorrupt, `no open pause "p"`},
		{"an answer twice", journal(created, `pause.opened {"kind":"human","pause":"p"}`, `pause.answered {"pause":"p"}`, `pause.answered {"pause":"p"}`), checkpoint.ErrCorrupt, `no open pause "p"`},
		{"a token for nothing", journal(created, `token.minted {"hash":"00","pause":"p"}`), checkpoint.ErrCorrupt, `no open pause "p"`},
		{"a token in the clear", journal(created, `pause.opened {"kind":"human","pause":"p"}`, `token.minted {"hash":"secret","pause":"p"}`), checkpoint.ErrCorrupt, "hash is not in hex"},
		{"a hash in capitals", journal(created, `pause.opened {"kind":"human","pause":"p"}`, `token.minted {"hash":"0A","pause":"p"}`), checkpoint.ErrCorrupt, "hash is not in hex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := checkpoint.Fold("run", tt.recs)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.text)
			}
			if errors.Is(err, checkpoint.ErrVersion) && errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("error %v is two", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v tells the secret", err)
			}
		})
	}
}

// A summary stays as it is when a later one is made of it.
func TestNextLeavesOldAlone(t *testing.T) {
	recs := journal(created, `pause.opened {"kind":"human","pause":"p"}`, `pause.opened {"kind":"human","pause":"q"}`,
		`token.minted {"hash":"01","pause":"p"}`, `timer.set {"dueAt":"2026-02-01T00:00:00Z","timer":"b"}`)
	old, err := checkpoint.Fold("run", recs)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(old)
	for _, line := range []string{`pause.closed {"pause":"p"}`, `token.minted {"hash":"02","pause":"p"}`, `tokens.killed`, `tokens.killed {"pause":"p"}`,
		`timer.set {"dueAt":"2026-02-02T00:00:00Z","timer":"a"}`, `timer.set {"dueAt":"2026-02-02T00:00:00Z","timer":"b"}`,
		`timer.done {"timer":"b"}`, `pause.opened {"kind":"human","pause":"r"}`, `run.ended {"status":"ok"}`} {
		rec := journal(line)[0]
		rec.Seq = 0
		next, kept, err := old.Next(5, []checkpoint.Record{rec})
		if err != nil || next.Seq != 6 || kept[0].Seq != 6 || rec.Seq != 0 {
			t.Errorf("%s: %+v, %v", line, kept, err)
		}
		if after, _ := json.Marshal(old); string(after) != string(before) {
			t.Fatalf("%s changed\n%s to\n%s", line, before, after)
		}
	}
}

// A queued run is queued until its first execution, whatever else is recorded.
func TestFoldOfQueued(t *testing.T) {
	run := checkpoint.Run{ID: "run", Recipe: "greet", Digest: "d", StartedAt: noon, Parent: "old", Queue: "default",
		Labels: map[string]string{"customer": "4711", "note": ""}, By: "ada", Queued: true}
	begun, recs, err := checkpoint.Begin(run, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"by":"ada","digest":"d","format":1,"labels":{"customer":"4711","note":""},"parent":"old","queue":"default",` +
		`"queued":true,"recipe":"greet","run":"run"}`
	if len(recs) != 1 || string(recs[0].Data) != want {
		t.Errorf("records %+v, want %s", recs, want)
	}
	for _, tt := range []struct {
		line string
		want checkpoint.Status
	}{
		{"run.input", checkpoint.Queued},
		{`pause.opened {"kind":"human","pause":"p"}`, checkpoint.Queued},
		{"run.execution", checkpoint.Running},
		{`run.ended {"status":"cancelled"}`, checkpoint.Cancelled},
	} {
		rec := journal(tt.line)[0]
		rec.Seq = 0
		sum, _, err := begun.Next(1, []checkpoint.Record{rec})
		if err != nil || sum.Status != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.line, sum.Status, err, tt.want)
		}
		if diff := cmp.Diff(run, sum.Run); diff != "" {
			t.Errorf("%s: run (-want +got):\n%s", tt.line, diff)
		}
	}
}
