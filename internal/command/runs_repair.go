package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
)

func (a *app) runsRepair() *cobra.Command {
	return &cobra.Command{
		Use:     "repair RUN",
		Short:   "Remove an incomplete write at the end of a journal (store jsonl:)",
		Example: `  braise runs repair 01a2fee6 --store jsonl:runs`,
		Args:    exactly(1, "runs repair takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
				r, ok := store.(checkpoint.Repairer)
				if !ok {
					return usageError("this store needs no repair: its writes are atomic")
				}
				runID, err := history.Find(ctx, store, args[0])
				if err != nil {
					return s.fail(args[0], err)
				}
				n, err := r.Repair(ctx, runID)
				if err != nil {
					return s.fail(runID, err)
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
