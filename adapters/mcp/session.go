package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// session is one connection to a server, from its start to its loss.
type session struct {
	*sdk.ClientSession
	wire    *wire
	process *process // nil for an endpoint
	end     func()   // begins the end of the connection, which comes within two grace periods, whatever the server does
	mu      sync.Mutex
	listed  []*sdk.Tool   // behind mu
	lost    chan struct{} // closed when the connection is
}

// connected returns the open session, or a new one. The caller's ctx is bounded.
func (s *Server) connected(ctx context.Context) (*session, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
	}
	select {
	case <-s.closed:
		return nil, s.refuse("%w", errClosed)
	default:
	}
	if err := ended(ctx); err != nil {
		return nil, s.failed(&retry.Failure{Reason: retry.ReasonOf(err), Err: err})
	}
	if s.session != nil {
		select {
		case <-s.session.lost:
		default:
			return s.session, nil
		}
	}
	if wait := s.starts.allow(time.Now()); wait > 0 {
		return nil, s.failed(&retry.Failure{Reason: retry.Network, After: wait,
			Err: fmt.Errorf("it has ended, and is not started again before %s have passed",
				wait.Round(time.Millisecond))})
	}
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.session = session
	if tools, err := s.bind(session.listed); err == nil { // else Open fails, or the calls do
		s.tools.Store(&tools)
	}
	return session, nil
}

// manner is how a session begins.
type manner struct {
	version string        // of the protocol; "": the newest, which is asked for by discover
	probe   time.Duration // how long discover may take
}

var (
	newest = manner{probe: probeTime}
	legacy = manner{version: "2025-11-25"} // the last one with a handshake, and without discover
)

// connect begins a session and lists the tools. A server that cannot be spoken to after discover is spoken to without
// it, in a new connection: older ones may take the first message for a breach of the protocol, and end. A server that
// was slow to answer discover, and knows nothing else, gets the time for it. The next session begins as this one did.
func (s *Server) connect(ctx context.Context) (*session, error) {
	for how := s.manner; ; {
		c := &call{}
		n, err := s.begin(context.WithValue(ctx, callKey{}, c), how)
		if err == nil {
			if s.manner = how; n.InitializeResult().ProtocolVersion < questionsInResults {
				s.manner = legacy
			}
			return n, nil
		}
		s.manner = newest
		if n == nil {
			return nil, err
		}
		if next, ok := n.otherwise(how, c, s.cfg.Timeout); ok && ctx.Err() == nil {
			if how = next; n.process != nil {
				within(n.process.gone, 2*grace) // it may hold what the next one needs
			}
			continue
		}
		f := s.failure(ctx, n, c, "it could not be opened", err)
		f.Sent = false // no call of a tool was
		switch {
		case n.process == nil:
		case ctx.Err() != nil:
			f.Err = fmt.Errorf("%w%s", f.Err, n.process.said(s.quoteTail(ctx)))
		default:
			s.starts.ended(time.Now())
		}
		return nil, f
	}
}

// otherwise is how to begin after a session has not begun; false: there is no other way.
func (n *session) otherwise(how manner, c *call, patience time.Duration) (manner, bool) {
	greeted, known := n.wire.greeted.Load(), c.known()
	switch {
	case how.version != "" || n.ClientSession != nil:
	case greeted && n.wire.belated.Load() && known.said != nil && how == newest:
		return manner{probe: patience}, true
	case !greeted || n.process != nil && !known.replied:
		return legacy, true
	case n.process == nil && !known.sent && known.fault == nil: // the connection was no use any more
		return legacy, true
	}
	return how, false
}

// begin begins a session. After a failure it is over, and tells what is known; nil: nothing was begun.
func (s *Server) begin(ctx context.Context, how manner) (*session, error) {
	n := &session{wire: newWire(s.cfg.Timeout, how.probe), lost: make(chan struct{})}
	var transport sdk.Transport
	var err error
	if s.base != nil {
		transport, n.wire.requests = newHTTPTransport(s.cfg, s.base)
		n.end = n.wire.requests.end
	} else {
		if n.process, err = newProcess(s.cfg, &s.processes); err != nil {
			return nil, s.failed(&retry.Failure{Reason: retry.Unknown, Err: fmt.Errorf("it could not start: %w", err)})
		}
		transport, n.end = n.process, n.process.end
	}
	stop := context.AfterFunc(ctx, n.end) // the SDK closes what it could not open, and waits for the server
	defer stop()
	n.ClientSession, err = s.client.Connect(ctx, watched{transport, n.wire},
		&sdk.ClientSessionOptions{ProtocolVersion: how.version})
	if err != nil {
		n.ClientSession = nil
		n.end()
		return n, err
	}
	n.wire.agreed(n.InitializeResult().ProtocolVersion)
	if n.listed, err = n.list(ctx); err != nil {
		n.end()
		_ = n.Close()
		return n, err
	}
	go func() {
		_ = n.Wait()
		if n.process != nil {
			s.starts.ended(time.Now())
		}
		close(n.lost)
	}()
	return n, nil
}

