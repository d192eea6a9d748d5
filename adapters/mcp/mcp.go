// Package mcp provides the tools of MCP servers (https://modelcontextprotocol.io) as runtime.Tools, with the
// names mcp.SERVER.TOOL. A server is a program that communicates by stdin and stdout, or an endpoint with
// streamable HTTP. With [Config].Elicit a tool may ask the user: its call then pauses the step. Other requests of a
// server to its client (to sample from a model, to list folders) are declined. Of its notifications, those of
// progress and of changed tools are used.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Prefix is what the names of all tools of MCP servers begin with.
const Prefix = "mcp."

// KeyMeta is the member of a request's _meta that has the idempotency key of the call, see
// [runtime.IdempotencyKey]. It is absent outside of a run.
const KeyMeta = "io.github.braise-run/idempotencyKey"

// The defaults of Config.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 4 << 20
)

// Config says how a server is reached and what its tools may do. Either Command or URL is given.
type Config struct {
	Name string // SERVER in mcp.SERVER.TOOL: letters, digits, _ and -

	// Command is the program of a server that speaks by stdin and stdout, and its arguments. It is
	// looked up in the host's PATH, started when the server is opened, again when it has ended and a
	// tool is called, and ended by Close.
	Command []string
	// Env is added to what a program gets of the host's environment: PATH, HOME, LANG, LC_ALL, TMPDIR,
	// TZ and USER, nothing else. nil: nothing.
	Env map[string]string
	Dir string // where the program starts; "": the working folder
	// Guard is a builtin.ExecOptions.Guard, for the program and all that it starts: they end with this process, however
	// it ends. nil: on Linux at least the program itself does.
	Guard []string

	URL     string            // of a server that speaks streamable HTTP
	Headers map[string]string // of every request to it; nil: none

	// Secrets are values that the server knows and that may stand in nothing that it says: results, errors,
	// descriptions of tools. The values of Env and Headers whose names are those of credentials are among them, and
	// in messages all values of both are left out. What has under 8 bytes is not sought. nil: no others.
	Secrets []string

	// Approval says whether agents need one to call the tools: never, pause, always or refuse, see
	// [runtime.ToolSpec]. "" is never.
	Approval string
	// Elicit lets the tools ask the user, by elicitation/create with a form. In a run, the step that called the tool
	// waits for a person; then the tool is called again, with the same arguments and idempotency key, and the server
	// gets the answers to the questions that it asks again. It must not act before it has asked. Outside of a run the
	// answer is decline. Calls of the server are made one at a time.
	Elicit bool
	// Timeout is of opening the server, and of each call. Each notification of progress begins that of its call again,
	// up to ten times as long in all. Defaults to 30 s.
	Timeout  time.Duration
	MaxBytes int // of one result; more is an error. Defaults to 4 MiB.
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Check says what is wrong with the configuration; nil if nothing is.
func (c Config) Check() error {
	u, err := url.Parse(c.URL)
	switch {
	case !serverName.MatchString(c.Name):
		return fmt.Errorf("mcp: the name %q of a server may have letters, digits, _ and -", c.Name)
	case len(c.Command) > 0 && c.URL != "":
		return fmt.Errorf("mcp server %q: it has a command or a URL, not both", c.Name)
	case len(c.Command) == 0 && c.URL == "":
		return fmt.Errorf("mcp server %q: it needs a command or a URL", c.Name)
	case len(c.Command) > 0 && c.Command[0] == "":
		return fmt.Errorf("mcp server %q: the command is empty", c.Name)
	case c.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == ""):
		return fmt.Errorf("mcp server %q: the URL is not one of http or https with a host", c.Name)
	case c.URL != "" && u.User != nil:
		return fmt.Errorf("mcp server %q: the URL may not hold a user\n  hint: give a header", c.Name)
	case c.URL != "" && (c.Env != nil || c.Dir != ""):
		return fmt.Errorf("mcp server %q: only a command has env and dir", c.Name)
	case c.URL == "" && c.Headers != nil:
		return fmt.Errorf("mcp server %q: only a URL has headers", c.Name)
	case !slices.Contains([]string{"", "never", "pause", "always", "refuse"}, c.Approval):
		return fmt.Errorf("mcp server %q: unknown approval %q, want never, pause, always or refuse", c.Name, c.Approval)
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("mcp server %q: env %q is not a variable", c.Name, name)
		}
	}
	for name, value := range c.Headers {
		if !headerName.MatchString(name) {
			return fmt.Errorf("mcp server %q: %q is not a header", c.Name, name)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("mcp server %q: header %q holds a line break or another control character", c.Name, name)
		}
	}
	return nil
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Server is an MCP server that has been opened. It is safe for concurrent use.
type Server struct {
	cfg     Config
	redact  *value.Redactor                // of messages
	hide    *value.Redactor                // of results
	tools   atomic.Pointer[[]runtime.Tool] // as they were listed last
	client  *sdk.Client
	base    *http.Transport // nil for a command
	closing sync.Once
	closed  chan struct{} // closed by Close

	processes sync.WaitGroup
	starts    restarts
	busy      chan struct{}          // holds one while somebody looks at session, or makes it
	session   *session               // the last one; nil: there was none yet
	manner    manner                 // how the next one begins; behind busy
	count     atomic.Int64           // of calls
	turn      chan struct{}          // with Elicit, holds one while a tool is called
	asks      atomic.Pointer[asking] // of the call that the server may ask in; nil: none
}

