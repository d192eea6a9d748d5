package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
)

func (a *app) runsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: its pending pauses and its steps so far",
		Example: `  braise runs show last
  braise runs show 01a2fee6 --output json`,
		Args: exactly(1, "runs show takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				run, err := history.Load(ctx, l.runs, l.id)
				if err != nil {
					return err
				}
				var notes []string
				if l.cluster != nil {
					if run, notes, err = l.noted(ctx, run); err != nil {
						return err
					}
				}
				if a.output != "human" {
					return a.printJSON(struct {
						*history.Run
						Notes []string `json:"notes,omitempty"`
					}{run, notes})
				}
				if origin, err := history.Origin(ctx, l.runs, l.id); err == nil && l.cluster == nil {
					l.found = l.host.ConfigOf(origin)
				}
				a.printDiagnostics(run.Diagnostics)
				l.printRun(run, notes)
				return nil
			})
		},
	}
}

func (s *session) printRun(run *history.Run, notes []string) {
	w := tabwriter.NewWriter(s.stdout, 0, 4, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" && text != "-" {
			fmt.Fprintf(w, "%s\t%s\n", terminal.Visible(name), terminal.Visible(text))
		}
	}
	row("run", run.RunID)
	row("recipe", run.Recipe)
	row("digest", run.Digest)
	row("status", string(run.Status))
	for _, note := range notes {
		row("note", note)
	}
	row("error", errorText(&run.About))
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
	row("ended", terminal.LocalTime(run.EndedAt))
	if u := run.Usage; u != (checkpoint.Usage{}) {
		calls := "calls"
		if u.Calls == 1 {
			calls = "call"
		}
		text := fmt.Sprintf("%d %s, tokens %d in%s, %d out", u.Calls, calls, u.InputTokens, cachedText(&u),
			u.OutputTokens)
		if u.Micros > 0 {
			text += ", " + terminal.Dollars(float64(u.Micros)/1e6)
		}
		row("models", text)
	}
	for i, x := range run.Executions[min(1, len(run.Executions)):] { // the first one is the start
		row(fmt.Sprintf("execution %d", i+2), executionText(x))
	}
	for _, step := range run.Steps {
		row("step "+step.Step, stepText(&step))
		if step.Agent != nil {
			for _, c := range step.Agent.Calls {
				at := "asks the model"
				if c.Call > 0 {
					at = fmt.Sprintf("at call %d: %s", c.Call, c.Tool)
				}
				row("  "+c.Path, at)
			}
		}
	}
	for _, a := range run.Acts[min(1, len(run.Acts)):] {
		row(strings.TrimRight(a.What+" "+a.Pause+a.Channel, " "), actText(a))
	}
	for _, p := range run.Pauses {
		text := string(p.Kind)
		for _, t := range []string{p.Reason, p.Prompt} {
			if t != "" {
				text += ": " + terminal.Cut(t)
			}
		}
		row("pause "+p.ID, text)
	}
	w.Flush()
	for _, p := range run.Pauses {
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
		text += lengthText(x.From, x.To)
	}
	return text + ", on " + checkpoint.Lease{Owner: x.Owner}.Holder()
}

// lengthText words a length of time; "": less than a second.
func lengthText(from, to time.Time) string {
	if took := to.Sub(from).Round(100 * time.Millisecond); took >= time.Second {
		return " in " + took.String()
	}
	return ""
}

// stepText words how far a step has come.
func stepText(step *history.Step) string {
	text := step.Status
	if step.Reason != "" {
		text += " (" + step.Reason + ")"
	}
	if !step.EndedAt.IsZero() {
		text += lengthText(step.StartedAt, step.EndedAt)
	}
	if step.Error != "" {
		text += ": " + terminal.Cut(step.Error)
	}
	for i, status := range slices.Sorted(maps.Keys(step.Items)) {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		text += fmt.Sprintf("%s%d %s", separator, step.Items[status], status)
	}
	if step.Agent != nil {
		text += fmt.Sprintf(", step %d, tokens %d in, %d out",
			step.Agent.Step, step.Agent.Usage.InputTokens, step.Agent.Usage.OutputTokens)
	}
	return text
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
