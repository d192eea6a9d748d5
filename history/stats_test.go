package history_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/history"
)

// How many of the runs of each recipe failed, and what they cost.
func ExampleSummarize() {
	ctx, store := context.Background(), &checkpoint.Memory{}
	for i, status := range []string{"ok", "error", "ok"} {
		run := checkpoint.Run{ID: fmt.Sprint("run-", i), Recipe: "refund", Digest: "d", StartedAt: time.Now()}
		end, err := checkpoint.NewRecord(run.StartedAt.Add(time.Second), checkpoint.RunEnded, "",
			map[string]any{"status": status, "usage": map[string]any{"micros": 1500}})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := store.Create(ctx, run, "me", 0, end); err != nil {
			log.Fatal(err)
		}
	}

	stats, err := history.Summarize(ctx, store, history.Filter{}, history.ByRecipe)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range stats {
		fmt.Printf("%s: %d of %d failed, $%.4f, half of them within %d ms\n",
			s.Group, s.Failed, s.Runs, float64(s.Usage.Micros)/1e6, *s.MedianMS)
	}
	// Output:
	// refund: 1 of 3 failed, $0.0045, half of them within 1000 ms
}

// A store of files is listed, one in a database gives samples; both come to the same.
func TestSummarize(t *testing.T) {
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, store := range map[string]checkpoint.Store{"sqlite": file, "memory": &checkpoint.Memory{}} {
		t.Run(name, func(t *testing.T) { testSummarize(t, store) })
	}
}

func testSummarize(t *testing.T, store checkpoint.Store) {
	day := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
	usage := func(n int) map[string]any { return map[string]any{"calls": 1, "inputTokens": n, "micros": n} }
	put := func(id string, run checkpoint.Run, recs ...checkpoint.Record) {
		run.ID, run.Digest = id, "d"
		if _, err := store.Create(t.Context(), run, "me", 0, recs...); err != nil {
			t.Fatal(err)
		}
	}
	record := func(at time.Time, kind checkpoint.Kind, data map[string]any) checkpoint.Record {
		rec, err := checkpoint.NewRecord(at, kind, "", data)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	for i := range 20 {
		put(fmt.Sprint("ok-", i), checkpoint.Run{Recipe: "a", StartedAt: day, Labels: map[string]string{"team": "red", "n": fmt.Sprint(i % 2)}},
			record(day.Add(time.Duration(i+1)*time.Second), checkpoint.RunEnded, map[string]any{"status": "ok", "usage": usage(10),
				"models": map[string]any{"fast": usage(4), "large": usage(6)}}))
	}
	put("failed", checkpoint.Run{Recipe: "b", StartedAt: day.Add(time.Hour), Queue: "q"},
		record(day, checkpoint.RunEnded, map[string]any{"status": "error", "usage": usage(3)})) // the clock went back, and no model is told
	put("paused", checkpoint.Run{Recipe: "b", StartedAt: day}, record(day, checkpoint.RunPaused,
		map[string]any{"usage": usage(2), "models": map[string]any{"fast": usage(2)}}))
	put("running", checkpoint.Run{Recipe: "b", StartedAt: day})
	put("cancelled", checkpoint.Run{Recipe: "b", StartedAt: day}, record(day, checkpoint.RunEnded, map[string]any{"status": "cancelled"}))

	used := func(calls, n int64) checkpoint.Usage {
		return checkpoint.Usage{Calls: calls, InputTokens: n, Micros: n}
	}
	all := func(group string, n int64) history.Stats {
		return history.Stats{Group: group, Runs: 20, OK: 20, Usage: used(20, n), MedianMS: new(int64(10_000)), P95MS: new(int64(19_000))}
	}
	b := history.Stats{Group: "b", Runs: 4, Failed: 1, Cancelled: 1, Paused: 1, Usage: used(2, 5), MedianMS: new(int64(0)), P95MS: new(int64(0))}
	for _, tt := range []struct {
		name string
		f    history.Filter
		by   history.By
		want []history.Stats
	}{
		{"nothing", history.Filter{}, history.ByNothing, []history.Stats{{Runs: 24, OK: 20, Failed: 1, Cancelled: 1, Paused: 1, Usage: used(22, 205),
			MedianMS: new(int64(9_000)), P95MS: new(int64(19_000))}}},
		{"recipe, and a limit that does not count", history.Filter{Limit: 1}, history.ByRecipe, []history.Stats{all("a", 200), b}},
		{"model", history.Filter{}, history.ByModel, []history.Stats{
			{Runs: 1, Failed: 1, Usage: used(1, 3), MedianMS: new(int64(0)), P95MS: new(int64(0))},
			{Group: "fast", Runs: 21, OK: 20, Paused: 1, Usage: used(21, 82), MedianMS: new(int64(10_000)), P95MS: new(int64(19_000))},
			all("large", 120)}},
		{"label", history.Filter{Labels: map[string]string{"n": "1"}}, history.ByLabel, []history.Stats{
			{Group: "n=1", Runs: 10, OK: 10, Usage: used(10, 100), MedianMS: new(int64(10_000)), P95MS: new(int64(20_000))},
			{Group: "team=red", Runs: 10, OK: 10, Usage: used(10, 100), MedianMS: new(int64(10_000)), P95MS: new(int64(20_000))}}},
		{"day", history.Filter{Recipe: "b", Statuses: []history.Status{history.Failed, history.Interrupted}}, history.ByDay, []history.Stats{
			{Group: "2026-01-31", Runs: 1},
			{Group: "2026-02-01", Runs: 1, Failed: 1, Usage: used(1, 3), MedianMS: new(int64(0)), P95MS: new(int64(0))}}},
		{"no runs", history.Filter{Queues: []string{"none"}}, history.ByNothing, []history.Stats{{}}},
		{"no groups", history.Filter{Queues: []string{"none"}}, history.ByDay, []history.Stats{}},
	} {
		got, err := history.Summarize(t.Context(), store, tt.f, tt.by)
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(history.Stats{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}
