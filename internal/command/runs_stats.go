package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

func (a *app) runsStats() *cobra.Command {
	var wanted runFilter
	var by string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up runs: how many failed, what they cost, how long they took",
		Example: `  braise runs stats
  braise runs stats --by recipe --label team=support
  braise runs stats --by day --status error --output json`,
		Args: exactly(0, "runs stats takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := wanted.filter()
			if err == nil && by != "" {
				err = oneOf("by", by, groups()...)
			}
			if err != nil {
				return err
			}
			return a.withRuns(cmd, func(ctx context.Context, s *session, runs history.Source) error {
				stats, storeErr := history.Summarize(ctx, runs, f, history.By(by))
				if storeErr != nil && len(stats) == 0 {
					return s.fail("", storeErr)
				}
				if err := a.printStats(by, stats); err != nil || storeErr == nil {
					return err
				}
				return &exitError{host.ExitInternal, storeErr} // runs that cannot be read do not hide the others
			})
		},
	}
	wanted.flags(cmd)
	cmd.Flags().StringVar(&by, "by", "", "one line for each recipe, model, label or day (UTC) on which runs began")
	return cmd
}

// groups are the values of --by.
func groups() []string {
	return []string{string(history.ByRecipe), string(history.ByModel), string(history.ByLabel), string(history.ByDay)}
}

func (a *app) printStats(by string, stats []history.Stats) error {
	if a.output != "human" {
		return printListed(a, stats)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if by != "" {
		fmt.Fprintf(w, "%s\t", strings.ToUpper(by))
	}
	fmt.Fprintln(w, "RUNS\tOK\tFAILED\tPAUSED\tTOKENS\tCACHED\tCOST\tMEDIAN\tP95")
	for i := range stats {
		s := &stats[i]
		if by != "" {
			fmt.Fprintf(w, "%s\t", terminal.Visible(cmp.Or(s.Group, "-")))
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Runs, s.OK, s.Failed, s.Paused,
			rounded(s.Usage.InputTokens+s.Usage.OutputTokens), rounded(s.Usage.CachedTokens),
			costText(s.Usage.Micros), lengthText(s.MedianMS), lengthText(s.P95MS))
	}
	return w.Flush()
}

// lengthText words milliseconds; "-" for nil.
func lengthText(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return tookText(time.Time{}, time.Time{}.Add(time.Duration(*ms)*time.Millisecond))
}
