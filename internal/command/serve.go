package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/clock"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/trace/oteltrace"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// serveFlags are the flags of serve; they win over braise.yaml.
type serveFlags struct {
	listen   string
	queues   []string
	maxRuns  int
	noWork   bool
	open     bool
	insecure bool
}

func (a *app) serveCommand() *cobra.Command {
	flags := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve [RECIPE|DIR]…",
		Short: "Serve recipes over HTTP, and execute the runs in queues",
		Long: "Serve answers HTTP requests that start, show, answer, cancel and fork runs, and executes the\n" +
			"runs in its queues. Several servers may share a store. DIR is a recipe, or a folder of recipes.\n" +
			"Without arguments, serve.recipes in braise.yaml names them. After SIGTERM or SIGINT, the server\n" +
			"lets calls in progress end.",
		Example: `  braise serve recipes
  braise serve --listen 127.0.0.1:0 --queue default --max-runs 4 --store postgres://…`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.serve(cmd, args, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "", "the address and port (default 127.0.0.1:7411); port 0: any free port")
	f.StringArrayVar(&flags.queues, "queue", nil, "a queue whose runs are executed (repeatable; default \"default\")")
	f.IntVar(&flags.maxRuns, "max-runs", 0, "maximum concurrent runs (default 16)")
	f.BoolVar(&flags.noWork, "no-work", false, "execute no runs; other workers do")
	f.BoolVar(&flags.open, "open", false, "open the server in a browser")
	f.BoolVar(&flags.insecure, "insecure", false, "listen beyond this machine without TLS")
	return cmd
}

// server is what serve runs.
type server struct {
	*session
	conf     host.Serve
	store    checkpoint.Store
	recipes  *host.Recipes
	api      *serve.Server
	metrics  trace.Sink       // of the runs
	worker   *worker.Worker   // nil: it executes nothing
	notify   *worker.Notifier // nil: nobody is told
	draining chan struct{}    // closed when it begins to stop
	token    string           // that was made for this process; "": the configuration has some
}

// serve serves until a signal comes:
//
//  1. read the configuration and the recipes, open the store: what is wrong ends with an error
//  2. listen, and say where
//  3. let the worker, the notifier and the rest work
//  4. on a signal, let executions come to their ends, then requests
func (a *app) serve(cmd *cobra.Command, paths []string, flags *serveFlags) error {
	ctx := cmd.Context()
	beside := "" // whose braise.yaml is used
	if len(paths) > 0 {
		beside = recipePath(paths[0])
	}
	sess, err := a.open(ctx, host.Options{Recipe: beside, Reporter: operator{a}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer sess.close()
	if _, err := sess.connect(ctx, cmd); err != nil {
		return err
	}
	s := &server{session: sess, draining: make(chan struct{})}
	ctx, why := s.interruptible(ctx)
	if err := s.prepare(ctx, paths, flags); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.conf.Listen)
	if err != nil {
		return &exitError{host.ExitInternal, err}
	}
	url := s.address(listener)
	s.api.Access.Hosts = append(s.api.Access.Hosts, hostOf(listener.Addr().String()))
	if err := s.prepareNotify(url); err != nil {
		listener.Close()
		return &exitError{host.ExitInvalid, err}
	}
	if err := s.say(url, flags.open); err != nil {
		listener.Close()
		return err
	}
	if err := s.run(ctx, listener); err != nil {
		return &exitError{host.ExitInternal, err}
	}
	if stopped := why(); stopped != nil && stopped.code == host.ExitInterrupt {
		return exit(host.ExitInterrupt)
	}
	return nil
}

// prepare makes everything that serves.
func (s *server) prepare(ctx context.Context, paths []string, flags *serveFlags) error {
	config, err := s.host.Serve()
	if err != nil {
		return s.unready(err)
	}
	s.configure(config, flags)
	if len(paths) == 0 {
		paths = s.conf.Recipes
	}
	if len(paths) == 0 {
		return &exitError{host.ExitInvalid, errors.New("there are no recipes to serve\n" +
			"  hint: braise serve recipes/ names a folder of recipes; so does serve.recipes in braise.yaml")}
	}
	if err := s.checkListen(flags.insecure); err != nil {
		return err
	}
	if s.recipes, err = s.host.Recipes(ctx, paths); err != nil {
		return &exitError{host.ExitInvalid, err}
	}
	for _, r := range s.recipes.List() {
		s.printDiagnostics(r.Diagnostics)
		if r.Workflow == nil {
			continue
		}
		if lacks, err := r.Workflow.Check(ctx, s.host.Assume(r.Workflow.Recipe())); err == nil {
			s.sayNoConfig(lacks)
		}
	}
	if s.store, err = s.openStore(ctx); err != nil {
		return err
	}
	if url, _, _ := s.host.StoreURL(); strings.HasPrefix(url, "jsonl:") {
		s.warn("a jsonl store reads whole journals for every list: take sqlite: or postgres: for more than a few runs")
	}
	rt, err := s.host.Runtime(ctx, nil)
	if err != nil { // a server that is missing now may be there later
		rt = s.host.Bare()
		rt.Store = s.store
		s.warn(err.Error())
	}
	return s.prepareServers(rt, flags)
}

// configure takes the configuration, with what the flags and the defaults say.
func (s *server) configure(config *host.Serve, flags *serveFlags) {
	s.conf = *config
	s.conf.Listen = cmp.Or(flags.listen, s.conf.Listen, "127.0.0.1:7411")
	s.conf.MaxRuns = cmp.Or(flags.maxRuns, s.conf.MaxRuns)
	if flags.queues != nil {
		s.conf.Queues = flags.queues
	} else if s.conf.Queues == nil {
		s.conf.Queues = []string{"default"}
	}
}

// checkListen refuses to listen where everyone can listen in, or with a certificate that cannot be used.
func (s *server) checkListen(insecure bool) error {
	if c := s.conf.TLS; c != nil {
		if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
			return &exitError{host.ExitInvalid, fmt.Errorf("serve.tls: %w", err)}
		}
	}
	name, _, err := net.SplitHostPort(s.conf.Listen)
	if err != nil {
		return &exitError{host.ExitInvalid, fmt.Errorf("listen %q: it is an address and a port, such as 127.0.0.1:7411",
			s.conf.Listen)}
	}
	ip := net.ParseIP(name)
	if name == "localhost" || ip != nil && ip.IsLoopback() || insecure || s.conf.TLS != nil || s.conf.Proxy != nil {
		return nil
	}
	return &exitError{host.ExitInvalid, fmt.Errorf("listen %q: others could read tokens on their way to this address\n"+
		"  hint: give serve.tls or serve.proxy in braise.yaml, or --insecure if the network is safe", s.conf.Listen)}
}

