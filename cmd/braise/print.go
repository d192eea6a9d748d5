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
	"unicode/utf16"

	"github.com/mattn/go-isatty"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/regular"
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

// printJSON prints a value for machines: indented, on one line for jsonl. Characters that a reader would not see are
// escaped.
func (a *app) printJSON(v any) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if a.output != "jsonl" {
		enc.SetIndent("", "  ")
	}
	err := enc.Encode(v)
	if err == nil {
		_, err = io.WriteString(a.stdout, escapeUnseen(text.String()))
	}
	if err != nil {
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
func (a *app) fail(runID string, err error) error { return a.failed(host.Failed(runID, err)) }

// fail is app.fail that says which store was asked.
func (s *session) fail(runID string, err error) error {
	return s.failed(s.host.Explain(host.Failed(runID, err)))
}

func (a *app) failed(out *workflow.Outcome) error {
	if a.output != "human" {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return &exitError{exitCode(out, nil), out.Err}
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
		if _, tried := sources[d.Position.File]; !tried && d.Position.File != "" {
			sources[d.Position.File], _ = readSome(d.Position.File) // without its text a finding is still printed
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
	f, err := regular.Open(path)
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
	fmt.Fprintf(a.stderr, "braise: %s: %s\n", out.Status, visible(e.Error()))
}

// printWaiting says what a paused run waits for, and how to go on with it.
func (s *session) printWaiting(rt *runtime.Runtime, out *workflow.Outcome) {
	if out.Status != workflow.StatusPaused || s.output != "human" {
		return
	}
	fmt.Fprintf(s.stderr, "braise: paused: run %s of recipe %q waits\n", out.RunID, out.Recipe)
	for _, p := range out.Pauses {
		s.printPause(s.stderr, p)
		if rt.Store != nil {
			s.printCommand(s.stderr, "resume "+p.Token, p)
		}
	}
	if rt.Store == nil {
		fmt.Fprintln(s.stderr, "  with --store memory: nobody can go on with it")
	}
}

// printCommand prints the command line that answers a pause; how is the command that names it.
func (s *session) printCommand(w io.Writer, how string, p resume.Pause) {
	flags := s.sameFlags()
	if len(p.Decisions) == 0 && !p.RetryAt.IsZero() {
		fmt.Fprintf(w, "    braise runs sweep%s   # then; with --watch beforehand\n", flags)
		return
	}
	decision, others := "", ""
	switch n := len(p.Decisions); {
	case n > 1 && p.Reason == "indeterminate": // none of them goes without saying
		decision = " --decision " + strings.Join(p.Decisions, "|")
	case n > 1:
		decision = " --decision " + quoted(visible(p.Decisions[0]))
		others = "   # or " + visible(strings.Join(p.Decisions[1:], ", "))
	}
	fmt.Fprintf(w, "    braise %s%s%s%s%s\n", how, decision, fieldFlags(p), flags, others)
}

func (a *app) printPause(w io.Writer, p resume.Pause) {
	what := map[resume.Kind]string{
		resume.Human: "a person", resume.External: "the event " + p.Reason, resume.System: "a decision",
	}[p.Kind]
	switch {
	case p.Kind == resume.External && p.Reason == "":
		what = "an event"
	case p.Kind == resume.System && !p.RetryAt.IsZero():
		what = "a time, " + localTime(p.RetryAt)
	}
	fmt.Fprintf(w, "  step %s waits for %s", visible(p.Step), visible(what))
	if p.Prompt != "" {
		fmt.Fprintf(w, ": %s", indentedText(p.Prompt))
	}
	fmt.Fprintln(w)
	printShown(w, p.Show)
	printCall(w, p.Call)
	if !p.ExpiresAt.IsZero() {
		fmt.Fprintf(w, "  until %s\n", localTime(p.ExpiresAt))
	}
}

// printCall prints what whoever decides about a call needs to look it up at the other side; nil: there is none.
func printCall(w io.Writer, c *resume.Call) {
	if c == nil {
		return
	}
	text := "  call: " + c.Tool
	if c.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	if !c.At.IsZero() {
		text += ", " + localTime(c.At)
	}
	if c.Owner != "" {
		text += ", by " + checkpoint.Lease{Owner: c.Owner}.Holder()
	}
	fmt.Fprintf(w, "%s\n", visible(text))
	if c.Arguments != nil {
		fmt.Fprintf(w, "  arguments: %s\n", indentedText(c.Arguments))
	}
	fmt.Fprintf(w, "  idempotency key: %s\n", visible(c.Key))
	if len(c.PIDs) > 0 {
		fmt.Fprintf(w, "  its processes still run: %v\n", c.PIDs)
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

// visible replaces control characters, which could play tricks on a terminal, in text that is not ours, and shows what
// would not be seen.
func visible(s string) string {
	return escapeUnseen(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s))
}

// unseen are characters that turn text around, have no width or separate lines: with them, what is read need not be
// what is there.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
	unicode.Variation_Selector}

// isUnseen reports whether a character is unseen, but for those that say how an emoji looks.
func isUnseen(r rune) bool { return r > 0x7f && r != 0xfe0e && r != 0xfe0f && unicode.In(r, unseen...) }

// escapeUnseen writes unseen characters as JSON may: \u202e.
func escapeUnseen(s string) string {
	if !strings.ContainsFunc(s, isUnseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !isUnseen(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
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
