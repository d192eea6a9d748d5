package checkpointtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// need returns the store as one that has an optional interface, as all stores of this module have.
func need[T any](h *harness) T {
	h.Helper()
	s, ok := h.s.(T)
	if !ok {
		h.Fatalf("the store is no %v", reflect.TypeFor[T]())
	}
	return s
}

// putRun creates a run that nobody holds.
func (h *harness) putRun(run checkpoint.Run, recs ...checkpoint.Record) {
	h.Helper()
	_, err := h.s.Create(h.ctx, run, "me", 0, recs...)
	h.want("Create", err, nil)
}

// crowd creates runs that differ in all that a filter asks for: in queues, labels, parents, phases, what is due and
// signals. Some started at the same time, some a nanosecond apart.
func (h *harness) crowd() {
	h.Helper()
	for i, recipe := range []string{"greet", "other", "Greet", "greet", "other", "greet"} {
		for j, id := range []string{"a_b", "axb", "AXB", "a-b.c", "b"} {
			run := makeRun(fmt.Sprint(id, ".", i), 0)
			run.StartedAt = start.Add(time.Duration(i/2) * time.Nanosecond)
			run.Recipe, run.Queue = recipe, []string{"", "default", "slow"}[(i+j)%3]
			run.Queued = (i+j)%4 == 0
			if j > 1 {
				run.Parent = fmt.Sprint("a_b.", i%2)
			}
			run.Labels = map[string]string{"n": fmt.Sprint(i % 2)}
			if j%2 == 0 {
				run.Labels[`"it's" 100%`] = "ü\u2028'\"\\"
				run.Labels["empty"] = ""
			}
			due := start.Add(time.Duration(i) * time.Hour)
			switch j {
			case 0:
				h.putRun(run, opened("p", "expiresAt", due), opened("q", "dueAt", due.Add(time.Hour)),
					rec(9, checkpoint.RunPaused, ""))
			case 1:
				h.putRun(run, rec(9, checkpoint.RunEnded, "", "status", []string{"ok", "error", "cancelled"}[i%3]))
			case 2:
				_, err := h.s.Create(h.ctx, run, "me", long)
				h.want("Create", err, nil)
			default:
				h.putRun(run)
			}
			if j != 1 && i%2 == 0 {
				h.signal(run.ID, answerTo("p"))
			}
		}
	}
}

// fields are filters of one field each: of each field some that let something through, and one that does not.
func fields() map[string][]checkpoint.Filter {
	at := func(n int) time.Time { return start.Add(time.Duration(n)) }
	return map[string][]checkpoint.Filter{
		"Phases": {{Phases: in(checkpoint.PhaseQueued)}, {Phases: in(checkpoint.PhaseRunning)}, {Phases: in()},
			{Phases: in(checkpoint.PhaseInterrupted, checkpoint.PhaseOK)}, {Phases: in(checkpoint.PhaseWaiting)},
			{Phases: in(checkpoint.PhaseFailed, checkpoint.PhaseCancelled, checkpoint.PhaseRunning, "paused")}},
		"Recipe": {{Recipe: "greet"}, {Recipe: "' OR 1=1 --"}, {Recipe: "\x00"}, {Recipe: "\xff"}},
		"Queues": {{Queues: []string{""}}, {Queues: []string{"default", "", "\x00"}}, {Queues: []string{}}},
		"Labels": {{Labels: map[string]string{"n": "1"}}, {Labels: map[string]string{"empty": "", "n": "0"}},
			{Labels: map[string]string{`"it's" 100%`: "ü\u2028'\"\\"}}, {Labels: map[string]string{"N": "1"}},
			{Labels: map[string]string{"n": ""}}, {Labels: map[string]string{"": ""}},
			{Labels: map[string]string{"\x00": "\xff"}},
			{Labels: map[string]string{"n": "1", strings.Repeat("long", 999): "no"}}},
		"Parent": {{Parent: "a_b.1"}, {Parent: "a_b"}, {Parent: "\x00"}},
		"Prefix": {{Prefix: "a"}, {Prefix: "a_b"}, {Prefix: "A"}, {Prefix: "a%"}, {Prefix: "b.3"},
			{Prefix: "a-b.c.0.x"}, {Prefix: "\x00"}, {Prefix: "a\xff"},
			{Prefix: "a\U0010ffff"}, {Prefix: "*"}, {Prefix: "[a]"}},
		"From": {{From: at(1)}, {From: at(2)}, {From: at(1).In(time.FixedZone("", 7200))}, {From: at(9)}},
		"To":   {{To: at(1)}, {To: at(2)}, {To: at(0)}},
		"DueBefore": {{DueBefore: start.Add(2*time.Hour - 1)}, {DueBefore: start.Add(2 * time.Hour)},
			{DueBefore: start.Add(99 * time.Hour)}, {DueBefore: start.Add(-1)}},
		"Signalled": {{Signalled: true}},
		"Oldest":    {{Oldest: true}},
		"After": {{After: checkpoint.Cursor{At: at(1), RunID: "axb.3"}}, {After: checkpoint.Cursor{At: at(1)}},
			{After: checkpoint.Cursor{At: at(5), RunID: "none"}}, {After: checkpoint.Cursor{At: at(0), RunID: "0"}}},
		"Limit": {{Limit: 1}, {Limit: 7}},
	}
}

