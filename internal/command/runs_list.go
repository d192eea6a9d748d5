package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

// defaultListed is how many runs people are shown.
const defaultListed = 20

func (a *app) runsList() *cobra.Command {
	var recipe string
	var wantedStatuses, queues, labels []string
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
			f := history.Filter{Recipe: recipe, Queues: queues}
			for _, status := range wantedStatuses {
				if err := oneOf("status", status, statuses()...); err != nil {
					return err
				}
				f.Statuses = append(f.Statuses, history.Status(status))
			}
			var err error
			if f.Labels, err = labelsOf(labels); err != nil {
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
				if err := a.printRuns(list); err != nil {
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
	cmd.Flags().StringArrayVar(&wantedStatuses, "status", nil,
		"only runs with this status (repeatable): "+strings.Join(statuses(), ", "))
	cmd.Flags().StringVar(&recipe, "recipe", "", "only runs of the recipe with this name")
	cmd.Flags().StringArrayVar(&queues, "queue", nil, "only runs of this queue (repeatable); \"\" means no queue")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only runs with this label, key=value (repeatable)")
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum number of runs; 0 means all, as for json and jsonl")
	cmd.Flags().BoolVar(&all, "all", false, "all runs")
	return cmd
}

// listedRun is the JSON of a run in runs list.
type listedRun struct {
	history.Info
	DurationMS *int64 `json:"durationMs,omitempty"` // nil: it has not ended
}

func (a *app) printRuns(list []history.Info) error {
	if a.output != "human" {
		listed := make([]listedRun, len(list))
		for i, r := range list {
			listed[i] = listedRun{r, millis(r.StartedAt, r.EndedAt)}
		}
		return a.printListed(listed)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	columns := "RUN\tRECIPE\tSTATUS\tSTARTED\tENDED\tPAUSES"
	costs := slices.ContainsFunc(list, func(r history.Info) bool { return r.Usage.Micros > 0 })
	if costs {
		columns += "\tCOST"
	}
	if slices.ContainsFunc(list, func(r history.Info) bool { return aboutText(&r.About) != "" }) {
		columns += "\tABOUT"
	}
	fmt.Fprintln(w, columns)
	for _, r := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d",
			r.RunID, terminal.Visible(r.Recipe), r.Status,
			terminal.LocalTime(r.StartedAt), terminal.LocalTime(r.EndedAt), r.Pauses)
		if costs {
			fmt.Fprint(w, "\t"+costText(r.Usage.Micros))
		}
		if text := aboutText(&r.About); text != "" {
			fmt.Fprint(w, "\t"+terminal.Visible(text))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return nil
}

// printListed prints runs as JSON: a list, or with jsonl one a line.
func (a *app) printListed(list []listedRun) error {
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

// costText is what a run has cost; "-" when nothing is known to have.
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
