package command

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/host"
)

// workerFlags are the flags of worker.
type workerFlags struct {
	temporal  string // these four make the URL of an engine
	namespace string
	queue     string
	options   [len(urlOptions)]string // of the URL; "": not given

	WorkOptions
}

// urlOptions are flags that are options of the URL, too.
var urlOptions = [...]struct{ name, usage string }{
	{"tls-cert", "with --temporal: the file of a client certificate; with --tls-key"},
	{"tls-key", "with --temporal: the file of its key"},
	{"api-key-env", "with --temporal: the environment variable with an API key"},
	{"codec-key-env", "with --temporal: the environment variable with the keys that encrypt payloads"},
}

func (a *app) workerCommand() *cobra.Command {
	flags := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Execute runs of an engine, with the models and tools of this installation",
		Long: "Worker executes runs of an engine, with the models, tools and secrets of braise.yaml, until a signal\n" +
			"such as SIGTERM arrives. Any number of workers, on any machines, may take work from a queue. For\n" +
			"queues in a store, use braise serve instead.",
		Example: `  braise worker --temporal 127.0.0.1:7233 --task-queue braise
  braise worker --temporal 127.0.0.1:7233 --task-queue gpu --only-calls --max-calls 2`,
		Args: exactly(0, "worker takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.work(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.temporal, "temporal", "", "the address of a Temporal server, as HOST:PORT")
	f.StringVar(&flags.namespace, "namespace", "default", "with --temporal: the namespace")
	f.StringVar(&flags.queue, "task-queue", "braise", "with --temporal: the task queue")
	for i, o := range urlOptions {
		f.StringVar(&flags.options[i], o.name, "", o.usage)
	}
	f.BoolVar(&flags.OnlyCalls, "only-calls", false, "make calls that runs send to this queue, and execute no runs")
	f.DurationVar(&flags.Drain, "drain", 30*time.Second, "how long calls in progress may take after a signal")
	f.IntVar(&flags.MaxCalls, "max-calls", 0, "maximum concurrent calls (default what the engine allows)")
	f.StringVar(&flags.Build, "build", "", "the version of the worker, for engines that pin runs to a version")
	f.BoolVar(&flags.Searched, "search-attributes", false, "set search attributes of the engine, to find runs by")
	return cmd
}

// url makes the URL of an engine of the flags that begin with --temporal; "": there are none.
func (w *workerFlags) url(cmd *cobra.Command) (string, error) {
	options := url.Values{"queue": {w.queue}}
	needs := []string{"namespace", "task-queue"}
	for i, o := range urlOptions {
		needs = append(needs, o.name)
		if v := w.options[i]; v != "" {
			options.Set(strings.ReplaceAll(o.name, "-", "_"), v)
		}
	}
	if !cmd.Flags().Changed("temporal") {
		for _, name := range needs {
			if cmd.Flags().Changed(name) {
				return "", usageError("--%s needs --temporal HOST:PORT; a URL of --engine says it itself", name)
			}
		}
		return "", nil
	}
	if w.temporal == "" || strings.ContainsAny(w.temporal, "/?#@") {
		return "", usageError("--temporal is %q; it is given as HOST:PORT", w.temporal)
	}
	u := url.URL{Scheme: temporalScheme, Host: w.temporal, Path: "/" + w.namespace, RawQuery: options.Encode()}
	return u.String(), nil
}

// work executes runs of an engine until a signal comes:
//
//  1. read the configuration, connect to the engine, open MCP servers: what is wrong ends with an error
//  2. work, and say so
//  3. on a signal, let calls come to their ends
func (a *app) work(cmd *cobra.Command, flags *workerFlags) error {
	switch text, err := flags.url(cmd); {
	case err != nil:
		return err
	case text != "" && a.engine != "":
		return usageError("--temporal and --engine exclude each other")
	case text != "":
		a.engine = text
		if _, _, err := a.findEngine(text); err != nil { // nothing is opened for an engine that is not there
			return err
		}
	}
	if flags.MaxCalls < 0 || flags.Drain < 0 {
		return usageError("--max-calls and --drain cannot be negative")
	}
	s, err := a.open(cmd.Context(), host.Options{Reporter: operator{a}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close()
	ctx, why := s.interruptible(cmd.Context())
	c, err := s.connect(ctx, cmd)
	if err != nil {
		return err
	}
	if c == nil {
		return usageError("worker needs an engine: --temporal HOST:PORT, --engine URL, or engine: in %s\n"+
			"  hint: braise serve executes the runs of the queues in a store", host.FileName)
	}
	rt, err := s.host.RuntimeOfWorker(ctx)
	if err != nil {
		if err := s.stoppedEarly(ctx); err != nil {
			return err
		}
		return s.unready(err)
	}
	if !a.quiet {
		fmt.Fprintln(s.stderr, "braise: the worker begins; a signal ends it when its calls have ended")
		flags.Log = slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	err = c.Work(ctx, rt, flags.WorkOptions)
	if err != nil && !errors.Is(err, ctx.Err()) {
		return s.fail("", err)
	}
	if stopped := why(); stopped != nil && stopped.code == host.ExitInterrupt {
		return exit(host.ExitInterrupt)
	}
	return nil
}
