// Package command is the command braise, which validates, plans, runs and tests recipes.
//
// It is thin: everything it does is a public function of the library. docs/command.md describes
// commands, flags, exit codes and JSON shapes.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
	"github.com/spf13/cobra"
)

// Main executes the command line of this process, and ends the process with its exit code. The engines are those of
// this build of the command; none executes all runs in its own process.
func Main(engines ...Engine) {
	if len(os.Args) == 2 && os.Args[1] == guardWord {
		builtin.Guard()
	}
	// A reader of stdout that has gone is a failed write, as a full disk is, not the end of the process:
	// what a run has begun is still ended in order.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(braise(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, engines))
}

// guardWord is the command line of a guard: another process of the command, which kills what a program of exec.run has
// left when the command has died.
const guardWord = "__guard"

// guard is how a guard is started; nil where the command cannot name itself.
func guard() []string {
	if goruntime.GOOS == "linux" {
		return []string{"/proc/self/exe", guardWord} // also where the file has been replaced since
	}
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{exe, guardWord}
}

// braise runs one command line and returns its exit code.
func braise(args []string, stdin io.Reader, stdout, stderr io.Writer, engines []Engine) int {
	results := &results{w: stdout}
	a := &app{stdin: stdin, stdout: results, stderr: stderr, engines: engines}
	a.watchSignals()
	code, err := a.execute(args)
	if err != nil {
		fmt.Fprintln(stderr, "braise:", terminal.Visible(err.Error()))
	}
	if code == host.ExitInternal && a.output != "human" && !results.begun {
		a.printOutcome(&workflow.Outcome{Status: workflow.StatusError, Err: &runtime.Error{
			Category: runtime.CategoryInfra, Code: "command.failed", Err: err}})
	}
	if results.err != nil && code != host.ExitInterrupt {
		fmt.Fprintln(stderr, "braise: the result is lost:", results.err)
		return host.ExitInternal
	}
	return code
}

// execute runs a command line. The error is what is still to be said.
func (a *app) execute(args []string) (code int, err error) {
	defer func() {
		if p := recover(); p != nil {
			code, err = host.ExitInternal, fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	root := a.rootCommand()
	root.SetArgs(args)
	hideFlags(root, args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err = root.ExecuteContext(context.Background())
	var exit *exitError
	switch {
	case err == nil:
		return host.ExitOK, nil
	case errors.As(err, &exit):
		return exit.code, exit.err
	}
	return host.ExitUsage, flagError(root, args, err)
}

// flagError adds a hint to what cobra says about flags.
func flagError(root *cobra.Command, args []string, err error) error {
	hint := "braise help lists commands and flags"
	if cmd, _, findErr := root.Find(args); findErr == nil && cmd != root {
		hint = fmt.Sprintf("braise help %s lists its flags", commandName(cmd))
		if unknown, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok && cmd.Flags().Lookup("input") != nil {
			hint += fmt.Sprintf("; an input of the recipe is given as --input %s=…", unknown)
		}
	}
	return fmt.Errorf("%w\n  hint: %s", err, hint)
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

// exit makes an error of an exit code; nil for host.ExitOK.
func exit(code int) error {
	if code == host.ExitOK {
		return nil
	}
	return &exitError{code: code}
}

func usageError(format string, args ...any) error {
	return &exitError{host.ExitUsage, fmt.Errorf(format, args...)}
}

// exitCode is the exit code of an outcome, unless a signal ended the run: why is that; nil if none did.
func exitCode(out *workflow.Outcome, why *stopped) int {
	if why == interrupted && out.Status != workflow.StatusOK {
		return host.ExitInterrupt
	}
	return host.ExitCode(out)
}
