package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

func (a *app) doctorCommand() *cobra.Command {
	call := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: configuration, models, tools, MCP servers, secrets, telemetry, store, versions",
		Long: "Doctor checks everything that the configuration names. It asks endpoints of models for their list of\n" +
			"models, which costs nothing, asks MCP servers for their tools, and connects to the telemetry\n" +
			"collector. It calls no tools, sends no telemetry, and calls models only with --call.",
		Example: `  braise doctor
  braise doctor --call
  braise doctor --config prod/braise.yaml --output json`,
		Args: exactly(0, "doctor takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, code := a.examine(cmd.Context(), call)
			if err := a.printChecks(checks); err != nil {
				return err
			}
			return exit(code)
		},
	}
	cmd.Flags().BoolVar(&call, "call", false,
		"ask each model for one word, which costs a few tokens; print latency, model, tokens and cost")
	return cmd
}

// examine checks the installation, and with call asks its models. The exit code says whether runs can begin with its
// configuration, and whether something that it names is missing.
func (a *app) examine(ctx context.Context, call bool) (checks []host.Check, code int) {
	v := version()
	checks = []host.Check{{Part: "version", Status: host.CheckOK,
		Message: fmt.Sprintf("braise %s, %s, recipe format %s", v.Version, v.Go, v.Format)}}
	opts := &host.Options{Config: a.config, Store: a.store, Models: a.models}
	found, err := opts.Examine(ctx)
	if err == nil {
		found = append(found, a.examineOpen(ctx, call)...)
	}
	switch {
	case err != nil:
		code = host.ExitInvalid
	case slices.ContainsFunc(found, func(c host.Check) bool { return c.Status == host.CheckFail }):
		code = host.ExitMissing
	}
	return append(checks, found...), code
}

// health is what doctor prints as JSON.
type health struct {
	Status host.CheckStatus `json:"status"` // the worst of the checks
	Checks []host.Check     `json:"checks"`
}

func (a *app) printChecks(checks []host.Check) error {
	result := health{host.CheckOK, checks}
	for _, c := range checks {
		if c.Status == host.CheckFail || c.Status == host.CheckWarn && result.Status == host.CheckOK {
			result.Status = c.Status
		}
	}
	if a.output != "human" {
		return a.printJSON(result)
	}
	for _, c := range checks {
		if a.quiet && c.Status == host.CheckOK {
			continue
		}
		what := c.Part
		if c.Name != "" {
			what += " " + c.Name
		}
		if c.Usage != nil && c.Usage.CostUSD > 0 {
			c.Message += "; " + terminal.Dollars(c.Usage.CostUSD)
		}
		fmt.Fprintf(a.stdout, "%-4s  %s: %s\n", c.Status, terminal.Visible(what), terminal.Visible(c.Message))
		if c.Hint != "" {
			fmt.Fprintf(a.stdout, "      hint: %s\n", terminal.Visible(c.Hint))
		}
	}
	return nil
}
