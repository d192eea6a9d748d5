package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// answerFlags are the flags that make an answer. As a resume.Adapter they are read when the pause is known: its
// schema says what a text is.
type answerFlags struct {
	decision   string
	pairs      []string
	inputsJSON string

	hasJSON bool
	value   any // of inputsJSON
	texts   map[string]string
}

func (f *answerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.decision, "decision", "", "the decision, of a pause that has some")
	flags.StringArrayVar(&f.pairs, "input", nil, "a field of the form, or of an event's payload, as name=value (repeatable)")
	flags.StringVar(&f.inputsJSON, "inputs-json", "", "the whole form or payload as JSON, or @FILE, or @- for stdin")
}

// read checks the flags; what is wrong with the JSON or a name is no mistake in the use, but an answer that
// does not fit.
func (f *answerFlags) read(a *app, cmd *cobra.Command) error {
	if cmd.Flags().Changed("decision") && f.decision == "" {
		return usageError("--decision is empty")
	}
	if f.hasJSON = cmd.Flags().Changed("inputs-json"); f.hasJSON && len(f.pairs) > 0 {
		return usageError("--input and --inputs-json exclude each other")
	}
	if err := checkPairs(f.pairs); err != nil {
		return err
	}
	for _, pair := range f.pairs {
		name, text, _ := strings.Cut(pair, "=")
		if _, twice := f.texts[name]; twice {
			return a.refuse(nil, inputError("input %q is given twice", name))
		}
		if f.texts == nil {
			f.texts = map[string]string{}
		}
		f.texts[name] = text
	}
	if f.hasJSON {
		var err error
		if f.value, err = a.readJSON(f.inputsJSON); err != nil {
			return a.refuse(nil, err)
		}
	}
	return nil
}

// none reports whether no flag says anything.
func (f *answerFlags) none() bool { return f.decision == "" && !f.hasJSON && len(f.pairs) == 0 }

// Resolve implements resume.Adapter.
func (f *answerFlags) Resolve(_ context.Context, req resume.Request) (any, error) {
	form := f.value
	if len(f.texts) > 0 {
		fields, _ := formFields(req.Pause.Schema)
		filled := map[string]any{}
		for name, text := range f.texts {
			v, err := schema.Coerce(fields[name], text)
			if err != nil {
				v = text // the check of the answer says what is wrong with it
			}
			filled[name] = v
		}
		form = filled
	}
	return resume.AnswerOf(f.decision, form), nil
}

func (a *app) resumeCommand() *cobra.Command {
	flags := &answerFlags{}
	recipeFile := ""
	acceptChanged := false
	cmd := &cobra.Command{
		Use:   "resume TOKEN",
		Short: "Answer what a run waits for, and go on with it",
		Long: "Resume answers one pause of a run, by its token, and goes on with the run. The recipe comes from the store.\n" +
			"An answer that does not fit leaves the token usable.",
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
			return a.goOn(cmd.Context(), runID, changed{recipeFile, acceptChanged}, func(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions) *workflow.Outcome {
				if flags.none() && a.interactive() {
					if out := findPause(ctx, rt, token); out != nil {
						return out
					}
				}
				answering := *rt
				answering.Resume = flags
				out, _ := workflow.Resume(ctx, token, nil, &answering, opts)
				return out
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&recipeFile, "recipe", "", "the recipe that the run began with, instead of the store's copy")
	cmd.Flags().BoolVar(&acceptChanged, "accept-changed", false, "go on with the recipe of --recipe, even if it has changed")
	a.addIncomplete(cmd)
	return cmd
}

func (a *app) addIncomplete(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.incomplete, "incomplete", false, "go on even where a model, tool or secret is missing that a step needs")
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
	return &workflow.Outcome{Status: workflow.StatusPaused, RunID: runID, Recipe: info.Summary.Recipe, Token: token, Pauses: []resume.Pause{p}}
}

// changed is the recipe to go on with instead of the store's; the zero value is the store's.
type changed struct {
	file   string
	accept bool // even if it is not what the run began with
}

// goOn goes on with a run of the store: it makes the runtime, lets first do the first leg, answers at the
// terminal what comes then, and prints the result.
func (a *app) goOn(ctx context.Context, runID string, with changed, first func(context.Context, *runtime.Runtime, *workflow.ResumeOptions) *workflow.Outcome) error {
	rt, err := a.runtimeFor(with.file)
	if err != nil {
		return a.refuse(nil, err)
	}
	opts := &workflow.ResumeOptions{AcceptChanged: with.accept, Complete: !a.incomplete}
	if with.file != "" {
		var disconnect func()
		if opts.Workflow, disconnect, err = a.ready(ctx, with.file, rt); err != nil {
			return err
		}
		defer disconnect()
	}
	store, err := a.openStore(ctx, true)
	if err != nil {
		return err
	}
	defer store.Close()
	if r := storedRecipe(ctx, store, runID); r != nil && with.file == "" {
		disconnect, err := a.connect(ctx, r, rt)
		if err != nil {
			return err
		}
		defer disconnect()
	}
	if err := a.host.UseStore(rt, store); err != nil {
		return &exitError{exitInternal, err}
	}

	ctx, stop, why := a.interruptible(ctx)
	defer stop()
	flush, err := a.export(ctx, rt)
	if err != nil {
		return &exitError{exitInternal, err}
	}
	defer flush() // when the result is out
	out := a.legs(ctx, rt, opts, func(rt *runtime.Runtime) *workflow.Outcome { return first(ctx, rt, opts) })
	return a.finish(ctx, rt, out, why())
}

// storedRecipe is the recipe of a run; nil when the store does not have it.
func storedRecipe(ctx context.Context, store checkpoint.Store, runID string) *recipe.Recipe {
	sum, _, err := store.Load(ctx, runID, math.MaxInt64)
	if err != nil {
		return nil
	}
	text, err := store.Definition(ctx, sum.Digest)
	if err != nil {
		return nil
	}
	r, err := recipe.FromDefinition(text)
	if err != nil {
		return nil
	}
	return r
}

// checkPairs checks the form of the flag --input.
func checkPairs(pairs []string) error {
	for _, pair := range pairs {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return usageError("--input is %q; it is given as name=value", pair)
		}
	}
	return nil
}

