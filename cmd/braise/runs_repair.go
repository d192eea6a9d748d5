package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
)

func (a *app) runsRepair() *cobra.Command {
	return &cobra.Command{
		Use:   "repair RUN",
		Short: "Cut off the unfinished write at the end of a journal (store jsonl:)",
		Args:  exactly(1, "runs repair takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, s *session, store checkpoint.Store, runID string) error {
				r, ok := store.(checkpoint.Repairer)
				if !ok {
					return usageError("this store needs no repair: its writes are whole or not there")
				}
				n, err := r.Repair(ctx, runID)
				if err != nil {
					return err
				}
				if a.output != "human" {
					return a.printJSON(map[string]any{"runId": runID, "bytes": n})
				}
				fmt.Fprintf(a.stdout, "%d bytes cut off\n", n)
				return nil
			})
		},
	}
}
