package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// changed is the recipe to resume a run with instead of the store's; the zero value is the store's.
type changed struct {
	file   string
	accept bool // even if it is not what the run began with
}

// session is an installation, open for one command.
type session struct {
	*app
	host    *host.Host
	found   string             // the path of the configuration that the run began with, which is used; "": that of host
	cluster *cluster           // the engine that is used; nil: none, or not yet
	stop    func()             // ends what interruptible began; nil: nothing
	shown   *terminal.Progress // of the last execution; nil: none
	told    diagnostics.List   // what was printed before the run
}

// open opens the installation that the flags, and opts, say. The caller closes it. The error is for refuse.
func (a *app) open(ctx context.Context, opts host.Options) (*session, error) {
	opts.Config, opts.Store, opts.Models, opts.Replay = a.config, a.store, a.models, a.replay != ""
	opts.Strict, opts.MaxParallel = a.strict, a.maxParallel
	opts.Warn, opts.Version = a.warn, version().Version
	opts.Guard = guard()
	opts.Trust = func(path string) bool { return a.trust(ctx, path, "programs") }
	if a.runID != "" {
		opts.NewRunID = func() string { return a.runID }
	}
	h, err := host.Open(ctx, &opts)
	if err != nil {
		return nil, err
	}
	return &session{app: a, host: h}, nil
}

// close closes the installation. Until then signals are held back, so that what telemetry has is sent.
func (s *session) close() {
	s.host.Close()
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.stop != nil {
		s.stop()
	}
}

// interruptible is app.interruptible until close.
func (s *session) interruptible(ctx context.Context) (_ context.Context, why func() *stopped) {
	ctx, s.stop, why = s.app.interruptible(ctx)
	return ctx, why
}

// openStore opens the store.
func (s *session) openStore(ctx context.Context) (checkpoint.Store, error) {
	store, err := s.host.Store(ctx)
	if err != nil {
		if err := s.stoppedEarly(ctx); err != nil {
			return nil, err
		}
		if _, ok := errors.AsType[*runtime.Error](err); ok { // it is not configured
			return nil, &exitError{host.ExitMissing, err}
		}
		return nil, &exitError{host.ExitInternal, fmt.Errorf("the store cannot be opened: %w\n"+
			"  hint: --store, or store: in %s, names another one; --store memory: keeps nothing", err, host.FileName)}
	}
	return store, nil
}

// stoppedEarly is the end of a command that a signal ended before there was an outcome; nil: none did.
func (a *app) stoppedEarly(ctx context.Context) error {
	reason, ok := context.Cause(ctx).(*stopped)
	if !ok {
		return nil
	}
	out := &workflow.Outcome{Status: workflow.StatusCancelled, Err: &runtime.Error{
		Category: runtime.CategoryCancelled, Code: "run.cancelled",
		Err: fmt.Errorf("the run was cancelled: %w", reason)}}
	if a.output != "human" {
		if err := a.printOutcome(out); err != nil {
			return err
		}
	}
	return &exitError{reason.code, out.Err}
}

// unready ends a command for which the host could not load a recipe, or open what it needs.
func (a *app) unready(err error) error {
	if _, ok := errors.AsType[*runtime.Error](err); ok {
		return a.fail("", err)
	}
	if _, ok := errors.AsType[*diagnostics.Error](err); ok {
		return a.refuse(nil, err)
	}
	return &exitError{host.ExitInternal, err}
}

// first makes the first execution of a run that a command makes.
type first = func(context.Context, execution) (*workflow.Outcome, error)

// finder finds a run.
type finder = func(history.Source) (runID string, err error)

// resumeRun resumes the run that a name stands for, see history.Find: it lets first make an execution,
// answers at the terminal what is asked then, and prints the result. An engine does what there is to do instead.
func (a *app) resumeRun(cmd *cobra.Command, name string, first first, there there) error {
	find := func(runs history.Source) (string, error) { return history.Find(cmd.Context(), runs, name) }
	return a.resumeWith(cmd, find, changed{}, first, there)
}

