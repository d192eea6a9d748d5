package checkpoint_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

func TestPhase(t *testing.T) {
	for _, tt := range []struct {
		status     checkpoint.Status
		free, held checkpoint.Phase
	}{
		{checkpoint.Queued, "queued", "queued"},
		{checkpoint.Running, "interrupted", "running"},
		{checkpoint.Paused, "waiting", "waiting"},
		{checkpoint.OK, "ok", "ok"},
		{checkpoint.Failed, "error", "error"},
		{checkpoint.Cancelled, "cancelled", "cancelled"},
	} {
		s := checkpoint.Summary{Status: tt.status}
		if got := s.Phase(); got != tt.free {
			t.Errorf("%s: %q, want %q", tt.status, got, tt.free)
		}
		if s.Held = true; s.Phase() != tt.held {
			t.Errorf("%s, held: %q, want %q", tt.status, s.Phase(), tt.held)
		}
	}
}

func TestFilterMatch(t *testing.T) {
	day := noon.Add(24 * time.Hour)
	sum := checkpoint.Summary{
		Run: checkpoint.Run{ID: "run-1", Recipe: "greet", StartedAt: noon, Parent: "old", Queue: "default",
			Labels: map[string]string{"customer": "4711", "note": ""}},
		Status: checkpoint.Paused,
		Pauses: []checkpoint.Pause{{ID: "p", ExpiresAt: day}, {ID: "q", DueAt: day.Add(time.Hour)}, {ID: "r"}},
	}
	answer := checkpoint.Signal{ID: "answer:p"}
	labels := func(pairs ...string) checkpoint.Filter {
		f := checkpoint.Filter{Labels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			f.Labels[pairs[i]] = pairs[i+1]
		}
		return f
	}
	for _, tt := range []struct {
		name   string
		filter checkpoint.Filter
		open   []checkpoint.Signal
		want   bool
	}{
		{"zero", checkpoint.Filter{}, nil, true},
		{"phase", checkpoint.Filter{Phases: []checkpoint.Phase{"ok", "waiting"}}, nil, true},
		{"another phase", checkpoint.Filter{Phases: []checkpoint.Phase{"running", "paused"}}, nil, false},
		{"no phase", checkpoint.Filter{Phases: []checkpoint.Phase{}}, nil, false},
		{"recipe", checkpoint.Filter{Recipe: "greet"}, nil, true},
		{"a part of the recipe", checkpoint.Filter{Recipe: "gree"}, nil, false},
		{"queue", checkpoint.Filter{Queues: []string{"", "default"}}, nil, true},
		{"another queue", checkpoint.Filter{Queues: []string{"", "Default"}}, nil, false},
		{"no queue", checkpoint.Filter{Queues: []string{}}, nil, false},
		{"label", labels("customer", "4711"), nil, true},
		{"labels", labels("customer", "4711", "note", ""), nil, true},
		{"another value", labels("customer", "4711", "note", "x"), nil, false},
		{"another label", labels("other", ""), nil, false},
		{"parent", checkpoint.Filter{Parent: "old"}, nil, true},
		{"another parent", checkpoint.Filter{Parent: "run-1"}, nil, false},
		{"prefix", checkpoint.Filter{Prefix: "run-"}, nil, true},
		{"whole", checkpoint.Filter{Prefix: "run-1"}, nil, true},
		{"more than the id", checkpoint.Filter{Prefix: "run-11"}, nil, false},
		{"from then on", checkpoint.Filter{From: noon}, nil, true},
		{"from later on", checkpoint.Filter{From: noon.Add(1)}, nil, false},
		{"to then", checkpoint.Filter{To: noon}, nil, false},
		{"to later", checkpoint.Filter{To: noon.Add(1)}, nil, true},
		{"due", checkpoint.Filter{DueBefore: day}, nil, true},
		{"not yet due", checkpoint.Filter{DueBefore: day.Add(-1)}, nil, false},
		{"due, but answered", checkpoint.Filter{DueBefore: day}, []checkpoint.Signal{answer}, false},
		{"due in spite of an answer", checkpoint.Filter{DueBefore: day.Add(time.Hour)}, []checkpoint.Signal{answer}, true},
		{"a signal to another", checkpoint.Filter{DueBefore: day}, []checkpoint.Signal{{ID: "answer:r"}, {ID: "p"}}, true},
		{"not signalled", checkpoint.Filter{Signalled: true}, nil, false},
		{"signalled", checkpoint.Filter{Signalled: true}, []checkpoint.Signal{answer}, true},
		{"before a later one", checkpoint.Filter{After: checkpoint.Cursor{At: noon.Add(1)}}, nil, true},
		{"behind itself", checkpoint.Filter{After: sum.Cursor()}, nil, false},
		{"behind a greater id", checkpoint.Filter{After: checkpoint.Cursor{At: noon, RunID: "run-2"}}, nil, true},
		{"behind a smaller id", checkpoint.Filter{After: checkpoint.Cursor{At: noon, RunID: "run-0"}}, nil, false},
		{"the oldest first, behind a smaller id",
			checkpoint.Filter{Oldest: true, After: checkpoint.Cursor{At: noon, RunID: "run-0"}}, nil, true},
		{"the oldest first, behind a later one",
			checkpoint.Filter{Oldest: true, After: checkpoint.Cursor{At: noon.Add(1)}}, nil, false},
		{"limit", checkpoint.Filter{Limit: 1}, nil, true},
	} {
		if got := tt.filter.Match(sum, tt.open...); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	none := checkpoint.Summary{Run: checkpoint.Run{ID: "run"}}
	if (checkpoint.Filter{DueBefore: noon.AddDate(100, 0, 0)}).Match(none) {
		t.Error("a run with nothing due is due")
	}
	if len(sum.Pauses) != 3 || sum.Pauses[0].ID != "p" {
		t.Errorf("Match changed the pauses: %v", sum.Pauses)
	}
}

func TestFilterCompare(t *testing.T) {
	run := func(id string, at time.Time) checkpoint.Summary {
		return checkpoint.Summary{Run: checkpoint.Run{ID: id, StartedAt: at}}
	}
	runs := []checkpoint.Summary{run("b", noon), run("a", noon.Add(1)), run("a", noon), run("c", noon.Add(-1))}
	ids := func(f checkpoint.Filter) (ids []string) {
		for _, s := range slices.SortedFunc(slices.Values(runs), f.Compare) {
			ids = append(ids, s.ID+s.StartedAt.Format(".000000000"))
		}
		return ids
	}
	newest := []string{"a.000000001", "b.000000000", "a.000000000", "c.999999999"}
	if diff := cmp.Diff(newest, ids(checkpoint.Filter{})); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	slices.Reverse(newest)
	if diff := cmp.Diff(newest, ids(checkpoint.Filter{Oldest: true})); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
}

func TestPauseFilter(t *testing.T) {
	pause := func(run, id, kind string, opened int, expires int) checkpoint.PauseInfo {
		p := checkpoint.PauseInfo{Summary: checkpoint.Summary{Run: checkpoint.Run{ID: run, Recipe: "of " + run}},
			Pause: checkpoint.Pause{ID: id, Kind: kind}, Opened: checkpoint.Record{At: noon.Add(time.Duration(opened))}}
		if expires > 0 {
			p.Pause.ExpiresAt = noon.Add(time.Duration(expires))
		}
		return p
	}
	all := []checkpoint.PauseInfo{pause("a", "p", "human", 1, 9), pause("a", "q", "human", 2, 0), pause("b", "p", "human", 2, 9),
		pause("b", "q", "wait", 0, 8), pause("c", "p", "wait", 3, 0)}
	for _, tt := range []struct {
		filter checkpoint.PauseFilter
		want   []string
	}{
		{checkpoint.PauseFilter{}, []string{"c/p", "b/p", "a/q", "a/p", "b/q"}},
		{checkpoint.PauseFilter{Expiring: true}, []string{"b/q", "a/p", "b/p", "a/q", "c/p"}},
		{checkpoint.PauseFilter{Kind: "wait"}, []string{"c/p", "b/q"}},
		{checkpoint.PauseFilter{Recipe: "of a", Expiring: true}, []string{"a/p", "a/q"}},
		{checkpoint.PauseFilter{Recipe: "of a", Kind: "wait"}, nil},
	} {
		f := tt.filter
		sorted := slices.SortedFunc(slices.Values(all), f.Compare)
		for i := range len(sorted) + 1 { // behind each in turn
			var got []string
			for _, p := range sorted {
				if f.Match(p) {
					got = append(got, p.Summary.ID+"/"+p.Pause.ID)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", f, diff)
			}
			if i == len(sorted) {
				break
			}
			f.After = f.Cursor(sorted[i])
			if here := sorted[i].Summary.ID + "/" + sorted[i].Pause.ID; len(tt.want) > 0 && tt.want[0] == here {
				tt.want = tt.want[1:]
			}
			if len(tt.want) == 0 {
				tt.want = nil
			}
		}
	}
}

func TestUnanswered(t *testing.T) {
	sum := checkpoint.Summary{Run: checkpoint.Run{ID: "run"}, Pauses: []checkpoint.Pause{{ID: "p"}, {ID: "p:2"}, {ID: "q"}}}
	got := sum.Unanswered([]checkpoint.Signal{{ID: "answer:q"}, {ID: "answer:p"}, {ID: "p:2"}})
	if diff := cmp.Diff([]checkpoint.Pause{{ID: "p:2"}}, got.Pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if got.ID != "run" || len(sum.Pauses) != 3 || sum.Pauses[0].ID != "p" {
		t.Errorf("%v of %v", got, sum)
	}
}
