package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// schemas are the JSON Schemas by the names that the command gives them.
var schemas = map[string]func() []byte{
	"recipe":   recipe.Schema,
	"outcome":  workflow.OutcomeSchema,
	"event":    trace.EventSchema,
	"snapshot": trace.SnapshotSchema,
	"config":   host.ConfigSchema,
	"kinds":    func() []byte { return kindsSchema },
}

func (a *app) schemaCommand() *cobra.Command {
	names := []string{"recipe", "outcome", "event", "snapshot", "config", "kinds"}
	return &cobra.Command{
		Use:       "schema [NAME]",
		Short:     "Print a JSON Schema: of recipes, outcomes, events, snapshots of agents, braise.yaml or kinds",
		Long:      "Schema prints a JSON Schema, by default recipe. NAME is " + strings.Join(names, ", ") + ".",
		Example:   "  braise schema > recipe.schema.json\n  braise schema config > braise.schema.json",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError("schema takes one name, not %d", len(args))
			case len(args) == 1 && schemas[args[0]] == nil:
				return usageError("no schema is named %q\n  hint: %s", args[0], diagnostics.DidYouMean(args[0], names))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := "recipe"
			if len(args) == 1 {
				name = args[0]
			}
			a.stdout.Write(schemas[name]())
			return nil
		},
	}
}
