package sqlite

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// at is a time some minutes after the first run of an archive was started.
func at(minutes int) time.Time { return started.Add(time.Duration(minutes) * time.Minute) }

func record(t testing.TB, when time.Time, kind checkpoint.Kind, data map[string]any) checkpoint.Record {
	t.Helper()
	rec, err := checkpoint.NewRecord(when, kind, "", data)
	want(t, "NewRecord", err, nil)
	return rec
}

// opened is the record of a pause that is due, and expires, so many minutes after the first start; 0: never.
func opened(t testing.TB, when time.Time, id, kind string, due, expires int) checkpoint.Record {
	t.Helper()
	data := map[string]any{"pause": id, "kind": kind}
	for name, minutes := range map[string]int{"dueAt": due, "expiresAt": expires} {
		if minutes != 0 {
			data[name] = at(minutes).Format(time.RFC3339)
		}
	}
	return record(t, when, checkpoint.PauseOpened, data)
}

// archive has a few runs that differ in all that lists can be asked for. Its first was started when the run of make1
// was.
func archive(t testing.TB, s *Store) {
	t.Helper()
	end := func(minutes int, status string) checkpoint.Record {
		return record(t, at(minutes), checkpoint.RunEnded, map[string]any{"status": status})
	}
	for i, r := range []struct {
		run  checkpoint.Run
		recs []checkpoint.Record
	}{
		{checkpoint.Run{ID: "a-ended", Queue: "one", Labels: map[string]string{"team": "x", "env": "prod"}},
			[]checkpoint.Record{end(10, "ok")}},
		{checkpoint.Run{ID: "a-forked", Queue: "two", Parent: "a-ended", Labels: map[string]string{"team": "y"}},
			[]checkpoint.Record{end(11, "error")}},
		{checkpoint.Run{ID: "b-paused", Queue: "one", Labels: map[string]string{"team": "x"}}, []checkpoint.Record{
			opened(t, at(3), "approve", "human", 0, 90), opened(t, at(4), "timer", "wait", 60, 0),
			record(t, at(5), checkpoint.RunPaused, nil)}},
		{checkpoint.Run{ID: "b-asks", Recipe: "ask"}, []checkpoint.Record{opened(t, at(2), "approve", "human", 0, 0)}},
		{checkpoint.Run{ID: "c-queued", Recipe: "ask", Queue: "two", Queued: true}, nil},
	} {
		r.run.StartedAt, r.run.Digest = at(i+1), "sha256:0123456789abcdef"
		r.run.Recipe = cmp.Or(r.run.Recipe, "greet")
		_, err := s.Create(t.Context(), r.run, "me", 0, r.recs...)
		want(t, "Create", err, nil)
	}
}

func listed(t testing.TB, s *Store, f checkpoint.Filter) string {
	t.Helper()
	all, err := s.List(t.Context(), f)
	want(t, "List", err, nil)
	var ids []string
	for _, sum := range all {
		ids = append(ids, sum.ID)
	}
	return strings.Join(ids, " ")
}

func listedPauses(t testing.TB, s *Store, f checkpoint.PauseFilter) string {
	t.Helper()
	all, err := s.Pauses(t.Context(), f)
	want(t, "Pauses", err, nil)
	var ids []string
	for _, info := range all {
		if info.Opened.Seq != info.Pause.Seq || info.Opened.Kind != checkpoint.PauseOpened {
			t.Errorf("pause %q of run %q was opened by %+v", info.Pause.ID, info.Summary.ID, info.Opened)
		}
		ids = append(ids, info.Summary.ID+":"+info.Pause.ID)
	}
	return strings.Join(ids, " ")
}

