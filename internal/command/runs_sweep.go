package command

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// sweepTime is how often sweep --watch looks for what is due.
const sweepTime = time.Second

func (a *app) runsSweep() *cobra.Command {
	watch, patience := false, time.Duration(0)
	opts := &workflow.SweepOptions{ResumeOptions: workflow.ResumeOptions{Complete: true}}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Resume every run in which something is due: a wait that is over, a pause that has expired",
		Example: `  braise runs sweep
  braise runs sweep --recover --watch`,
		Args: exactly(0, "runs sweep takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.MaxRuns < 1 {
				return usageError("--max-runs is %d; the minimum is 1", opts.MaxRuns)
			}
			if patience < 0 {
				return usageError("--drain cannot be negative")
			}
			signalled, stop, why := a.interruptible(cmd.Context())
			defer stop()
			drain := make(chan struct{})
			s, err := a.open(cmd.Context(), host.Options{Look: !watch, Reporter: silent{}, Drain: drain})
			if err != nil {
				return a.refuse(nil, err)
			}
			defer s.close()
			if _, err := s.connect(cmd.Context(), cmd); err != nil {
				return err
			}
			store, err := s.openStore(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := s.host.Runtime(cmd.Context(), nil); err != nil { // before a signal only stops the sweep
				return a.unready(err)
			}
			notifier, err := s.notifier(store, s.serverURL())
			if err != nil {
				return a.unready(err)
			}
			ctx, end := context.WithCancel(cmd.Context())
			defer end()
			defer context.AfterFunc(signalled, func() {
				close(drain)
				time.AfterFunc(patience, end)
				if !s.quiet {
					fmt.Fprintf(s.stderr, "calls in progress have %v to end; another signal ends the command\n",
						patience)
				}
			})()
			if watch {
				opts.Every = sweepTime
				err = s.keepSweeping(ctx, opts, notifier)
			} else {
				err = s.sweep(ctx, opts, notifier, why)
			}
			if err == nil && why() == interrupted {
				return exit(host.ExitInterrupt)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opts.Recover, "recover", false,
		"also resume interrupted runs; without it they are listed")
	cmd.Flags().IntVar(&opts.MaxRuns, "max-runs", 4, "maximum concurrent runs")
	cmd.Flags().BoolVar(&watch, "watch", false, "keep sweeping until a signal such as SIGTERM arrives")
	cmd.Flags().DurationVar(&patience, "drain", 30*time.Second, "how long calls in progress may take after a signal")
	return cmd
}

// sweep resumes what is due, and prints how each run ended: in JSON a list of outcomes, with jsonl one a line. why
// returns the signal that stopped it.
func (s *session) sweep(
	ctx context.Context, opts *workflow.SweepOptions, n *worker.Notifier, why func() *stopped,
) error {
	outcomes, err := s.host.Sweep(ctx, opts)
	outcomes = slices.DeleteFunc(outcomes, func(out *workflow.Outcome) bool { return s.gaveWay(ctx, out) })
	for _, out := range outcomes {
		if n != nil {
			if err := n.Tell(context.WithoutCancel(ctx), out); err != nil {
				s.warn(fmt.Sprintf("run %s: a notification failed: %v", out.RunID, err))
			}
		}
		if err := s.printSwept(out, false); err != nil {
			return err
		}
	}
	if s.output == "json" && err == nil {
		if err := s.printJSON(append([]*workflow.Outcome{}, outcomes...)); err != nil {
			return err
		}
	}
	if err != nil && ctx.Err() == nil {
		return s.fail("", err)
	}
	if opts.Recover || why() != nil {
		return nil
	}
	return s.listInterrupted(ctx)
}

// listInterrupted says which runs a sweep has left alone.
func (s *session) listInterrupted(ctx context.Context) error {
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	list, err := history.List(ctx, store, history.Filter{Statuses: []history.Status{history.Interrupted}})
	if err != nil {
		return s.fail("", err)
	}
	for _, run := range list {
		fmt.Fprintf(s.stderr, "%s interrupted\n", run.RunID)
	}
	if len(list) > 0 {
		fmt.Fprintf(s.stderr, "  to resume: braise runs sweep --recover%s\n", s.sameFlags())
	}
	return nil
}

// keepSweeping sweeps until a signal comes, and prints how each run ended, in JSON one a line. n tells others of all
// runs of the store meanwhile; nil: nobody does.
func (s *session) keepSweeping(ctx context.Context, opts *workflow.SweepOptions, n *worker.Notifier) (err error) {
	if n != nil {
		working, stop := context.WithCancel(ctx)
		var telling sync.WaitGroup
		telling.Go(func() { _ = n.Run(working) }) // it was checked
		defer telling.Wait()
		defer stop()
	}
	for out, err := range s.host.Sweeps(ctx, opts) {
		if err != nil {
			return s.fail("", err)
		}
		if s.gaveWay(ctx, out) {
			continue
		}
		if n != nil {
			n.Ended(out)
		}
		if err := s.printSwept(out, true); err != nil {
			return err
		}
	}
	return nil
}

// gaveWay reports whether a run was interrupted since the sweep stops, and says so: the next sweep with --recover goes
// on with it. It is no result.
func (s *session) gaveWay(ctx context.Context, out *workflow.Outcome) bool {
	store, err := s.openStore(ctx) // it is open
	if err != nil || out.Status != workflow.StatusCancelled || statusOf(ctx, store, out) == history.Cancelled {
		return false
	}
	fmt.Fprintf(s.stderr, "%s interrupted\n", out.RunID)
	return true
}

func (a *app) printSwept(out *workflow.Outcome, watch bool) error {
	switch {
	case a.output == "human":
		text := string(out.Status)
		if out.Err != nil {
			text += ": " + terminal.Cut(out.Err.Error())
		}
		fmt.Fprintf(a.stdout, "%s %s\n", out.RunID, terminal.Visible(text))
	case a.output == "jsonl" || watch:
		text, err := out.Summary()
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		fmt.Fprintf(a.jsonLines(), "%s\n", text)
	}
	return nil
}
