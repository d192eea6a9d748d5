package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
)

func (a *app) runsShow() *cobra.Command {
	verbose := false
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: why it failed, its pending pauses and its steps so far",
		Example: `  braise runs show last
  braise runs show last -v
  braise runs show 01a2fee6 --output json`,
		Args: exactly(1, "runs show takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				reader := &history.Reader{Store: l.runs}
				run, err := reader.Load(ctx, l.id)
				if err != nil {
					return err
				}
				var notes []string
				if l.cluster != nil {
					if run, notes, err = l.noted(ctx, run); err != nil {
						return err
					}
				}
				steps, err := reader.Steps(ctx, l.id)
				if err != nil {
					return err
				}
				if a.output != "human" {
					return a.printJSON(runJSON(run, steps, notes))
				}
				if origin, err := history.Origin(ctx, l.runs, l.id); err == nil && l.cluster == nil {
					l.found = l.host.ConfigOf(origin)
				}
				a.printDiagnostics(run.Diagnostics)
				l.printRun(run, l.failed(ctx, reader, run), steps, notes, verbose)
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false,
		"of each step also when it began, how long it took, what it took and gave, and what it used of models")
	return cmd
}

// failed returns the step that made a run fail, which may be inside of an item; nil: none did, or it is not known.
func (l looked) failed(ctx context.Context, reader *history.Reader, run *history.Run) *history.Step {
	if run.Error.Step == "" {
		return nil
	}
	d, err := reader.Step(ctx, run.RunID, run.Error.Step)
	if err != nil || d.Status != "failed" {
		return nil
	}
	return &d.Step
}

func (s *session) printRun(
	run *history.Run, failed *history.Step, steps []history.Detail, notes []string, verbose bool,
) {
	w := tabwriter.NewWriter(s.stdout, 0, 4, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" && text != "-" {
			fmt.Fprintf(w, "%s\t%s\n", terminal.Visible(name), terminal.Visible(text))
		}
	}
	why, hint := whyText(&run.About, failed)
	row("error", why)
	row("hint", hint)
	row("next", s.nextText(run))
	row("run", run.RunID)
	row("recipe", run.Recipe)
	row("digest", run.Digest)
	row("status", string(run.Status))
	for _, note := range notes {
		row("note", note)
	}
	row("forked from", run.Parent)
	row("queue", run.Queue)
	for _, key := range slices.Sorted(maps.Keys(run.Labels)) {
		row("label "+key, run.Labels[key])
	}
	started := history.Act{At: run.StartedAt}
	if len(run.Acts) > 0 {
		started.By = run.Acts[0].By
	}
	started.By = cmp.Or(run.By, started.By)
	row("started", actText(started))
	row("updated", terminal.LocalTime(run.UpdatedAt))
	if !run.EndedAt.IsZero() {
		row("ended", terminal.LocalTime(run.EndedAt)+", after "+tookText(run.StartedAt, run.EndedAt))
	}
	row("models", usageText(run.Usage))
	for i, x := range run.Executions {
		switch last := i == len(run.Executions)-1; {
		case last && run.Status == history.Interrupted:
			row("lost", checkpoint.Lease{Owner: x.Owner}.Holder()+", last heard of "+terminal.LocalTime(x.To))
		case i > 0: // the first one is the start
			row(fmt.Sprintf("execution %d", i+1), executionText(x))
		}
	}
	for i := range steps {
		printStep(row, run, &steps[i], verbose)
	}
	for _, a := range run.Acts[min(1, len(run.Acts)):] {
		row(strings.TrimRight(a.What+" "+a.Pause+a.Channel, " "), actText(a))
	}
	asked, batches := inBatches(run.Pauses)
	if batches != "" {
		row("batch", batches)
	}
	for _, p := range asked {
		text := string(p.Kind)
		for _, t := range []string{p.Reason, p.Prompt} {
			if t != "" {
				text += ": " + terminal.Cut(t)
			}
		}
		row("pause "+p.ID, text)
	}
	w.Flush()
	for _, p := range asked {
		s.printPause(s.stdout, p)
		s.printCommand(s.stdout, answerCommand(run.RunID, p), p)
	}
}

// cachedText says what of the input the provider's cache had to do with, if anything.
func cachedText(u *checkpoint.Usage) string {
	var of []string
	if u.CachedTokens > 0 {
		of = append(of, fmt.Sprintf("%d cached", u.CachedTokens))
	}
	if u.CacheWriteTokens > 0 {
		of = append(of, fmt.Sprintf("%d written to the cache", u.CacheWriteTokens))
	}
	if of == nil {
		return ""
	}
	return " (" + strings.Join(of, ", ") + ")"
}

// noted returns a run on an engine with what keeps it from continuing. Of a run whose worker does not answer there is
// no journal: then that is said, and not what is missing in it.
func (l looked) noted(ctx context.Context, run *history.Run) (*history.Run, []string, error) {
	notes, err := l.cluster.Notes(ctx, l.id)
	if err != nil || len(run.Executions) > 0 || run.Status == history.Queued {
		return run, notes, err
	}
	plain := *run
	plain.Diagnostics = nil
	return &plain, append(notes, "no worker answers, so the steps of the run are not known"), nil
}

// executionText words who executed a run, and for how long.
func executionText(x history.Execution) string {
	text := actText(history.Act{At: x.From, By: x.By})
	if !x.To.IsZero() {
		text += " in " + tookText(x.From, x.To)
	}
	return text + ", on " + checkpoint.Lease{Owner: x.Owner}.Holder()
}

// actText words what a person did.
func actText(a history.Act) string {
	text := terminal.LocalTime(a.At)
	if a.By != "" {
		text += " by " + a.By
	}
	for _, t := range []string{a.Decision, a.Reason} {
		if t != "" {
			text += ": " + terminal.Cut(t)
		}
	}
	return text
}
