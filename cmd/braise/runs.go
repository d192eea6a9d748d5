package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs COMMAND",
		Short: "What the store knows of runs, and what can be done about them",
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
	cmd.AddCommand(a.runsList(), a.runsShow(), a.runsTrace(), a.runsWatch(), a.runsCancel(), a.runsRecover(), a.runsAnswer(),
		a.runsSend(), a.runsSweep(), a.runsFork(), a.runsPrune(), a.runsRepair(), a.runsExport())
	return cmd
}

// withStore opens the store for a command that only looks at what is there, or tidies it up: of the
// configuration it needs no more than the store's place.
func (a *app) withStore(cmd *cobra.Command, do func(ctx context.Context, store checkpoint.Store) error) error {
	if a.store == "" {
		path := a.config
		var err error
		if path == "" {
			path, err = host.FindConfig("")
		}
		if err == nil && path != "" {
			a.looking = true
			_, err = a.runtimeFor("")
		}
		if err != nil {
			return a.refuse(nil, err)
		}
	}
	store, err := a.openStore(cmd.Context(), true)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, stop, why := a.interruptible(cmd.Context())
	defer stop()
	err = do(ctx, store)
	if reason := why(); reason != nil {
		return exit(reason.code)
	}
	return err
}

// fail ends a command for which the store does not have what it needs.
func (a *app) fail(runID string, err error) error {
	out := failure(runID, err)
	if a.output != "human" {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return &exitError{exitCode(out, nil), err}
}

// runInfo is a run as list and show print it.
type runInfo struct {
	RunID     string    `json:"runId"`
	Recipe    string    `json:"recipe"`
	Status    string    `json:"status"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Pauses    int       `json:"pauses"`
}

// The statuses that a store does not tell apart: whether somebody holds the run does.
const (
	runRunning     = "running"
	runInterrupted = "interrupted"
)

// infoOf is what a store knows about a run. One that is running and that nobody holds was interrupted.
func infoOf(sum checkpoint.Summary) runInfo {
	info := runInfo{sum.ID, sum.Recipe, string(sum.Status), sum.StartedAt, sum.EndedAt, len(sum.Pauses)}
	if sum.Status == checkpoint.Running && !sum.Held {
		info.Status = runInterrupted
	}
	return info
}

// statuses are those that runs can have.
var statuses = []string{runRunning, runInterrupted, string(checkpoint.Paused), string(checkpoint.OK), string(checkpoint.Failed), string(checkpoint.Cancelled)}

func (a *app) runsList() *cobra.Command {
	var status, recipe string
	limit := 0
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Args:  exactly(0, "runs list takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if status != "" || cmd.Flags().Changed("status") {
				if err := oneOf("status", status, statuses...); err != nil {
					return err
				}
			}
			if limit < 0 {
				return usageError("--limit is %d; the least is 0, for all", limit)
			}
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				f := checkpoint.Filter{Status: checkpoint.Status(status), Recipe: recipe, Limit: limit}
				if status == runRunning || status == runInterrupted { // the store does not tell them apart
					f.Status, f.Limit = checkpoint.Running, 0
				}
				sums, storeErr := store.List(ctx, f)
				list := []runInfo{}
				for _, sum := range sums {
					if info := infoOf(sum); (status == "" || info.Status == status) && (limit == 0 || len(list) < limit) {
						list = append(list, info)
					}
				}
				if storeErr != nil && len(list) == 0 {
					return a.fail("", storeErr)
				}
				if err := a.printRuns(list); err != nil || storeErr == nil {
					return err
				}
				return &exitError{exitInternal, storeErr} // runs that cannot be read do not hide the others
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only runs with this status: "+strings.Join(statuses, ", "))
	cmd.Flags().StringVar(&recipe, "recipe", "", "only runs of the recipe with this name")
	cmd.Flags().IntVar(&limit, "limit", 0, "only so many of the newest; 0 is all")
	return cmd
}

func (a *app) printRuns(list []runInfo) error {
	if a.output != "human" {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tRECIPE\tSTATUS\tSTARTED\tENDED\tPAUSES")
	for _, r := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", r.RunID, visible(r.Recipe), r.Status, localTime(r.StartedAt), localTime(r.EndedAt), r.Pauses)
	}
	w.Flush()
	return nil
}

// localTime is a time for people; "-" when there is none.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// runDetails is a run as show prints it.
type runDetails struct {
	runInfo
	Pauses    []resume.Pause      `json:"pauses"` // without tokens
	Digest    string              `json:"digest"`
	Parent    string              `json:"parent,omitempty"`
	UpdatedAt time.Time           `json:"updatedAt"`
	Steps     []workflow.PastStep `json:"steps"`
}

func (a *app) runsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "What a run is, what it waits for, and its steps so far",
		Args:  exactly(1, "runs show takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				sum, past, err := loadPast(ctx, store, args[0])
				if err != nil {
					return a.fail(args[0], err)
				}
				d := runDetails{runInfo: infoOf(sum), Pauses: []resume.Pause{}, Digest: sum.Digest, Parent: sum.Parent, UpdatedAt: sum.UpdatedAt, Steps: past.Steps}
				for _, p := range sum.Pauses {
					if opened, ok := past.Pauses[p.ID]; ok {
						d.Pauses = append(d.Pauses, opened)
					}
				}
				if a.output != "human" {
					return a.printJSON(d)
				}
				a.printDetails(d)
				return nil
			})
		},
	}
}

func (a *app) printDetails(d runDetails) {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" && text != "-" {
			fmt.Fprintf(w, "%s\t%s\n", visible(name), visible(text))
		}
	}
	row("run", d.RunID)
	row("recipe", d.Recipe)
	row("digest", d.Digest)
	row("status", d.Status)
	row("forked from", d.Parent)
	row("started", localTime(d.StartedAt))
	row("updated", localTime(d.UpdatedAt))
	row("ended", localTime(d.EndedAt))
	for _, s := range d.Steps {
		text := s.Status
		if s.Error != "" {
			text += ": " + cut(s.Error)
		}
		if s.Agent != nil {
			text += fmt.Sprintf(", step %d, tokens %d in, %d out", s.Agent.Step, s.Agent.Usage.InputTokens, s.Agent.Usage.OutputTokens)
		}
		row("step "+s.Step, text)
		if s.Agent != nil {
			for _, c := range s.Agent.Calls {
				at := "asks the model"
				if c.Call > 0 {
					at = fmt.Sprintf("at call %d: %s", c.Call, c.Tool)
				}
				row("  "+c.Path, at)
			}
		}
	}
	for _, p := range d.Pauses {
		text := string(p.Kind)
		for _, t := range []string{p.Reason, p.Prompt} {
			if t != "" {
				text += ": " + cut(t)
			}
		}
		row("pause "+p.ID, text)
	}
	w.Flush()
	if len(d.Pauses) > 0 {
		fmt.Fprintf(a.stdout, "to answer: braise runs answer %s PAUSE%s\n", d.RunID, a.sameFlags())
	}
}

// newPast reads journals of a store.
func newPast(ctx context.Context, store checkpoint.Store) *workflow.Past {
	return workflow.NewPast(func(digest string) *recipe.Recipe {
		text, err := store.Definition(ctx, digest)
		if err != nil {
			return nil // less is told then
		}
		r, _ := recipe.FromDefinition(text)
		return r
	})
}

// loadPast reads the whole journal of a run.
func loadPast(ctx context.Context, store checkpoint.Store, runID string) (checkpoint.Summary, *workflow.Past, error) {
	sum, recs, err := store.Load(ctx, runID, 0)
	if err != nil {
		return sum, nil, err
	}
	past := newPast(ctx, store)
	for _, rec := range recs {
		past.Add(rec)
	}
	return sum, past, nil
}

func (a *app) runsTrace() *cobra.Command {
	return &cobra.Command{
		Use:   "trace RUN",
		Short: "The events of a run, of all its legs, as its journal has them",
		Args:  exactly(1, "runs trace takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				_, past, err := loadPast(ctx, store, args[0])
				if err != nil {
					return a.fail(args[0], err)
				}
				if a.output == "json" {
					return a.printJSON(past.Events)
				}
				return a.printEvents(past.Events)
			})
		},
	}
}

// printEvents prints a line for each event.
func (a *app) printEvents(events []trace.Event) error {
	for _, e := range events {
		if a.output == "human" {
			fmt.Fprintf(a.stdout, "%s %s\n", e.At.Local().Format("2006-01-02 15:04:05.000"), visible(e.Line()))
		} else if err := a.printJSON(e); err != nil {
			return err
		}
	}
	return nil
}

// watchTime is how often watch looks for more.
const watchTime = 500 * time.Millisecond

func (a *app) runsWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch RUN",
		Short: "Print the events of a run as they are recorded, until it ends",
		Args:  exactly(1, "runs watch takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				past := newPast(ctx, store)
				for seq := int64(0); ; {
					sum, recs, err := store.Load(ctx, args[0], seq)
					if err != nil {
						return a.fail(args[0], err)
					}
					before := len(past.Events)
					for _, rec := range recs {
						past.Add(rec)
					}
					if a.output != "json" {
						if err := a.printEvents(past.Events[before:]); err != nil {
							return err
						}
					}
					seq += int64(len(recs))
					if sum.Status.Ended() {
						if a.output == "json" {
							if err := a.printJSON(past.Events); err != nil {
								return err
							}
						}
						return exit(map[checkpoint.Status]int{checkpoint.Failed: exitFailed, checkpoint.Cancelled: exitCancelled}[sum.Status])
					}
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(watchTime):
					}
				}
			})
		},
	}
}

func (a *app) runsRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover RUN",
		Short: "Go on with a run whose process died; of one that has ended, print the outcome again",
		Args:  exactly(1, "runs recover takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.goOn(cmd.Context(), args[0], changed{}, func(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions) *workflow.Outcome {
				out, _ := workflow.Recover(ctx, args[0], rt, opts)
				return out
			})
		},
	}
	a.addIncomplete(cmd)
	return cmd
}

func (a *app) runsCancel() *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run for good that waits or was interrupted: what it did is rolled back",
		Args:  exactly(1, "runs cancel takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := false
			err := a.goOn(cmd.Context(), args[0], changed{}, func(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions) *workflow.Outcome {
				out, _ := workflow.Cancel(ctx, args[0], reason, rt, opts)
				done = out.Status == workflow.StatusCancelled && ctx.Err() == nil
				return out
			})
			if e, ok := errors.AsType[*exitError](err); ok && e.code == exitCancelled && done {
				return nil // as was asked for
			}
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people")
	return cmd
}

func (a *app) runsAnswer() *cobra.Command {
	flags := &answerFlags{}
	cmd := &cobra.Command{
		Use:   "answer RUN PAUSE",
		Short: "Answer a pause by name instead of a token, and go on with the run",
		Args:  exactly(2, "runs answer takes a run and a pause"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.read(a, cmd); err != nil {
				return err
			}
			return a.goOn(cmd.Context(), args[0], changed{}, func(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions) *workflow.Outcome {
				answering := *rt
				answering.Resume = flags
				out, _ := workflow.Answer(ctx, args[0], args[1], nil, &answering, opts)
				return out
			})
		},
	}
	flags.add(cmd)
	a.addIncomplete(cmd)
	return cmd
}

// sweepTime is how often sweep --watch looks for what is due.
const sweepTime = time.Second

func (a *app) runsSweep() *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Go on with every run in which something is due: a wait that is over, a pause that has expired",
		Args:  exactly(0, "runs sweep takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rt, err := a.runtimeFor("")
			if err != nil {
				return a.refuse(nil, err)
			}
			if rt.Store, err = a.openStore(cmd.Context(), !watch); err != nil {
				return err
			}
			defer rt.Store.Close()
			rt.Reporter, rt.Resume = silent{}, resume.PassThrough{}
			disconnect, err := a.connect(cmd.Context(), nil, rt) // which runs there will be is not known
			if err != nil {
				return err
			}
			defer disconnect()
			ctx, stop, why := a.interruptible(cmd.Context())
			defer stop()
			flush, err := a.export(ctx, rt)
			if err != nil {
				return &exitError{exitInternal, err}
			}
			defer flush()
			err = a.sweep(ctx, rt, watch)
			if reason := why(); reason != nil {
				return exit(reason.code)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on looking, until a signal comes")
	return cmd
}

// sweep goes on with what is due, and prints how each run ended: in JSON a list of outcomes, with --watch or
// jsonl one a line.
func (a *app) sweep(ctx context.Context, rt *runtime.Runtime, watch bool) error {
	for {
		outcomes, err := workflow.Sweep(ctx, rt, nil)
		for _, out := range outcomes {
			if err := a.printSwept(out, watch); err != nil {
				return err
			}
		}
		if a.output == "json" && !watch && err == nil {
			if err := a.printJSON(append([]*workflow.Outcome{}, outcomes...)); err != nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			return a.fail("", err)
		}
		if !watch || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepTime):
		}
	}
}

func (a *app) printSwept(out *workflow.Outcome, watch bool) error {
	switch {
	case a.output == "human":
		text := string(out.Status)
		if out.Err != nil {
			text += ": " + cut(out.Err.Error())
		}
		fmt.Fprintf(a.stdout, "%s %s\n", out.RunID, visible(text))
	case a.output == "jsonl" || watch:
		text, err := out.Summary()
		if err != nil {
			return &exitError{exitInternal, err}
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	}
	return nil
}

func (a *app) runsFork() *cobra.Command {
	var at, inputsJSON string
	var outputs []string
	cmd := &cobra.Command{
		Use:   "fork RUN --at STEP",
		Short: "Begin a new run that shares with another one what came before a step",
		Long: "Fork begins a new run: the step and all that follows from it run again, what else had succeeded stands. The old\n" +
			"run is not touched.",
		Args: exactly(1, "runs fork takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if at == "" {
				return usageError("runs fork needs --at STEP")
			}
			edits := workflow.Edits{}
			if cmd.Flags().Changed("inputs-json") {
				var err error
				if edits.Inputs, err = a.readInputs(inputsJSON); err != nil {
					return a.refuse(nil, err)
				}
			}
			for _, o := range outputs {
				step, text, ok := strings.Cut(o, "=")
				if !ok || step == "" {
					return usageError("--set-output is %q; it is given as STEP=JSON", o)
				}
				v, err := a.readJSON(text)
				if err != nil {
					return a.refuse(nil, inputError("--set-output: step %q: %v", step, err))
				}
				if edits.Outputs == nil {
					edits.Outputs = map[string]any{}
				}
				edits.Outputs[step] = v
			}
			return a.goOn(cmd.Context(), args[0], changed{}, func(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions) *workflow.Outcome {
				out, _ := workflow.Fork(ctx, args[0], at, edits, rt, opts)
				return out
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the step at which the new run begins")
	cmd.Flags().StringVar(&inputsJSON, "inputs-json", "", "other inputs, as a JSON object, or @FILE, or @- for stdin; everything runs again then")
	cmd.Flags().StringArrayVar(&outputs, "set-output", nil, "STEP=JSON: what a finished step gave, otherwise than it did (repeatable)")
	return cmd
}

func (a *app) runsPrune() *cobra.Command {
	age := 30 * 24 * time.Hour
	var only []string
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove runs that ended long ago",
		Args:  exactly(0, "runs prune takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age < 0 {
				return usageError("--older-than may not be negative")
			}
			var wanted []checkpoint.Status
			for _, s := range only {
				if err := oneOf("status", s, statuses[1:]...); err != nil {
					return err
				}
				if s == runInterrupted {
					s = runRunning // those that somebody holds stay
				}
				wanted = append(wanted, checkpoint.Status(s))
			}
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				n, err := store.Prune(ctx, time.Now().Add(-age), wanted...)
				if err != nil {
					return a.fail("", fmt.Errorf("%d runs removed, then: %w", n, err))
				}
				if a.output != "human" {
					return a.printJSON(map[string]int{"removed": n})
				}
				fmt.Fprintf(a.stdout, "%d removed\n", n)
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&age, "older-than", age, "how long ago the last thing was recorded")
	cmd.Flags().StringArrayVar(&only, "status", nil, "runs of this status: "+strings.Join(statuses[1:], ", ")+" (repeatable; default ok, error, cancelled)")
	return cmd
}

func (a *app) runsRepair() *cobra.Command {
	return &cobra.Command{
		Use:   "repair RUN",
		Short: "Cut off the unfinished write at the end of a journal (store jsonl:)",
		Args:  exactly(1, "runs repair takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				r, ok := store.(checkpoint.Repairer)
				if !ok {
					return usageError("this store needs no repair: its writes are whole or not there")
				}
				n, err := r.Repair(ctx, args[0])
				if err != nil {
					return a.fail(args[0], err)
				}
				if a.output != "human" {
					return a.printJSON(map[string]any{"runId": args[0], "bytes": n})
				}
				fmt.Fprintf(a.stdout, "%d bytes cut off\n", n)
				return nil
			})
		},
	}
}

func (a *app) runsExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export RUN",
		Short: "Print the journal of a run, a record a line",
		Args:  exactly(1, "runs export takes one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, store checkpoint.Store) error {
				_, recs, err := store.Load(ctx, args[0], 0)
				if err != nil {
					return a.fail(args[0], err)
				}
				for _, rec := range recs {
					a.stdout.Write(append(rec.AppendLine(nil), '\n'))
				}
				return nil
			})
		},
	}
}