// resumeWith is resumeRun for the run that find returns, with a recipe of its own if there is one.
func (a *app) resumeWith(cmd *cobra.Command, find finder, with changed, first first, there there) error {
	ctx := cmd.Context()
	s, err := a.open(ctx, host.Options{Recipe: with.file, Look: true, Reporter: silent{}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close() // when the result is out
	if c, err := s.connect(ctx, cmd); err != nil {
		return err
	} else if c != nil {
		return s.resumeThere(ctx, c, find, there)
	}
	opts := &workflow.ResumeOptions{AcceptChanged: with.accept, Complete: !a.incomplete, Groups: s.host.Groups()}
	if with.file != "" {
		if opts.Workflow, err = s.host.Load(ctx, with.file); err != nil {
			return a.unready(err)
		}
	}
	ctx, why := s.interruptible(ctx)
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	runID, err := find(store)
	if err != nil {
		return s.fail("", err)
	}
	rt, err := s.host.RuntimeOf(ctx, runID, opts)
	if err != nil {
		if err := a.stoppedEarly(ctx); err != nil {
			return err
		}
		return a.unready(err)
	}
	s.found = s.host.ConfigOf(rt.Origin)
	out := s.executions(ctx, execution{runID, rt, opts}, first)
	if l, ok := errors.AsType[*left](out.Err); ok {
		return s.sayLeft(ctx, store, runID, l)
	}
	out = s.host.Explain(out)
	return s.finish(ctx, rt, out, why())
}

// execution is what one execution of a run is made with.
type execution struct {
	runID string // "": the run is new
	rt    *runtime.Runtime
	opts  *workflow.ResumeOptions
}

// recoverRun resumes a run as it is.
func recoverRun(ctx context.Context, e execution) (*workflow.Outcome, error) {
	return workflow.Recover(ctx, e.runID, e.rt, e.opts)
}

// executions makes the first execution of a run, and further ones as long as the person at the terminal answers what is
// asked, or what the run waits for comes soon.
func (s *session) executions(ctx context.Context, e execution, first first) (out *workflow.Outcome) {
	tell := s.telling(&e)
	defer func() { tell(ctx, out) }()
	out = s.execution(ctx, e, first)
	var due time.Time
	tokens := resume.Tokens{}
	for s.interactive() && ctx.Err() == nil {
		e.runID = out.RunID
		tokens.Note(out.Pauses)
		if i := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool {
			return (p.Kind == resume.Human || atBreakpoint(&p)) && s.mayAnswer(ctx, e, &p)
		}); i >= 0 {
			answer, ok := s.ask(ctx, out.Pauses[i])
			if !ok {
				break
			}
			out = s.answer(ctx, e, out, tokens[out.Pauses[i].ID], answer)
			continue
		}
		p := soonest(out.Pauses)
		if p == nil || p.RetryAt.Equal(due) || time.Until(p.RetryAt) > maxSleep {
			break
		}
		due = p.RetryAt
		if s.sleep(ctx, p); ctx.Err() != nil {
			break
		}
		out = s.execution(ctx, e, recoverRun)
	}
	return out
}

// atBreakpoint reports whether a pause is there because of --break.
func atBreakpoint(p *resume.Pause) bool { return p.Kind == resume.System && p.Reason == "breakpoint" }

// mayAnswer reports whether the person at the terminal may answer a pause.
func (s *session) mayAnswer(ctx context.Context, e execution, p *resume.Pause) bool {
	startedBy := e.rt.By
	if p.FourEyes && e.rt.Store != nil {
		sum, _, err := e.rt.Store.Load(ctx, e.runID, math.MaxInt64)
		if err != nil {
			return false
		}
		startedBy = sum.By
	}
	who := s.person(e.rt)
	return p.Allows(who.Name, who.Groups, startedBy) == nil
}

// answer resumes a run with an answer; an answer that does not fit leaves it as it was.
func (s *session) answer(
	ctx context.Context, e execution, out *workflow.Outcome, token string, answer any,
) *workflow.Outcome {
	next := s.execution(ctx, e, func(ctx context.Context, e execution) (*workflow.Outcome, error) {
		return workflow.Resume(ctx, token, answer, e.rt, e.opts)
	})
	switch err := next.Failure(); {
	case err != nil && err.Code == "answer.unfit":
		fmt.Fprintln(s.stderr, terminal.Visible(err.Error()))
		return out
	case err != nil && err.Code == "resume.invalidToken":
		fmt.Fprintln(s.stderr, "the question has been answered elsewhere, or has expired")
		return s.execution(ctx, e, recoverRun)
	}
	return next
}

// maxSleep is how long a command at a terminal waits for a time before it leaves the run paused.
const maxSleep = time.Minute

// soonest is the pause that a time ends first; nil if there is none.
func soonest(pauses []resume.Pause) *resume.Pause {
	var first *resume.Pause
	for i := range pauses {
		if p := &pauses[i]; !p.RetryAt.IsZero() && (first == nil || p.RetryAt.Before(first.RetryAt)) {
			first = p
		}
	}
	return first
}

// sleep waits until a pause is over, and shows a countdown.
func (s *session) sleep(ctx context.Context, p *resume.Pause) {
	shown := s.newProgress()
	defer shown.Close()
	shown.Wait(ctx, p.Step, p.RetryAt)
}

// newProgress shows a run on stderr.
func (a *app) newProgress() *terminal.Progress {
	return terminal.NewProgress(a.stderr, terminal.Options{Color: a.colored(a.stderr), Verbose: a.verbose,
		Live: isTerminal(a.stderr) && os.Getenv("TERM") != "dumb" && !a.quiet})
}

// execution makes one execution of a run, with its events on stdout or progress on stderr.
func (s *session) execution(ctx context.Context, e execution, run first) *workflow.Outcome {
	watched := *e.rt
	sink, done := s.show()
	defer done()
	if sink != nil {
		watched.Trace = append(slices.Clone(e.rt.Trace), sink)
	}
	watched.Approver = s.newApprover(s.shown, s.person(&watched))
	e.rt = &watched
	out, _ := run(ctx, e) // the error is the outcome's
	return out
}

// show returns what events are told to, nil: nobody, and what ends that.
func (s *session) show() (sink trace.Sink, done func()) {
	s.shown = nil
	switch {
	case s.output == "jsonl":
		events := newStream(s.jsonLines())
		return trace.NewJSONL(events), events.close
	case !s.quiet:
		s.shown = s.newProgress()
		return s.shown, s.shown.Close
	}
	return nil, func() {}
}

// finish prints how a run has ended; the error is its exit code.
func (s *session) finish(ctx context.Context, rt *runtime.Runtime, out *workflow.Outcome, why *stopped) error {
	left := s.untold(out.Diagnostics)
	s.printDiagnostics(left)
	s.sayNoConfig(left)
	if !s.isShown(out) {
		if err := s.printOutcome(out); err != nil {
			return err
		}
	}
	s.printError(out)
	s.printWaiting(rt, out)
	status := statusOf(ctx, rt.Store, out)
	if status == history.Interrupted {
		fmt.Fprintf(s.stderr, "  its journal is kept; to resume: braise runs recover %s%s\n", out.RunID, s.sameFlags())
		s.sayHidden()
	}
	if !s.quiet && s.output == "human" && !out.StartedAt.IsZero() {
		text := summary(out, status)
		if s.dry {
			text = "dry " + text
		}
		fmt.Fprintln(s.stderr, text)
	}
	return exit(exitCode(out, why))
}

// statusOf is the status of the run of an outcome: an execution may have ended, and the run not. store may be nil.
func statusOf(ctx context.Context, store checkpoint.Store, out *workflow.Outcome) history.Status {
	if store != nil && (out.Status == workflow.StatusCancelled || out.Status == workflow.StatusError) {
		sum, _, err := store.Load(context.WithoutCancel(ctx), out.RunID, math.MaxInt64)
		if err == nil {
			return history.StatusOf(sum)
		}
	}
	return history.Status(out.Status)
}

// isShown reports whether the output is on the terminal already, as an answer that came piece by piece.
func (s *session) isShown(out *workflow.Outcome) bool {
	text, ok := out.Output.(string)
	return ok && s.output == "human" && isTerminal(s.stdout) && s.shown != nil && s.shown.Showed(text)
}

// silent is the reporter of a run: the diagnostics and the trace of the outcome have what it would say.
type silent struct{}

func (silent) Warn(string, ...slog.Attr) {}

// absolute is a path that is the same in every folder, if the working folder is known.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// withoutPassword is the URL of a Postgres store as a command line may show it; hidden reports whether it had a
// password.
func withoutPassword(text string) (shown string, hidden bool) {
	u, err := url.Parse(text)
	if err != nil {
		return "…", true
	}
	if _, hidden = u.User.Password(); hidden {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if query.Has(name) {
			query.Del(name)
			u.RawQuery, hidden = query.Encode(), true
		}
	}
	return u.String(), hidden
}

// sayHidden says that the printed commands lack the password of the store.
func (s *session) sayHidden() {
	scheme, _, _ := strings.Cut(s.store, ":")
	if scheme != "postgres" && scheme != "postgresql" || os.Getenv("PGPASSWORD") != "" {
		return
	}
	if _, hidden := withoutPassword(s.store); hidden {
		fmt.Fprintln(s.stderr, "  the password of the store is not shown: the command needs it in PGPASSWORD")
	}
}

// sameFlags are the flags by which another call of the command, from any folder, finds the store and the configuration
// of this one.
func (s *session) sameFlags() string {
	var flags []string
	add := func(name, value string) { flags = append(flags, " --"+name+" "+quoted(value)) }
	if path := cmp.Or(s.found, s.host.ConfigPath()); path != "" {
		add("config", absolute(path))
	}
	if s.engine != "" {
		add("engine", s.engine)
	}
	switch scheme, path, _ := strings.Cut(s.store, ":"); scheme {
	case "":
	case "postgres", "postgresql":
		url, _ := withoutPassword(s.store)
		add("store", url)
	case "sqlite", "jsonl":
		add("store", scheme+":"+absolute(path))
	default:
		add("store", s.store)
	}
	for _, m := range s.models {
		name, file, _ := strings.Cut(m, "=script:")
		add("model", name+"=script:"+absolute(file))
	}
	return strings.Join(flags, "")
}
