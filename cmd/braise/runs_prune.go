package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
)

func (a *app) runsPrune() *cobra.Command {
	age := 30 * 24 * time.Hour
	var only []string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove runs that ended long ago",
		Args:  exactly(0, "runs prune takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age < 0 {
				return usageError("--older-than may not be negative")
			}
			var wanted []checkpoint.Status
			for _, s := range only {
				if err := oneOf("status", s, statuses()[1:]...); err != nil {
					return err
				}
				if s == string(history.Interrupted) {
					s = string(history.Running) // those that somebody holds stay
				}
				wanted = append(wanted, checkpoint.Status(s))
			}
			return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
				n, err := store.Prune(ctx, time.Now().Add(-age), wanted...)
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
	cmd.Flags().DurationVar(&age, "older-than", age, "how long ago the last thing was recorded")
	cmd.Flags().StringArrayVar(&only, "status", nil,
		"runs of this status: "+strings.Join(statuses()[1:], ", ")+" (repeatable; default ok, error, cancelled)")
	return cmd
}
