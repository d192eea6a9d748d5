package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-isatty"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// printOutcome prints the result on stdout: the output alone for people, the whole outcome as
// JSON, or its last line for a stream of events.
func (a *app) printOutcome(out *workflow.Outcome) error {
	switch {
	case a.output == "json":
		return a.printJSON(out)
	case a.output == "jsonl":
		text, err := out.Summary()
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	case out.Status != workflow.StatusOK || out.Output == nil:
	default:
		if text, ok := out.Output.(string); ok {
			fmt.Fprintln(a.stdout, strings.TrimSuffix(text, "\n"))
			return nil
		}
		text, err := value.JSON(out.Output)
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		return a.printJSON(json.RawMessage(text))
	}
	return nil
}

// printJSON prints a value for machines: indented, on one line for jsonl.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if a.output != "jsonl" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return &exitError{host.ExitInternal, err}
	}
	return nil
}

// refuse ends what could not begin: the findings, and for machines an outcome. wf is nil when it is
// the recipe that is wrong.
func (a *app) refuse(wf *workflow.Workflow, err error) error {
	out := host.Refused(err)
	if wf != nil {
		out.Recipe = wf.Name()
	}
	a.printFindings(out.Diagnostics)
	if a.output != "human" {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return exit(host.ExitInvalid)
}

// fail ends a command for which the store, or the host, does not have what it needs.
func (a *app) fail(runID string, err error) error {
	out := host.Failed(runID, err)
	if a.output != "human" {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return &exitError{exitCode(out, nil), err}
}

// findings are what an error says of a recipe, a configuration or an input.
func findings(err error) diagnostics.List { return host.Refused(err).Diagnostics }

// warn says what nothing fails of.
func (a *app) warn(message string) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, "braise: warning: %s\n", visible(message))
	}
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

// printError says why a run is not ok, unless the findings have.
func (a *app) printError(out *workflow.Outcome) {
	e := out.Error()
	switch {
	case e == nil || e.Code == string(diagnostics.CodeInput) || errors.Is(e, checkpoint.ErrToken): // the findings do
		return
	case e.Code == string(diagnostics.CodeStrict):
		fmt.Fprintln(a.stderr, "braise: error: strict diagnostics failure: nothing ran")
		return
	}
	step := ""
	if e.Step != "" {
		step = fmt.Sprintf("step %q: ", e.Step)
	}
	fmt.Fprintf(a.stderr, "braise: %s: %s%s\n", out.Status, step, visible(e.Error()))
}

// printWaiting says what a paused run waits for, and how to go on with it.
func (s *session) printWaiting(rt *runtime.Runtime, out *workflow.Outcome) {
	if out.Status != workflow.StatusPaused || s.output != "human" {
		return
	}
	fmt.Fprintf(s.stderr, "braise: paused: run %s of recipe %q waits\n", out.RunID, out.Recipe)
	for _, p := range out.Pauses {
		s.printPause(p)
		switch flags := s.sameFlags(); {
		case rt.Store == nil:
		case len(p.Decisions) > 0:
			others := ""
			if len(p.Decisions) > 1 {
				others = "   # or " + visible(strings.Join(p.Decisions[1:], ", "))
			}
			fmt.Fprintf(s.stderr, "    braise resume %s --decision %s%s%s%s\n",
				p.Token, quoted(visible(p.Decisions[0])), fieldFlags(p), flags, others)
		case p.RetryAt.IsZero():
			fmt.Fprintf(s.stderr, "    braise resume %s%s%s\n", p.Token, fieldFlags(p), flags)
		default:
			fmt.Fprintf(s.stderr, "    braise runs sweep%s   # then; with --watch beforehand\n", flags)
		}
	}
	if rt.Store == nil {
		fmt.Fprintln(s.stderr, "  with --store memory: nobody can go on with it")
	}
}

func (a *app) printPause(p resume.Pause) {
	what := map[resume.Kind]string{
		resume.Human: "a person", resume.External: "the event " + p.Reason, resume.System: "a decision",
	}[p.Kind]
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

// localTime is a time for people; "-" when there is none.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
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
