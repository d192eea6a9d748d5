package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsTell() *cobra.Command {
	return &cobra.Command{
		Use:   "tell RUN [STEP] TEXT",
		Short: "Leave a note for an agent of a run, which reads it before its next step",
		Example: `  braise runs tell last 'Only the invoices of this year'
  braise runs tell last research 'Ask the archive, too'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError("runs tell takes a run, the step of an agent if the recipe has several, and a text")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				said := map[string]any{"text": args[len(args)-1]}
				if len(args) == 3 {
					said["step"] = args[1]
				}
				store, err := l.openStore(ctx) // it is open
				if err != nil {
					return err
				}
				data, err := value.JSON(said)
				if err == nil {
					err = workflow.Signal(ctx, l.id,
						checkpoint.Signal{Kind: checkpoint.SignalTell, Data: data, By: l.host.By()}, store, nil)
				}
				if err != nil {
					return err
				}
				if a.output != "human" {
					return a.printJSON(map[string]string{"runId": l.id, "signal": checkpoint.SignalTell})
				}
				fmt.Fprintf(a.stderr, "the note is left for run %s\n", l.id)
				return nil
			})
		},
	}
}
