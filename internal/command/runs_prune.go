package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/checkpoint/state"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/clock"
)

func (a *app) runsPrune() *cobra.Command {
	old := age(30 * 24 * time.Hour)
	var only, labels []string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old runs, with their prompts and answers",
		Example: `  braise runs prune --older-than 7d
  braise runs prune --older-than 0s --status paused
  braise runs prune --older-than 0s --label customer=4711`,
		Args: exactly(0, "runs prune takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wanted []checkpoint.Status
			for _, s := range only {
				if err := oneOf("status", s, statuses()[2:]...); err != nil {
					return err
				}
				if s == string(history.Interrupted) {
					s = string(history.Running) // those that a process holds stay
				}
				wanted = append(wanted, checkpoint.Status(s))
			}
			marked, err := labelsOf(labels)
			if err != nil {
				return err
			}
			return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
				now, err := clock.Of(ctx, store)
				if err != nil {
					return s.fail("", err)
				}
				before := now.Add(-time.Duration(old))
				var n int
				if len(marked) > 0 {
					n, err = pruneLabelled(ctx, store, marked, before, wanted)
				} else {
					n, err = store.Prune(ctx, before, wanted...)
				}
				if err != nil {
					return s.fail("", fmt.Errorf("%d runs removed, then: %w", n, err))
				}
				expired, err := pruneState(ctx, store)
				went := 0
				if err == nil {
					went, err = pruneFiles(ctx, store)
				}
				if err != nil {
					return s.fail("", fmt.Errorf("%d runs removed, then: %w", n, err))
				}
				if a.output != "human" {
					return a.printJSON(map[string]int{"removed": n, "expiredState": expired, "files": went})
				}
				fmt.Fprintf(a.stdout, "%d removed\n", n)
				if expired > 0 {
					fmt.Fprintf(a.stdout, "%d values of state removed, whose time was over\n", expired)
				}
				return nil
			})
		},
	}
	cmd.Flags().Var(&old, "older-than", "how long ago the last record was written: 7d, 12h, 30m")
	cmd.Flags().StringArrayVar(&only, "status", nil,
		"runs of this status: "+strings.Join(statuses()[2:], ", ")+" (repeatable; default ok, error, cancelled)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only runs with this label, key=value (repeatable)")
	return cmd
}

// pruneState removes the values of state whose time is over.
func pruneState(ctx context.Context, store checkpoint.Store) (int, error) {
	kept, ok := store.(state.Store)
	if !ok {
		return 0, nil
	}
	return state.DeleteExpired(ctx, kept)
}

// pruneFiles removes what was in the files of runs that are gone.
func pruneFiles(ctx context.Context, store checkpoint.Store) (int, error) {
	kept, ok := store.(files.Store)
	if !ok {
		return 0, nil
	}
	return files.DeleteUnused(ctx, kept)
}

// pruneLabelled is Prune for the runs that have all of some labels.
func pruneLabelled(
	ctx context.Context, store checkpoint.Store, labels map[string]string,
	before time.Time, statuses []checkpoint.Status,
) (n int, err error) {
	sums, listErr := store.List(ctx, checkpoint.Filter{Labels: labels}) // those that cannot be read stay
	for i := range sums {
		if sums[i].Held || !sums[i].Prunable(before, statuses) {
			continue
		}
		switch err := store.Delete(ctx, sums[i].ID); {
		case err == nil:
			n++
		case !errors.Is(err, checkpoint.ErrBusy) && !errors.Is(err, checkpoint.ErrNotFound): // since it was listed
			return n, err
		}
	}
	if n > 0 { // the recipes that no run needs any more go, and no run
		_, err = store.Prune(ctx, time.Time{})
	}
	return n, errors.Join(err, listErr)
}
