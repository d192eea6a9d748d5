package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func (a *app) resumeCommand() *cobra.Command {
	flags := &answerFlags{}
	recipeFile := ""
	acceptChanged, force := false, false
	cmd := &cobra.Command{
		Use:   "resume TOKEN",
		Short: "Answer a pause of a run by its token, and resume the run",
		Long: "Resume answers one pause of a run, by its token, and resumes the run. The recipe comes from the\n" +
			"store. If the answer does not match, the token stays usable.",
		Example: `  braise resume TOKEN --decision approve
  braise resume TOKEN --decision approve --input reply=@reply.txt
  braise resume TOKEN --answer 'The blue one'
  braise resume TOKEN --inputs-json '{"paid": true}'`,
		Args: exactly(1, "resume takes one token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkRecipeFlags(cmd, recipeFile, acceptChanged); err != nil {
				return err
			}
			if err := flags.read(a, cmd); err != nil {
				return err
			}
			token := args[0]
			runID, _, _ := resume.Parse(token) // a bad one is refused below
			with := changed{recipeFile, acceptChanged}
			pause := "" // on an engine
			find := func(runs history.Source) (_ string, err error) {
				if c, ok := runs.(*cluster); ok {
					runID, pause, err = c.Pause(cmd.Context(), token)
				}
				return runID, err
			}
			return a.resumeWith(cmd, find, with,
				func(ctx context.Context, e execution) (*workflow.Outcome, error) {
					if flags.none() && a.interactive() {
						if out := findPause(ctx, e.rt, token); out != nil {
							return out, nil
						}
					}
					answering := *e.rt
					answering.Resume, e.opts.Force = flags, force
					return workflow.Resume(ctx, token, nil, &answering, e.opts)
				},
				func(ctx context.Context, c *cluster, runID string, by Person) (*workflow.Outcome, error) {
					v, err := flags.valueFor(ctx, c, runID, pause)
					if err != nil {
						return nil, err
					}
					return c.Resume(ctx, token, v, by)
				})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&recipeFile, "recipe", "", "the recipe of the run, instead of the copy in the store")
	cmd.Flags().BoolVar(&acceptChanged, "accept-changed", false,
		"resume with the recipe of --recipe even if it has changed")
	cmd.Flags().BoolVar(&force, "force", false, "repeat a call although its processes are still running")
	a.addIncomplete(cmd)
	return cmd
}

func (a *app) addIncomplete(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.incomplete, "incomplete", false,
		"resume even if a model, tool or secret is missing that a step needs")
}

func (a *app) checkRecipeFlags(cmd *cobra.Command, file string, acceptChanged bool) error {
	switch {
	case cmd.Flags().Changed("recipe") && file == "":
		return usageError("--recipe is empty")
	case acceptChanged && file == "":
		return usageError("--accept-changed needs --recipe")
	}
	return nil
}

// findPause is the outcome of a run that waits for the answer to a token; nil when nothing does, or when it is
// not for a person.
func findPause(ctx context.Context, rt *runtime.Runtime, token string) *workflow.Outcome {
	runID, hash, err := resume.Parse(token)
	if err != nil || rt.Store == nil {
		return nil
	}
	info, err := rt.Store.FindPause(ctx, runID, hash)
	if err != nil {
		return nil
	}
	p, err := resume.Opened(info.Opened)
	if err != nil || p.Kind != resume.Human {
		return nil
	}
	p.Token = token
	return &workflow.Outcome{Status: workflow.StatusPaused, RunID: runID, Recipe: info.Summary.Recipe, Token: token,
		Pauses: []resume.Pause{p}}
}
