package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/mattn/go-isatty"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// loadConfig reads the configuration that goes with a recipe; without a file it is nil, and path "".
func (a *app) loadConfig(recipePath string) (config *host.Config, path string, err error) {
	if path = a.config; path == "" {
		if path, err = host.FindConfig(recipePath); err != nil || path == "" {
			return nil, "", err
		}
	}
	load := host.LoadConfig
	if a.replay != "" || a.looking {
		load = host.LoadReplayConfig
	}
	config, err = load(path)
	return config, path, err
}

// runtimeFor makes the Runtime that the configuration of a recipe, and the flags, allow.
func (a *app) runtimeFor(recipePath string) (*runtime.Runtime, error) {
	config, path, err := a.loadConfig(recipePath)
	if err != nil {
		return nil, err
	}
	a.host, a.hostDir, a.configPath = config, filepath.Dir(path), path
	rt, err := config.Runtime(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := config.UseStore(rt, nil); err != nil { // the memory that it has; one that is kept comes with the store
		return nil, err
	}
	for _, spec := range a.models {
		if rt, err = host.OverrideModel(rt, spec); err != nil {
			return nil, err
		}
	}
	if a.strict {
		rt.Diagnostics = diagnostics.Strict
	}
	if a.maxParallel > 0 {
		if rt.Limits.MaxParallel == 0 || a.maxParallel < rt.Limits.MaxParallel {
			rt.Limits.MaxParallel = a.maxParallel
		}
	}
	if a.runID != "" {
		rt.NewRunID = func() string { return a.runID }
	}
	return rt, nil
}

// compile loads and compiles a recipe for a runtime, to look at it; rt may be nil. A recipe with errors
// is compiled too, so that all of them are found in one go. No MCP server is opened.
func (a *app) compile(path string, rt *runtime.Runtime) (*workflow.Workflow, error) {
	r, err := host.LoadRecipe(path)
	if r == nil {
		return nil, err
	}
	var opts workflow.Options
	if rt != nil {
		a.host.Assume(r, rt)
		opts.Tools = rt.ToolSpecs()
	}
	return workflow.Compile(r, &opts)
}

// ready loads and compiles a recipe to run it, with the tools of the MCP servers that it needs.
// disconnect ends the servers; it is nil with an error, which has been printed.
func (a *app) ready(ctx context.Context, path string, rt *runtime.Runtime) (wf *workflow.Workflow, disconnect func(), err error) {
	r, err := host.LoadRecipe(path)
	if err != nil {
		_, err = a.compile(path, nil) // finds the rest
		return nil, nil, a.refuse(nil, err)
	}
	if disconnect, err = a.connect(ctx, r, rt); err != nil {
		return nil, nil, err
	}
	if wf, err = workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()}); err != nil {
		disconnect()
		return nil, nil, a.refuse(nil, err)
	}
	return wf, disconnect, nil
}

// connect adds the tools of the MCP servers that a recipe needs; nil needs all. disconnect ends the
// servers; it is nil with an error, which has been printed as far as it is for machines.
func (a *app) connect(ctx context.Context, r *recipe.Recipe, rt *runtime.Runtime) (disconnect func(), err error) {
	disconnect, err = a.host.Connect(ctx, a.hostDir, r, rt)
	if err == nil {
		return disconnect, nil
	}
	disconnect()
	if a.output != "human" {
		if err := a.printOutcome(&workflow.Outcome{Status: workflow.StatusError, Err: &runtime.Error{
			Category: runtime.CategoryConfig, Code: "tool.missing", Err: err}}); err != nil {
			return nil, err
		}
	}
	return nil, &exitError{exitMissing, err}
}

// findings returns the list that an error holds, or the error itself as a finding.
func findings(err error) diagnostics.List {
	var list *diagnostics.Error
	if errors.As(err, &list) {
		return list.List
	}
	message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
	return diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeFile, Message: message, Hint: hint}}
}

// printFindings shows findings to a person, with the lines of the files they are about.
func (a *app) printFindings(list diagnostics.List) {
	if a.quiet {
		list = onlyErrors(list)
	}
	sources := map[string][]byte{}
	for _, d := range list {
		if f := d.Position.File; f != "" && sources[f] == nil {
			sources[f], _ = readSome(f) // without its text a finding is still printed
		}
	}
	p := diagnostics.Printer{Sources: sources, Color: a.colored(a.stderr)}
	p.Print(a.stderr, list)
}

func onlyErrors(list diagnostics.List) diagnostics.List {
	var errs diagnostics.List
	for _, d := range list {
		if d.Level == diagnostics.ErrorLevel {
			errs = append(errs, d)
		}
	}
	return errs
}

// readSome reads a text file as far as a recipe may be long.
func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// refuse ends what could not begin: the findings, and for machines an outcome. wf is nil when it is
// the recipe that is wrong.
func (a *app) refuse(wf *workflow.Workflow, err error) error {
	list := findings(err)
	a.printFindings(list)
	if a.output != "human" {
		out := workflow.Refused(&diagnostics.Error{List: list})
		if wf != nil {
			out.Recipe = wf.Plan().Recipe
		}
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return exit(exitInvalid)
}

// printJSON prints a value for machines: indented, on one line for jsonl.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if a.output != "jsonl" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return &exitError{exitInternal, err}
	}
	return nil
}

// visible replaces control characters, which could play tricks on a terminal, in text that is not
// ours.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// colored reports whether output to w is coloured.
func (a *app) colored(w io.Writer) bool {
	switch {
	case a.color == "always":
		return true
	case a.color == "never" || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb":
		return false
	}
	return isTerminal(w)
}