func checkArchive(t testing.TB, s *Store) {
	t.Helper()
	for _, tt := range []struct {
		filter checkpoint.Filter
		want   string
	}{
		{checkpoint.Filter{}, "c-queued b-asks b-paused a-forked a-ended run"},
		{checkpoint.Filter{Oldest: true, Limit: 2}, "run a-ended"},
		{checkpoint.Filter{Recipe: "ask"}, "c-queued b-asks"},
		{checkpoint.Filter{Queues: []string{"one"}}, "b-paused a-ended"},
		{checkpoint.Filter{Queues: []string{"", "two", "two"}, Oldest: true}, "run a-forked b-asks c-queued"},
		{checkpoint.Filter{Labels: map[string]string{"team": "x"}}, "b-paused a-ended"},
		{checkpoint.Filter{Labels: map[string]string{"team": "x", "env": "prod"}}, "a-ended"},
		{checkpoint.Filter{Labels: map[string]string{"team": "x"}, After: checkpoint.Cursor{At: at(3), RunID: "b-paused"}}, "a-ended"},
		{checkpoint.Filter{Parent: "a-ended"}, "a-forked"},
		{checkpoint.Filter{Prefix: "a-"}, "a-forked a-ended"},
		{checkpoint.Filter{From: at(2), To: at(4)}, "b-paused a-forked"},
		{checkpoint.Filter{DueBefore: at(59)}, ""},
		{checkpoint.Filter{DueBefore: at(60)}, "b-paused"},
		{checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued, checkpoint.PhaseFailed}}, "c-queued a-forked"},
		{checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseInterrupted}}, "b-asks run"},
		{checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseRunning}}, ""},
		{checkpoint.Filter{After: checkpoint.Cursor{At: at(2), RunID: "a-forked"}}, "a-ended run"},
		{checkpoint.Filter{After: checkpoint.Cursor{At: at(2), RunID: "a-forked"}, Oldest: true}, "b-paused b-asks c-queued"},
		{checkpoint.Filter{Signalled: true}, ""},
	} {
		if got := listed(t, s, tt.filter); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.filter, got, tt.want)
		}
	}
	for _, tt := range []struct {
		filter checkpoint.PauseFilter
		want   string
	}{
		{checkpoint.PauseFilter{}, "b-paused:timer b-paused:approve b-asks:approve"},
		{checkpoint.PauseFilter{Expiring: true, Limit: 1}, "b-paused:approve"},
		{checkpoint.PauseFilter{Kind: "human"}, "b-paused:approve b-asks:approve"},
		{checkpoint.PauseFilter{Recipe: "ask"}, "b-asks:approve"},
		{checkpoint.PauseFilter{After: checkpoint.Cursor{At: at(4), RunID: "b-paused", Pause: "timer"}}, "b-paused:approve b-asks:approve"},
		{checkpoint.PauseFilter{Expiring: true, After: checkpoint.Cursor{At: at(90), RunID: "b-paused", Pause: "approve"}},
			"b-asks:approve b-paused:timer"},
		{checkpoint.PauseFilter{Expiring: true, After: checkpoint.Cursor{RunID: "b-asks", Pause: "approve"}}, "b-paused:timer"},
	} {
		if got := listedPauses(t, s, tt.filter); got != tt.want {
			t.Errorf("pauses %+v: %q, want %q", tt.filter, got, tt.want)
		}
	}
}

func TestArchive(t *testing.T) {
	s := open(t, make1(t), nil)
	archive(t, s)
	checkArchive(t, s)
}

// parts are filters, each with one thing to ask for, as variety has it.
var parts = []checkpoint.Filter{
	{Phases: []checkpoint.Phase{checkpoint.PhaseRunning}},
	{Phases: []checkpoint.Phase{checkpoint.PhaseQueued, checkpoint.PhaseInterrupted}},
	{Phases: []checkpoint.Phase{checkpoint.PhaseWaiting}},
	{Phases: []checkpoint.Phase{checkpoint.PhaseOK}},
	{Recipe: "recipe-1"},
	{Recipe: "none"},
	{Queues: []string{"", "queue-1"}},
	{Labels: map[string]string{"team": "team-1"}},
	{Parent: "run-00007"},
	{Prefix: "run-0000"},
	{Prefix: "run-0"},
	{From: at(50)},
	{To: at(100)},
	{DueBefore: at(150)},
	{Signalled: true},
	{Oldest: true},
	{After: checkpoint.Cursor{At: at(90), RunID: "run-00090"}},
	{Limit: 5},
}

