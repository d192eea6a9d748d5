package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

// app is the command's surroundings, with its flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	cancel         atomic.Pointer[context.CancelCauseFunc] // of what runs; nil: nothing that can be cancelled
	lines          chan string                             // of stdin, see readLine

	flags
}

// flags are those of all commands, and those that make a session what it is. Once read they do not change.
type flags struct {
	config      string
	store       string
	output      string
	color       string
	runID       string
	record      string // of the command run
	replay      string // of the command run
	models      []string
	maxParallel int
	strict      bool
	quiet       bool
	verbose     bool

	noInteractive bool
	incomplete    bool // go on even where something is missing
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "braise",
		Short: "Run declarative LLM recipes",
		Long: "Braise compiles recipes (YAML steps that call models, tools and other recipes) to a DAG " +
			"and runs them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(root, args[0])
		},
		RunE: func(root *cobra.Command, _ []string) error {
			return root.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.checkFlags(cmd) },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours refuses unknown shells
	}
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "",
		"what the host allows (default braise.yaml beside the recipe or in the working folder)")
	f.StringVar(&a.store, "store", "",
		"where runs are kept: sqlite:PATH, jsonl:DIR, postgres://… or memory: "+
			"(default sqlite:$XDG_STATE_HOME/braise/runs.db)")
	f.StringVar(&a.runID, "run-id", "", "the run's id (default a new UUIDv7)")
	f.IntVar(&a.maxParallel, "max-parallel", 0, "calls at once, if lower than what recipe and host say")
	f.StringArrayVar(&a.models, "model", nil, "NAME=script:FILE answers for a model from a script (repeatable)")
	f.StringVar(&a.output, "output", "human", "human, json or jsonl")
	f.StringVar(&a.color, "color", "auto", "auto, always or never (honours NO_COLOR)")
	f.BoolVar(&a.strict, "strict", false,
		"findings about the recipe and what it needs stop the run before its first step")
	f.BoolVar(&a.quiet, "quiet", false, "no progress and no warnings on stderr")
	f.BoolVar(&a.noInteractive, "no-interactive", false, "never ask on the terminal what a run waits for")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "every event on stderr")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.initCommand(), a.validateCommand(), a.fmtCommand(), a.planCommand(), a.runCommand(), a.resumeCommand(),
		a.runsCommand(), a.testCommand(),
		a.schemaCommand(), a.kindsCommand(), a.doctorCommand(), a.completionCommand(), a.versionCommand(),
	)
	return root
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(help *cobra.Command, args []string) error {
			cmd, rest, err := help.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(help.Root(), strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return usageError("unknown command %q\n  hint: %s", name, diagnostics.DidYouMean(name, names))
}

// checkFlags checks the common flags.
func (a *app) checkFlags(cmd *cobra.Command) error {
	for _, name := range []string{"config", "store", "run-id"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usageError("--%s is empty", name)
		}
	}
	if cmd.Flags().Changed("max-parallel") && a.maxParallel < 1 {
		return usageError("--max-parallel is %d; the least is 1", a.maxParallel)
	}
	if id := a.runID; id != "" {
		run := checkpoint.Run{ID: id, Digest: "any", StartedAt: time.Now()}
		if err := run.Check(); err != nil {
			return usageError("--run-id is %q; it may have letters, digits and, not first, - _ . "+
				"and at most 128 of them", id)
		}
	}
	if a.store != "" {
		if err := host.CheckStore(a.store); err != nil {
			return &exitError{host.ExitUsage, err}
		}
	}
	for _, spec := range a.models {
		if name, file, ok := strings.Cut(spec, "=script:"); !ok || name == "" || file == "" {
			return usageError("--model is %q; it is given as NAME=script:FILE", spec)
		}
	}
	if err := oneOf("output", a.output, "human", "json", "jsonl"); err != nil {
		return err
	}
	return oneOf("color", a.color, "auto", "always", "never")
}

// oneOf checks the value of a flag that has a few words.
func oneOf(flag, got string, words ...string) error {
	if slices.Contains(words, got) {
		return nil
	}
	return usageError("--%s is %q; it may be %s", flag, got, strings.Join(words, ", "))
}

// exactly is cobra.ExactArgs with a sentence of our own.
func exactly(n int, sentence string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError("%s, not %d", sentence, len(args))
		}
		return nil
	}
}

func atLeastOne(sentence string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError("%s", sentence)
		}
		return nil
	}
}
