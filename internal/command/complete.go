package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/recipes"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

// completer finds what an argument or the value of a flag may be. What cannot be found out completes nothing.
type completer = cobra.CompletionFunc

// addCompletion gives every command what completes its arguments and flags.
func (a *app) addCompletion(root *cobra.Command) {
	words := func(list ...string) completer {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	files := cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	runs := onlyFirst(a.completeRuns)
	arguments := map[string]completer{
		"init":     onlyFirst(cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)),
		"validate": files, "fmt": files, "plan": files, "run": onlyFirst(files),
		"ask":   onlyFirst(cobra.FixedCompletions([]string{"md"}, cobra.ShellCompDirectiveFilterFileExt)),
		"kinds": onlyFirst(a.completeKinds), "models": words(), "doctor": words(), "version": words(),
		"resume":    words(),
		"runs list": words(), "runs stats": words(), "runs sweep": words(), "runs prune": words(),
		"runs show": runs, "runs trace": runs, "runs watch": runs, "runs cancel": runs, "runs recover": runs,
		"runs fork": runs, "runs repair": runs, "runs export": runs, "runs answer": a.completePauses,
		"runs send": a.completeChannels, "memory list": words(),
		"memory show": onlyFirst(a.completeThreads), "memory forget": onlyFirst(a.completeThreads),
		"state list": onlyFirst(a.completeState), "state get": a.completeState, "state delete": a.completeState,
	}
	values := map[string]completer{
		"--output": words(outputs...), "--color": words(colors...), "--model": a.completeModels,
		"--config":        files,
		"init --template": words(recipes.Names()...), "init --provider": words(providerNames()...),
		"plan --format":     words(planFormats...),
		"plan --direction":  words("TB", "LR"),
		"validate --format": words(validateFormats...),
		"run --input":       a.completeInputs, "run --break": a.completePlanned,
		"runs fork --at": a.completeSteps, "runs list --status": words(statuses()...),
		"runs stats --status": words(statuses()...), "runs stats --by": words(groups()...),
		"runs prune --status": words(statuses()[2:]...), "runs answer --decision": a.completeDecisions,
		"runs answer --scope": words("once", "run"), "resume --scope": words("once", "run"), "resume --recipe": files,
	}
	for name, complete := range arguments {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil {
			panic(err) // of this table
		}
		cmd.ValidArgsFunction = complete
	}
	for name, complete := range values {
		path, flag, _ := strings.Cut(name, "--")
		cmd, _, err := root.Find(strings.Fields(path))
		if err == nil {
			err = cmd.RegisterFlagCompletionFunc(flag, complete)
		}
		if err != nil {
			panic(err)
		}
	}
}

// onlyFirst completes the first argument alone.
func onlyFirst(complete completer) completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// described is a completion with what it is, on one line.
func described(word, about string) string {
	return word + "\t" + terminal.Cut(terminal.Visible(strings.ReplaceAll(about, "\t", " ")))
}