// prepareServers makes the API, and the worker with its schedules.
func (s *server) prepareServers(rt *runtime.Runtime, flags *serveFlags) error {
	s.api = &serve.Server{Store: s.store, Runtime: rt, Queue: s.conf.Queues[0], URL: s.conf.URL,
		Version: version().Version, Drain: s.draining, Recipes: s.served,
		Assume:  func(wf *workflow.Workflow) *runtime.Runtime { return s.host.Assume(wf.Recipe()) },
		MaxBody: int64(s.conf.MaxBody), MaxQueued: s.conf.MaxQueued,
		ConfigSchema: host.ConfigSchema(),
		Logger:       slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	runs, registry, err := oteltrace.Prometheus()
	if err != nil {
		return &exitError{host.ExitInternal, err}
	}
	s.metrics = runs
	s.api.Metrics = &serve.Metrics{Queues: s.conf.Queues, More: registry}
	s.prepareAccess()
	triggers, err := s.triggers()
	if err != nil {
		return &exitError{host.ExitInvalid, err}
	}
	s.api.Triggers = triggers
	if err := s.api.Validate(); err != nil {
		return &exitError{host.ExitInvalid, err}
	}
	if flags.noWork {
		return nil
	}
	s.worker = &worker.Worker{Runtime: rt, Queues: s.conf.Queues, MaxRuns: s.conf.MaxRuns, MaxRunsOf: s.conf.MaxRunsOf,
		Drain: s.conf.Drain, Schedules: s.schedules(), Bind: s.bind}
	if err := s.worker.Check(); err != nil {
		return &exitError{host.ExitInvalid, err}
	}
	s.api.Worker = s.worker
	s.api.Ready = func(context.Context) error { return s.worker.State().Err }
	return nil
}

// bind is the runtime for runs of a recipe that the worker executes: with the configuration of this host, whatever they
// began with.
func (s *server) bind(ctx context.Context, wf *workflow.Workflow) (*runtime.Runtime, error) {
	rt, err := s.host.Runtime(ctx, wf)
	if err == nil {
		rt.Trace = append(slices.Clone(rt.Trace), s.api.Sink(), s.metrics)
	}
	return rt, err
}

// served are the recipes in the form of the API.
func (s *server) served() []serve.Recipe {
	list := s.recipes.List()
	recipes := make([]serve.Recipe, len(list))
	for i, r := range list {
		recipes[i] = serve.Recipe{Name: r.Name, Workflow: r.Workflow, Diagnostics: r.Diagnostics, Source: r.Source,
			Schedules: s.schedulesOf(r.Name), Triggers: s.triggersOf(r.Name)}
	}
	return recipes
}

// prepareAccess says who may do what. If nobody may, it makes a token.
func (s *server) prepareAccess() {
	access := &s.api.Access
	access.Hosts = slices.Clone(s.conf.Hosts)
	for name, t := range s.conf.Tokens {
		access.Tokens = append(access.Tokens, serve.Token{Name: name, Secret: t.Token, Roles: roles(t.Roles),
			Recipes: t.Recipes, Groups: t.Groups})
	}
	slices.SortStableFunc(access.Tokens, func(a, b serve.Token) int { return strings.Compare(a.Name, b.Name) })
	if p := s.conf.Proxy; p != nil {
		access.Proxy = &serve.Proxy{From: p.From, User: p.User, Groups: p.Groups, Roles: map[serve.Role][]string{}}
		for role, groups := range p.Roles {
			access.Proxy.Roles[serve.Role(role)] = groups
		}
	}
	if access.Tokens == nil && access.Proxy == nil {
		s.token = rand.Text()
		access.Tokens = []serve.Token{{Name: s.host.By(), Secret: s.token, Roles: []serve.Role{serve.Operate},
			Groups: s.host.Groups()}}
	}
}

func roles(names []string) []serve.Role {
	list := make([]serve.Role, len(names))
	for i, name := range names {
		list[i] = serve.Role(name)
	}
	return list
}

// address is the URL by which this machine reaches the server, without a slash at its end.
func (s *server) address(l net.Listener) string {
	scheme := "http"
	if s.conf.TLS != nil {
		scheme = "https"
	}
	return cmp.Or(strings.TrimRight(s.conf.URL, "/"), scheme+"://"+l.Addr().String())
}

// hostOf is the name in an address.
func hostOf(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return name
}

// say prints where the server listens.
func (s *server) say(url string, browser bool) error {
	login := url + "/"
	if s.token != "" {
		login += "#login=" + s.token
	}
	if s.output != "human" {
		said := struct {
			URL   string `json:"url"`
			Token string `json:"token,omitempty"` // of this process; the configuration has others
		}{url, s.token}
		text, err := json.Marshal(said)
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		fmt.Fprintf(s.stdout, "%s\n", text)
	} else {
		fmt.Fprintln(s.stdout, login)
	}
	if browser {
		open := map[string]string{"darwin": "open", "windows": "explorer"}
		if err := exec.Command(cmp.Or(open[goruntime.GOOS], "xdg-open"), login).Start(); err != nil {
			s.warn("no browser was opened: " + err.Error())
		}
	}
	return nil
}

// run serves until ctx ends. The error is that of the listener, or of a worker that cannot work.
func (s *server) run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var work sync.WaitGroup
	begin := func(f func() error) {
		work.Go(func() {
			if err := f(); err != nil {
				stop(err)
			}
		})
	}
	begin(func() error {
		s.recipes.Watch(ctx, func(err error) { s.warn(err.Error()) })
		return nil
	})
	if s.worker != nil {
		begin(func() error { return s.worker.Run(ctx) })
	}
	if s.notify != nil {
		begin(func() error { return s.notify.Run(ctx) })
	}
	if s.conf.Retention > 0 {
		begin(func() error { s.prune(ctx); return nil })
	}
	handler := s.api.HTTP(s.conf.Listen)
	var serving sync.WaitGroup
	serving.Go(func() {
		err := s.accept(handler, listener)
		if !errors.Is(err, http.ErrServerClosed) {
			stop(err)
		}
	})
	<-ctx.Done()
	s.again() // a second signal ends the process
	close(s.draining)
	work.Wait() // requests are answered meanwhile: others may still look and answer
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := handler.Shutdown(closing); err != nil {
		handler.Close()
	}
	serving.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (s *server) accept(handler *http.Server, listener net.Listener) error {
	if s.conf.TLS != nil {
		return handler.ServeTLS(listener, s.conf.TLS.Cert, s.conf.TLS.Key)
	}
	return handler.Serve(listener)
}

// again lets the next signal end the process.
func (s *server) again() { s.cancel.Store(nil) }

// operator reads stderr.
type operator struct{ *app }

// Warn implements runtime.Reporter.
func (o operator) Warn(message string, attrs ...slog.Attr) {
	for _, at := range attrs {
		message += fmt.Sprintf(", %s: %v", at.Key, at.Value)
	}
	o.warn(message)
}

// prune removes what ended long ago, now and every hour.
func (s *server) prune(ctx context.Context) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		now, err := clock.Of(ctx, s.store)
		if err == nil {
			_, err = s.store.Prune(ctx, now.Add(-s.conf.Retention))
		}
		if err == nil {
			_, err = pruneFiles(ctx, s.store)
		}
		if err != nil && ctx.Err() == nil {
			s.warn("old runs are not removed: " + err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
