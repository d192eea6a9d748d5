package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// many fills a store with n runs: of 20, 14 have ended well, 2 have failed, one was cancelled, two wait and one runs.
func many(b *testing.B, s *Store, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				run := checkpoint.Run{ID: fmt.Sprintf("run-%06d", i), Recipe: fmt.Sprint("recipe-", i%50), Digest: "sha256:0123456789abcdef",
					Queue: []string{"", "default", "slow", "fast"}[i/7%4], StartedAt: at(i), Queued: i/11%20 == 19 && i%3 > 0,
					Labels: map[string]string{"team": fmt.Sprint("team-", i/3%10), "customer": fmt.Sprint(i / 20)}}
				if i%100 == 9 {
					run.Parent = fmt.Sprintf("run-%06d", i/1000)
				}
				var recs []checkpoint.Record
				usage := map[string]any{"calls": 3, "inputTokens": 1000 + i, "outputTokens": 80, "micros": i}
				switch phase := i / 11 % 20; {
				case phase < 14:
					recs = append(recs, record(b, at(i+1), checkpoint.RunEnded, map[string]any{"status": "ok", "usage": usage,
						"models": map[string]any{"fast": usage, "large": usage}}))
				case phase < 16:
					recs = append(recs, record(b, at(i+1), checkpoint.RunEnded, map[string]any{"status": "error"}))
				case phase < 17:
					recs = append(recs, record(b, at(i+1), checkpoint.RunEnded, map[string]any{"status": "cancelled"}))
				case phase < 19:
					recs = append(recs, opened(b, at(i+1), "approve", "human", 0, 1e6+i), record(b, at(i+1), checkpoint.RunPaused, nil))
				case i%7 > 3:
					recs = append(recs, record(b, at(i+1), checkpoint.RunEnded, map[string]any{"status": "ok"}))
				}
				_, err := s.Create(b.Context(), run, "me", time.Duration(i%2)*time.Hour, recs...)
				if err == nil && i%5003 == 0 && len(recs) != 1 {
					err = s.PutSignal(b.Context(), run.ID, checkpoint.Signal{ID: "x", Kind: checkpoint.SignalTake, At: started})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkLists is how long it takes to list 50 of 100,000 runs, by each filter and by each two.
func BenchmarkLists(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "runs.db"), &Options{Synchronous: "normal"})
	from := time.Now()
	many(b, s, 100_000)
	fmt.Printf("  filled in %v\n", time.Since(from))
	phase := func(p ...checkpoint.Phase) checkpoint.Filter { return checkpoint.Filter{Phases: p} }
	filters := []struct {
		name string
		f    checkpoint.Filter
	}{
		{"all", checkpoint.Filter{}},
		{"oldest", checkpoint.Filter{Oldest: true}},
		{"queued", phase(checkpoint.PhaseQueued)},
		{"running", phase(checkpoint.PhaseRunning)},
		{"interrupted", phase(checkpoint.PhaseInterrupted)},
		{"waiting", phase(checkpoint.PhaseWaiting)},
		{"ok", phase(checkpoint.PhaseOK)},
		{"error", phase(checkpoint.PhaseFailed)},
		{"recipe", checkpoint.Filter{Recipe: "recipe-7"}},
		{"no recipe", checkpoint.Filter{Recipe: "none"}},
		{"queue", checkpoint.Filter{Queues: []string{"slow"}}},
		{"queues", checkpoint.Filter{Queues: []string{"", "fast"}}},
		{"no queue", checkpoint.Filter{Queues: []string{"none"}}},
		{"team", checkpoint.Filter{Labels: map[string]string{"team": "team-3"}}},
		{"customer", checkpoint.Filter{Labels: map[string]string{"customer": "77"}}},
		{"parent", checkpoint.Filter{Parent: "run-000042"}},
		{"prefix of 100", checkpoint.Filter{Prefix: "run-0123"}},
		{"prefix of 10,000", checkpoint.Filter{Prefix: "run-01"}},
		{"from", checkpoint.Filter{From: at(99_000)}},
		{"to", checkpoint.Filter{To: at(5_000)}},
		{"nothing due", checkpoint.Filter{DueBefore: at(1000)}},
		{"all due", checkpoint.Filter{DueBefore: at(1e7)}},
		{"signalled", checkpoint.Filter{Signalled: true}},
		{"after", checkpoint.Filter{After: checkpoint.Cursor{At: at(50_000), RunID: "run-050000"}}},
	}
	// The median, as the machine may have other work. What is printed is not cut as a log of a benchmark is.
	typical := func(f checkpoint.Filter, n int) (time.Duration, int) {
		f.Limit = 50
		var all []time.Duration
		found := 0
		for range n {
			from := time.Now()
			runs, err := s.List(b.Context(), f)
			all = append(all, time.Since(from))
			if found = len(runs); err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(all)
		return all[len(all)/2], found
	}
	for _, one := range filters {
		took, found := typical(one.f, 100)
		fmt.Printf("  %-20s %8v  %d found\n", one.name, took.Round(10*time.Microsecond), found)
	}
	for i, one := range filters {
		for _, two := range filters[i+1:] {
			if len(one.f.Phases) > 0 && len(two.f.Phases) > 0 {
				continue
			}
			if took, found := typical(both(one.f, two.f), 5); took > 4*time.Millisecond {
				fmt.Printf("  %-20s %-20s %8v  %d found\n", one.name, two.name, took.Round(10*time.Microsecond), found)
			}
		}
	}
	for b.Loop() {
		typical(checkpoint.Filter{DueBefore: at(1000)}, 1)
	}
	from = time.Now()
	n, err := s.Prune(b.Context(), started)
	fmt.Printf("  Prune: %d, %v, %v\n", n, err, time.Since(from))
	for range 3 {
		from, n = time.Now(), 0
		err = s.Sample(b.Context(), time.Time{}, time.Time{}, func(*checkpoint.Summary) { n++ })
		fmt.Printf("  Sample: %d, %v, %v\n", n, err, time.Since(from))
	}
	from = time.Now()
	pauses, err := s.Pauses(b.Context(), checkpoint.PauseFilter{Limit: 50, Expiring: true})
	fmt.Printf("  Pauses: %d, %v, %v\n", len(pauses), err, time.Since(from))
	from = time.Now()
	pauses, err = s.Pauses(b.Context(), checkpoint.PauseFilter{Limit: 50, Kind: "none"})
	fmt.Printf("  Pauses of no kind: %d, %v, %v\n", len(pauses), err, time.Since(from))
	for _, f := range []checkpoint.Filter{{}, {Recipe: "recipe-7"}, phase(checkpoint.PhaseOK), phase(checkpoint.PhaseInterrupted)} {
		for _, most := range []int{1000, 0} {
			from = time.Now()
			n, err := s.Count(b.Context(), f, most)
			fmt.Printf("  Count: %v, %v, %v\n", n, err, time.Since(from))
		}
	}
}

// BenchmarkSample is how long it takes to tell of 100,000 runs what sums need.
func BenchmarkSample(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "runs.db"), &Options{Synchronous: "normal"})
	many(b, s, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := s.Sample(b.Context(), time.Time{}, time.Time{}, func(*checkpoint.Summary) { n++ }); err != nil || n != 100_000 {
			b.Fatal(n, err)
		}
	}
}
