package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/workflow"
)

func (a *app) runsRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover RUN",
		Short: "Go on with a run whose process died; of one that has ended, print the outcome again",
		Args:  exactly(1, "runs recover takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.goOn(cmd.Context(), args[0], changed{},
				func(ctx context.Context, l leg) (*workflow.Outcome, error) {
					return workflow.Recover(ctx, args[0], l.rt, l.opts)
				})
		},
	}
	a.addIncomplete(cmd)
	return cmd
}
