package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

// defaultListed is how many runs people are shown.
const defaultListed = 20

func (a *app) runsList() *cobra.Command {
	var status, recipe string
	limit, all := defaultListed, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Example: `  braise runs list
  braise runs list --status paused --recipe triage
  braise runs list --all --output json`,
		Args: exactly(0, "runs list takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if status != "" || cmd.Flags().Changed("status") {
				if err := oneOf("status", status, statuses()...); err != nil {
					return err
				}
			}
			switch given := cmd.Flags().Changed("limit"); {
			case limit < 0:
				return usageError("--limit is %d; the minimum is 0, for all", limit)
			case all && given:
				return usageError("--all and --limit exclude each other")
			case all || a.output != "human" && !given: // programs miss nothing
				limit = 0
			}
			return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
				wanted := history.Filter{Status: history.Status(status), Recipe: recipe, Limit: limit}
				if limit > 0 {
					wanted.Limit++ // to know whether there are more
				}
				list, storeErr := history.List(ctx, store, wanted)
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
	cmd.Flags().StringVar(&status, "status", "", "only runs with this status: "+strings.Join(statuses(), ", "))
	cmd.Flags().StringVar(&recipe, "recipe", "", "only runs of the recipe with this name")
	cmd.Flags().IntVar(&limit, "limit", limit, "only so many of the newest; 0 is all, as for json and jsonl")
	cmd.Flags().BoolVar(&all, "all", false, "all runs")
	return cmd
}

func (a *app) printRuns(list []history.Info) error {
	if a.output != "human" {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tRECIPE\tSTATUS\tSTARTED\tENDED\tPAUSES")
	for _, r := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n",
			r.RunID, terminal.Visible(r.Recipe), r.Status,
			terminal.LocalTime(r.StartedAt), terminal.LocalTime(r.EndedAt), r.Pauses)
	}
	w.Flush()
	return nil
}
