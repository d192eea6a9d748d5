package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/workflow"
)

func (a *app) runsRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recover RUN",
		Short:   "Resume a run whose process died; for one that has ended, print the outcome again",
		Example: `  braise runs recover last`,
		Args:    exactly(1, "runs recover takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resumeRun(cmd, args[0], recoverRun,
				func(ctx context.Context, c *cluster, runID string, _ Person) (*workflow.Outcome, error) {
					return c.Wait(ctx, runID) // it recovers runs by itself
				})
		},
	}
	a.addIncomplete(cmd)
	return cmd
}
