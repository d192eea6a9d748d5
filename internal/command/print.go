package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/internal/terminal"
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
		fmt.Fprintf(a.jsonLines(), "%s\n", text)
	case out.Status != workflow.StatusOK || out.Output == nil:
	default:
		if text, ok := out.Output.(string); ok {
			text = strings.TrimSuffix(text, "\n")
			if isTerminal(a.stdout) { // elsewhere every byte counts
				text = terminal.Visible(text)
			}
			fmt.Fprintln(a.stdout, text)
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
		_, err = io.WriteString(a.stdout, terminal.EscapeUnseen(text.String()))
	}
	if err != nil {
		return &exitError{host.ExitInternal, err}
	}
	return nil
}

// jsonLines is where lines of JSON go: stdout, on a terminal with what a reader would not see escaped. Each write is of
// whole lines.
func (a *app) jsonLines() io.Writer {
	if isTerminal(a.stdout) {
		return seen{a.stdout}
	}
	return a.stdout
}

// seen escapes what a reader would not see in JSON.
type seen struct{ w io.Writer }

func (s seen) Write(text []byte) (int, error) {
	_, err := io.WriteString(s.w, terminal.EscapeUnseen(string(text)))
	return len(text), err
}

// refuse ends what could not begin: the diagnostics, and for machines an outcome. wf is nil when it is
// the recipe that is wrong.
func (a *app) refuse(wf *workflow.Workflow, err error) error {
	out := host.Refused(err)
	if wf != nil {
		out.Recipe = wf.Name()
	}
	a.printDiagnostics(out.Diagnostics)
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
	if s.cluster != nil {
		return s.failed(host.Failed(runID, err))
	}
	return s.failed(s.host.Explain(host.Failed(runID, err)))
}

func (a *app) failed(out *workflow.Outcome) error {
	code := exitCode(out, nil)
	if a.output != "human" && code != host.ExitUsage {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return &exitError{code, out.Err}
}

// diagnosed is what an error says of a recipe, a configuration or an input.
func diagnosed(err error) diagnostics.List { return host.Refused(err).Diagnostics }

// warn says what nothing fails of.
func (a *app) warn(message string) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, "braise: warning: %s\n", terminal.Visible(message))
	}
}

// printDiagnostics shows diagnostics to a person, with the lines of the files they are about.
func (a *app) printDiagnostics(list diagnostics.List) {
	if a.quiet {
		list = onlyErrors(list)
	}
	sources := map[string][]byte{}
	for _, d := range list {
		if _, tried := sources[d.Position.File]; !tried && d.Position.File != "" {
			sources[d.Position.File], _ = readSome(d.Position.File) // without its text a diagnostic is still printed
		}
	}
	p := diagnostics.Printer{Sources: sources, Color: a.colored(a.stderr)}
	p.Print(a.stderr, list)
}

// warnFirst prints what a run with rt would report before its first step, if the run begins all the same.
func (s *session) warnFirst(ctx context.Context, wf *workflow.Workflow, rt runtime.Runtime) {
	rt.Approver = s.newApprover(nil, s.person(&rt))
	list, err := wf.Check(ctx, &rt)
	if err != nil || list.Err() != nil { // the run is refused, and says so
		return
	}
	s.printDiagnostics(list)
	s.sayNoConfig(list)
	s.told = list
}

// untold returns the diagnostics of an outcome that were not printed before the run, or as the failure of a step.
func (s *session) untold(list diagnostics.List) diagnostics.List {
	type about struct {
		diagnostics.Code
		diagnostics.Position
		step, message string
	}
	told := map[about]bool{}
	for _, d := range s.told {
		told[about{d.Code, d.Position, d.Step, d.Message}] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(d diagnostics.Diagnostic) bool {
		if too, ok := strings.CutPrefix(d.Message, fmt.Sprintf("step %q failed too: ", d.Step)); ok && d.Hint == "" &&
			s.shown != nil && s.shown.Failed(d.Step, too) {
			return true
		}
		return told[about{d.Code, d.Position, d.Step, d.Message}]
	})
}

