package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Engine executes runs outside of the process of the command, and keeps them. A build of the command has the engines
// that it gives to [Main].
type Engine interface {
	// Scheme is what the URLs of the engine begin with: temporal.
	Scheme() string
	// Open connects to what a URL names. Relative paths in the URL start at dir; "" is the working folder. A URL that
	// names nothing is a [BadURL].
	Open(ctx context.Context, u *url.URL, dir string) (Cluster, error)
}

// BadURL is the error of an Engine for a URL that it cannot take.
type BadURL string

// Error is what is wrong.
func (e BadURL) Error() string { return string(e) }

// Cluster is an open Engine. Its errors are *runtime.Errors, or those of package checkpoint; the code
// cluster.unavailable says that it does not answer, and that what became of the run is not known. An outcome of a run
// that waits for somebody has the status paused; its pauses have tokens if the cluster makes any.
type Cluster interface {
	// Runs shows the runs.
	Runs() history.Source
	// Start starts a run and returns its id. The inputs are not checked yet.
	Start(ctx context.Context, wf *workflow.Workflow, inputs map[string]any, o StartOptions) (runID string, err error)
	// Wait waits until a run has ended, or waits for somebody; not for a time. The end of ctx ends the waiting, not
	// the run.
	Wait(ctx context.Context, runID string) (*workflow.Outcome, error)
	// Pause returns which pause a token belongs to. Of a token that takes no answer it is checkpoint.ErrToken, or an
	// error with the code resume.invalidToken.
	Pause(ctx context.Context, token string) (runID, pause string, err error)
	// Resume answers the pause of a token, then waits as Wait does.
	Resume(ctx context.Context, token string, answer any, by Person) (*workflow.Outcome, error)
	// Answer answers a pause by its name, then waits as Wait does.
	Answer(ctx context.Context, runID, pause string, answer any, by Person) (*workflow.Outcome, error)
	// Send puts a value into a channel, then waits as Wait does.
	Send(ctx context.Context, runID, channel string, v any, by Person) (*workflow.Outcome, error)
	// Cancel ends a run, rolls back what it did, and waits for that.
	Cancel(ctx context.Context, runID, reason string, by Person) (*workflow.Outcome, error)
	// Notes says what keeps a run from continuing that its journal does not tell: no worker takes its work. nil:
	// nothing.
	Notes(ctx context.Context, runID string) ([]string, error)
	// Work executes runs, or calls of runs, until ctx ends and what is under way has ended. The error says why it
	// cannot begin, or why it ends earlier.
	Work(ctx context.Context, rt *runtime.Runtime, o WorkOptions) error
	// Close disconnects.
	Close() error
}

// Person is who asks for something, as the host names people.
type Person struct {
	Name   string   // for the record
	Groups []string // nil: none
}

// StartOptions say what a new run is beside its recipe and its inputs.
type StartOptions struct {
	RunID string // "": the cluster makes one
	By    Person // who starts it
}

// WorkOptions are those of a worker.
type WorkOptions struct {
	OnlyCalls bool          // it makes calls, and executes no runs
	Drain     time.Duration // how long calls may go on when it stops
	MaxCalls  int           // how many it makes at a time; 0: the cluster decides
	Build     string        // its version; "": the cluster does not know it
	Searched  bool          // runs are found by search attributes
	Log       *slog.Logger  // for what goes wrong that is in no run; nil: nobody is told
}

// cluster is an engine that a command uses.
type cluster struct {
	Cluster
	history.Source
}

// onStores are the commands that need a store of the host. Those that take runs elsewhere are not among them.
var onStores = []string{"serve", "runs sweep", "runs fork", "runs prune", "runs repair", "runs tell",
	"runs import"}

// notOnEngines are the flags that change what a process does that executes a run itself.
var notOnEngines = []string{"record", "replay", "queue", "label", "model", "max-parallel", "strict", "recipe",
	"accept-changed", "force", "incomplete", "break", "dry-run"}

// unsupported is the error of what an engine cannot do. Nothing has run.
func unsupported(what, hint string) error {
	return &exitError{host.ExitUsage, &runtime.Error{Category: runtime.CategoryConfig, Code: "cluster.unsupported",
		Err: fmt.Errorf("cluster.unsupported: %s cannot be used with an engine\n  hint: %s", what, hint)}}
}

// engineURL is the URL of the engine that the flags or the configuration name, and the folder at which its relative
// paths start; "": none.
func (s *session) engineURL() (url, dir string, err error) {
	switch {
	case s.engine != "":
		return s.engine, "", nil
	case s.store != "": // a flag wins over the configuration
		return "", "", nil
	}
	return s.host.EngineURL()
}

// connect opens the engine that the flags or the configuration name, and refuses what it cannot do, for which nothing
// is opened; nil: they name none.
func (s *session) connect(ctx context.Context, cmd *cobra.Command) (*cluster, error) {
	text, dir, err := s.engineURL()
	if err != nil {
		return nil, s.unready(err)
	}
	if text == "" {
		return nil, nil
	}
	if err := refuseOnEngine(cmd); err != nil {
		return nil, err
	}
	u, engine, err := s.findEngine(text)
	if err != nil {
		return nil, err
	}
	opened, err := engine.Open(ctx, u, dir)
	if err != nil {
		if bad, ok := errors.AsType[BadURL](err); ok {
			return nil, usageError("engine: %w", bad)
		}
		return nil, s.failed(host.Failed("", err))
	}
	s.cluster = &cluster{opened, opened.Runs()}
	return s.cluster, nil
}

// refuseOnEngine refuses a command, and flags of it, that cannot be used with an engine.
func refuseOnEngine(cmd *cobra.Command) error {
	name := commandName(cmd)
	if slices.Contains(onStores, name) {
		return unsupported(name, "--store URL uses a store instead of the engine")
	}
	for _, flag := range notOnEngines {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed && name != "worker" {
			return unsupported("--"+flag, "a worker of the engine executes the run; --store URL uses a store instead")
		}
	}
	return nil
}

// findEngine returns the engine of a URL.
func (a *app) findEngine(text string) (*url.URL, Engine, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		return nil, nil, usageError("an engine is a URL\n  hint: %s", engineHint)
	case u.User != nil:
		return nil, nil, usageError("the URL of an engine has no user and no password\n" +
			"  hint: keys are in environment variables, which the URL names")
	}
	for _, e := range a.engines {
		if e.Scheme() == u.Scheme {
			return u, e, nil
		}
	}
	if u.Scheme == temporalScheme {
		return nil, nil, usageError("this command has no engine for temporal:// URLs\n" +
			"  hint: go install -C cluster/temporal ./cmd/braise, in a clone of the repository, installs one that has")
	}
	return nil, nil, usageError("unknown engine %q\n  hint: %s", u.Scheme, engineHint)
}

// engineHint says what the URL of an engine looks like.
const engineHint = `say "temporal://HOST:PORT/NAMESPACE?queue=NAME"`

// temporalScheme is that of the engine of module cluster/temporal.
const temporalScheme = "temporal"
