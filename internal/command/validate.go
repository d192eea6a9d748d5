package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

// validateFormats are the formats of validate.
var validateFormats = []string{"text", "github", "sarif"}

func (a *app) validateCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Report all mistakes in recipes, without running them",
		Example: `  braise validate recipe.yaml
  braise validate demo recipes/*.yaml
  braise validate demo --format github`,
		Args: atLeastOne("validate takes recipe files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, validateFormats...); err != nil {
				return err
			}
			if a.output != "human" && cmd.Flags().Changed("format") {
				return usageError("--format and --output %s exclude each other", a.output)
			}
			list := diagnostics.List{}
			for i, path := range args {
				args[i] = recipePath(path)
				list = append(list, a.validate(cmd.Context(), args[i], format)...)
			}
			list.Sort()
			if err := a.printValidity(list, format, args); err != nil {
				return err
			}
			if list.HasErrors() {
				return exit(host.ExitInvalid)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "text, github (workflow annotations) or sarif")
	return cmd
}

// printValidity prints what validate found: for people on stderr, for machines on stdout.
func (a *app) printValidity(list diagnostics.List, format string, paths []string) error {
	switch {
	case format == "github":
		diagnostics.WriteGitHub(a.stdout, list) // a failed write is remembered
	case format == "sarif":
		diagnostics.WriteSARIF(a.stdout, list, "braise", version().Version)
	case a.output != "human":
		return a.printJSON(validity{!list.HasErrors(), list})
	default:
		a.printDiagnostics(list)
		if !list.HasErrors() && !a.quiet {
			fmt.Fprintf(a.stdout, "%s: valid\n", strings.Join(paths, ", "))
		}
	}
	return nil
}

// validity is what validate prints as JSON.
type validity struct {
	Valid       bool             `json:"valid"`
	Diagnostics diagnostics.List `json:"diagnostics"`
}

// validate returns what is wrong with a recipe and its configuration; people are told where there is none.
func (a *app) validate(ctx context.Context, path, format string) diagnostics.List {
	s, err := a.open(ctx, host.Options{Recipe: path})
	if err != nil {
		list := diagnosed(err)
		if _, _, err := (*host.Host)(nil).Look(path); err != nil {
			list = append(list, diagnosed(err)...)
		}
		return list
	}
	defer s.close()
	wf, rt, err := s.host.Look(path)
	if err != nil {
		return diagnosed(err)
	}
	rt.Approver = a.newApprover(nil, s.person(rt))
	list, err := wf.Check(ctx, rt)
	if err != nil {
		return diagnosed(err)
	}
	if format == "text" && a.output == "human" {
		s.sayNoConfig(list)
	}
	return list
}