// both returns a filter of two fields, each of which one of the filters has.
func both(a, b checkpoint.Filter) checkpoint.Filter {
	if b.Phases != nil {
		a.Phases = b.Phases
	}
	if b.Queues != nil {
		a.Queues = b.Queues
	}
	if b.Labels != nil {
		a.Labels = b.Labels
	}
	a.Recipe, a.Parent, a.Prefix = a.Recipe+b.Recipe, a.Parent+b.Parent, a.Prefix+b.Prefix
	for _, t := range []struct{ a, b *time.Time }{{&a.From, &b.From}, {&a.To, &b.To}, {&a.DueBefore, &b.DueBefore}} {
		if !t.b.IsZero() {
			*t.a = *t.b
		}
	}
	a.Signalled, a.Oldest = a.Signalled || b.Signalled, a.Oldest || b.Oldest
	if (b.After != checkpoint.Cursor{}) {
		a.After = b.After
	}
	a.Limit += b.Limit
	return a
}

// everyFilter returns filters of each field alone and of each two, in a short test one of these.
func everyFilter() []checkpoint.Filter {
	var all []checkpoint.Filter
	each := fields()
	for name, some := range each {
		all = append(all, some...)
		for other, more := range each {
			if name >= other {
				continue
			}
			if testing.Short() {
				all = append(all, both(some[0], more[0]))
				continue
			}
			for _, a := range some {
				for _, b := range more {
					all = append(all, both(a, b))
				}
			}
		}
	}
	return all
}

// testFilter compares what a store lists with what Filter.Match says of each run.
func testFilter(h *harness) {
	h.crowd()
	signals := need[checkpoint.Signals](h)
	everything, err := h.s.List(h.ctx, checkpoint.Filter{})
	h.want("List", err, nil)
	h.same("runs", len(everything), 30)
	open := map[string][]checkpoint.Signal{}
	for _, s := range everything {
		open[s.ID], err = signals.Signals(h.ctx, s.ID, true)
		h.want("Signals", err, nil)
	}
	hits := 0
	for _, f := range everyFilter() {
		want := []string{}
		sorted := slices.SortedFunc(slices.Values(everything), f.Compare)
		for _, s := range sorted {
			if f.Match(s, open[s.ID]...) && (f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, s.ID)
			}
		}
		hits += len(want)
		h.same(fmt.Sprintf("%+v", f), h.ids(f), want)
	}
	if hits < 2000 && !testing.Short() {
		h.Errorf("all filters let through %d runs", hits)
	}
}

func testCount(h *harness) {
	q := need[checkpoint.Querier](h)
	h.crowd()
	for _, f := range everyFilter() {
		if f.Limit > 0 || f.After != (checkpoint.Cursor{}) {
			continue
		}
		all, err := h.s.List(h.ctx, f)
		h.want("List", err, nil)
		for _, most := range []int{0, 1, 4, 1000} {
			want := map[checkpoint.Phase]int{}
			for _, s := range all {
				if want[s.Phase()] < most || most == 0 {
					want[s.Phase()]++
				}
			}
			f.Limit, f.After = 2, checkpoint.Cursor{At: start, RunID: "b.1"} // neither counts
			n, err := q.Count(h.ctx, f, most)
			h.want("Count", err, nil)
			h.same(fmt.Sprintf("at most %d of %+v", most, f), n, want)
		}
	}
}

// testPages goes through a list by pages.
func testPages(h *harness) {
	h.crowd()
	for _, f := range []checkpoint.Filter{
		{}, {Oldest: true}, {Prefix: "a"},
		{Oldest: true, Queues: []string{"", "slow"}}, {Phases: in(checkpoint.PhaseWaiting), DueBefore: start.Add(long)},
	} {
		want := h.ids(f)
		for _, f.Limit = range []int{1, 2, 5, 99} {
			f.After = checkpoint.Cursor{}
			got := []string{}
			for page := h.page(&f); len(page) > 0; page = h.page(&f) {
				got = append(got, page...)
			}
			h.same(fmt.Sprintf("by pages: %+v", f), got, want)
		}
	}

	// Runs come and go between pages. What stays is listed once.
	f := checkpoint.Filter{Limit: 4, Oldest: true}
	want := h.ids(checkpoint.Filter{Oldest: true})
	got := h.page(&f)
	h.want("Delete of the last one listed", h.s.Delete(h.ctx, got[3]), nil)
	h.want("Delete of the next one", h.s.Delete(h.ctx, want[4]), nil)
	h.putRun(makeRun("0", -1)) // before the place
	h.putRun(makeRun("z", 1))
	got = append(got, h.page(&f)...)
	f.Limit = 0
	got = append(got, h.page(&f)...)
	h.same("runs while others come and go", got, append(slices.Delete(want, 4, 5), "z"))
}

