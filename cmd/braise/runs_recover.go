package main

import (
	"github.com/spf13/cobra"
)

func (a *app) runsRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover RUN",
		Short: "Go on with a run whose process died; of one that has ended, print the outcome again",
		Args:  exactly(1, "runs recover takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resumeRun(cmd.Context(), args[0], recoverRun)
		},
	}
	a.addIncomplete(cmd)
	return cmd
}
