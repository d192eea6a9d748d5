package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/retry"
)

// oldAnswer is what a server of the protocol 2024-11-05 answers; "": nothing.
func oldAnswer(method string, id json.RawMessage) string {
	result := map[string]string{
		"initialize": `{"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "0.5"}}`,
		"tools/list": `{"tools": [{"name": "tide", "inputSchema": {"type": "object"}}]}`,
		"tools/call": `{"content": [{"type": "text", "text": "high at noon"}]}`,
	}[method]
	switch {
	case id == nil:
		return ""
	case result == "":
		return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "error": {"code": -32601, "message": "no %s"}}`, id, method)
	}
	return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "result": %s}`, id, result)
}

// serveOld is a server of the protocol 2024-11-05, on stdin and stdout. FIRST is what it does when the first message is
// not initialize. STARTS is a file that gets a line for each start.
func serveOld(first string) {
	starts, err := os.OpenFile(os.Getenv("STARTS"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(starts, "start")
	_, _ = starts.Seek(0, io.SeekStart)
	before, _ := io.ReadAll(starts)
	again := strings.Count(string(before), "\n") > 1
	begun := false
	var held json.RawMessage
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			panic(err)
		}
		if begun = begun || req.Method == "initialize"; !begun {
			switch first {
			case "ends":
				fmt.Fprintln(os.Stderr, "expected initialize")
				os.Exit(4)
			case "refuses and ends":
				fmt.Println(oldAnswer(req.Method, req.ID))
				os.Exit(0)
			case "closes its stdout":
				os.Stdout.Close()
			case "answers late": // and knows nothing else
				if again {
					r, w := io.Pipe()
					go func() {
						fmt.Fprintln(w, lines.Text())
						_, _ = io.Copy(w, os.Stdin)
						w.Close()
					}()
					_ = newServer().Run(context.Background(), &sdk.IOTransport{Reader: r, Writer: os.Stdout})
					return
				}
				held = req.ID
			}
			continue
		}
		if first == "answers late" {
			fmt.Printf(`{"jsonrpc": "2.0", "id": %s, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}}`+"\n", held)
			fmt.Printf(`{"jsonrpc": "2.0", "id": %s, "error": {"code": -32601, "message": "no handshake"}}`+"\n", req.ID)
			continue
		}
		if text := oldAnswer(req.Method, req.ID); text != "" {
			fmt.Println(text)
		}
	}
}

// A program that knows no server/discover is spoken to as an older one, whatever it does then; in a new process if that
// one is of no use any more. The next time there is no server/discover.
func TestProgramsOfOlderVersions(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]struct {
		starts int
		tool   string
	}{
		"is silent":         {1, "tide"},
		"ends":              {2, "tide"},
		"refuses and ends":  {2, "tide"},
		"closes its stdout": {2, "tide"},
		"answers late":      {2, "echo"},
	} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			starts := t.TempDir() + "/starts"
			s := open(t, command(t, "old: "+first, "STARTS", starts))
			if got, err := call(t.Context(), t, s, want.tool, `{"text": "high at noon"}`); err != nil || got != `"high at noon"` {
				t.Errorf("got %s, %v", got, err)
			}
			text, err := os.ReadFile(starts)
			if got := strings.Count(string(text), "\n"); err != nil || got != want.starts {
				t.Errorf("%d starts, %v, want %d", got, err, want.starts)
			}
		})
	}
}

// oldEndpoint speaks streamable HTTP, knows no server/discover, and answers it in some way.
type oldEndpoint struct {
	discover func(http.ResponseWriter, *http.Request)
	asked    atomic.Int32 // for discover
	forgets  atomic.Bool  // the next call is answered as the session is not known
	forgot   func(w http.ResponseWriter, id json.RawMessage)
	sessions atomic.Int32
	calls    atomic.Int32 // that it has made
}

// ServeHTTP implements http.Handler.
func (e *oldEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	switch err := json.NewDecoder(r.Body).Decode(&req); {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case req.Method == "server/discover":
		e.asked.Add(1)
		e.discover(w, r)
		return
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case req.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(e.sessions.Add(1)))
	case req.Method == "tools/call" && e.forgets.CompareAndSwap(true, false):
		e.forgot(w, req.ID)
		return
	case req.Method == "tools/call":
		e.calls.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, oldAnswer(req.Method, req.ID))
}

// openOld opens an endpoint.
func openOld(t *testing.T, e *oldEndpoint) *mcp.Server {
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return open(t, mcp.Config{Name: "test", URL: srv.URL})
}

