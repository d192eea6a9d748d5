package command

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsTell() *cobra.Command {
	leaving := leaving{}
	cmd := &cobra.Command{
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
				sum, _, err := store.Load(ctx, l.id, math.MaxInt64)
				opts := &workflow.SignalOptions{}
				if err == nil && sum.Held {
					opts.Wait = leaving.wait()
				}
				note, err := leave(ctx, l.id, checkpoint.Signal{Kind: checkpoint.SignalTell, By: l.host.By()}, said,
					store, opts)
				switch {
				case err != nil:
					return err
				case a.output != "human" || note.taken:
					return a.sayLeft(ctx, store, l.id, note)
				}
				fmt.Fprintf(a.stderr, "the note is left for run %s\n", l.id)
				return nil
			})
		},
	}
	leaving.add(cmd)
	return cmd
}
