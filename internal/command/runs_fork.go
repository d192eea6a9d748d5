package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/workflow"
)

func (a *app) runsFork() *cobra.Command {
	var at, inputsJSON string
	var outputs []string
	cmd := &cobra.Command{
		Use:   "fork RUN --at STEP",
		Short: "Start a new run that shares everything before a step with another one",
		Long: "Fork starts a new run from an old one: the step, and all steps that depend on it, run again; the\n" +
			"results of other steps are kept. The old run does not change.",
		Example: `  braise runs fork last --at report
  braise runs fork last --at report --set-output fetch='{"rows": 3}'`,
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
			return a.resumeRun(cmd, args[0],
				func(ctx context.Context, e execution) (*workflow.Outcome, error) {
					return workflow.Fork(ctx, e.runID, at, edits, e.rt, e.opts)
				}, nil)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the step at which the new run starts")
	cmd.Flags().StringVar(&inputsJSON, "inputs-json", "",
		"new inputs as a JSON object, or @FILE, or @- for stdin; then everything runs again")
	cmd.Flags().StringArrayVar(&outputs, "set-output", nil,
		"STEP=JSON: a new output for a finished step (repeatable)")
	return cmd
}
