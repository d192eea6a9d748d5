package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
)

func (a *app) runsExport() *cobra.Command {
	return &cobra.Command{
		Use:     "export RUN",
		Short:   "Print the journal of a run, one record per line, and then its recipe",
		Example: `  braise runs export last > run.jsonl`,
		Args:    exactly(1, "runs export takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				sum, recs, err := l.runs.Load(ctx, l.id, 0)
				if err != nil {
					return err
				}
				for _, rec := range recs {
					a.jsonLines().Write(append(rec.AppendLine(nil), '\n'))
				}
				text, err := l.runs.Definition(ctx, sum.Digest)
				if err != nil {
					return err
				}
				sum.Definition = text
				a.jsonLines().Write(append(checkpoint.DefinitionLine(sum.Run), '\n'))
				return nil
			})
		},
	}
}
