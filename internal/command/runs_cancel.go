package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsCancel() *cobra.Command {
	reason, force, leaving := "", false, leaving{}
	cmd := &cobra.Command{
		Use:     "cancel RUN",
		Short:   "End a run permanently, and roll it back",
		Example: `  braise runs cancel last --reason 'wrong customer'`,
		Args:    exactly(1, "runs cancel takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := false
			cancel := func(ctx context.Context, e execution) (*workflow.Outcome, error) {
				e.opts.Force = force
				out, err := workflow.Cancel(ctx, e.runID, reason, e.rt, e.opts)
				done = out.Status == workflow.StatusCancelled && ctx.Err() == nil
				return out, err
			}
			err := a.resumeRun(cmd, args[0], leaving.orSignal(checkpoint.SignalCancel, cancel,
				func(context.Context, execution) (map[string]any, error) {
					return map[string]any{"reason": reason, "force": force}, nil
				}),
				func(ctx context.Context, c *cluster, runID string, by Person) (*workflow.Outcome, error) {
					out, err := c.Cancel(ctx, runID, reason, by)
					done = out != nil && out.Status == workflow.StatusCancelled && ctx.Err() == nil
					return out, err
				})
			if e, ok := errors.AsType[*exitError](err); ok && e.code == host.ExitCancelled && done {
				return nil // as was asked for
			}
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, for the record")
	cmd.Flags().BoolVar(&force, "force", false, "end it even if the outcome of a call is unknown")
	leaving.add(cmd)
	return cmd
}
