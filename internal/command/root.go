package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
)

// app is the command's surroundings, with its flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	cancel         atomic.Pointer[context.CancelCauseFunc] // of what runs; nil: nothing that can be cancelled
	lines          chan string                             // of stdin, see readLine
	engines        []Engine                                // nil: none
	saidNone       string                                  // what sayNone said last

	flags
}

// flags are those of all commands, and those that make a session what it is. Once read they do not change.
type flags struct {
	config      string
	store       string
	engine      string
	output      string
	color       string
	runID       string
	record      string // of the command run
	replay      string // of the command run
	dry         bool   // likewise: nothing with an effect is called
	models      []string
	maxParallel int
	strict      bool
	quiet       bool
	verbose     bool

	noInteractive bool
	incomplete    bool // resume even where something is missing
}

func (a *app) rootCommand() *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:   "braise",
		Short: "Run declarative LLM recipes",
		Long:  "Braise runs recipes: YAML files whose steps call models, tools and other recipes.",
		Example: `  braise init demo
  braise run demo
  braise test demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(root, args[0])
		},
		RunE: func(root *cobra.Command, _ []string) error {
			if showVersion {
				return a.printVersion()
			}
			return root.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.checkFlags(cmd) },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours refuses unknown shells
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "",
		"the configuration (default braise.yaml next to the recipe or in the working folder)")
	f.StringVar(&a.store, "store", "",
		"where runs are kept: sqlite:PATH, jsonl:DIR, postgres://… or memory: "+
			"(default sqlite:$XDG_STATE_HOME/braise/runs.db)")
	f.StringVar(&a.engine, "engine", "",
		"the engine that executes runs, instead of this process: temporal://HOST:PORT/NAMESPACE?queue=NAME")
	f.StringVar(&a.runID, "run-id", "", "the id of the run (default a new UUIDv7)")
	f.IntVar(&a.maxParallel, "max-parallel", 0,
		"maximum concurrent calls (the lowest of flag, recipe and braise.yaml applies)")
	f.StringArrayVar(&a.models, "model", nil, "NAME=script:FILE replaces a model with a script (repeatable)")
	f.StringVar(&a.output, "output", "human", "human, json or jsonl")
	f.StringVar(&a.color, "color", "auto", "auto, always or never (honours NO_COLOR)")
	f.BoolVar(&a.strict, "strict", false, "treat warnings as errors, before anything runs")
	f.BoolVar(&a.quiet, "quiet", false, "no progress and no warnings on stderr")
	f.BoolVar(&a.noInteractive, "no-interactive", false, "never prompt on the terminal")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print every event on stderr")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.initCommand(), a.validateCommand(), a.fmtCommand(), a.planCommand(), a.runCommand(), a.askCommand(),
		a.resumeCommand(), a.runsCommand(), a.memoryCommand(), a.stateCommand(), a.storeCommand(),
		a.serveCommand(), a.workerCommand(),
		a.testCommand(), a.schemaCommand(), a.kindsCommand(), a.modelsCommand(), a.doctorCommand(),
		a.completionCommand(), a.versionCommand(),
	)
	a.addCompletion(root)
	giveOnce(root)
	return root
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  braise help runs fork",

		ValidArgsFunction: completeHelp,
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
	hint := diagnostics.DidYouMean(name, names)
	if runs, _, err := root.Find([]string{"runs", name}); hint == "" && err == nil && runs.Name() == name {
		hint = fmt.Sprintf("did you mean \"runs %s\"?", name)
	}
	return usageError("unknown command %q\n  hint: %s", name, cmp.Or(hint, "braise help lists the commands"))
}