// readJSON reads the flag --inputs-json.
func (a *app) readJSON(text string) (any, error) {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = a.readFile(name); err != nil {
			return nil, inputError("--inputs-json: %v", err)
		}
	}
	v, err := value.DecodeStrict(data)
	if err != nil {
		return nil, inputError("--inputs-json: %v", err)
	}
	return v, nil
}

// printWaiting says what a paused run waits for, and how to go on with it.
func (a *app) printWaiting(rt *runtime.Runtime, out *workflow.Outcome) {
	if out.Status != workflow.StatusPaused || a.output != "human" {
		return
	}
	fmt.Fprintf(a.stderr, "braise: paused: run %s of recipe %q waits\n", out.RunID, out.Recipe)
	for _, p := range out.Pauses {
		a.printPause(p)
		switch flags := a.sameFlags(); {
		case rt.Store == nil:
		case len(p.Decisions) > 0:
			others := ""
			if len(p.Decisions) > 1 {
				others = "   # or " + visible(strings.Join(p.Decisions[1:], ", "))
			}
			fmt.Fprintf(a.stderr, "    braise resume %s --decision %s%s%s%s\n", p.Token, quoted(visible(p.Decisions[0])), fieldFlags(p), flags, others)
		case p.RetryAt.IsZero():
			fmt.Fprintf(a.stderr, "    braise resume %s%s%s\n", p.Token, fieldFlags(p), flags)
		default:
			fmt.Fprintf(a.stderr, "    braise runs sweep%s   # then; with --watch beforehand\n", flags)
		}
	}
	if rt.Store == nil {
		fmt.Fprintln(a.stderr, "  with --store memory: nobody can go on with it")
	}
}

// fieldFlags stand for what a form needs.
func fieldFlags(p resume.Pause) string {
	fields, required := formFields(p.Schema)
	if len(p.Decisions) == 0 && fields == nil {
		return " --inputs-json JSON"
	}
	text := ""
	for _, name := range required {
		text += " --input " + quoted(visible(name)+"=…")
	}
	return text
}

func (a *app) printPause(p resume.Pause) {
	what := map[resume.Kind]string{resume.Human: "a person", resume.External: "the event " + p.Reason, resume.System: "a decision"}[p.Kind]
	switch {
	case p.Kind == resume.External && p.Reason == "":
		what = "an event"
	case p.Kind == resume.System && !p.RetryAt.IsZero():
		what = "a time, " + localTime(p.RetryAt)
	}
	fmt.Fprintf(a.stderr, "  step %s waits for %s", visible(p.Step), visible(what))
	if p.Prompt != "" {
		fmt.Fprintf(a.stderr, ": %s", indentedText(p.Prompt))
	}
	fmt.Fprintln(a.stderr)
	a.printShown(p.Show)
	if !p.ExpiresAt.IsZero() {
		fmt.Fprintf(a.stderr, "  until %s\n", localTime(p.ExpiresAt))
	}
}