// An endpoint that knows no server/discover is spoken to as an older one, whatever it answers.
func TestEndpointsOfOlderVersions(t *testing.T) {
	t.Parallel()
	says := func(status int, contentType, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if contentType != "" {
				w.Header().Set("Content-Type", contentType)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const object, stream = "application/json", "text/event-stream"
	for name, discover := range map[string]func(http.ResponseWriter, *http.Request){
		"202":                    says(202, "", ""),
		"204":                    says(204, "", ""),
		"200, nothing":           says(200, "", ""),
		"200, no JSON":           says(200, object, ""),
		"200, a page":            says(200, "text/html", "<p>Welcome</p>"),
		"200, an empty stream":   says(200, stream, ""),
		"200, an error of none":  says(200, object, `{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "what?"}}`),
		"200, none, in a stream": says(200, stream, `data: {"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "what?"}}`+"\n\n"),
		"200, an object":         says(200, object, `{"ok": true}`),
		"400":                    says(400, "text/plain", "Mcp-Session-Id is missing"),
		"400, an error of none":  says(400, object, `{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "not initialized"}}`),
		"401":                    says(401, "", ""),
		"404":                    says(404, "text/plain", "nothing here"),
		"406":                    says(406, object, `{"error": "accept"}`),
		"422":                    says(422, "text/plain", "expected initialize"),
		"429":                    says(429, "", ""),
		"500":                    says(500, "text/html", "<h1>Oops</h1>"),
		"503":                    says(503, "", ""),
		"dropped":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer":              func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a stream without end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", stream)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &oldEndpoint{discover: discover}
			s := openOld(t, e)
			if got, err := call(t.Context(), t, s, "tide", `{}`); err != nil || got != `"high at noon"` {
				t.Errorf("got %s, %v", got, err)
			}
			if n := e.asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// A server that says that it does not know the session has not made the call: it is made in another session. What
// else a 404 may mean ends the session, too, but the call is not made again.
func TestSessionsThatAreForgotten(t *testing.T) {
	t.Parallel()
	says := func(contentType, body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", string(id)))
		}
	}
	const object = "application/json"
	for name, tt := range map[string]struct {
		forgot func(http.ResponseWriter, json.RawMessage)
		words  string // of the error; "": the call is made again
	}{
		"nothing":                {forgot: says("text/plain", "")},
		"a text":                 {forgot: says("text/plain", "who are you?")},
		"an object":              {forgot: says(object, `{"detail": "Not Found"}`)},
		"a list":                 {forgot: says(object, `[]`)},
		"its error":              {forgot: says(object, `{"jsonrpc": "2.0", "id": ID, "error": {"code": -32001, "message": "Session expired"}}`)},
		"its error, as another":  {forgot: says(object, `{"jsonrpc": "2.0", "id": ID, "error": {"code": -32600, "message": "Session terminated"}}`)},
		"an error of none":       {forgot: says(object, `{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "gone"}}`)},
		"an error of an empty":   {forgot: says(object, `{"jsonrpc": "2.0", "id": "", "error": {"code": 7, "message": "gone"}}`)},
		"an error of the server": {forgot: says(object, `{"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "gone"}}`)},
		"what the tool says":     {says(object, `{"jsonrpc": "2.0", "id": ID, "error": {"code": 404, "message": "no harbour of that name"}}`), "status 404 Not Found: no harbour of that name"},
		"a fault of the tool":    {says(object, `{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "half done"}}`), "status 404 Not Found: half done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &oldEndpoint{discover: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, forgot: tt.forgot}
			s := openOld(t, e)
			e.forgets.Store(true)
			calls := int32(2)
			if got, err := call(t.Context(), t, s, "tide", `{}`); tt.words != "" {
				checkFailure(t, err, retry.Failure{Status: 404, Sent: true}, tt.words)
				calls--
			} else if err != nil || got != `"high at noon"` {
				t.Errorf("got %s, %v", got, err)
			}
			if got, err := call(t.Context(), t, s, "tide", `{}`); err != nil || got != `"high at noon"` {
				t.Errorf("then %s, %v", got, err)
			}
			if n, made := e.sessions.Load(), e.calls.Load(); n != 2 || made != calls {
				t.Errorf("%d sessions and %d calls, want 2 and %d", n, made, calls)
			}
		})
	}
}

// A server that knows no session at all is not asked without end.
func TestServerThatForgetsAlways(t *testing.T) {
	e := &oldEndpoint{discover: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }}
	e.forgot = func(w http.ResponseWriter, id json.RawMessage) {
		e.forgets.Store(true)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "error": {"code": -32001, "message": "never seen"}}`, id)
	}
	s := openOld(t, e)
	e.forgets.Store(true)
	_, err := call(t.Context(), t, s, "tide", `{}`)
	checkFailure(t, err, retry.Failure{Status: 404, Sent: true}, `tool "tide": status 404 Not Found: never seen`)
	if n := e.sessions.Load(); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}
