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
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/workflow"
)

// Exit codes (docs/command.md).
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitInvalid   = 3 // recipe, config or input; nothing ran
	exitCancelled = 5
	exitLimit     = 6
	exitMissing   = 8
	exitInternal  = 9
	exitInterrupt = 130
)

func main() {
	os.Exit(braise(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// braise runs one command line and returns its exit code.
func braise(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintln(stderr, "braise:", exit.err)
		}
		return exit.code
	}
	fmt.Fprintln(stderr, "braise:", err) // cobra's: unknown commands and flags
	fmt.Fprintln(stderr, "  hint: braise help lists commands and flags")
	return exitUsage
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

	config      string
	store       string
	output      string
	color       string
	runID       string
	models      []string
	maxParallel int
	strict      bool
	quiet       bool
	verbose     bool
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "braise",
		Short:         "Run declarative LLM recipes",
		Long:          "Braise compiles recipes (YAML steps that call models, tools and other recipes) to a DAG and runs them.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkFlags() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "what the host allows (default braise.yaml beside the recipe or in the working folder)")
	f.StringVar(&a.output, "output", "human", "human, json or jsonl")
	f.StringVar(&a.color, "color", "auto", "auto, always or never (honours NO_COLOR)")
	f.BoolVar(&a.strict, "strict", false, "findings about the recipe and what it needs stop the run before its first step")
	f.BoolVar(&a.quiet, "quiet", false, "no progress and no warnings on stderr")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "every event on stderr")
	root.AddCommand(
		a.initCommand(), a.validateCommand(), a.fmtCommand(), a.planCommand(), a.runCommand(), a.testCommand(),
		a.schemaCommand(), a.kindsCommand(), a.versionCommand(),
	)
	return root
}

func (a *app) checkFlags() error {
	if err := oneOf("output", a.output, "human", "json", "jsonl"); err != nil {
		return err
	}
	return oneOf("color", a.color, "auto", "always", "never")
}

// oneOf checks the value of a flag that has a few words.
func oneOf(flag, got string, words ...string) error {
	for _, w := range words {
		if got == w {
			return nil
		}
	}
	return usageError("--%s is %q; it may be %s", flag, got, words)
}

// exitCode maps an outcome to the command's exit code; the first match in the table of
// docs/command.md counts. interrupted says that the run ended because of SIGINT.
func exitCode(out *workflow.Outcome, interrupted bool) int {
	e := out.Error()
	switch {
	case out.Status == workflow.StatusOK:
		return exitOK
	case interrupted:
		return exitInterrupt
	case out.Status == workflow.StatusCancelled:
		return exitCancelled
	case e == nil:
		return exitInternal
	}
	if code, ok := exitCodes[string(e.Category)+" "+e.Code]; ok {
		return code
	}
	return exitFailed
}

// exitCodes are the errors that do not simply mean that the run failed, by category and code.
var exitCodes = map[string]int{
	"infra engine.panic":        exitInternal,
	"infra secret.failed":       exitInternal,
	"config recipe.invalid":     exitInvalid,
	"config runtime.invalid":    exitInvalid,
	"config secret.tooShort":    exitInvalid,
	"config input.invalid":      exitInvalid,
	"config strict.failed":      exitMissing,
	"config model.missing":      exitMissing,
	"config tool.missing":       exitMissing,
	"config secret.missing":     exitMissing,
	"config capability.missing": exitMissing,
	"limit limits.wall_time":    exitLimit,
}

// interruptible returns a context that the first SIGINT cancels; the second ends the process.
// interrupted reports whether there was one.
func (a *app) interruptible(ctx context.Context) (_ context.Context, stop func(), interrupted func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(exitInterrupt)
		case <-done:
		}
	}()
	stop = func() { signal.Stop(signals); close(done); cancel(nil) }
	return ctx, stop, func() bool { return errors.Is(context.Cause(ctx), errInterrupted) }
}

var errInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)
