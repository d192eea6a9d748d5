package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func (a *app) planCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print what a run would do: steps in order, edges, needs; nothing is called",
		Args:  exactly(1, "plan takes one recipe file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, "text", "json", "mermaid", "dot"); err != nil {
				return err
			}
			if a.output != "human" && !cmd.Flags().Changed("format") {
				format = "json"
			}
			s, err := a.open(cmd.Context(), host.Options{Recipe: args[0]})
			if err != nil {
				return a.refuse(nil, err)
			}
			defer s.close()
			wf, rt, err := s.host.Look(args[0])
			if err != nil {
				return a.refuse(nil, err)
			}
			a.printFindings(wf.Diagnostics)
			plan := wf.Plan()
			switch format {
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
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "text, json, mermaid or dot")
	return cmd
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
			if text, ok := f.Value.Scalar.(string); ok && strings.Contains(text, "${{") {
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
