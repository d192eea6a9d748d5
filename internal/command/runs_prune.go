package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/clock"
)

func (a *app) runsPrune() *cobra.Command {
	old := age(30 * 24 * time.Hour)
	var only []string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old runs, with their prompts and answers",
		Example: `  braise runs prune --older-than 7d
  braise runs prune --older-than 0s --status paused`,
		Args: exactly(0, "runs prune takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wanted []checkpoint.Status
			for _, s := range only {
				if err := oneOf("status", s, statuses()[2:]...); err != nil {
					return err
				}
				if s == string(history.Interrupted) {
					s = string(history.Running) // those that a process holds stay
				}
				wanted = append(wanted, checkpoint.Status(s))
			}
			return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
				now, err := clock.Of(ctx, store)
				if err != nil {
					return s.fail("", err)
				}
				n, err := store.Prune(ctx, now.Add(-time.Duration(old)), wanted...)
				if err != nil {
					return s.fail("", fmt.Errorf("%d runs removed, then: %w", n, err))
				}
				if a.output != "human" {
					return a.printJSON(map[string]int{"removed": n})
				}
				fmt.Fprintf(a.stdout, "%d removed\n", n)
				return nil
			})
		},
	}
	cmd.Flags().Var(&old, "older-than", "how long ago the last record was written: 7d, 12h, 30m")
	cmd.Flags().StringArrayVar(&only, "status", nil,
		"runs of this status: "+strings.Join(statuses()[2:], ", ")+" (repeatable; default ok, error, cancelled)")
	return cmd
}
