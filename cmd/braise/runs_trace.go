package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/trace"
)

func (a *app) runsTrace() *cobra.Command {
	return &cobra.Command{
		Use:     "trace RUN",
		Short:   "Print the events of a run, from all its executions",
		Example: `  braise runs trace last`,
		Args:    exactly(1, "runs trace takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				run, err := history.Load(ctx, l.store, l.id)
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
