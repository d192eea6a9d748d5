package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "runs COMMAND",
		Long: "Runs lists, inspects and manages the runs of the store. RUN is the id of a run, a prefix of it\n" +
			"that no other run has, or last.",
		Example: `  braise runs list --status paused
  braise runs show last
  braise runs recover 01a2fee6`,
		Short: "List, inspect and manage runs",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			return usageError("unknown command %q\n  hint: %s", "runs "+args[0], diagnostics.DidYouMean(args[0], names))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runsList(), a.runsShow(), a.runsTrace(), a.runsWatch(), a.runsCancel(), a.runsRecover(),
		a.runsAnswer(), a.runsSend(), a.runsSweep(), a.runsFork(), a.runsPrune(), a.runsRepair(), a.runsExport())
	return cmd
}

// withStore opens the store for a command that only reads what it holds, or tidies it up: of the
// configuration it needs no more than the store's place.
func (a *app) withStore(cmd *cobra.Command, do func(context.Context, *session, checkpoint.Store) error) error {
	s, err := a.open(cmd.Context(), host.Options{StoreOnly: true, Look: true})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close()
	store, err := s.openStore(cmd.Context())
	if err != nil {
		return err
	}
	ctx, why := s.interruptible(cmd.Context())
	err = do(ctx, s, store)
	if reason := why(); reason != nil {
		return exit(reason.code)
	}
	return err
}

// looked is a run to look at, or to tidy up.
type looked struct {
	*session
	store checkpoint.Store
	id    string
}

// withRun is withStore for a run, which a name stands for as history.Find says.
func (a *app) withRun(cmd *cobra.Command, name string, do func(context.Context, looked) error) error {
	return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
		id, err := history.Find(ctx, store, name)
		if err == nil {
			err = do(ctx, looked{s, store, id})
		}
		if _, ok := errors.AsType[*exitError](err); err == nil || ok {
			return err
		}
		return s.fail(id, err)
	})
}

// statuses names the statuses of runs.
func statuses() []string {
	var names []string
	for _, s := range history.Statuses() {
		names = append(names, string(s))
	}
	return names
}
