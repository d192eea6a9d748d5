package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// api is the handler of a server.
type api struct {
	*Server
	store     store
	gate      *gate
	mux       *http.ServeMux
	origin    *http.CrossOriginProtection
	paths     []string
	reader    *history.Reader
	hub       *hub
	compiled  workflow.Compiled // recipes that runs have
	backlog   backlog
	room      chan struct{} // has a place for each stream
	maxBody   int64
	maxQueued int
	queue     string
	runtime   *runtime.Runtime
	meter     *meter // nil: there are no metrics

	description func() []byte // of the API
}

// prefix is below the mount of the handler, and before all routes but those for monitors.
const prefix = "/api/v1"

func newAPI(s *Server) *api {
	a := &api{Server: s, store: guard.SharedStore(s.Store.(store)), gate: newGate(s.Access), mux: http.NewServeMux(),
		origin: http.NewCrossOriginProtection(), room: make(chan struct{}, cmp.Or(s.MaxStreams, 1000)),
		maxBody: cmp.Or(s.MaxBody, 1<<20), maxQueued: cmp.Or(s.MaxQueued, 10_000), queue: cmp.Or(s.Queue, "default"),
		description: sync.OnceValue(OpenAPI)}
	copied := runtime.Runtime{}
	if s.Runtime != nil {
		copied = *s.Runtime
	}
	copied.Store = s.Store
	a.runtime = &copied
	a.reader = &history.Reader{Store: s.Store}
	a.hub = newHub(a.store, a.reader, s.logger())
	s.sink.add(a.hub)
	all := slices.DeleteFunc(routes(), func(r route) bool {
		return r.name == "metrics" && s.Metrics == nil || r.name == "hook" && s.Triggers == nil
	})
	for _, r := range all {
		a.mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) { a.serve(&r, w, req) })
	}
	a.servePage()
	a.paths = paths(all)
	a.meter = newMeter(a)
	return a
}

// policy keeps a page of this server from loading or running anything foreign.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types braise"

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	handler, pattern := a.mux.Handler(r)
	w, measured := a.meter.measure(w, pattern)
	defer measured()
	defer a.rescue(w, r)
	asked := r.URL.EscapedPath()
	if pattern != "" && path.Clean(asked) == asked { // else the mux would redirect
		a.mux.ServeHTTP(w, r)
		return
	}
	if err := a.hosted(r); err != nil {
		a.refuse(w, r, err)
		return
	}
	var said silent
	if pattern == "" {
		handler.ServeHTTP(&said, r)
	}
	if allow := said.Header().Get("Allow"); said.status == http.StatusMethodNotAllowed {
		h.Set("Allow", allow)
		a.refuse(w, r, fail(said.status, "request.method", "%s is not possible here\n  hint: it is %s", r.Method,
			allow))
		return
	}
	a.refuse(w, r, absent("request.path", "there is no %.80q\n  hint: %s", r.URL.Path,
		suggest(r.URL.Path, a.paths, "GET "+prefix+"/openapi.json has all routes")))
}

// serve is one request for a route:
//
//  1. is it for this server, and not sent by a foreign page
//  2. who sends it, and may they
//  3. are the parameters and the type of the body such as the route takes
//  4. what the route does
func (a *api) serve(of *route, w http.ResponseWriter, r *http.Request) {
	c, end := a.begin(of, w, r)
	defer end()
	err := c.admit()
	if err == nil {
		err = c.checkQuery()
	}
	if err == nil {
		err = c.checkPath()
	}
	if err == nil {
		err = c.checkHeaders()
	}
	if err == nil && of.changes() && !of.foreign {
		err = c.checkType()
	}
	if err == nil && of.changes() && !of.foreign && of.takes == nil {
		err = c.noBody()
	}
	if err == nil {
		err = of.do(c)
	}
	if err != nil {
		a.refuse(w, r, c.late(err))
	}
}

// admit makes the first two steps.
func (c *call) admit() error {
	if c.open {
		return nil
	}
	if err := c.hosted(c.r); err != nil {
		return err
	}
	if err := c.origin.Check(c.r); err != nil {
		return forbidden("request.origin", "the request comes from a page of another origin"+
			"\n  hint: send it from this origin, or from a program")
	}
	if c.roles == nil {
		return nil
	}
	who, err := c.gate.known(c.r)
	switch {
	case err != nil:
		return err
	case !who.may(c.roles...):
		return forbidden("access.role", "%q may not do this\n  hint: it takes the role %s", who.name,
			wordsOf(c.roles))
	}
	c.who = who
	return nil
}

func wordsOf(roles []Role) string {
	all := []string{}
	for _, r := range append(slices.Clone(roles), Operate) {
		if !slices.Contains(all, string(r)) {
			all = append(all, string(r))
		}
	}
	return strings.Join(all, " or ")
}

// hosted refuses a request whose Host is no name of the server.
func (a *api) hosted(r *http.Request) error {
	if a.gate.hosted(r) {
		return nil
	}
	return fail(http.StatusMisdirectedRequest, "request.host", "this server does not have the name %.80q"+
		"\n  hint: add it to the hosts of the server, if it has", r.Host)
}

// rescue answers for a route that panicked.
func (a *api) rescue(w http.ResponseWriter, r *http.Request) {
	switch v := recover(); {
	case v == http.ErrAbortHandler:
		panic(v)
	case v != nil:
		a.logger().Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v),
			"stack", string(debug.Stack()))
		writeJSON(w, http.StatusInternalServerError, failure{Error: errorBody{Category: string(runtime.CategoryInfra),
			Code: "server.failed", Message: "the server failed", Hint: "the log of the server says more"}})
	}
}

func (a *api) logFailure(ctx context.Context, r *http.Request, err error) {
	a.logger().LogAttrs(ctx, slog.LevelError, "request failed", slog.String("method", r.Method),
		slog.String("path", r.URL.Path), slog.Any("error", err))
}

// silent takes what the mux answers for a path that it does not have.
type silent struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (s *silent) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

// Write implements http.ResponseWriter.
func (s *silent) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (s *silent) WriteHeader(status int) { s.status = status }