// page lists the next page, and moves the cursor of the filter behind it.
func (h *harness) page(f *checkpoint.Filter) []string {
	h.Helper()
	all, err := h.s.List(h.ctx, *f)
	h.want("List", err, nil)
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
		f.After = s.Cursor()
	}
	return ids
}

// testKept has summaries with all that they can hold.
func testKept(h *harness) {
	run := makeRun("run", 0)
	run.Parent, run.Queue, run.By, run.Queued = "before", "größe", "ada\x00 <a@b>", true
	run.Labels = map[string]string{}
	for i := range 16 {
		run.Labels[fmt.Sprint(strings.Repeat("k", 62), 10+i)] = strings.Repeat("ü", 128)
	}
	h.putRun(run)
	want := checkpoint.Summary{Run: run, Seq: 1, UpdatedAt: start, Status: checkpoint.Queued}
	want.Definition = nil
	shows := func(what string, phase checkpoint.Phase) {
		h.Helper()
		got, _ := h.load("run")
		h.same(what, got, want)
		h.same(what+": phase", got.Phase(), phase)
		h.same(what+": runs in that phase", h.ids(checkpoint.Filter{Phases: in(phase)}), []string{"run"})
		listed, err := h.s.List(h.ctx, checkpoint.Filter{})
		h.want("List", err, nil)
		h.same(what+": list", listed, []checkpoint.Summary{want})
	}
	shows("queued", checkpoint.PhaseQueued)
	l := h.claim("run", long)
	want.Held = true
	shows("queued, and held", checkpoint.PhaseQueued)
	h.append(l, 1, rec(2, checkpoint.RunExecution, "", "owner", "me"))
	want.Seq, want.UpdatedAt, want.Status = 2, start.Add(2*time.Second), checkpoint.Running
	shows("running", checkpoint.PhaseRunning)

	usage := map[string]any{"calls": 3, "inputTokens": int64(1) << 40, "outputTokens": 5, "micros": 7}
	h.append(l, 2, rec(3, checkpoint.RunPaused, "", "usage", usage, "models", map[string]any{"a=@ü": usage}))
	want.Seq, want.UpdatedAt, want.Status = 3, start.Add(3*time.Second), checkpoint.Paused
	want.Usage = checkpoint.Usage{Calls: 3, InputTokens: 1 << 40, OutputTokens: 5, Micros: 7}
	want.Models = map[string]checkpoint.Usage{"a=@ü": want.Usage}
	shows("paused", checkpoint.PhaseWaiting)
	h.append(l, 3, rec(4, checkpoint.RunExecution, "", "owner", "me"))
	usage["calls"] = 4
	models := map[string]any{"a=@ü": usage}
	h.append(l, 4, rec(5, checkpoint.RunEnded, "", "status", "error", "usage", usage, "models", models,
		"error", map[string]any{"code": "tool.failed", "message": "503 \u2028 <ü>", "step": "fetch[2]",
			"category": "tool"}))
	want.Seq, want.UpdatedAt, want.Status = 5, start.Add(5*time.Second), checkpoint.Failed
	want.EndedAt = want.UpdatedAt
	want.Usage.Calls = 4
	want.Models = map[string]checkpoint.Usage{"a=@ü": want.Usage}
	want.Error = checkpoint.Failure{Code: "tool.failed", Message: "503 \u2028 <ü>", Step: "fetch[2]",
		Category: "tool"}
	h.want("Release", h.s.Release(h.ctx, l), nil)
	want.Held = false
	shows("ended", checkpoint.PhaseFailed)
	if h.opts.Reopen != nil {
		h = h.other()
		shows("in another store", checkpoint.PhaseFailed)
	}
}

// testBadLabels has runs that no store takes.
func testBadLabels(h *harness) {
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	label := func(key, value string) func(r *checkpoint.Run) {
		return func(r *checkpoint.Run) { r.Labels = map[string]string{key: value} }
	}
	for name, change := range map[string]func(r *checkpoint.Run){
		"17 labels":                func(r *checkpoint.Run) { r.Labels = many },
		"a label without a key":    label("", "v"),
		"a long key":               label(strings.Repeat("k", 65), "v"),
		"a long value":             label("k", strings.Repeat("v", 257)),
		"a key that is not UTF-8":  label("k\xff", "v"),
		"a value with NUL":         label("k", "\x00"),
		"halves of a character":    label("k\xc3", "\xbc"),
		"a long queue":             func(r *checkpoint.Run) { r.Queue = strings.Repeat("q", 65) },
		"a queue that is no UTF-8": func(r *checkpoint.Run) { r.Queue = "\xff" },
		"a queue with NUL":         func(r *checkpoint.Run) { r.Queue = "a\x00" },
		"a name that is no UTF-8":  func(r *checkpoint.Run) { r.By = "\xff" },
	} {
		run := makeRun("run", 0)
		change(&run)
		_, err := h.s.Create(h.ctx, run, "me", 0)
		h.want(name, err, checkpoint.ErrInvalid)
	}
	h.same("runs", h.ids(checkpoint.Filter{}), []string{})
}
