package checkpointtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// inbox lists the open pauses that a filter lets through, as "run/pause".
func (h *harness) inbox(f checkpoint.PauseFilter) []string {
	h.Helper()
	all, err := need[checkpoint.Querier](h).Pauses(h.ctx, f)
	h.want("Pauses", err, nil)
	return places(all)
}

func places(all []checkpoint.PauseInfo) []string {
	list := []string{}
	for _, p := range all {
		list = append(list, p.Summary.ID+"/"+p.Pause.ID)
	}
	return list
}

// asked opens a pause so many seconds after start, which expires after so many hours; 0: never.
func asked(pause, kind string, seconds, hours int) checkpoint.Record {
	data := []any{"pause", pause, "kind", kind, "prompt", "is " + pause + " right?"}
	if hours > 0 {
		data = append(data, "expiresAt", start.Add(time.Duration(hours)*time.Hour))
	}
	return rec(seconds, checkpoint.PauseOpened, "ask", data...)
}

// questions creates runs that ask.
func (h *harness) questions() {
	h.Helper()
	other := makeRun("b", 0)
	other.Recipe = "other"
	h.putRun(makeRun("a", 0), asked("p", "human", 5, 2), asked("q", "approval", 7, 0), rec(9, checkpoint.RunPaused, ""))
	h.putRun(other, note("x"), asked("p", "human", 5, 0), asked("q", "human", 1, 1)) // it is not paused yet
	h.putRun(makeRun("c", 9), asked("z", "human", 3, 2), asked("y", "human", 3, 2), asked("x", "human", 99, 9),
		rec(9, checkpoint.PauseClosed, "", "pause", "x"))
	h.putRun(makeRun("ended", 0), asked("p", "human", 5, 1), rec(9, checkpoint.RunEnded, "", "status", "ok"))
	h.putRun(makeRun("quiet", 0), note("y"))
}

func testInbox(h *harness) {
	q := need[checkpoint.Querier](h)
	h.same("no pauses", h.inbox(checkpoint.PauseFilter{}), []string{})
	h.questions()
	newest := []string{"a/q", "b/p", "a/p", "c/z", "c/y", "b/q"}
	expiring := []string{"b/q", "a/p", "c/y", "c/z", "a/q", "b/p"}
	for _, tt := range []struct {
		filter checkpoint.PauseFilter
		want   []string
	}{
		{checkpoint.PauseFilter{}, newest},
		{checkpoint.PauseFilter{Expiring: true}, expiring},
		{checkpoint.PauseFilter{Limit: 2}, newest[:2]},
		{checkpoint.PauseFilter{Limit: 99}, newest},
		{checkpoint.PauseFilter{Expiring: true, Limit: 3}, expiring[:3]},
		{checkpoint.PauseFilter{Kind: "approval"}, []string{"a/q"}},
		{checkpoint.PauseFilter{Kind: "human", Expiring: true}, []string{"b/q", "a/p", "c/y", "c/z", "b/p"}},
		{checkpoint.PauseFilter{Recipe: "other"}, []string{"b/p", "b/q"}},
		{checkpoint.PauseFilter{Recipe: "other", Kind: "approval"}, []string{}},
		{checkpoint.PauseFilter{Recipe: "greet", Kind: "human", Limit: 1}, []string{"a/p"}},
		{checkpoint.PauseFilter{Kind: "' OR 1=1 --"}, []string{}},
		{checkpoint.PauseFilter{Kind: "\x00", Recipe: "\xff"}, []string{}},
	} {
		h.same(fmt.Sprintf("%+v", tt.filter), h.inbox(tt.filter), tt.want)
	}
	for _, f := range []checkpoint.PauseFilter{
		{}, {Expiring: true}, {Kind: "human"}, {Recipe: "greet", Expiring: true},
	} {
		want := h.inbox(f)
		for _, f.Limit = range []int{1, 2, 4} {
			f.After = checkpoint.Cursor{}
			got := []string{}
			for {
				page, err := q.Pauses(h.ctx, f)
				h.want("Pauses", err, nil)
				if len(page) == 0 {
					break
				}
				got = append(got, places(page)...)
				f.After = f.Cursor(page[len(page)-1])
			}
			h.same(fmt.Sprintf("by pages: %+v", f), got, want)
		}
	}

	// Each comes with its run and its record.
	all, err := q.Pauses(h.ctx, checkpoint.PauseFilter{Recipe: "other", Limit: 1})
	h.want("Pauses", err, nil)
	sum, _ := h.load("b")
	h.same("summary of the pause", all[0].Summary, sum)
	h.same("pause", all[0].Pause, checkpoint.Pause{ID: "p", Kind: "human", Step: "ask", Seq: 3})
	h.same("record of the pause", line(all[0].Opened), `3 2026-01-31T12:00:05Z pause.opened ask `+
		`{"kind":"human","pause":"p","prompt":"is p right?"}`)
	l := h.claim("b", long)
	all, err = q.Pauses(h.ctx, checkpoint.PauseFilter{Recipe: "other", Limit: 1})
	h.want("Pauses", err, nil)
	h.same("held", all[0].Summary.Held, true)

	// They go when they are answered, when their run ends and when it is deleted.
	h.append(l, 4, answer("p", 0))
	h.same("after an answer", h.inbox(checkpoint.PauseFilter{Recipe: "other"}), []string{"b/q"})
	h.append(l, 5, asked("p", "human", 1, 0))
	h.same("opened again", h.inbox(checkpoint.PauseFilter{Recipe: "other"}), []string{"b/q", "b/p"})
	h.append(l, 6, rec(9, checkpoint.RunEnded, "", "status", "cancelled"))
	h.want("Delete", h.s.Delete(h.ctx, "c"), nil)
	h.same("in the end", h.inbox(checkpoint.PauseFilter{}), []string{"a/q", "a/p"})
	if h.opts.Reopen != nil {
		h = h.other()
		h.same("in another store", h.inbox(checkpoint.PauseFilter{Expiring: true}), []string{"a/p", "a/q"})
	}
}

