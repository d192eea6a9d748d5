package history

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/value"
)

// By says which runs [Summarize] takes together.
type By string

// What runs may have in common.
const (
	ByNothing By = "" // all runs are one group, without a name
	ByRecipe  By = "recipe"
	// ByModel has a run in the group of each model that it called, with the usage of that model. A call that other
	// models failed before counts, with what they used, as one of the model that answered. The group without a name has
	// what no model is known of: what retrievers used, and runs of versions that did not record it.
	ByModel By = "model"
	ByLabel By = "label" // key=value; a run is in a group for each of its labels, one without labels in none
	ByDay   By = "day"   // on which the run began, in UTC: 2026-01-31
)

// Stats are the figures of a group of runs. Its JSON is what the command prints.
type Stats struct {
	Group     string           `json:"group"` // its name, see [By]
	Runs      int              `json:"runs"`  // of any status
	OK        int              `json:"ok"`
	Failed    int              `json:"failed"`
	Cancelled int              `json:"cancelled"`
	Paused    int              `json:"paused"`
	Usage     checkpoint.Usage `json:"usage"` // of models, when each run last paused, or ended
	// MedianMS and P95MS are how many milliseconds half of the runs that ended, and 95 % of them, took at most, from
	// their start to their end, with the time that they waited; nil: none ended.
	MedianMS *int64 `json:"medianMs,omitempty"`
	P95MS    *int64 `json:"p95Ms,omitempty"`

	took []int64 // milliseconds, of the runs that ended
}

// Summarize returns the figures of the runs that match a filter, its Limit aside, sorted by group. ByNothing returns
// one group even if no run matches; otherwise there are no empty groups. It reads no journals; with a store that is a
// [checkpoint.Sampler], as those in databases are, it takes a fraction of the time of a list. Runs that cannot be read
// are omitted, and the error says what is wrong with them, as that of [List] does.
func Summarize(ctx context.Context, store Source, f Filter, by By) ([]Stats, error) {
	wanted := f.wanted()
	wanted.Limit = 0
	groups, err := guard.Store(ctx, func(ctx context.Context) (map[string]*Stats, error) {
		groups := map[string]*Stats{}
		if by == ByNothing {
			groups[""] = &Stats{}
		}
		if s, ok := store.(checkpoint.Sampler); ok {
			return groups, s.Sample(ctx, wanted.From, wanted.To, func(sum *checkpoint.Summary) {
				if wanted.Match(*sum) {
					by.add(groups, sum)
				}
			})
		}
		sums, err := store.List(ctx, wanted)
		for i := range sums {
			by.add(groups, &sums[i])
		}
		return groups, err
	})
	list := []Stats{}
	for _, name := range value.SortedKeys(groups) {
		g := groups[name]
		slices.Sort(g.took)
		g.Group, g.MedianMS, g.P95MS = name, percentile(g.took, 0.5), percentile(g.took, 0.95)
		list = append(list, *g)
	}
	return list, err
}

// add adds a run to its groups.
func (by By) add(groups map[string]*Stats, sum *checkpoint.Summary) {
	add := func(name string, used checkpoint.Usage) {
		g := groups[name]
		if g == nil {
			g = &Stats{}
			groups[name] = g
		}
		g.add(sum, used)
	}
	switch by {
	case ByNothing:
		add("", sum.Usage)
	case ByRecipe:
		add(sum.Recipe, sum.Usage)
	case ByDay:
		add(sum.StartedAt.UTC().Format(time.DateOnly), sum.Usage)
	case ByLabel:
		for key, v := range sum.Labels {
			add(key+"="+v, sum.Usage)
		}
	case ByModel:
		for name, used := range sum.Models {
			add(name, used)
		}
		if len(sum.Models) == 0 && sum.Usage != (checkpoint.Usage{}) {
			add("", sum.Usage)
		}
	}
}

// add adds a run, of whose usage a part counts here.
func (s *Stats) add(sum *checkpoint.Summary, used checkpoint.Usage) {
	s.Runs++
	switch sum.Status {
	case checkpoint.OK:
		s.OK++
	case checkpoint.Failed:
		s.Failed++
	case checkpoint.Cancelled:
		s.Cancelled++
	case checkpoint.Paused:
		s.Paused++
	}
	s.Usage.Add(used)
	if !sum.EndedAt.IsZero() { // a clock may have gone back
		s.took = append(s.took, max(0, sum.EndedAt.Sub(sum.StartedAt).Milliseconds()))
	}
}

// percentile is the nearest-rank percentile of sorted numbers; nil: there are none.
func percentile(sorted []int64, share float64) *int64 {
	if len(sorted) == 0 {
		return nil
	}
	return new(sorted[int(math.Ceil(share*float64(len(sorted))))-1])
}
