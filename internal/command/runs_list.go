package command

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

// defaultListed is how many runs people are shown.
const defaultListed = 20

// runFilter are the flags that select runs.
type runFilter struct {
	recipe                   string
	statuses, queues, labels []string
}

func (r *runFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&r.statuses, "status", nil,
		"only runs with this status (repeatable): "+strings.Join(statuses(), ", "))
	cmd.Flags().StringVar(&r.recipe, "recipe", "", "only runs of the recipe with this name")
	cmd.Flags().StringArrayVar(&r.queues, "queue", nil, "only runs of this queue (repeatable); \"\" means no queue")
	cmd.Flags().StringArrayVar(&r.labels, "label", nil, "only runs with this label, key=value (repeatable)")
}

// filter returns what the flags say, or a usage error.
func (r *runFilter) filter() (history.Filter, error) {
	f := history.Filter{Recipe: r.recipe, Queues: r.queues}
	for _, status := range r.statuses {
		if err := oneOf("status", status, statuses()...); err != nil {
			return f, err
		}
		f.Statuses = append(f.Statuses, history.Status(status))
	}
	var err error
	f.Labels, err = labelsOf(r.labels)
	return f, err
}

func (a *app) runsList() *cobra.Command {
	var wanted runFilter
	limit, all := defaultListed, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Example: `  braise runs list
  braise runs list --status paused --status interrupted --recipe triage
  braise runs list --queue default --label customer=4711
  braise runs list --all --output json`,
		Args: exactly(0, "runs list takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := wanted.filter()
			if err != nil {
				return err
			}
			switch given := cmd.Flags().Changed("limit"); {
			case limit < 0:
				return usageError("--limit is %d; the minimum is 0, for all", limit)
			case all && given:
				return usageError("--all and --limit exclude each other")
			case all || a.output != "human" && !given: // programs miss nothing
				limit = 0
			}
			return a.withRuns(cmd, func(ctx context.Context, s *session, runs history.Source) error {
				if f.Limit = limit; limit > 0 {
					f.Limit++ // to know whether there are more
				}
				list, storeErr := history.List(ctx, runs, f)
				more := limit > 0 && len(list) > limit
				if more {
					list = list[:limit]
				}
				if storeErr != nil && len(list) == 0 {
					return s.fail("", storeErr)
				}
				if err := a.printRuns(ctx, runs, list); err != nil {
					return err
				}
				if more && a.output == "human" && !a.quiet {
					fmt.Fprintf(a.stderr, "the newest %d; --all lists all\n", limit)
				}
				if storeErr == nil {
					return nil
				}
				return &exitError{host.ExitInternal, storeErr} // runs that cannot be read do not hide the others
			})
		},
	}
	wanted.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum number of runs; 0 means all, as for json and jsonl")
	cmd.Flags().BoolVar(&all, "all", false, "all runs")
	return cmd
}

// listedRun is the JSON of a run in runs list.
type listedRun struct {
	history.Info
	DurationMS *int64 `json:"durationMs,omitempty"` // nil: it has not ended
}

// printRuns prints runs: on a terminal in 80 columns with short ids, elsewhere in full.
func (a *app) printRuns(ctx context.Context, runs history.Source, list []history.Info) error {
	if a.output != "human" {
		listed := make([]listedRun, len(list))
		for i, r := range list {
			listed[i] = listedRun{r, millis(r.StartedAt, r.EndedAt)}
		}
		return printListed(a, listed)
	}
	t := runTable{width: math.MaxInt}
	if isTerminal(a.stdout) {
		t = runTable{shortIDs(ctx, runs, list), 80}
	}
	for _, row := range t.rows(list) {
		fmt.Fprintln(a.stdout, row)
	}
	return nil
}

// printListed prints what a list has as JSON: a list, or with jsonl one a line.
func printListed[T any](a *app, list []T) error {
	if a.output == "json" {
		return a.printJSON(list)
	}
	for i := range list {
		if err := a.printJSON(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// costText is what runs have cost; "-" when nothing is known to have.
func costText(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return terminal.Dollars(float64(micros) / 1e6)
}

// aboutText is the queue and the labels of a run, and why it failed.
func aboutText(about *history.About) string {
	var parts []string
	if about.Queue != "" {
		parts = append(parts, "queue "+about.Queue)
	}
	for _, key := range slices.Sorted(maps.Keys(about.Labels)) {
		parts = append(parts, key+"="+about.Labels[key])
	}
	if text := errorText(about); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// errorText is the first line of why a run failed; "": it did not, or that is not known.
func errorText(about *history.About) string {
	if about.Error.Code == "" {
		return ""
	}
	first, _, _ := strings.Cut(about.Error.Message, "\n")
	return about.Error.Code + ": " + terminal.Cut(first)
}