func completeHelp(help *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var list []string
	if cmd, _, err := help.Root().Find(args); err == nil {
		for _, c := range cmd.Commands() {
			list = append(list, described(c.Name(), c.Short))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completed lets do look at the open installation, quietly.
func (a *app) completed(
	cmd *cobra.Command, opts host.Options, do func(context.Context, *session) []string,
) ([]string, cobra.ShellCompDirective) {
	a.quiet, a.noInteractive = true, true
	ctx := cmd.Context()
	s, err := a.open(ctx, opts)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.close()
	return do(ctx, s), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeKinds(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completed(cmd, host.Options{}, func(_ context.Context, s *session) (list []string) {
		for _, e := range entries(s.host.Bare()) {
			list = append(list, described(e.Name, e.Doc))
		}
		return list
	})
}

// completeModels completes NAME=script: for the flag --model.
func (a *app) completeModels(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, "=") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	opts := host.Options{StoreOnly: true, Recipe: recipeArgument(args)}
	list, _ := a.completed(cmd, opts, func(_ context.Context, s *session) (list []string) {
		for name := range s.host.Bare().Models {
			list = append(list, name+"=script:")
		}
		slices.Sort(list)
		return list
	})
	return list, cobra.ShellCompDirectiveNoSpace
}

// completeInputs completes the inputs of the recipe that the command line names.
func (a *app) completeInputs(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	r, err := host.LoadRecipe(recipeArgument(args))
	if strings.Contains(word, "=") || err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var list []string
	for _, input := range r.Inputs {
		about, _ := input.SchemaJSON["description"].(string)
		list = append(list, described(input.Name+"=", about))
	}
	return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completePlanned completes the paths of the steps of the recipe that the command line names.
func (a *app) completePlanned(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var list []string
	if r, err := host.LoadRecipe(recipeArgument(args)); err == nil {
		if wf, err := workflow.Compile(r, nil); err == nil {
			list = planned(list, wf.Plan().Steps)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// planned adds the paths of steps, those of their bodies behind them.
func planned(list []string, steps []workflow.PlanStep) []string {
	for _, s := range steps {
		list = planned(append(list, described(s.ID, s.Uses)), s.Body)
	}
	return list
}

// recipeArgument is the path of the recipe that the arguments so far name; "" if they name none.
func recipeArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return recipePath(args[0])
}

// lookedAt lets do look at the runs.
func (a *app) lookedAt(
	cmd *cobra.Command, do func(context.Context, history.Source) []string,
) ([]string, cobra.ShellCompDirective) {
	opts := host.Options{StoreOnly: true, Look: true}
	return a.completed(cmd, opts, func(ctx context.Context, s *session) []string {
		runs, err := s.openRuns(ctx, cmd)
		if err != nil {
			return nil
		}
		return do(ctx, runs)
	})
}

// completeRuns completes the ids of runs, the newest first, with their recipes and statuses.
func (a *app) completeRuns(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	list, directive := a.lookedAt(cmd, func(ctx context.Context, from history.Source) (list []string) {
		runs, _ := history.List(ctx, from, history.Filter{})
		for _, r := range runs {
			if strings.HasPrefix(r.RunID, word) && len(list) < maxCompleted {
				list = append(list, described(r.RunID, r.Recipe+" "+string(r.Status)))
			}
		}
		return list
	})
	return list, directive | cobra.ShellCompDirectiveKeepOrder
}

// maxCompleted is how many runs are offered at once.
const maxCompleted = 100

// ofRun lets do see the run that the first argument names, with its recipe if it can be read.
func (a *app) ofRun(
	cmd *cobra.Command, args []string, do func(*history.Run, *recipe.Recipe) []string,
) ([]string, cobra.ShellCompDirective) {
	return a.lookedAt(cmd, func(ctx context.Context, from history.Source) []string {
		if len(args) == 0 {
			return nil
		}
		id, err := history.Find(ctx, from, args[0])
		if err != nil {
			return nil
		}
		run, err := history.Load(ctx, from, id)
		if err != nil {
			return nil
		}
		r := &recipe.Recipe{}
		if text, err := from.Definition(ctx, run.Digest); err == nil {
			if stored, err := recipe.FromDefinition(text); err == nil {
				r = stored
			}
		}
		return do(run, r)
	})
}

// completeSteps completes the steps of a run.
func (a *app) completeSteps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.ofRun(cmd, args, func(_ *history.Run, r *recipe.Recipe) (list []string) {
		for _, s := range r.All() {
			list = append(list, described(s.ID, s.Uses.Text))
		}
		return list
	})
}

// completePauses completes a run, then one of its open pauses.
func (a *app) completePauses(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.runThen(cmd, args, word, func(run *history.Run, _ *recipe.Recipe) (list []string) {
		for _, p := range run.Pauses {
			list = append(list, described(p.ID, p.Prompt))
		}
		return list
	})
}

// runThen completes a run as the first argument, and what list returns as the second.
func (a *app) runThen(
	cmd *cobra.Command, args []string, word string, list func(*history.Run, *recipe.Recipe) []string,
) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeRuns(cmd, args, word)
	case 1:
		return a.ofRun(cmd, args, list)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeDecisions completes the decisions of the pause that the arguments name.
func (a *app) completeDecisions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.ofRun(cmd, args, func(run *history.Run, _ *recipe.Recipe) []string {
		i := slices.IndexFunc(run.Pauses, func(p resume.Pause) bool { return len(args) == 2 && p.ID == args[1] })
		if i < 0 {
			return nil
		}
		return run.Pauses[i].Decisions
	})
}

// completeChannels completes a run, then one of its channels.
func (a *app) completeChannels(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.runThen(cmd, args, word, func(_ *history.Run, r *recipe.Recipe) (list []string) {
		for _, c := range r.Channels {
			list = append(list, described(c.Name, c.Kind))
		}
		return list
	})
}
