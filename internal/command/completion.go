package command

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/host"
)

func (a *app) completionCommand() *cobra.Command {
	shells := map[string]func(root *cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.stdout, true) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.stdout, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.stdout) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.stdout) },
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands, runs, steps and inputs: " + strings.Join(names, ", "),
		Long: "Completion prints a completion script for a shell. To load it, depending on the shell:\n\n" +
			"  bash:  source <(braise completion bash)\n" +
			"  zsh:   braise completion zsh > \"${fpath[1]}/_braise\"\n" +
			"  fish:  braise completion fish > ~/.config/fish/completions/braise.fish",
		Example:   "  source <(braise completion bash)",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return usageError("completion takes one shell: %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shells[args[0]](cmd.Root()); err != nil {
				return &exitError{host.ExitInternal, err}
			}
			return nil
		},
	}
}
