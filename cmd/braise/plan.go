package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// planFormats are the formats of plan.
var planFormats = []string{"text", "json", "mermaid", "dot"}

// planFlags are the flags of plan.
type planFlags struct {
	format  string
	reduced bool
	why     bool // FILE is followed by two steps
}

func (a *app) planCommand() *cobra.Command {
	f := planFlags{format: "text"}
	cmd := &cobra.Command{
		Use:   "plan FILE [--why A B]",
		Short: "Show the execution plan without running anything",
		Long: fmt.Sprintf(`Plan prints what a run would do: the steps in order, what each waits for, and what the recipe
needs. Nothing is called.

With --why A B it prints the ways on which step B waits for step A: a line each, with the kind of each
edge, the shortest first, at most %d. Steps in bodies are named by their paths: both/left/ask.`, workflow.MaxWays),
		Example: `  braise plan recipe.yaml
  braise plan recipe.yaml --why fetch report
  braise plan recipe.yaml --format dot --reduced | dot -Tsvg > plan.svg`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.why && len(args) != 3:
				return usageError("plan --why takes one recipe file and two steps")
			case !f.why && len(args) != 1:
				return oneRecipe(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", f.format, planFormats...); err != nil {
				return err
			}
			if a.output != "human" && !cmd.Flags().Changed("format") {
				f.format = "json"
			}
			if f.why && f.format != "text" && f.format != "json" {
				return usageError("plan --why has the formats text and json")
			}
			return a.plan(cmd.Context(), args, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", f.format, "text, json, mermaid or dot")
	flags.BoolVar(&f.reduced, "reduced", false,
		fmt.Sprintf("leave out the edges that follow from others; for up to %d steps", workflow.MaxReduced))
	flags.BoolVar(&f.why, "why", false, "print the ways from step A to step B, which follow FILE")
	return cmd
}

// plan prints the plan of a recipe, or the ways between two of its steps.
func (a *app) plan(ctx context.Context, args []string, f *planFlags) error {
	if f.why && isNoFile(args[0]) && !isNoFile(args[2]) { // plan --why A B FILE
		args = []string{args[2], args[0], args[1]}
	}
	path := recipePath(args[0])
	s, err := a.open(ctx, host.Options{Recipe: path})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close()
	wf, rt, err := s.host.Look(path)
	if err != nil {
		return a.refuse(nil, err)
	}
	rt.Approver = a.newApprover(nil)
	a.printDiagnostics(slices.Concat(wf.Diagnostics, wf.Unapproved(rt)))
	plan := wf.Plan()
	if f.reduced {
		if plan, err = plan.Reduced(); err != nil {
			return usageError("%w", err)
		}
	}
	if f.why {
		ways, err := plan.Why(args[1], args[2])
		switch {
		case err != nil:
			return usageError("%w", err)
		case f.format == "json":
			return a.printJSON(ways)
		}
		fmt.Fprint(a.stdout, ways.Text())
		return nil
	}
	switch f.format {
	case "json":
		return a.printJSON(planWithCapabilities{plan, rt.Resolve().Capabilities()})
	case "mermaid":
		fmt.Fprint(a.stdout, plan.Mermaid())
	case "dot":
		fmt.Fprint(a.stdout, plan.DOT())
	default:
		fmt.Fprint(a.stdout, plan.Text())
		if steps := choosers(wf.Recipe().Steps, ""); steps != nil {
			fmt.Fprintf(a.stdout, "needs models that expressions name, in %s\n", strings.Join(steps, ", "))
		}
	}
	return nil
}

func isNoFile(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// planWithCapabilities is a plan with what the host offers for it.
type planWithCapabilities struct {
	*workflow.Plan
	Capabilities []runtime.Capability `json:"capabilities"`
}

// choosers are the paths of the steps whose model an expression names: the plan cannot list it.
func choosers(steps []recipe.Step, prefix string) []string {
	var paths []string
	for _, s := range steps {
		if f := s.With.Field("model"); f != nil && s.Uses.Text == "model" {
			if f.Value.HasExpression() {
				paths = append(paths, prefix+s.ID)
			}
		}
		for name, b := range s.Bodies() {
			inside := prefix + s.ID + "/"
			if name != "" {
				inside += name + "/"
			}
			paths = append(paths, choosers(b.All(), inside)...)
		}
	}
	return paths
}
