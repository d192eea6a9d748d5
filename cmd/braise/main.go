// Command braise validates, plans, runs and tests recipes.
//
// It is thin: everything it does is a public function of the library. docs/command.md describes
// commands, flags, exit codes and JSON shapes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Exit codes (docs/command.md).
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitInvalid   = 3 // recipe, config or input; nothing ran
	exitPaused    = 4
	exitCancelled = 5
	exitLimit     = 6
	exitConflict  = 7
	exitMissing   = 8
	exitInternal  = 9
	exitInterrupt = 130
)

func main() {
	// A reader of stdout that has gone is a failed write, as a full disk is, not the end of the process:
	// what a run has begun is still ended in order.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(braise(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// braise runs one command line and returns its exit code.
func braise(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	results := &results{w: stdout}
	a := &app{stdin: stdin, stdout: results, stderr: stderr}
	a.watchSignals()
	code, err := a.execute(args)
	if err != nil {
		fmt.Fprintln(stderr, "braise:", visible(err.Error()))
	}
	if code == exitInternal && a.output != "human" && !results.begun {
		a.printOutcome(&workflow.Outcome{Status: workflow.StatusError, Err: &runtime.Error{
			Category: runtime.CategoryInfra, Code: "command.failed", Err: err}})
	}
	if results.err != nil && code != exitInterrupt {
		fmt.Fprintln(stderr, "braise: the result is lost:", results.err)
		return exitInternal
	}
	return code
}

// execute runs a command line. The error is what is still to be said.
func (a *app) execute(args []string) (code int, err error) {
	defer func() {
		if p := recover(); p != nil {
			code, err = exitInternal, fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err = root.ExecuteContext(context.Background())
	var exit *exitError
	switch {
	case err == nil:
		return exitOK, nil
	case errors.As(err, &exit):
		return exit.code, exit.err
	}
	return exitUsage, fmt.Errorf("%w\n  hint: braise help lists commands and flags", err) // cobra's: flags
}

// results is stdout. It remembers the first failed write: no command whose result did not arrive
// may claim success.
type results struct {
	w     io.Writer
	begun bool
	err   error
}

func (r *results) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.begun = true
	n, err := r.w.Write(p)
	r.err = err
	return n, err
}

// exitError ends the command with a code. A nil err has been printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprintf("exit %d: %v", e.code, e.err) }

// exit makes an error of an exit code; nil for exitOK.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// app is the command's surroundings and its common flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	cancel         atomic.Pointer[context.CancelCauseFunc] // of what runs; nil: nothing that can be cancelled

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
	looking       bool // no run goes on: models need not be there

	host       *host.Config // of the recipe at work; nil: there is no file
	configPath string       // of the file, and hostDir its folder
	hostDir    string
	lines      chan string // of stdin, see readLine
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "braise",
		Short:         "Run declarative LLM recipes",
		Long:          "Braise compiles recipes (YAML steps that call models, tools and other recipes) to a DAG and runs them.",
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
	f.StringVar(&a.config, "config", "", "what the host allows (default braise.yaml beside the recipe or in the working folder)")
	f.StringVar(&a.store, "store", "", "where runs are kept: sqlite:PATH, jsonl:DIR, postgres://… or memory: (default sqlite:$XDG_STATE_HOME/braise/runs.db)")
	f.StringVar(&a.runID, "run-id", "", "the run's id (default a new UUIDv7)")
	f.IntVar(&a.maxParallel, "max-parallel", 0, "calls at once, if lower than what recipe and host say")
	f.StringArrayVar(&a.models, "model", nil, "NAME=script:FILE answers for a model from a script (repeatable)")
	f.StringVar(&a.output, "output", "human", "human, json or jsonl")
	f.StringVar(&a.color, "color", "auto", "auto, always or never (honours NO_COLOR)")
	f.BoolVar(&a.strict, "strict", false, "findings about the recipe and what it needs stop the run before its first step")
	f.BoolVar(&a.quiet, "quiet", false, "no progress and no warnings on stderr")
	f.BoolVar(&a.noInteractive, "no-interactive", false, "never ask on the terminal what a run waits for")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "every event on stderr")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.initCommand(), a.validateCommand(), a.fmtCommand(), a.planCommand(), a.runCommand(), a.resumeCommand(), a.runsCommand(), a.testCommand(),
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
		Short: "Print a script that completes commands and flags: " + strings.Join(names, ", "),
		Long: "Completion prints a script for a shell. Where it goes depends on the shell, for instance:\n\n" +
			"  bash:  source <(braise completion bash)\n" +
			"  zsh:   braise completion zsh > \"${fpath[1]}/_braise\"\n" +
			"  fish:  braise completion fish > ~/.config/fish/completions/braise.fish",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return usageError("completion takes one shell: %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shells[args[0]](cmd.Root()); err != nil {
				return &exitError{exitInternal, err}
			}
			return nil
		},
	}
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
			return usageError("--run-id is %q; it may have letters, digits and, not first, - _ . and at most 128 of them", id)
		}
	}
	if a.store != "" {
		if err := host.CheckStore(a.store); err != nil {
			return &exitError{exitUsage, err}
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

// exitCode maps an outcome to the command's exit code; the first match in the table of
// docs/command.md counts. why is the signal that ended the run; nil if none did.
func exitCode(out *workflow.Outcome, why *stopped) int {
	e := out.Error()
	switch {
	case out.Status == workflow.StatusOK:
		return exitOK
	case why == interrupted:
		return exitInterrupt
	case out.Status == workflow.StatusCancelled:
		return exitCancelled
	case out.Status == workflow.StatusPaused:
		return exitPaused
	case e == nil:
		return exitInternal
	}
	if code, ok := exitCodes[string(e.Category)+" "+e.Code]; ok {
		return code
	}
	if e.Category == runtime.CategoryLimit {
		return exitLimit
	}
	return exitFailed
}

// exitCodes are the errors that do not simply mean that the run failed, by category and code.
var exitCodes = map[string]int{
	"infra command.failed":            exitInternal,
	"infra engine.panic":              exitInternal,
	"infra secret.failed":             exitInternal,
	"infra store.failed":              exitInternal,
	"infra journal.corrupt":           exitInternal,
	"infra journal.version":           exitInternal,
	"config runtime.invalid":          exitInvalid,
	"config secret.tooShort":          exitInvalid,
	"config input.invalid":            exitInvalid,
	"config fork.unknownStep":         exitInvalid,
	"config answer.unfit":             exitInvalid,
	"config resume.noAdapter":         exitInvalid,
	"config channel.unknown":          exitInvalid,
	"config channel.closed":           exitConflict,
	"infra run.exists":                exitConflict,
	"infra run.busy":                  exitConflict,
	"infra run.fenced":                exitConflict,
	"infra run.notFound":              exitConflict,
	"infra resume.invalidToken":       exitConflict,
	"config resume.invalidToken":      exitConflict,
	"config resume.definitionChanged": exitConflict,
	"config strict.failed":            exitMissing,
	"config model.missing":            exitMissing,
	"config price.missing":            exitMissing,
	"config tool.missing":             exitMissing,
	"config agent.unknownTool":        exitMissing,
	"config secret.missing":           exitMissing,
	"config retriever.missing":        exitMissing,
	"config capability.missing":       exitMissing,
	"limit foreach.maxItems":          exitFailed, // a step's own bound
	"limit loop.maxIterations":        exitFailed,
	"limit agent.maxSteps":            exitFailed,
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels; the second ends the
// process. why returns the first; nil if there was none.
func (a *app) interruptible(ctx context.Context) (_ context.Context, stop func(), why func() *stopped) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.cancel.Store(&cancel)
	stop = func() { a.cancel.Store(nil); cancel(nil) }
	return ctx, stop, func() *stopped {
		reason, _ := context.Cause(ctx).(*stopped)
		return reason
	}
}

// watchSignals ends the process on SIGINT and SIGTERM, unless there is something to cancel.
func (a *app) watchSignals() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			reason := interrupted
			if s == syscall.SIGTERM {
				reason = terminated
			}
			cancel := a.cancel.Swap(nil)
			if cancel == nil {
				os.Exit(reason.code)
			}
			(*cancel)(reason)
		}
	}()
}

// stopped is the signal that ended a run, and the exit code that goes with it. It is a
// context.Canceled.
type stopped struct {
	what string
	code int
}

var (
	interrupted = &stopped{"interrupted", exitInterrupt}
	terminated  = &stopped{"terminated", exitCancelled}
)

func (s *stopped) Error() string        { return s.what }
func (s *stopped) Is(target error) bool { return target == context.Canceled }
