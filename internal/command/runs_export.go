package command

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) runsExport() *cobra.Command {
	return &cobra.Command{
		Use:     "export RUN",
		Short:   "Print the journal of a run, one record per line",
		Example: `  braise runs export last > run.jsonl`,
		Args:    exactly(1, "runs export takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				_, recs, err := l.runs.Load(ctx, l.id, 0)
				if err != nil {
					return err
				}
				for _, rec := range recs {
					a.jsonLines().Write(append(rec.AppendLine(nil), '\n'))
				}
				return nil
			})
		},
	}
}
