package command

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/scenario"
)

func (a *app) testCommand() *cobra.Command {
	opts := &scenario.Options{} // of the runtime nothing of this installation, unless --config asks for it
	run, watch := "", false
	cmd := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Run scenarios: tests of recipes with scripted answers and expected outcomes",
		Long:  "Test runs scenarios: files, or all *.txtar files below a folder (default: the working folder).",
		Example: `  braise test demo
  braise test demo --run refund
  braise test demo --update
  braise test demo --watch`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				args = []string{"."}
			}
			if opts.Run, err = regexp.Compile(run); err != nil {
				return usageError("--run: %v", err)
			}
			if watch {
				return a.watchTests(args, func() error { return a.testPaths(cmd.Context(), args, opts) })
			}
			return a.testPaths(cmd.Context(), args, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Update, "update", false, "rewrite the expectations that do not match")
	cmd.Flags().BoolVar(&watch, "watch", false, "run again whenever a file changes, until interrupted")
	cmd.Flags().StringVar(&run, "run", "", "only scenarios whose name matches this regular expression")
	return cmd
}

// testPaths runs the scenarios in and below folders, with what this installation has for them.
func (a *app) testPaths(ctx context.Context, paths []string, opts *scenario.Options) (err error) {
	switch {
	case a.config != "":
		s, err := a.open(ctx, host.Options{})
		if err != nil {
			return a.refuse(nil, err)
		}
		defer s.close()
		opts.Runtime = s.host.Bare()
		if err := s.host.Connect(ctx, nil, opts.Runtime); err != nil {
			return a.unready(err)
		}
	case a.strict:
		if opts.Runtime, err = (*host.Config)(nil).Runtime(""); err != nil {
			return a.refuse(nil, err)
		}
		opts.Runtime.Diagnostics = diagnostics.Strict
	}
	opts.Trust = func(file string, allows []string) bool {
		return a.config != "" || a.trust(ctx, file, strings.Join(allows, ", "))
	}
	files, err := scenario.Find(paths, opts)
	switch names := strings.Join(paths, ", "); {
	case err != nil:
		return usageError("%v", err)
	case len(files) == 0 && opts.Run.String() != "":
		return usageError("no scenario in %s matches --run %q", names, opts.Run)
	case len(files) == 0:
		return usageError("no scenario in %s\n  hint: scenarios are *.txtar files", names)
	}
	return a.test(ctx, files, opts)
}

// testResult is a scenario as test prints it in JSON.
type testResult struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Failures []string `json:"failures"`
}

// test runs scenarios and prints how each went.
func (a *app) test(ctx context.Context, files []string, opts *scenario.Options) error {
	ctx, stop, why := a.interruptible(ctx)
	defer stop()
	results := []testResult{}
	failed := 0
	for _, file := range files {
		r, err := scenario.Check(ctx, file, opts)
		if reason := why(); reason != nil {
			return exit(reason.code)
		}
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		if r.Failures != nil {
			failed++
		}
		results = append(results, testResult{r.Name, r.File, r.Failures == nil, append([]string{}, r.Failures...)})
		if a.output == "human" {
			a.printResult(r)
		}
	}
	if a.output != "human" {
		if err := a.printJSON(results); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "%d passed, %d failed\n", len(files)-failed, failed)
	}
	if failed > 0 {
		return exit(host.ExitFailed)
	}
	return nil
}

func (a *app) printResult(r *scenario.Result) {
	name := terminal.Visible(r.Name)
	switch {
	case r.Failures != nil:
		fmt.Fprintf(a.stdout, "FAIL %s (%s)\n", name, terminal.Visible(r.File))
		for _, f := range r.Failures {
			fmt.Fprintf(a.stdout, "  %s\n", strings.ReplaceAll(terminal.Visible(strings.TrimSpace(f)), "\n", "\n  "))
		}
	case r.Updated:
		fmt.Fprintf(a.stdout, "ok %s (updated)\n", name)
	case !a.quiet:
		fmt.Fprintf(a.stdout, "ok %s\n", name)
	}
}
