package command

import (
	"cmp"
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
		Long: "Runs lists, inspects and manages the runs in the store. RUN is the id of a run, a unique prefix of\n" +
			"it, or last for the run that was started last.",
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
			return usageError("unknown command %q\n  hint: %s", "runs "+args[0],
				cmp.Or(diagnostics.DidYouMean(args[0], names), "braise help runs lists the commands"))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runsList(), a.runsStats(), a.runsShow(), a.runsTrace(), a.runsWatch(), a.runsCancel(),
		a.runsRecover(), a.runsAnswer(), a.runsSend(), a.runsTell(), a.runsTranscript(), a.runsSweep(),
		a.runsFork(), a.runsPrune(), a.runsRepair(), a.runsExport(), a.runsImport())
	return cmd
}

// withStore opens the store for a command that tidies it up.
func (a *app) withStore(cmd *cobra.Command, do func(context.Context, *session, checkpoint.Store) error) error {
	return a.withStoreAs(cmd, host.Options{StoreOnly: true, Look: true}, do)
}

// withStoreAs is withStore with other options.
func (a *app) withStoreAs(
	cmd *cobra.Command, o host.Options, do func(context.Context, *session, checkpoint.Store) error,
) error {
	return a.withRunsAs(cmd, o, func(ctx context.Context, s *session, _ history.Source) error {
		store, err := s.openStore(ctx) // it is open: connect has refused the command with an engine
		if err != nil {
			return err
		}
		return do(ctx, s, store)
	})
}

// withRuns opens what the runs are in, the store or an engine, for a command that only reads that, or tidies it up: of
// the configuration it needs no more than the place.
func (a *app) withRuns(cmd *cobra.Command, do func(context.Context, *session, history.Source) error) error {
	return a.withRunsAs(cmd, host.Options{StoreOnly: true, Look: true}, do)
}

// withRunsAs is withRuns with other options.
func (a *app) withRunsAs(
	cmd *cobra.Command, o host.Options, do func(context.Context, *session, history.Source) error,
) error {
	s, err := a.open(cmd.Context(), o)
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close()
	runs, err := s.openRuns(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	ctx, why := s.interruptible(cmd.Context())
	err = do(ctx, s, runs)
	if reason := why(); reason != nil {
		return exit(reason.code)
	}
	return err
}

// openRuns opens what the runs are in.
func (s *session) openRuns(ctx context.Context, cmd *cobra.Command) (history.Source, error) {
	if c, err := s.connect(ctx, cmd); c != nil || err != nil {
		return c, err
	}
	return s.openStore(ctx)
}

// looked is a run to look at.
type looked struct {
	*session
	runs history.Source
	id   string
}

// withRun is withRuns for a run, which a name stands for as history.Find says.
func (a *app) withRun(cmd *cobra.Command, name string, do func(context.Context, looked) error) error {
	return a.withRuns(cmd, func(ctx context.Context, s *session, runs history.Source) error {
		id, err := history.Find(ctx, runs, name)
		if err == nil {
			err = do(ctx, looked{s, runs, id})
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
