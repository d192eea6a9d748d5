package command

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/dry"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// dryFile is the file beside a recipe that answers the calls that a dry run does not make.
const dryFile = "tools.yaml"

// checkDry checks the flags beside --dry-run.
func (a *app) checkDry(cmd *cobra.Command) error {
	switch {
	case !a.dry:
	case cmd.Flags().Changed("queue"):
		return usageError("--dry-run and --queue exclude each other: a dry run is not recorded")
	case a.record != "":
		return usageError("--dry-run and --record exclude each other: what models say is made up in a dry run")
	}
	return nil
}

// dryRun returns the runtime for a dry run of a recipe. The error says what is wrong with the answers beside it.
func dryRun(rt *runtime.Runtime, wf *workflow.Workflow, path string) (*runtime.Runtime, error) {
	file := filepath.Join(filepath.Dir(path), dryFile)
	text, err := regular.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return dry.Runtime(rt, wf, nil), nil
	}
	var answers *script.Tools
	if err == nil {
		answers, err = script.ParseTools(filepath.ToSlash(file), text)
	}
	if err != nil {
		return nil, err
	}
	return dry.Runtime(rt, wf, answers), nil
}

// markDry says of the outcome that it is of a dry run: nobody can answer its pauses later, and it has cost nothing.
func markDry(out *workflow.Outcome) {
	out.Token, out.Usage = "", workflow.Usage{}
	for i := range out.Pauses {
		out.Pauses[i].Token = ""
	}
	out.Diagnostics = append(out.Diagnostics, diagnostics.Diagnostic{Level: diagnostics.Warn,
		Kind: diagnostics.KindAdapter, Code: diagnostics.CodeDryRun,
		Message: "this was a dry run: calls with an effect were not made, and the run is not kept"})
}