// leave ends a session, once the server knows which calls are cancelled. The connection ends beside the close of the
// protocol, which waits for the server.
func (n *session) leave() {
	within(n.wire.settled(), grace)
	n.end()
	_ = n.Close() // whatever it was, it is over
	<-n.lost
}

// bounded limits ctx by the timeout, which may be renewed until so many of them have passed, and ends it with the
// server.
func (s *Server) bounded(ctx context.Context, most int) (context.Context, *limit, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	l := newLimit(s.cfg.Timeout, most, end)
	over := make(chan struct{})
	go func() {
		select {
		case <-s.closed:
			end(errClosed)
		case <-over:
		}
	}()
	return ctx, l, func() {
		close(over)
		l.timer.Stop()
		end(nil)
	}
}

// call calls a tool. When it turns out, before the call has reached the server, that the session is
// over, it is made in another one.
func (s *Server) call(ctx context.Context, t *tool, args json.RawMessage) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !json.Valid(args) {
		return nil, s.refuse("tool %q: its arguments are not JSON", t.remote)
	}
	asks, err := s.mayAsk(ctx, t)
	if err != nil {
		return nil, err
	}
	defer asks.over()
	ctx, limit, cancel := s.bounded(ctx, mostTimeouts)
	defer cancel()
	params := &sdk.CallToolParams{Name: t.remote, Arguments: args}
	for again := true; ; again = false {
		session, err := s.connected(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.relist(ctx, session); err != nil {
			return nil, err
		}
		about := session.tool(t.remote)
		if about == nil {
			return nil, s.refuse("it no longer has the tool %q", t.remote)
		}
		now := s.spec(t.spec.Name, about)
		if what := now.Since(t.spec.Fingerprint()); what != "" {
			return nil, &runtime.Error{Category: runtime.CategoryTool, Code: "mcp.changed",
				Err: fmt.Errorf("tool %q is not called, as it has changed since its server was opened: %s",
					t.spec.Name, what)}
		}
		c := &call{token: "braise-" + fmt.Sprint(s.count.Add(1))}
		c.watch(ctx, s, t.spec.Name, limit)
		got, err := session.toolCalled(ctx, s, asks, c, params)
		if answer := c.answered(); answer != nil {
			s.starts.worked()
			if params.InputResponses, err = asks.answers(got); err != nil {
				return nil, s.failed(&retry.Failure{Sent: true, Err: fmt.Errorf("tool %q: %w", t.remote, err)})
			}
			switch pause := asks.pending(); {
			case pause != nil:
				return nil, pause
			case params.InputResponses == nil:
				return s.result(ctx, t, about, answer)
			}
			params.RequestState = got.RequestState
			continue
		}
		if pause := asks.pending(); pause != nil {
			return nil, pause
		}
		if again && session.missed(ctx, c, err) {
			continue
		}
		f := s.failure(ctx, session, c, fmt.Sprintf("tool %q", t.remote), err)
		if f.Status != 0 {
			s.starts.worked()
		}
		return nil, f
	}
}

// toolCalled sends the request of a call, and waits for its end. Meanwhile the server may ask.
func (n *session) toolCalled(
	ctx context.Context, s *Server, asks *asking, c *call, params *sdk.CallToolParams,
) (*sdk.CallToolResult, error) {
	params.Meta = sdk.Meta{}
	if key := runtime.IdempotencyKey(ctx); key != "" {
		params.Meta[KeyMeta] = key
	}
	if text := trace.Traceparent(ctx); text != "" {
		params.Meta["traceparent"] = text
	}
	params.SetProgressToken(c.token)
	s.asks.Store(asks)
	got, err := n.CallTool(context.WithValue(ctx, callKey{}, c), params)
	s.asks.Store(nil)
	if ctx.Err() == nil {
		n.wire.forget(c.id)
	}
	if asks != nil && !c.known().replied && n.asksAside() {
		asks.left = n
	}
	return got, err
}

