package checkpointtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// testSample compares samples of runs with what a list tells of them, while they change.
func testSample(h *harness) {
	s, ok := h.s.(checkpoint.Sampler)
	if !ok {
		h.Skip("the store is no checkpoint.Sampler")
	}
	h.crowd()
	compare := func(what string, from, to time.Time) {
		h.Helper()
		var got, want []checkpoint.Summary
		told := func(sum *checkpoint.Summary) checkpoint.Summary {
			run := checkpoint.Run{Recipe: sum.Recipe, Queue: sum.Queue, Labels: kept(sum.Labels),
				StartedAt: sum.StartedAt}
			return checkpoint.Summary{Run: run, Status: sum.Status, EndedAt: sum.EndedAt, Usage: sum.Usage,
				Models: kept(sum.Models), Held: sum.Held && sum.Status == checkpoint.Running}
		}
		err := s.Sample(h.ctx, from, to, func(sum *checkpoint.Summary) { got = append(got, told(sum)) })
		h.want("Sample", err, nil)
		all, err := h.s.List(h.ctx, checkpoint.Filter{From: from, To: to})
		h.want("List", err, nil)
		for i := range all {
			want = append(want, told(&all[i]))
		}
		for _, list := range [][]checkpoint.Summary{got, want} {
			slices.SortFunc(list, func(a, b checkpoint.Summary) int {
				return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
			})
		}
		h.same(what, got, want)
	}
	compare("all runs", time.Time{}, time.Time{})
	compare("runs from a time on", start.Add(1), time.Time{})
	compare("runs before a time", time.Time{}, start.Add(2))
	compare("runs of a nanosecond", start.Add(1), start.Add(2))
	compare("no runs", start.Add(time.Hour), time.Time{})

	used := func(calls int) map[string]any {
		return map[string]any{"calls": calls, "inputTokens": 900, "micros": 1 << 40}
	}
	models := map[string]any{"fast model@1": used(1), "": used(2)}
	l := h.create("used")
	h.append(l, 1, opened("p"), rec(4, checkpoint.RunPaused, "", "usage", used(3), "models", models))
	compare("paused", time.Time{}, time.Time{})
	models["large"] = used(1)
	h.append(l, 3, rec(5, checkpoint.PauseAnswered, "", "pause", "p"), opened("q"),
		rec(6, checkpoint.RunPaused, "", "usage", used(4), "models", models))
	compare("paused once more, in one write", time.Time{}, time.Time{})
	h.append(l, 6, rec(7, checkpoint.PauseAnswered, "", "pause", "q"))
	compare("running", time.Time{}, time.Time{})
	h.append(l, 7, rec(9, checkpoint.RunEnded, "", "status", "ok", "usage", used(4), "models", models))
	compare("ended", time.Time{}, time.Time{})
}

// kept is a copy of a map that the store uses again; nil when there is nothing in it.
func kept[V any](of map[string]V) map[string]V {
	if len(of) == 0 {
		return nil
	}
	return maps.Clone(of)
}
