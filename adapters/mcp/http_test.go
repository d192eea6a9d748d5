package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/retry"
)

// web is an endpoint with the tools of newServer.
type web struct {
	url     string
	version []string // of the protocol; nil: all that the SDK has
	servers []*sdk.Server
	inner   atomic.Pointer[http.Handler]                                      // the SDK's
	before  atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // answers a call of a tool instead, or not
}

func endpoint(t *testing.T, version ...string) *web {
	e := &web{version: version}
	e.restart(&sdk.StreamableHTTPOptions{})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		server.CloseClientConnections()
		for _, s := range e.servers { // those that nobody ends
			for session := range s.Sessions() {
				session.Close()
			}
		}
	})
	e.url = server.URL
	return e
}

// restart forgets all sessions.
func (e *web) restart(opts *sdk.StreamableHTTPOptions) {
	server := newServer(e.version...)
	e.servers = append(e.servers, server)
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)
	e.inner.Store(&h)
}

func (e *web) config() mcp.Config { return mcp.Config{Name: "test", URL: e.url + "/mcp"} }

// ServeHTTP implements http.Handler.
func (e *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if before := e.before.Load(); before != nil && (r.Method == http.MethodGet || strings.Contains(string(body), `"tools/call"`)) && (*before)(w, r) {
		return
	}
	(*e.inner.Load()).ServeHTTP(w, r)
}

// answer has the next calls of tools answered otherwise.
func (e *web) answer(f func(w http.ResponseWriter, r *http.Request) bool) { e.before.Store(&f) }

func TestStatuses(t *testing.T) {
	e := endpoint(t)
	s := open(t, e.config())
	for _, tt := range []struct {
		status int
		body   string
		want   retry.Failure
		words  string
	}{
		{429, "", retry.Failure{Reason: retry.RateLimit, Status: 429, After: 7 * time.Second, Sent: true}, "status 429 Too Many Requests"},
		{500, "", retry.Failure{Reason: retry.ServerError, Status: 500, After: 7 * time.Second, Sent: true}, "status 500"},
		{503, "", retry.Failure{Reason: retry.ServerError, Status: 503, After: 7 * time.Second, Sent: true}, "status 503"},
		{504, "", retry.Failure{Reason: retry.Timeout, Status: 504, After: 7 * time.Second, Sent: true}, "status 504"},
		{401, "", retry.Failure{Status: 401, After: 7 * time.Second, Sent: true}, "status 401 Unauthorized\n  hint: the headers of the server say who asks"},
		{400, `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}`, retry.Failure{Status: 400, After: 7 * time.Second, Sent: true}, "status 400 Bad Request: no"},
	} {
		e.answer(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
			return true
		})
		_, err := call(t.Context(), t, s, "echo", `{}`)
		checkFailure(t, err, tt.want, `mcp server "test": `, tt.words)
	}
	e.answer(func(http.ResponseWriter, *http.Request) bool { return false })
	if got, err := call(t.Context(), t, s, "echo", `{"text": "well"}`); err != nil || got != `"well"` {
		t.Errorf("then %s, %v", got, err)
	}
}

// An answer that breaks off leaves open what the call has done.
func TestConnectionsThatBreakOff(t *testing.T) {
	t.Parallel()
	e := endpoint(t)
	s := open(t, e.config())
	for name, answer := range map[string]func(w http.ResponseWriter){
		"before the status": func(http.ResponseWriter) {},
		"in an object": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc": `)
			w.(http.Flusher).Flush()
		},
		"in a stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {")
			w.(http.Flusher).Flush()
		},
		"in a stream with ids": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 7\ndata: \n\n")
			w.(http.Flusher).Flush()
		},
	} {
		var calls atomic.Int32
		e.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				calls.Add(1)
			}
			answer(w)
			panic(http.ErrAbortHandler)
		})
		_, err := call(t.Context(), t, s, "echo", `{}`)
		checkFailure(t, err, retry.Failure{Reason: retry.Network, Sent: true})
		if n := calls.Load(); n != 1 {
			t.Errorf("%s: %d calls", name, n)
		}
	}
	e.answer(func(http.ResponseWriter, *http.Request) bool { return false })
	if got, err := call(t.Context(), t, s, "echo", `{"text": "well"}`); err != nil || got != `"well"` {
		t.Errorf("then %s, %v", got, err)
	}
}

// A server may end a stream on purpose, and give the rest of the answer to a client that asks for it.
func TestAnswersInTwoParts(t *testing.T) {
	e := endpoint(t)
	s := open(t, e.config())
	id := make(chan json.RawMessage, 1)
	e.answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			var req struct{ ID json.RawMessage }
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			id <- req.ID
			_, _ = io.WriteString(w, "id: 7\nretry: 1\ndata: \n\n")
			return true
		}
		if got := r.Header.Get("Last-Event-ID"); got != "7" {
			t.Errorf("Last-Event-ID: %s", got)
		}
		fmt.Fprintf(w, "id: 8\ndata: {\"jsonrpc\": \"2.0\", \"id\": %s, \"result\": {\"content\": [{\"type\": \"text\", \"text\": \"rest\"}]}}\n\n", <-id)
		return true
	})
	if got, err := call(t.Context(), t, s, "echo", `{}`); err != nil || got != `"rest"` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestEndpointThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	_, err := mcp.Open(t.Context(), mcp.Config{Name: "test", URL: server.URL + "/?key=hunter22"})
	checkFailure(t, err, retry.Failure{Status: 404}, "status 404 Not Found")
	server.Close()
	_, err = mcp.Open(t.Context(), mcp.Config{Name: "test", URL: server.URL + "/?key=hunter22"})
	checkFailure(t, err, retry.Failure{Reason: retry.Network}, "connection refused")
}

// A server that has forgotten the session is asked for another one.
func TestSessionThatIsForgotten(t *testing.T) {
	e := endpoint(t)
	s := open(t, e.config())
	e.restart(nil)
	if got, err := call(t.Context(), t, s, "echo", `{"text": "again"}`); err != nil || got != `"again"` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestHeaders(t *testing.T) {
	e := endpoint(t)
	var seen atomic.Pointer[http.Header]
	e.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		seen.Store(&r.Header)
		return false
	})
	cfg := e.config()
	cfg.Headers = map[string]string{"Authorization": "Bearer hunter22hunter"}
	if _, err := call(t.Context(), t, open(t, cfg), "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	if got := seen.Load().Get("Authorization"); got != "Bearer hunter22hunter" {
		t.Errorf("Authorization: %s", got)
	}
	if seen.Load().Get("Mcp-Protocol-Version") == "" {
		t.Error("no version of the protocol")
	}
}

// Redirects are followed on the same host only: headers are not for others.
func TestRedirects(t *testing.T) {
	e := endpoint(t)
	var to atomic.Value
	to.Store("/mcp")
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			http.Redirect(w, r, to.Load().(string), http.StatusTemporaryRedirect)
			return
		}
		e.ServeHTTP(w, r)
	}))
	defer redirecting.Close()
	defer redirecting.CloseClientConnections()
	cfg := mcp.Config{Name: "test", URL: redirecting.URL + "/here", Headers: map[string]string{"Authorization": "Bearer hunter22hunter"}}
	if got, err := call(t.Context(), t, open(t, cfg), "echo", `{"text": "hi"}`); err != nil || got != `"hi"` {
		t.Errorf("%s, %v", got, err)
	}
	to.Store(e.url + "/mcp")
	_, err := mcp.Open(t.Context(), cfg)
	checkFailure(t, err, retry.Failure{Status: 307}, "status 307", "it redirects to "+e.url+"/mcp, which is not followed")
}
