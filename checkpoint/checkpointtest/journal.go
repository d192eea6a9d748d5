package checkpointtest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

func testCreate(h *harness) {
	run := makeRun("run-1", 0)
	run.Parent = "run-0"
	run.StartedAt = time.Date(2026, 1, 31, 13, 0, 0, 123456789, time.FixedZone("", 3600))
	l, err := h.s.Create(h.ctx, run, "me", long, note("a"), note("b"))
	h.want("Create", err, nil)
	if l.RunID != run.ID || l.Owner != "me" || l.Epoch < 1 {
		h.Errorf("lease %+v", l)
	}
	got, recs := h.load(run.ID)
	at := run.StartedAt.UTC()
	h.same("summary", got, checkpoint.Summary{
		Run: checkpoint.Run{ID: "run-1", Recipe: "greet", Digest: digest, StartedAt: at, Parent: "run-0"},
		Seq: 3, UpdatedAt: start.Add(time.Second), Status: checkpoint.Running, Held: true})
	h.same("first record", line(recs[0]), "1 2026-01-31T12:00:00.123456789Z run.created  "+
		`{"digest":"`+digest+`","format":1,"parent":"run-0","recipe":"greet","run":"run-1"}`)
	h.shows(run.ID, note("a"), note("b"))
	h.append(l, 3, note("c"))
	h.shows(run.ID, note("a"), note("b"), note("c"))
}

func testCreateRefuses(h *harness) {
	h.create("run", note("a"))
	_, err := h.s.Create(h.ctx, makeRun("run", 1), "other", long, note("b"))
	h.want("Create of a run that exists", err, checkpoint.ErrExists)
	h.shows("run", note("a"))
	for _, id := range []string{"", ".", "..", ".hidden", "a/b", `a\b`, "../run", "a b",
		"a\x00b", "é", strings.Repeat("a", 129)} {
		_, err := h.s.Create(h.ctx, makeRun(id, 0), "me", 0)
		h.want(fmt.Sprintf("Create of %q", id), err, checkpoint.ErrInvalid)
		_, _, err = h.s.Load(h.ctx, id, 0)
		h.want(fmt.Sprintf("Load of %q", id), err, checkpoint.ErrNotFound)
		_, err = h.s.Claim(h.ctx, id, "me", 0)
		h.want(fmt.Sprintf("Claim of %q", id), err, checkpoint.ErrNotFound)
		h.want(fmt.Sprintf("Delete of %q", id), h.s.Delete(h.ctx, id), checkpoint.ErrNotFound)
	}
	_, err = h.s.Create(h.ctx, makeRun("bad", 0), "me", 0, note("a"), rec(2, checkpoint.PauseClosed, "", "pause", "p"))
	h.want("Create with records that do not fit", err, checkpoint.ErrInvalid)
	_, _, err = h.s.Load(h.ctx, "bad", 0)
	h.want("Load of a run that was refused", err, checkpoint.ErrNotFound)
}

// testBytes checks that nothing between a caller and the medium understands, and so changes, data.
func testBytes(h *harness) {
	var recs []checkpoint.Record
	for _, data := range []string{
		"", `{}`, `{"a":null,"b":[1,2.50,-0,1e400,12345678901234567890]}`, `{"b":1,"a":1,"a":2}`,
		`{"html":"<a href='x'>&amp;</a>","sep":"\u2028","nul":"\u0000","lone":"\ud800"}`,
		"{\"text\":\"grüße 🎉 \u2028 %s %% $1 ? '' \\\\ \\\"\"}",
		`{"long":"` + strings.Repeat("0123456789abcdef", 20_000) + `"}`,
	} {
		r := note("")
		r.Data, r.Path = nil, "verify[2]/chéck \"x\" \n"
		if data != "" {
			r.Data = json.RawMessage(data)
		}
		r.At = r.At.Add(time.Duration(len(recs)))
		recs = append(recs, r)
	}
	l := h.create("run")
	for i, r := range recs {
		h.append(l, int64(i+1), r)
	}
	h.shows("run", recs...)
	_, got := h.load("run")
	if got[1].Data != nil {
		h.Errorf("no data became %q", got[1].Data)
	}
	// What a caller does with its bytes afterwards does not matter.
	mine := note("mine")
	h.append(l, int64(len(recs)+1), mine)
	clear(mine.Data)
	h.shows("run", append(recs, note("mine"))...)
}

func testAppend(h *harness) {
	l := h.create("run")
	h.append(l, 1, note("a"))
	h.append(l, 2)
	numbered := note("b")
	numbered.Seq = 3
	h.append(l, 2, numbered, note("c"))
	want := []checkpoint.Record{note("a"), note("b"), note("c")}

	skipping := note("d")
	skipping.Seq = 6
	for _, tt := range []struct {
		name  string
		lease checkpoint.Lease
		after int64
		rec   checkpoint.Record
		want  error
	}{
		{"behind a missing record", l, 5, note("d"), checkpoint.ErrConflict},
		{"before the end", l, 3, note("d"), checkpoint.ErrConflict},
		{"at the beginning", l, 0, note("d"), checkpoint.ErrConflict},
		{"negative", l, -1, note("d"), checkpoint.ErrConflict},
		{"a seq that skips", l, 4, skipping, checkpoint.ErrConflict},
		{"no such run", checkpoint.Lease{RunID: "other", Owner: l.Owner, Epoch: l.Epoch},
			4, note("d"), checkpoint.ErrNotFound},
		{"no kind", l, 4, rec(1, "", ""), checkpoint.ErrInvalid},
		{"no time", l, 4, checkpoint.Record{Kind: "step.end"}, checkpoint.ErrInvalid},
		{"data is a list", l, 4, checkpoint.Record{At: start, Kind: "step.end", Data: []byte("[]")},
			checkpoint.ErrInvalid},
		{"data has two lines", l, 4, checkpoint.Record{At: start, Kind: "step.end", Data: []byte("{\n}")},
			checkpoint.ErrInvalid},
		{"path is not UTF-8", l, 4, rec(1, "step.end", "a\xff"), checkpoint.ErrInvalid},
		{"a second beginning", l, 4, rec(1, checkpoint.RunCreated, "", "format", 1, "run", "run", "digest", digest),
			checkpoint.ErrInvalid},
		{"an end without a status", l, 4, rec(1, checkpoint.RunEnded, ""), checkpoint.ErrInvalid},
		{"an answer to nothing", l, 4, rec(1, checkpoint.PauseAnswered, "", "pause", "p"), checkpoint.ErrInvalid},
	} {
		h.want(tt.name, h.s.Append(h.ctx, tt.lease, tt.after, tt.rec), tt.want)
		h.shows("run", want...)
	}

	end := rec(9, checkpoint.RunEnded, "", "status", "ok")
	h.append(l, 4, end)
	h.want("Append behind the end", h.s.Append(h.ctx, l, 5, note("late")), checkpoint.ErrConflict)
	h.shows("run", append(want, end)...)
}