// Open starts or connects to a server and lists its tools. The error is, or wraps, a *retry.Failure, except for a
// Config that is wrong.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), DefaultMaxBytes)
	s := &Server{
		cfg:    cfg,
		redact: value.NewRedactor(cfg.secrets(func(string) bool { return true })),
		hide:   value.NewRedactor(cfg.secrets(credential.MatchString)),
		busy:   make(chan struct{}, 1),
		manner: newest,
		turn:   make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
	options := &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	}
	if cfg.Elicit {
		options.ElicitationHandler = s.elicited
	}
	s.client = sdk.NewClient(&sdk.Implementation{Name: "braise", Version: version()}, options)
	if cfg.URL != "" {
		s.base = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        30 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 1 << 20,
		}
	}
	ctx, _, cancel := s.bounded(ctx, 1)
	defer cancel()
	session, err := s.connected(ctx)
	if err == nil {
		_, err = s.bind(session.listed)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// credential matches the names of variables and headers that hold secrets.
var credential = regexp.MustCompile(`(?i)auth|cookie|credential|key|pass|secret|token`)

// secrets are Secrets, and the values of those variables and headers that count as secret by their names.
func (c Config) secrets(counts func(name string) bool) []string {
	all := slices.Clone(c.Secrets)
	for name, v := range c.Env {
		if counts(name) {
			all = append(all, v)
		}
	}
	for name, v := range c.Headers {
		if counts(name) {
			all = append(append(all, v), strings.Fields(v)...) // Bearer TOKEN
		}
	}
	return slices.DeleteFunc(all, func(v string) bool { return len(v) < runtime.MinSecretBytes })
}

// Tools returns the tools in the order of the server's list, as they were listed last: when the server was opened or
// its program started again, or see [Server.Update].
func (s *Server) Tools() []runtime.Tool { return slices.Clone(*s.tools.Load()) }

// Close ends the calls that are under way, and the server if it is a program: its stdin is closed;
// if it does not end within a second, its process group is asked to and, after another, killed. Nothing that the server
// does or leaves undone holds Close up.
// Tools that are called later fail. Close may be called more than once.
func (s *Server) Close() {
	s.closing.Do(func() { close(s.closed) })
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	if s.session != nil {
		s.session.leave()
	}
	s.processes.Wait()
	if s.base != nil {
		s.base.CloseIdleConnections()
	}
}

// tool is a tool of a server.
type tool struct {
	server *Server
	remote string // the name that the server has for it
	spec   runtime.ToolSpec
}

var (
	strange = regexp.MustCompile(`[^A-Za-z0-9_.-]`)
	inert   = json.RawMessage(`{"type":"object"}`)
)

// bind makes tools of what a server has listed.
func (s *Server) bind(listed []*sdk.Tool) ([]runtime.Tool, error) {
	var tools []runtime.Tool
	remotes := map[string]string{} // by the name here
	for _, t := range listed {
		name := Prefix + s.cfg.Name + "." + strange.ReplaceAllString(t.Name, "_")
		switch other, taken := remotes[name]; {
		case t.Name == "":
			return nil, s.refuse("it lists a tool without a name")
		case taken && other == t.Name:
			return nil, s.refuse("it lists the tool %q twice", t.Name)
		case taken:
			return nil, s.refuse("its tools %q and %q would both be %q", other, t.Name, name)
		}
		remotes[name] = t.Name
		tools = append(tools, &tool{server: s, remote: t.Name, spec: s.spec(name, t)})
	}
	return tools, nil
}

// spec describes a tool that the server has listed.
func (s *Server) spec(name string, t *sdk.Tool) runtime.ToolSpec {
	return runtime.ToolSpec{
		Name:        name,
		Description: oneLine(s.hide.Text(cmp.Or(t.Description, t.Title))),
		Parameters:  parameters(s.hide.Value(t.InputSchema)),
		Effect:      effectOf(t.Annotations),
		Approval:    s.cfg.Approval,
		Changes:     true,
	}
}

// effectOf reads what a server says a tool does to the world.
func effectOf(a *sdk.ToolAnnotations) runtime.Effect {
	switch {
	case a != nil && a.ReadOnlyHint:
		return runtime.ReadOnly
	case a != nil && a.IdempotentHint:
		return runtime.Idempotent
	}
	return runtime.External
}

// Spec implements runtime.Tool.
func (t *tool) Spec() runtime.ToolSpec {
	spec := t.spec
	spec.Parameters = slices.Clone(spec.Parameters)
	return spec
}

// Call implements runtime.Tool.
func (t *tool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	return t.server.call(ctx, t, args)
}

// refuse makes a failure that trying again would not mend.
func (s *Server) refuse(format string, args ...any) error {
	return s.failed(&retry.Failure{Err: fmt.Errorf(format, args...)})
}

// failed says which server a failure is about.
func (s *Server) failed(f *retry.Failure) *retry.Failure {
	f.Err = s.redact.Error(fmt.Errorf("mcp server %q: %w", s.cfg.Name, f.Err))
	return f
}

// errClosed is why a call ends that is under way when its server is closed.
var errClosed = errors.New("it was closed")

// version is that of this module, as far as the program knows it.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/braise-run/braise" && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}