// configured are the codes of what a configuration would give a recipe.
var configured = []diagnostics.Code{diagnostics.CodeMissingModel, diagnostics.CodeMissingSecret,
	diagnostics.CodeMissingTool, diagnostics.CodeMissingRetriever, diagnostics.CodeMissingReranker,
	diagnostics.CodeNoFiles}

// sayNoConfig says that there is no configuration, where a recipe lacks what one would give it.
func (s *session) sayNoConfig(list diagnostics.List) {
	if s.found == "" && slices.ContainsFunc(list, func(d diagnostics.Diagnostic) bool {
		return slices.Contains(configured, d.Code)
	}) {
		s.sayNone(s.host.NoConfig())
	}
}

// sayNone says where no configuration was found; "": there is one.
func (a *app) sayNone(where string) {
	if where != "" && where != a.saidNone && !a.quiet {
		a.saidNone = where
		fmt.Fprintf(a.stderr, "braise: warning: %s\n  hint: braise init DIR writes one; --config FILE names another\n",
			terminal.Visible(where))
	}
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

// printError says why a run is not ok, unless the diagnostics have.
func (s *session) printError(out *workflow.Outcome) {
	e := out.Failure()
	switch {
	case e == nil || e.Code == string(diagnostics.CodeInput) || errors.Is(e, checkpoint.ErrToken): // the diagnostics do
		return
	case e.Code == string(diagnostics.CodeStrict):
		fmt.Fprintln(s.stderr, "braise: error: strict diagnostics failure: nothing ran")
		return
	}
	text := e.Error()
	if s.shown != nil && s.shown.Failed(e.Step, e.Err.Error()) { // its line says why
		_, hint, _ := strings.Cut(text, "\n")
		text = strings.TrimSuffix(fmt.Sprintf("step %q failed\n%s", e.Step, hint), "\n")
	}
	fmt.Fprintf(s.stderr, "braise: %s: %s\n", out.Status, terminal.Message(text))
	if m := exitedWith.FindStringSubmatch(e.Error()); m != nil && e.Code == "tool.failed" {
		fmt.Fprintf(s.stderr, "  hint: allow_code: [%s] in with accepts this code\n", m[1])
	}
}

// exitedWith finds the exit code in what exec.run says of a program.
var exitedWith = regexp.MustCompile(`^.*" exited with code ([0-9]+)`)

// printWaiting says what a paused run waits for, and how to resume it.
func (s *session) printWaiting(rt *runtime.Runtime, out *workflow.Outcome) {
	if out.Status != workflow.StatusPaused || s.output != "human" {
		return
	}
	fmt.Fprintf(s.stderr, "braise: paused: run %s of recipe %q waits\n", out.RunID, out.Recipe)
	asked, batches := inBatches(out.Pauses)
	if batches != "" {
		fmt.Fprintf(s.stderr, "  %s\n", batches)
	}
	for _, p := range asked {
		s.printPause(s.stderr, p)
		switch {
		case rt.Store == nil && s.cluster == nil:
		case len(p.To) > 0 || p.FourEyes || p.Token == "": // a token would answer for whoever has it
			s.printCommand(s.stderr, answerCommand(out.RunID, p), p)
		default:
			s.printCommand(s.stderr, "resume "+p.Token, p)
		}
	}
	if rt.Store == nil && s.cluster == nil {
		what := "with --store memory: it"
		if s.dry {
			what = "a dry run"
		}
		fmt.Fprintf(s.stderr, "  %s can only be answered at a terminal\n", what)
		return
	}
	s.sayHidden()
}

// answerCommand is the command that names a pause.
func answerCommand(runID string, p resume.Pause) string {
	return "runs answer " + runID + " " + quoted(terminal.Visible(p.ID))
}

// printCommand prints the command line that answers a pause; how is the command that names it.
func (s *session) printCommand(w io.Writer, how string, p resume.Pause) {
	flags := s.sameFlags()
	if len(p.Decisions) == 0 && !p.RetryAt.IsZero() {
		if s.cluster != nil { // which continues the run by itself
			return
		}
		fmt.Fprintf(w, "    braise runs sweep%s   # when it is due, or keep one running with --watch\n", flags)
		return
	}
	decision, others := "", ""
	switch n := len(p.Decisions); {
	case n > 1 && p.Reason == "indeterminate": // none of them goes without saying
		last := len(p.Decisions) - 1
		decision = " --decision DECISION"
		others = "   # " + strings.Join(p.Decisions[:last], ", ") + " or " + p.Decisions[last]
	case n > 1:
		decision = " --decision " + quoted(terminal.Visible(p.Decisions[0]))
		others = "   # or " + terminal.Visible(strings.Join(p.Decisions[1:], ", "))
	}
	if coversRun(&p) {
		others += "; with --scope run also such calls in the rest of the run"
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
		what = "a time, " + terminal.LocalTime(p.RetryAt)
	}
	fmt.Fprintf(w, "  step %s waits for %s", terminal.Visible(p.Step), terminal.Visible(what))
	if p.Prompt != "" {
		fmt.Fprintf(w, ":%s", terminal.Quoted(p.Prompt))
	}
	fmt.Fprintln(w)
	printShown(w, &p)
	printCall(w, p.Call)
	if len(p.To) > 0 {
		fmt.Fprintf(w, "  to: %s\n", terminal.Visible(strings.Join(p.To, ", ")))
	}
	if p.FourEyes {
		fmt.Fprintln(w, "  four eyes: not by whoever began the run")
	}
	if !p.ExpiresAt.IsZero() {
		fmt.Fprintf(w, "  until %s\n", terminal.LocalTime(p.ExpiresAt))
	}
}

// printCall prints what a person needs to look a call up at the other side before deciding about it; nil: nothing.
func printCall(w io.Writer, c *resume.Call) {
	if c == nil {
		return
	}
	text := "  call: " + c.Tool
	if c.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	if !c.At.IsZero() {
		text += ", " + terminal.LocalTime(c.At)
	}
	if c.Owner != "" {
		text += ", by " + checkpoint.Lease{Owner: c.Owner}.Holder()
	}
	fmt.Fprintf(w, "%s\n", terminal.Visible(text))
	if c.Arguments != nil {
		printArguments(w, c.Arguments)
	}
	fmt.Fprintf(w, "  idempotency key: %s\n", terminal.Visible(c.Key))
	if c.Given != nil {
		fmt.Fprintf(w, "  a person said:%s\n", terminal.Quoted(c.Given))
	}
	if len(c.PIDs) > 0 {
		fmt.Fprintf(w, "  its processes still run: %v\n", c.PIDs)
	}
}

// fieldFlags stand for what a form needs.
func fieldFlags(p resume.Pause) string {
	fields, required := formFields(p.Schema)
	switch {
	case len(p.Decisions) > 0 || fields != nil:
	case p.Kind == resume.Human && p.Schema != nil:
		return " --answer …"
	default:
		return " --inputs-json JSON"
	}
	text := ""
	for _, name := range required {
		text += " --input " + quoted(terminal.Visible(name)+"=…")
	}
	return text
}

// summary is the last line about a run: its status, as runs list has it, how long it took and what its models used.
func summary(out *workflow.Outcome, status history.Status) string {
	text := fmt.Sprintf("run %s %s %s", out.RunID, status, terminal.Took(out.EndedAt.Sub(out.StartedAt)))
	add := func(n int64, what string) {
		if n > 0 {
			text += " · " + terminal.Grouped(n) + " " + what
			if n > 1 {
				text += "s"
			}
		}
	}
	add(out.Usage.Calls, "call")
	add(out.Usage.InputTokens+out.Usage.OutputTokens, "token")
	if cost := out.Usage.CostUSD; cost > 0 {
		text += " · " + terminal.Dollars(cost)
	}
	return text
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	if r, ok := w.(*results); ok {
		w = r.w
	}
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
