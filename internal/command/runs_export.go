package command

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/history"
)

func (a *app) runsExport() *cobra.Command {
	return &cobra.Command{
		Use:     "export RUN",
		Short:   "Print the journal of a run, one record per line, then its files and its recipe",
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
				if err := l.exportFiles(ctx, recs); err != nil {
					return err
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

// exported is the collection of files in an export.
const exported = "files"

// exportFiles prints what is in the files that the models of a run were shown, as far as the store has it.
func (l looked) exportFiles(ctx context.Context, recs []checkpoint.Record) error {
	store, ok := l.runs.(files.Store)
	if !ok {
		return nil
	}
	sums, err := history.Files(recs)
	for _, sum := range sums {
		content, err := files.Get(ctx, store, sum)
		if errors.Is(err, checkpoint.ErrNotFound) {
			continue
		}
		var line []byte
		if err == nil {
			line, err = checkpoint.DocumentLine(exported,
				checkpoint.Document{Name: sum, Text: base64.StdEncoding.EncodeToString(content)})
		}
		if err != nil {
			return err
		}
		l.jsonLines().Write(append(line, '\n'))
	}
	return err
}
