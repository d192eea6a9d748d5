package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
				run, err := history.Load(ctx, l.store, l.id)
				if err != nil {
					return err
				}
				if a.output != "human" {
					return a.printJSON(run)
				}
				if origin, err := history.Origin(ctx, l.store, l.id); err == nil {
					l.found = l.host.ConfigOf(origin)
				}
				l.printRun(run)
				return nil
			})
		},
	}
}

func (s *session) printRun(run *history.Run) {
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
	row("forked from", run.Parent)
	started := history.Act{At: run.StartedAt}
	if len(run.Acts) > 0 {
		started.By = run.Acts[0].By
	}
	row("started", actText(started))
	row("updated", terminal.LocalTime(run.UpdatedAt))
	row("ended", terminal.LocalTime(run.EndedAt))
	for _, step := range run.Steps {
		text := step.Status
		if step.Error != "" {
			text += ": " + terminal.Cut(step.Error)
		}
		if step.Agent != nil {
			text += fmt.Sprintf(", step %d, tokens %d in, %d out",
				step.Agent.Step, step.Agent.Usage.InputTokens, step.Agent.Usage.OutputTokens)
		}
		row("step "+step.Step, text)
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
		s.printCommand(s.stdout, "runs answer "+run.RunID+" "+quoted(terminal.Visible(p.ID)), p)
	}
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