// both returns the filter that asks for all that two filters ask for.
func both(a, b checkpoint.Filter) checkpoint.Filter {
	f := checkpoint.Filter{
		Phases: slices.Concat(a.Phases, b.Phases), Recipe: cmp.Or(a.Recipe, b.Recipe),
		Queues: slices.Concat(a.Queues, b.Queues), Parent: cmp.Or(a.Parent, b.Parent), Prefix: cmp.Or(a.Prefix, b.Prefix),
		From: cmp.Or(a.From, b.From), To: cmp.Or(a.To, b.To), DueBefore: cmp.Or(a.DueBefore, b.DueBefore),
		Signalled: a.Signalled || b.Signalled, Oldest: a.Oldest || b.Oldest, After: cmp.Or(a.After, b.After),
		Limit: cmp.Or(a.Limit, b.Limit), Labels: a.Labels,
	}
	if f.Labels == nil {
		f.Labels = b.Labels
	}
	return f
}

// variety creates n runs with all that parts ask for, in no order of their starts, and returns their signals.
func variety(t testing.TB, s *Store, n int) (signals map[string][]checkpoint.Signal) {
	t.Helper()
	signals = map[string][]checkpoint.Signal{}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		run := checkpoint.Run{ID: fmt.Sprintf("run-%05d", i), Digest: "d", Recipe: fmt.Sprint("recipe-", i%7),
			StartedAt: at(i / 2), Queue: []string{"", "queue-1", "queue-2"}[i%3], Queued: i%11 == 3}
		if i%5 < 2 {
			run.Labels = map[string]string{"team": fmt.Sprint("team-", i%2), "n": fmt.Sprint(i)}
		}
		if i%13 == 0 {
			run.Parent = "run-00007"
		}
		var recs []checkpoint.Record
		switch i % 6 {
		case 0:
			recs = append(recs, opened(t, at(i), "p", "human", 0, i), record(t, at(i), checkpoint.RunPaused, nil))
		case 1, 2:
			recs = append(recs, record(t, at(i+1), checkpoint.RunEnded, map[string]any{"status": []string{"", "ok", "error"}[i%6]}))
		}
		_, err := s.Create(t.Context(), run, "me", time.Duration(i%2)*time.Hour, recs...)
		want(t, "Create", err, nil)
		if i%17 == 0 && i%6 != 1 && i%6 != 2 {
			signal := checkpoint.Signal{ID: "answer:p", Kind: checkpoint.SignalAnswer, At: started}
			want(t, "PutSignal", s.PutSignal(t.Context(), run.ID, signal), nil)
			signals[run.ID] = append(signals[run.ID], signal)
		}
	}
	return signals
}

// serve 2: lists are those of Filter.Match and Filter.Compare, whatever the way by which the runs are found.
func TestFilters(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	signalled := variety(t, s, 300)
	all, err := s.List(t.Context(), checkpoint.Filter{})
	if want(t, "List", err, nil); len(all) != 300 {
		t.Fatalf("%d runs", len(all))
	}
	usual := few
	t.Cleanup(func() { few = usual })
	some := []int{1, 20, usual}
	if testing.Short() {
		some = some[1:2]
	}
	for _, few = range some {
		for i, a := range parts {
			for _, b := range parts[i:] {
				f := both(a, b)
				var wanted []checkpoint.Summary
				for _, sum := range all {
					if f.Match(sum, signalled[sum.ID]...) {
						wanted = append(wanted, sum)
					}
				}
				slices.SortFunc(wanted, f.Compare)
				if f.After == (checkpoint.Cursor{}) {
					for _, most := range []int{0, 3} {
						each := map[checkpoint.Phase]int{}
						for _, sum := range wanted {
							if each[sum.Phase()] < most || most == 0 {
								each[sum.Phase()]++
							}
						}
						n, err := s.Count(t.Context(), f, most)
						if want(t, "Count", err, nil); !maps.Equal(n, each) {
							t.Errorf("few %d: at most %d of %+v: %v, want %v", few, most, f, n, each)
						}
					}
				}
				if f.Limit > 0 {
					wanted = wanted[:min(f.Limit, len(wanted))]
				}
				got, err := s.List(t.Context(), f)
				want(t, "List", err, nil)
				if diff := gocmp.Diff(wanted, got); diff != "" {
					t.Fatalf("few %d: %+v: %s", few, f, diff)
				}
			}
		}
	}
}

