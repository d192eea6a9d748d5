package main

import (
	"github.com/spf13/cobra"
)

func (a *app) runsRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recover RUN",
		Short:   "Resume a run whose process died; for one that has ended, print the outcome again",
		Example: `  braise runs recover last`,
		Args:    exactly(1, "runs recover takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resumeRun(cmd.Context(), args[0], recoverRun)
		},
	}
	a.addIncomplete(cmd)
	return cmd
}
