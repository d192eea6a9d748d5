package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// planFormats are the formats of plan.
var planFormats = []string{"text", "json", "mermaid", "dot", "svg"}

// planFlags are the flags of plan.
type planFlags struct {
	format  string
	reduced bool
	why     bool // FILE is followed by two steps
	draw    workflow.DrawOptions
}

// picturesOnly are the flags of plan that are about pictures as SVG.
var picturesOnly = []string{"direction", "open", "around", "hops"}

func (a *app) planCommand() *cobra.Command {
	f := planFlags{format: "text"}
	cmd := &cobra.Command{
		Use:   "plan FILE [--why A B]",
		Short: "Show the execution plan without running anything",
		Long: fmt.Sprintf(`Plan prints what a run would do: the steps in order, what each waits for, and what the recipe
needs. It calls nothing.

With --why A B it prints the paths by which step B waits for step A: one per line, with the kind of each
edge, the shortest first, at most %d. Steps in bodies are named by their paths: both/left/ask.

With --format svg it draws a picture. Bodies are boxes in plans of up to 60 steps; in larger ones
only those that --open names. --around STEP draws the steps up to --hops edges away from a step.`, workflow.MaxWays),
		Example: `  braise plan recipe.yaml
  braise plan recipe.yaml --why fetch report
  braise plan recipe.yaml --format dot --reduced | dot -Tsvg > plan.svg
  braise plan recipe.yaml --format svg --direction LR > plan.svg`,
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
			for _, name := range picturesOnly {
				if f.format != "svg" && cmd.Flags().Changed(name) {
					return usageError("--%s is for --format svg", name)
				}
			}
			if err := oneOf("direction", f.draw.Direction, "TB", "LR"); err != nil {
				return err
			}
			if f.draw.Hops < 1 {
				return usageError("--hops must be 1 or more, not %d", f.draw.Hops)
			}
			return a.plan(cmd.Context(), args, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", f.format, "text, json, mermaid, dot or svg")
	flags.BoolVar(&f.reduced, "reduced", false,
		fmt.Sprintf("leave out the edges that follow from others; for up to %d steps", workflow.MaxReduced))
	flags.StringVar(&f.draw.Direction, "direction", "TB", "direction of edges: TB (down) or LR (to the right)")
	flags.StringSliceVar(&f.draw.Open, "open", nil, "the steps whose bodies are drawn as boxes, by path")
	flags.StringVar(&f.draw.Around, "around", "", "draw only the steps near this one, named by its path")
	flags.IntVar(&f.draw.Hops, "hops", 3, "maximum distance from the step of --around, in edges")
	flags.BoolVar(&f.why, "why", false, "print the paths from step A to step B, which follow FILE")
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
	rt.Approver = a.newApprover(nil, s.person(rt))
	a.printDiagnostics(slices.Concat(wf.Diagnostics, wf.Unapproved(rt)))
	if lacks, err := wf.Check(ctx, rt); err == nil {
		s.sayNoConfig(lacks)
	}
	plan := wf.Plan().With(rt)
	plan.Agents = wf.ToolsOfAgents(rt)
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
	case "svg":
		if err := f.drawsSteps(plan); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s", plan.Draw(&f.draw).SVG())
	default:
		fmt.Fprint(a.stdout, plan.Text())
		if steps := choosers(wf.Recipe().All(), ""); steps != nil {
			fmt.Fprintf(a.stdout, "needs models that expressions name, in %s\n", strings.Join(steps, ", "))
		}
	}
	return nil
}

// drawsSteps checks that the plan has the steps that the flags of a picture name.
func (f *planFlags) drawsSteps(plan *workflow.Plan) error {
	var paths []string
	var add func(steps []workflow.PlanStep)
	add = func(steps []workflow.PlanStep) {
		for i := range steps {
			paths = append(paths, steps[i].ID)
			add(steps[i].Body)
		}
	}
	add(plan.Steps)
	for _, name := range append(slices.Clone(f.draw.Open), f.draw.Around) {
		if name != "" && !slices.Contains(paths, name) {
			hint := ""
			if guess := diagnostics.DidYouMean(name, paths); guess != "" {
				hint = "\n  hint: " + guess
			}
			return usageError("the plan has no step %q%s", name, hint)
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
