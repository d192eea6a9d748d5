package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsSend() *cobra.Command {
	text, leaving := "", leaving{}
	cmd := &cobra.Command{
		Use:     "send RUN CHANNEL --inputs-json JSON",
		Short:   "Send a value to a channel of a run, and resume it",
		Example: `  braise runs send last mail --inputs-json '{"from": "Ada"}'`,
		Args:    exactly(2, "runs send takes a run and a channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("inputs-json") {
				return usageError("runs send needs --inputs-json JSON, the value")
			}
			v, err := a.readJSON(text)
			if err != nil {
				return a.refuse(nil, err)
			}
			send := func(ctx context.Context, e execution) (*workflow.Outcome, error) {
				return workflow.Send(ctx, e.runID, args[1], v, e.rt, e.opts)
			}
			return a.resumeRun(cmd, args[0], leaving.orSignal(checkpoint.SignalSend, send,
				func(context.Context, execution) (map[string]any, error) {
					return map[string]any{"channel": args[1], "value": v}, nil
				}),
				func(ctx context.Context, c *cluster, runID string, by Person) (*workflow.Outcome, error) {
					return c.Send(ctx, runID, args[1], v, by)
				})
		},
	}
	cmd.Flags().StringVar(&text, "inputs-json", "", "the value as JSON, or @FILE, or @- for stdin")
	leaving.add(cmd)
	return cmd
}
