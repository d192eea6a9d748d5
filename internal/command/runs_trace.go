package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/trace"
)

func (a *app) runsTrace() *cobra.Command {
	content := false
	cmd := &cobra.Command{
		Use:   "trace RUN",
		Short: "Print the events of a run, from all its executions",
		Example: `  braise runs trace last
  braise runs trace last --content`,
		Args: exactly(1, "runs trace takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				run, err := (&history.Reader{Store: l.runs, Content: content}).Load(ctx, l.id)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(run.Events)
				}
				return a.printEvents(run.Events)
			})
		},
	}
	contentFlag(cmd, &content)
	return cmd
}

// contentFlag adds the flag that asks for the content of events.
func contentFlag(cmd *cobra.Command, content *bool) {
	cmd.Flags().BoolVar(content, "content", false, "include messages, arguments, results and outputs of steps")
}

// printEvents prints a line for each event.
func (a *app) printEvents(events []trace.Event) error {
	for _, e := range events {
		if a.output == "human" {
			fmt.Fprintf(a.stdout, "%s %s\n", e.At.Local().Format("2006-01-02 15:04:05.000"), terminal.Visible(e.Line()))
		} else if err := a.printJSON(e); err != nil {
			return err
		}
	}
	return nil
}
