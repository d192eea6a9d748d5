package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/trace"
)

func (a *app) runsWatch() *cobra.Command {
	content := false
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Print the events of a run as they are recorded, until it ends",
		Example: `  braise runs watch last --output jsonl
  braise runs watch last --content`,
		Args: exactly(1, "runs watch takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				events := []trace.Event{}
				for e, err := range (&history.Reader{Store: l.runs, Content: content}).Watch(ctx, l.id) {
					switch {
					case ctx.Err() != nil:
						return nil
					case err != nil:
						return err
					}
					events = append(events, e)
					if a.output != "json" {
						if err := a.printEvents([]trace.Event{e}); err != nil {
							return err
						}
					}
				}
				if a.output == "json" {
					if err := a.printJSON(events); err != nil {
						return err
					}
				}
				status, _ := events[len(events)-1].Data.Get("status").(string) // of run.end
				codes := map[history.Status]int{history.Failed: host.ExitFailed, history.Cancelled: host.ExitCancelled}
				return exit(codes[history.Status(status)])
			})
		},
	}
	contentFlag(cmd, &content)
	return cmd
}
