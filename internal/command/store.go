package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store COMMAND",
		Short:   "Copy what a store has into another one",
		Example: "  braise store copy sqlite:runs.db postgres://db.example.com/braise",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError("unknown command %q\n  hint: %s", "store "+args[0],
				diagnostics.DidYouMean(args[0], []string{"copy"}))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.storeCopy())
	return cmd
}

func (a *app) storeCopy() *cobra.Command {
	return &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy all runs, what was asked of them, and what agents remember",
		Long: "Copy adds to the store TO what the store FROM has and TO does not. FROM stays as it is. Runs that a\n" +
			"process works on are left out: stop the processes that use FROM first. Copying may be repeated.",
		Example: "  braise store copy sqlite:runs.db postgres://db.example.com/braise",
		Args:    exactly(2, "store copy takes the URLs of two stores"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, url := range args {
				if err := host.CheckStore(url); err != nil {
					return usageError("%v", err)
				}
				if strings.HasPrefix(url, "memory:") {
					return usageError("store memory: is gone when the command ends")
				}
			}
			if args[0] == args[1] {
				return usageError("FROM and TO are the same store")
			}
			s, err := a.open(cmd.Context(), host.Options{StoreOnly: true, Look: true})
			if err != nil {
				return a.refuse(nil, err)
			}
			defer s.close()
			ctx, why := s.interruptible(cmd.Context())
			from, err := host.FindStore(ctx, args[0], ".")
			if err == nil {
				defer from.Close()
				var to checkpoint.Store
				if to, err = host.OpenStore(ctx, args[1], "."); err == nil {
					defer to.Close()
					err = s.copyStore(ctx, from, to)
				}
			}
			if reason := why(); reason != nil {
				return exit(reason.code)
			}
			if _, ok := errors.AsType[*exitError](err); err == nil || ok {
				return err
			}
			return &exitError{host.ExitInternal, err}
		},
	}
}

// copies is what store copy did.
type copies struct {
	Copied    int      `json:"copied"`            // runs
	There     int      `json:"there"`             // runs that the other store had already
	Documents int      `json:"documents"`         // of what agents remember
	Held      []string `json:"held,omitempty"`    // runs that a process works on
	Differ    []string `json:"differ,omitempty"`  // runs that have gone on in one of the stores
	Unended   int      `json:"unended,omitempty"` // of the copied ones
}

func (s *session) copyStore(ctx context.Context, from, to checkpoint.Store) error {
	done := &copies{}
	sums, listErr := from.List(ctx, checkpoint.Filter{Oldest: true}) // runs that cannot be read do not hide the others
	definitions := map[string]json.RawMessage{}
	for i := range sums {
		if err := done.run(ctx, from, to, sums[i].ID, definitions); err != nil {
			return fmt.Errorf("%d runs copied, then: %w", done.Copied, err)
		}
	}
	if err := done.documents(ctx, from, to); err != nil {
		return fmt.Errorf("%d runs copied, then: %w", done.Copied, err)
	}
	if err := s.printCopies(done); err != nil {
		return err
	}
	switch {
	case listErr != nil:
		return &exitError{host.ExitInternal, listErr}
	case len(done.Held)+len(done.Differ) > 0:
		return exit(host.ExitConflict)
	}
	return nil
}

// run copies a run with its open signals.
func (c *copies) run(
	ctx context.Context, from, to checkpoint.Store, id string, definitions map[string]json.RawMessage,
) error {
	sum, recs, err := from.Load(ctx, id, 0)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound): // it was removed since
		return nil
	case err != nil:
		return err
	case sum.Held:
		c.Held = append(c.Held, id)
		return nil
	}
	definition, known := definitions[sum.Digest]
	if !known {
		if definition, err = from.Definition(ctx, sum.Digest); err != nil {
			return err
		}
		definitions[sum.Digest] = definition
	}
	_, err = history.Restore(ctx, to, recs, definition)
	if errors.Is(err, checkpoint.ErrExists) {
		_, there, err := to.Load(ctx, id, 0)
		if err != nil {
			return err
		}
		if same := len(there) == len(recs) && string(there[len(there)-1].AppendLine(nil)) ==
			string(recs[len(recs)-1].AppendLine(nil)); same {
			c.There++
		} else {
			c.Differ = append(c.Differ, id)
		}
		return nil
	}
	if err != nil {
		return err
	}
	c.Copied++
	if sum.Status.Ended() {
		return nil
	}
	c.Unended++
	return copySignals(ctx, from, to, id)
}

// copySignals copies what was asked of a run and is not done.
func copySignals(ctx context.Context, from, to checkpoint.Store, id string) error {
	asked, ok := from.(checkpoint.Signals)
	takes, ok2 := to.(checkpoint.Signals)
	if !ok || !ok2 {
		return nil
	}
	list, err := asked.Signals(ctx, id, true)
	if err != nil {
		return err
	}
	for _, sig := range list {
		if err := takes.PutSignal(ctx, id, sig); err != nil && !errors.Is(err, checkpoint.ErrExists) {
			return err
		}
	}
	return nil
}

// documents copies the collections that the other store does not have.
func (c *copies) documents(ctx context.Context, from, to checkpoint.Store) error {
	has, ok := from.(checkpoint.Documents)
	names, ok2 := from.(checkpoint.Collections)
	takes, ok3 := to.(checkpoint.Documents)
	if !ok || !ok2 || !ok3 {
		return nil
	}
	collections, err := names.Collections(ctx, "")
	if err != nil {
		return err
	}
	for _, collection := range collections {
		if files.Is(collection) {
			continue
		}
		there, err := takes.Documents(ctx, collection)
		if err != nil {
			return err
		}
		list, err := has.Documents(ctx, collection)
		if err != nil {
			return err
		}
		for i, d := range list {
			if i < len(there) && there[i] != d { // it has gone on in one of the stores
				break
			}
			if i < len(there) {
				continue
			}
			if err := takes.PutDocument(ctx, collection, d); err != nil {
				return err
			}
			c.Documents++
		}
	}
	keeps, ok := from.(files.Store)
	kept, ok2 := to.(files.Store)
	if !ok || !ok2 {
		return nil
	}
	n, err := files.Copy(ctx, keeps, kept)
	c.Documents += n
	return err
}

func (s *session) printCopies(done *copies) error {
	if s.output != "human" {
		return s.printJSON(done)
	}
	fmt.Fprintf(s.stdout, "%d runs copied, %d were there; %d documents copied\n",
		done.Copied, done.There, done.Documents)
	if done.Unended > 0 && !s.quiet {
		fmt.Fprintf(s.stderr, "warning: %d of the copied runs have not ended: resume them in one of the stores only\n",
			done.Unended)
	}
	for _, id := range done.Held {
		fmt.Fprintf(s.stderr, "run %s is not copied: a process works on it\n", id)
	}
	for _, id := range done.Differ {
		fmt.Fprintf(s.stderr, "run %s is not copied: the other store has it, and one of the two has gone on\n", id)
	}
	return nil
}
