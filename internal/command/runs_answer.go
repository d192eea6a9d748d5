package command

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsAnswer() *cobra.Command {
	flags, leaving := &answerFlags{}, leaving{}
	cmd := &cobra.Command{
		Use:   "answer RUN PAUSE",
		Short: "Answer a pause by its name, and resume the run",
		Example: `  braise runs answer last approve --decision approve
  braise runs answer last ask --answer 'The blue one'`,
		Args: exactly(2, "runs answer takes a run and a pause"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.read(a, cmd); err != nil {
				return err
			}
			answer := func(ctx context.Context, e execution) (*workflow.Outcome, error) {
				answering := *e.rt
				answering.Resume = flags
				out, err := workflow.Answer(ctx, e.runID, args[1], nil, &answering, e.opts)
				if refused := out.Failure(); refused != nil && refused.Code == string(diagnostics.CodeInvalidToken) {
					err = nothingWaits(ctx, e, refused)
					out.Err, out.Diagnostics = err, nil // which speak of a token
				}
				return out, err
			}
			return a.resumeRun(cmd, args[0], leaving.orSignal(checkpoint.SignalAnswer, answer,
				func(ctx context.Context, e execution) (map[string]any, error) {
					return flags.signal(ctx, e, args[1])
				}),
				func(ctx context.Context, c *cluster, runID string, by Person) (*workflow.Outcome, error) {
					v, err := flags.valueFor(ctx, c, runID, args[1])
					if err != nil {
						return nil, err
					}
					return c.Answer(ctx, runID, args[1], v, by)
				})
		},
	}
	flags.add(cmd)
	leaving.add(cmd)
	a.addIncomplete(cmd)
	return cmd
}

// nothingWaits is the error about an answer to a pause that is not pending: that the run has ended, if it has, or waits
// for nothing.
func nothingWaits(ctx context.Context, e execution, refused *runtime.Error) error {
	sum, _, err := e.rt.Store.Load(ctx, e.runID, math.MaxInt64)
	if err != nil || len(sum.Pauses) > 0 {
		return refused
	}
	said := fmt.Errorf("run %q is %s: nothing is waiting", e.runID, history.StatusOf(sum))
	if sum.Status.Ended() {
		said = fmt.Errorf("run %q has ended (%s): nothing is waiting", e.runID, sum.Status)
	}
	return &runtime.Error{Category: refused.Category, Code: refused.Code, Err: said}
}