func testAtomic(h *harness) {
	l := h.create("run")
	for _, bad := range []checkpoint.Record{rec(1, "", ""), rec(1, checkpoint.PauseClosed, "", "pause", "q")} {
		err := h.s.Append(h.ctx, l, 1, note("a"), opened("p", "dueAt", start), bad, note("b"))
		h.want("Append with a bad record", err, checkpoint.ErrInvalid)
		h.shows("run")
		sum, _ := h.load("run")
		if sum.Seq != 1 || sum.Pauses != nil {
			h.Errorf("summary %+v", sum)
		}
	}
	var batch []checkpoint.Record
	for i := range 500 {
		batch = append(batch, note(fmt.Sprint(i)))
	}
	h.append(l, 1, batch...)
	h.shows("run", batch...)
}

func testAppendsAtOnce(h *harness) {
	l := h.create("run")
	for round := range 5 {
		after := int64(2*round + 1)
		failed := atOnce(8, func(i int) error { return h.s.Append(h.ctx, l, after, note(fmt.Sprint(i)), note("!")) })
		h.oneWon(8, failed, checkpoint.ErrConflict)
	}
	if sum, recs := h.load("run"); sum.Seq != 11 || len(recs) != 11 {
		h.Errorf("%d records, last %d, want 11", len(recs), sum.Seq)
	}
}

func testRunsAtOnce(h *harness) {
	const runs, appends = 16, 8
	failed := atOnce(runs, func(i int) error {
		run := makeRun(fmt.Sprintf("run-%d", i), i)
		l, err := h.s.Create(h.ctx, run, "me", long)
		for j := 0; err == nil && j < appends; j++ {
			err = h.s.Append(h.ctx, l, int64(2*j+1), note(fmt.Sprintf("%d.%d", i, j)), note("!"))
		}
		if err != nil {
			return err
		}
		return h.s.Release(h.ctx, l)
	})
	if failed != nil {
		h.Fatal(failed)
	}
	for i := range runs {
		var want []checkpoint.Record
		for j := range appends {
			want = append(want, note(fmt.Sprintf("%d.%d", i, j)), note("!"))
		}
		h.shows(fmt.Sprintf("run-%d", i), want...)
	}
	all, err := h.s.List(h.ctx, checkpoint.Filter{})
	if h.want("List", err, nil); len(all) != runs {
		h.Errorf("%d runs, want %d", len(all), runs)
	}
}

func testLoadAfter(h *harness) {
	h.create("run", note("a"), note("b"))
	for _, tt := range []struct {
		after int64
		want  []int64
	}{{-1, []int64{1, 2, 3}}, {0, []int64{1, 2, 3}}, {2, []int64{3}}, {3, nil}, {4, nil}, {math.MaxInt64, nil}} {
		sum, recs, err := h.s.Load(h.ctx, "run", tt.after)
		h.want("Load", err, nil)
		var got []int64
		for _, r := range recs {
			got = append(got, r.Seq)
		}
		h.same(fmt.Sprintf("records after %d", tt.after), got, tt.want)
		if sum.Seq != 3 || sum.ID != "run" {
			h.Errorf("after %d: summary %+v", tt.after, sum)
		}
	}
	_, _, err := h.s.Load(h.ctx, "other", 0)
	h.want("Load of no run", err, checkpoint.ErrNotFound)
}

func testDefinitions(h *harness) {
	h.create("run-1")
	again := makeRun("run-2", 0)
	again.Definition = []byte(`{"steps":[],"x":"the digest does not cover this"}`)
	_, err := h.s.Create(h.ctx, again, "me", 0)
	h.want("Create", err, nil)
	none := makeRun("run-3", 0)
	none.Digest, none.Definition = "none", nil
	_, err = h.s.Create(h.ctx, none, "me", 0)
	h.want("Create without a definition", err, nil)
	bad := makeRun("run-4", 0)
	bad.Digest, bad.Definition = "bad", []byte("[]")
	_, err = h.s.Create(h.ctx, bad, "me", 0)
	h.want("Create with a definition that is a list", err, checkpoint.ErrInvalid)

	got, err := h.s.Definition(h.ctx, digest)
	h.want("Definition", err, nil)
	h.same("definition", string(got), definition)
	for _, d := range []string{"none", "bad", "", "..", "../run-1.jsonl", strings.ToUpper(digest)} {
		_, err := h.s.Definition(h.ctx, d)
		h.want(fmt.Sprintf("Definition %q", d), err, checkpoint.ErrNotFound)
	}
}
