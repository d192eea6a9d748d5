package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
)

func (a *app) runsImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Put runs into the store that runs export wrote; FILE may be - for stdin",
		Example: `  braise runs import run.jsonl
  braise runs import - --store sqlite:copy.db < run.jsonl`,
		Args: exactly(1, "runs import takes one file, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, name := io.Reader(a.stdin), "stdin"
			if args[0] != "-" {
				name = args[0]
				f, err := os.Open(name)
				if err != nil {
					return &exitError{host.ExitInvalid, err}
				}
				defer f.Close()
				in = f
			}
			o := host.Options{StoreOnly: true} // it makes a store that is missing
			return a.withStoreAs(cmd, o, func(ctx context.Context, s *session, store checkpoint.Store) error {
				return s.importRuns(ctx, store, bufio.NewReader(in), name)
			})
		},
	}
}

// importRuns puts the runs of a file into a store: of each its records, and behind them what is in its files, and its
// recipe, which shows that they are complete.
func (s *session) importRuns(ctx context.Context, store checkpoint.Store, in *bufio.Reader, name string) error {
	runs := []string{}
	var recs []checkpoint.Record
	var contents [][]byte
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		switch line = bytes.TrimSuffix(line, []byte("\n")); {
		case err == io.EOF && len(line) == 0:
			switch {
			case recs != nil:
				return invalidExport("%s:%d: the recipe of the last run is missing\n"+
					"  hint: the file was cut off, or an earlier version made it; export the run again", name, n)
			case len(runs) == 0:
				return invalidExport("%s is empty; a file of runs export has records, and then a recipe", name)
			}
			return s.imported(runs)
		case err != nil && err != io.EOF:
			return &exitError{host.ExitInvalid, err}
		}
		rec, err := checkpoint.ParseLine(line)
		if err != nil {
			return invalidExport("%s:%d: not a line of runs export, or damaged: %w", name, n, err)
		}
		if recs == nil || rec.Seq != 1 { // the recipe of a run has 1, too
			recs = append(recs, rec)
			continue
		}
		if content, isFile, err := fileOf(rec, line); isFile {
			if err != nil {
				return invalidExport("%s:%d: %w", name, n, err)
			}
			contents = append(contents, content)
			continue
		}
		sum, err := checkpoint.Fold("", recs[:1])
		var definition json.RawMessage
		if err == nil {
			definition, err = definitionOf(sum.Digest, line)
		}
		if err != nil {
			return invalidExport("%s:%d: %w", name, n, err)
		}
		switch sum, err = history.Restore(ctx, store, recs, definition); {
		case errors.Is(err, checkpoint.ErrExists):
			return &exitError{host.ExitConflict, fmt.Errorf("%s:%d: the store has a run %q\n"+
				"  hint: braise runs show %[3]s shows it; nothing of this run was imported", name, n, sum.ID)}
		case errors.Is(err, checkpoint.ErrCorrupt):
			return invalidExport("%s:%d: %w", name, n, err)
		case err != nil:
			return s.fail(sum.ID, err)
		}
		if err := keepFiles(ctx, store, sum.ID, contents); err != nil {
			return s.fail(sum.ID, err)
		}
		s.warnOpen(&sum)
		runs, recs, contents = append(runs, sum.ID), nil, nil
	}
}

// fileOf reads the line of a file; false: it is of something else.
func fileOf(rec checkpoint.Record, line []byte) (content []byte, isFile bool, err error) {
	d, err := checkpoint.ParseDocumentLine(exported, "", line)
	if err != nil {
		return nil, false, nil
	}
	content, err = base64.StdEncoding.DecodeString(d.Text)
	if err != nil || files.Sum(content) != d.Name {
		err = fmt.Errorf("file %s: its content has changed", rec.Path)
	}
	return content, true, err
}

// keepFiles puts what is in the files of a run into a store.
func keepFiles(ctx context.Context, store checkpoint.Store, run string, contents [][]byte) error {
	docs, ok := store.(checkpoint.Documents)
	if !ok {
		return nil
	}
	for _, content := range contents {
		if _, err := files.Put(ctx, docs, run, content); err != nil {
			return err
		}
	}
	return nil
}

// definitionOf reads the line of a recipe, and checks that it is the one of the digest: a store keeps one for all runs.
func definitionOf(digest string, line []byte) (json.RawMessage, error) {
	definition, err := checkpoint.ParseDefinitionLine(digest, line)
	if err != nil {
		return nil, err
	}
	r, err := recipe.FromDefinition(definition)
	if err == nil && r.Digest != digest {
		err = fmt.Errorf("it is the recipe with the digest %s", r.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("the recipe of digest %s: %w", digest, err)
	}
	return definition, nil
}

// warnOpen says that a run which has not ended is there twice now.
func (s *session) warnOpen(sum *checkpoint.Summary) {
	if !sum.Status.Ended() && !s.quiet && s.output == "human" {
		fmt.Fprintf(s.stderr,
			"warning: run %s has not ended: resume it here, or where it comes from, but not in both\n", sum.ID)
	}
}

func (s *session) imported(runs []string) error {
	if s.output != "human" {
		return s.printJSON(map[string]any{"imported": runs})
	}
	for _, id := range runs {
		fmt.Fprintf(s.stdout, "imported %s\n", id)
	}
	return nil
}

// invalidExport is the error for a file that runs export did not write, or not whole.
func invalidExport(format string, args ...any) error {
	return &exitError{host.ExitInvalid, fmt.Errorf(format, args...)}
}