// Lists of any length, in a filter, are taken.
func TestLongFilters(t *testing.T) {
	s := open(t, make1(t), nil)
	f := checkpoint.Filter{Labels: map[string]string{}}
	for i := range 3000 {
		f.Queues = append(f.Queues, fmt.Sprint(i))
		f.Phases = append(f.Phases, checkpoint.PhaseInterrupted)
	}
	if got := listed(t, s, f); got != "" {
		t.Errorf("of 3,000 queues: %q", got)
	}
	f.Queues = append(f.Queues, "")
	if got := listed(t, s, f); got != "run" {
		t.Errorf("of 3,001 queues: %q, want the run", got)
	}
	for i := range 3000 {
		f.Labels[fmt.Sprint(i)] = ""
	}
	if got := listed(t, s, f); got != "" {
		t.Errorf("of 3,000 labels: %q", got)
	}
}

// serve 2: every filter is an index, alone and together with any other.
func TestFiltersAreIndexes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	plan := func(what, text string, args []any) {
		t.Helper()
		err := s.read(t.Context(), func(c *sqlite.Conn) error {
			return query(c, func(stmt *sqlite.Stmt) error {
				if step := stmt.ColumnText(3); strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "json_each") &&
					!strings.Contains(step, "SCAN (subquery") &&
					(!strings.Contains(step, "USING") || strings.Contains(step, "SCAN runs")) {
					t.Errorf("%s: %s\n%s", what, step, text)
				} else if strings.HasPrefix(step, "SEARCH runs USING INDEX") && strings.Contains(what, "counted") {
					t.Errorf("%s: not from the index alone: %s\n%s", what, step, text)
				} else if strings.Contains(step, "TEMP B-TREE FOR ORDER BY") && strings.Contains(what, "ordered") {
					t.Errorf("%s: %s\n%s", what, step, text)
				}
				return nil
			}, "EXPLAIN QUERY PLAN "+text, args...)
		})
		want(t, "EXPLAIN", err, nil)
	}
	for i, a := range parts {
		for _, b := range parts[i:] {
			f := both(a, b)
			if len(statuses(f)) == 0 {
				continue
			}
			for _, w := range ways(f) {
				what := fmt.Sprintf("%+v by %s", f, w.from)
				if w.ordered {
					what += ", ordered"
				}
				for _, lease := range []bool{false, true} {
					text, args := w.sql(f, lease)
					plan(what, text, args)
				}
				for _, k := range w.keys {
					what := fmt.Sprintf("%+v by %s", f, w.from)
					if k.status != "" && k.status != checkpoint.Running && f.Parent == "" {
						what += ", counted"
					}
					text, args := w.count(f, k, 3)
					plan(what, text, args)
				}
			}
		}
	}
	for _, f := range []checkpoint.PauseFilter{{}, {Kind: "human", Recipe: "greet"}, {Expiring: true, After: checkpoint.Cursor{RunID: "r"}}} {
		text, args := selectPauses(f)
		plan(fmt.Sprintf("pauses %+v, ordered", f), text, args)
	}
}
