// Package serve is an HTTP API for a store of runs: it shows runs, streams their events, takes answers, and starts,
// cancels and forks runs. It executes nothing: it records requests, and workers carry them out.
//
// A [Server] does not read a configuration file. [Server.Handler] can be mounted in the mux of an app, under any prefix
// with [http.StripPrefix]; docs/api.md lists its routes, and docs/openapi.json describes them.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// Server serves the HTTP API. Its fields must not change once Handler was called.
type Server struct {
	// Store has the runs. It is also a checkpoint.Querier, a checkpoint.Watcher and a checkpoint.Signals, as all
	// stores of this module are.
	Store checkpoint.Store
	// Recipes returns the recipes that can be started, in the order in which they are listed. It is called for each
	// request that needs them and must return quickly. nil: there are none.
	Recipes func() []Recipe
	// Runtime is what the runs are checked against before they are recorded: tools, models, prices, limits. Its Store
	// is not used. nil: the zero Runtime.
	Runtime *runtime.Runtime
	// Assume returns what starts of one recipe are checked against instead of Runtime. It is called for each start, and
	// when recipes are shown, so it must return quickly. nil: Runtime is for all.
	Assume func(wf *workflow.Workflow) *runtime.Runtime
	// Worker executes runs in this process. A start for one of its queues is refused if the recipe needs a model, a
	// tool or a secret that is not configured. nil: there is none, and only other processes know what they lack.
	Worker *worker.Worker
	// Queue is where runs wait for a worker if who starts them names no queue. Defaults to "default".
	Queue string
	// Access says who may do what. The zero Access lets nobody in.
	Access Access

	// URL is where people reach the handler, such as https://braise.example.com/ops; links to pauses begin with it, and
	// cookies are kept to TLS if it does. "": what the request says.
	URL string
	// Version is what GET /api/v1/me says; "": nothing.
	Version string
	// ConfigSchema is the JSON Schema of the configuration that the server was made from, which
	// GET /api/v1/schemas/config gives. nil: there is no such schema.
	ConfigSchema []byte
	// Metrics says what GET /metrics tells besides what the server knows. nil: there is no such route.
	Metrics *Metrics
	// Triggers begin runs for the signed requests of other systems, at POST /api/v1/hooks/{trigger}. nil: there is no
	// such route.
	Triggers []*worker.Trigger
	// Ready says whether requests should be sent to this process, besides what the server checks itself. nil: they
	// should.
	Ready func(context.Context) error
	// Drain, once closed, ends all streams, and GET /readyz says that no requests should be sent any more. nil: never.
	Drain <-chan struct{}
	// Logger receives what goes wrong in the server, without tokens. nil: slog.Default.
	Logger *slog.Logger

	MaxBody    int64 // bytes of the body of a request. Defaults to 1 MiB
	MaxQueued  int   // queued runs, beyond which no run can be started. Defaults to 10,000
	MaxStreams int   // streams at a time. Defaults to 1,000

	sink sink
}

// Recipe is a recipe that can be started.
type Recipe struct {
	Name string
	// Workflow is the last version that compiled; nil: none did, and the recipe cannot be started.
	Workflow *workflow.Workflow
	// Diagnostics are those of the newest version: if they have errors, Workflow is an older one, or nil.
	Diagnostics diagnostics.List
	Source      string // the text of the newest version; "": it is not shown
	// Schedules and Triggers are what begins runs of it, to be shown; nil: nothing does.
	Schedules []worker.Schedule
	Triggers  []string // their names
}

// Store is what the server needs of a store.
type store = guard.Shared

// Validate returns what is wrong with the fields of the server; nil: nothing is.
func (s *Server) Validate() error {
	if s.Store == nil {
		return errors.New("serve: there is no Store")
	}
	if _, ok := s.Store.(store); !ok {
		return fmt.Errorf("serve: a %T cannot be served\n  hint: it lacks checkpoint.Querier, checkpoint.Watcher or "+
			"checkpoint.Signals", s.Store)
	}
	if s.MaxBody < 0 || s.MaxQueued < 0 || s.MaxStreams < 0 {
		return errors.New("serve: MaxBody, MaxQueued or MaxStreams is negative\n  hint: 0 is the default")
	}
	if s.Runtime != nil {
		if err := s.Runtime.Validate(); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	if err := s.Access.check(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Works reports whether a worker in this process executes the runs of a queue.
func (s *Server) Works(queue string) bool {
	return s.Worker != nil && slices.Contains(s.Worker.Queues, queue)
}

// Handler returns the handler of all routes. It panics with the error of Validate, if there is one.
func (s *Server) Handler() http.Handler {
	if err := s.Validate(); err != nil {
		panic(err)
	}
	return newAPI(s)
}

// The limits of HTTP.
const (
	maxHeaderBytes = 16 << 10
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
)

// HTTP returns a server that listens on addr, with limits for the headers of requests: 16 KiB and 5 seconds. A server
// of the app's own should have such limits, too.
func (s *Server) HTTP(addr string) *http.Server {
	return &http.Server{Addr: addr, Handler: s.Handler(), MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.logger().Handler(), slog.LevelWarn)}
}

func (s *Server) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}