// testDamagedInbox has a run whose pauses cannot be read.
func testDamagedInbox(h *harness) {
	q := need[checkpoint.Querier](h)
	if h.opts.Edit == nil {
		h.Skip("the medium is out of reach")
	}
	h.questions()
	h.opts.Edit(h.T, h.s, "b", func(lines []string) []string {
		for i := range lines {
			if strings.Contains(lines[i], string(checkpoint.PauseOpened)) {
				lines[i] = flip(lines[i], len(lines[i])/2)
			}
		}
		return lines
	})
	all, err := q.Pauses(h.ctx, checkpoint.PauseFilter{})
	h.want("Pauses", err, checkpoint.ErrCorrupt)
	h.same("pauses", places(all), []string{"a/q", "a/p", "c/z", "c/y"})
	all, err = q.Pauses(h.ctx, checkpoint.PauseFilter{Limit: 2})
	if err != nil {
		h.want("Pauses", err, checkpoint.ErrCorrupt)
	}
	h.same("two pauses", places(all), []string{"a/q", "a/p"})
}

// testAnswered has pauses with an answer that nobody has carried out yet.
func testAnswered(h *harness) {
	signals := need[checkpoint.Signals](h)
	due := func(hours int) []string {
		h.Helper()
		return h.ids(checkpoint.Filter{DueBefore: start.Add(time.Duration(hours) * time.Hour)})
	}
	asks := func(want ...string) {
		h.Helper()
		if slices.Sort(want); len(want) == 0 {
			want = []string{}
		}
		got := h.inbox(checkpoint.PauseFilter{})
		slices.Sort(got)
		h.same("inbox", got, want)
	}
	l := h.create("run", asked("p", "human", 1, 1), asked("q", "human", 2, 3), minted("p", "one"), minted("q", "two"),
		rec(3, checkpoint.RunPaused, ""))
	h.create("other", asked("p", "human", 1, 2), minted("p", "one"), rec(3, checkpoint.RunPaused, ""))
	asks("run/p", "run/q", "other/p")
	h.same("due", due(2), []string{"run", "other"})
	before, _ := h.load("run")

	h.signal("run", answerTo("p"))
	asks("run/q", "other/p")
	h.same("due after an answer", due(2), []string{"other"})
	h.same("due later", due(3), []string{"run", "other"})
	h.same("signalled", h.ids(checkpoint.Filter{Signalled: true}), []string{"run"})
	both := checkpoint.Filter{Signalled: true, DueBefore: start.Add(2 * time.Hour)}
	h.same("signalled and due", h.ids(both), []string{})
	_, err := h.s.FindPause(h.ctx, "run", []byte("one"))
	h.want("FindPause of an answered pause", err, checkpoint.ErrToken)
	for id, token := range map[string]string{"run": "two", "other": "one"} {
		_, err := h.s.FindPause(h.ctx, id, []byte(token))
		h.want("FindPause of another pause", err, nil)
	}
	after, _ := h.load("run")
	h.same("the summary is that of the journal", after, before)
	// A record in between changes nothing.
	h.append(l, 6, rec(4, checkpoint.RunExecution, "", "owner", "me"), rec(5, checkpoint.RunPaused, ""))
	h.same("due after more records", due(2), []string{"other"})

	// An answer that was dropped leaves the pause as it was.
	h.want("EndSignals", signals.EndSignals(h.ctx, l, "answer:p"), nil)
	asks("run/p", "run/q", "other/p")
	h.same("due after the answer was dropped", due(2), []string{"run", "other"})
	_, err = h.s.FindPause(h.ctx, "run", []byte("one"))
	h.want("FindPause", err, nil)
	h.want("the answer again", signals.PutSignal(h.ctx, "run", answerTo("p")), checkpoint.ErrExists)

	// Who holds the run carries the answer out: the token is still good for that.
	h.signal("run", answerTo("q"))
	l = h.claim("run", long)
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, 8, []byte("two"), answer("q", 1)), nil)
	h.append(l, 9, answer("p", 1))
	asks("other/p")
	h.same("due in the end", due(9), []string{"other"})
	h.same("signalled in the end", h.ids(checkpoint.Filter{Signalled: true}), []string{"run"})
	h.want("EndSignals", signals.EndSignals(h.ctx, l, "answer:q"), nil)
	h.same("signalled afterwards", h.ids(checkpoint.Filter{Signalled: true}), []string{})
}