// missed reports whether a call has failed because the session was over before: the call has not
// reached the server, or the server no longer knows the session. It waits for the session's end.
func (n *session) missed(ctx context.Context, c *call, err error) bool {
	if known := c.known(); ctx.Err() != nil || !known.unknown &&
		(known.sent || n.process == nil && !errors.Is(err, sdk.ErrConnectionClosed)) {
		return false
	}
	select {
	case <-n.lost:
		return true
	case <-ctx.Done():
		return false
	}
}

// failure says what is known of a request that brought no result. what names it.
func (s *Server) failure(ctx context.Context, n *session, c *call, what string, err error) *retry.Failure {
	known := c.known()
	f := &retry.Failure{Reason: retry.Network, Sent: known.sent}
	switch {
	case ctx.Err() != nil:
		switch err = ended(ctx); {
		case err != errClosed:
			f.Reason = retry.ReasonOf(err)
		case !f.Sent:
			f.Reason = ""
		}
	case known.fault == errLongAnswer:
		f.Reason, err = "", fmt.Errorf("its answer has more than %d bytes", framing*s.cfg.MaxBytes)
	case known.status != 0 && (known.status < 200 || known.status > 299):
		f.Reason, f.Status, f.After = retry.ReasonOfStatus(known.status), known.status, known.after
		if known.said != nil {
			err = known.said
		}
		err = s.statusError(ctx, known.status, err)
	case known.said != nil:
		code := known.said.Code
		f.Reason, f.Status = retry.Unknown, int(code)
		if code == jsonrpc.CodeParseError || code <= jsonrpc.CodeInvalidRequest && code >= jsonrpc.CodeInvalidParams {
			f.Reason = ""
		}
		err = errors.New(s.quote(ctx, known.said.Message))
	case known.replied:
		f.Reason, err = "", fmt.Errorf("its answer does not keep to the protocol: %s", s.quote(ctx, err.Error()))
	case n.process != nil:
		err = errors.New(n.process.fate(s.quoteTail(ctx)))
	default:
		if known.fault != nil {
			err = known.fault
		}
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err // without the URL: its query may hold a secret
		}
		err = errors.New(s.quote(ctx, err.Error()))
	}
	f.Err = fmt.Errorf("%s: %w", what, err)
	return s.failed(f)
}

// statusError says which HTTP status came.
func (s *Server) statusError(ctx context.Context, status int, err error) error {
	message := fmt.Sprintf("status %d %s", status, http.StatusText(status))
	if said, ok := errors.AsType[*jsonrpc.Error](err); ok && said.Code != rejected {
		message += ": " + s.quote(ctx, said.Message)
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok { // a redirect that is not followed
		message += ": " + urlErr.Err.Error()
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		message += "\n  hint: the headers of the server say who asks"
	}
	return errors.New(message)
}

// rejected is the code of an error that the SDK wraps where a request was not taken.
const rejected = -32005

// timedOut is the cause of a context whose call took longer than the server's timeout.
type timedOut time.Duration

func (t timedOut) Error() string { return fmt.Sprintf("timed out after %s", time.Duration(t)) }

func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

// ended says why ctx is done; nil: it is not.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, ok := errors.AsType[timedOut](cause); ok || cause == errClosed {
		return cause
	}
	return ctx.Err()
}

// call is a request under way.
type call struct {
	token      string         // of its progress; "": none is told
	progressed func(progress) // with a token

	mu sync.Mutex
	id jsonrpc.ID
	knowledge
}

// knowledge is what is known of a call.
type knowledge struct {
	answer  json.RawMessage // the result; nil: none has come
	said    *jsonrpc.Error  // the error that came instead; nil: none has
	replied bool            // one of the two has come
	sent    bool            // it may have reached the server
	status  int             // of HTTP; 0: none
	after   time.Duration   // Retry-After
	fault   error           // of the connection
	unknown bool            // the server does not know the session, and has not made the call
}

// note changes what is known of a call; of nil, nothing is.
func (c *call) note(change func(*knowledge)) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		change(&c.knowledge)
	}
}

func (c *call) known() knowledge {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.knowledge
}

func (c *call) answered() json.RawMessage { return c.known().answer }
