package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// changed is the recipe to go on with instead of the store's; the zero value is the store's.
type changed struct {
	file   string
	accept bool // even if it is not what the run began with
}

// session is an installation, open for one command.
type session struct {
	*app
	host  *host.Host
	found string // the path of the configuration that the run began with, which is used; "": that of host
	stop  func() // ends what interruptible began; nil: nothing
}

// open opens the installation that the flags, and opts, say. Whoever gets it closes it. The error is for refuse.
func (a *app) open(ctx context.Context, opts host.Options) (*session, error) {
	opts.Config, opts.Store, opts.Models, opts.Replay = a.config, a.store, a.models, a.replay != ""
	opts.Strict, opts.MaxParallel = a.strict, a.maxParallel
	opts.Warn, opts.Version = a.warn, version().Version
	opts.Guard = guard()
	opts.Trust = func(path string) bool { return a.trust(ctx, path) }
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

// goOn goes on with a run of the store: it lets first do the first leg, answers at the terminal what comes then, and
// prints the result.
func (a *app) goOn(
	ctx context.Context, runID string, with changed, first func(context.Context, leg) (*workflow.Outcome, error),
) error {
	s, err := a.open(ctx, host.Options{Recipe: with.file, Look: true, Reporter: silent{}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close() // when the result is out
	opts := &workflow.ResumeOptions{AcceptChanged: with.accept, Complete: !a.incomplete}
	if with.file != "" {
		if opts.Workflow, err = s.host.Load(ctx, with.file); err != nil {
			return a.unready(err)
		}
	}
	ctx, why := s.interruptible(ctx)
	if _, err := s.openStore(ctx); err != nil {
		return err
	}
	rt, err := s.host.RuntimeOf(ctx, runID, opts)
	if err != nil {
		if err := a.stoppedEarly(ctx); err != nil {
			return err
		}
		return a.unready(err)
	}
	s.found = s.host.ConfigOf(rt.Origin)
	out := s.host.Explain(s.legs(ctx, leg{rt, opts}, first))
	return s.finish(ctx, rt, out, why())
}

// legs makes the first leg of a run, and further ones as long as somebody at the terminal answers what it waits
// for.
func (s *session) legs(
	ctx context.Context, l leg, first func(context.Context, leg) (*workflow.Outcome, error),
) *workflow.Outcome {
	out := s.leg(ctx, l, first)
	for s.interactive() && ctx.Err() == nil {
		i := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.Kind == resume.Human })
		if i < 0 {
			break
		}
		answer, ok := s.ask(ctx, out.Pauses[i])
		if !ok {
			break
		}
		next := s.leg(ctx, l, func(ctx context.Context, l leg) (*workflow.Outcome, error) {
			return workflow.Resume(ctx, out.Pauses[i].Token, answer, l.rt, l.opts)
		})
		switch e := next.Error(); {
		case e != nil && e.Code == "answer.unfit":
			fmt.Fprintln(s.stderr, visible(e.Error()))
		case e != nil && e.Code == "resume.invalidToken":
			fmt.Fprintln(s.stderr, "somebody else has answered, or it was too late")
			out = s.leg(ctx, l, func(ctx context.Context, l leg) (*workflow.Outcome, error) {
				return workflow.Recover(ctx, out.RunID, l.rt, l.opts)
			})
		default:
			out = next
		}
	}
	return out
}

// leg is what one leg of a run is made with.
type leg struct {
	rt   *runtime.Runtime
	opts *workflow.ResumeOptions
}

// leg makes one leg of a run, with its events on stdout or progress on stderr.
func (a *app) leg(
	ctx context.Context, l leg, run func(context.Context, leg) (*workflow.Outcome, error),
) *workflow.Outcome {
	watched := *l.rt
	var shown *progress
	switch {
	case a.output == "jsonl":
		s := newStream(a.stdout)
		defer s.close()
		watched.Trace = append(slices.Clone(l.rt.Trace), trace.NewJSONL(s))
	case !a.quiet:
		shown = a.newProgress()
		defer shown.close()
		watched.Trace = append(slices.Clone(l.rt.Trace), shown)
	}
	watched.Approver = a.newApprover(shown)
	out, _ := run(ctx, leg{&watched, l.opts}) // the error is the outcome's
	return out
}

// finish prints how a run has ended; the error is its exit code.
func (s *session) finish(ctx context.Context, rt *runtime.Runtime, out *workflow.Outcome, why *stopped) error {
	s.printFindings(out.Diagnostics)
	if err := s.printOutcome(out); err != nil {
		return err
	}
	s.printError(out)
	s.printWaiting(rt, out)
	if rt.Store != nil && (out.Status == workflow.StatusCancelled || out.Status == workflow.StatusError) {
		sum, _, err := rt.Store.Load(context.WithoutCancel(ctx), out.RunID, math.MaxInt64)
		if err == nil && sum.Status == checkpoint.Running && !sum.Held {
			fmt.Fprintf(s.stderr, "  its journal is kept; to go on: braise runs recover %s%s\n",
				out.RunID, s.sameFlags())
		}
	}
	return exit(exitCode(out, why))
}

// silent is the reporter of a run: what it would say stands in the outcome's findings and trace.
type silent struct{}

func (silent) Warn(string, ...slog.Attr) {}

// absolute is a path that is the same in every folder, if the working folder is known.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// sameFlags are the flags by which another call of the command, from any folder, finds the store and the configuration
// of this one.
func (s *session) sameFlags() string {
	var flags []string
	add := func(name, value string) { flags = append(flags, " --"+name+" "+quoted(value)) }
	if path := cmp.Or(s.found, s.host.ConfigPath()); path != "" {
		add("config", absolute(path))
	}
	switch scheme, path, _ := strings.Cut(s.store, ":"); scheme {
	case "":
	case "postgres", "postgresql":
		flags = append(flags, " --store …") // it may hold a password
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
