package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/workflow"
)

// askCommand is run for an agent without a recipe.
func (a *app) askCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ask FILE TEXT",
		Short: "Give a task to the agent in a Markdown file",
		Long: "Ask runs the agent in a Markdown file, without a recipe, and prints its answer on stdout. TEXT is\n" +
			"the task; @FILE and @- read a file or stdin. The run is kept, resumed and shown like any other.",
		Example: `  braise ask agents/critic.md 'Is this letter kind?'
  git diff | braise ask agents/review.md @-`,
		Args: exactly(2, "ask takes a Markdown file and a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkCassette(cmd); err != nil {
				return err
			}
			if filepath.Ext(args[0]) != ".md" {
				return usageError("%s is not a Markdown file\n  hint: braise run runs recipes", args[0])
			}
			pairs, err := a.readPairs([]string{"prompt=" + args[1]})
			if err != nil {
				return err
			}
			if strings.TrimSpace(strings.TrimPrefix(pairs[0], "prompt=")) == "" {
				return usageError("the text that %s is asked is empty", args[0])
			}
			return a.run(cmd, args[0],
				func(wf *workflow.Workflow) (map[string]any, error) { return wf.ParseInputs(pairs) }, nil)
		},
	}
	a.cassetteFlags(cmd)
	return cmd
}
