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
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/mcp"
)

// serveFlood is a server that floods when it gets a request for the method FLOOD: it sends requests of its own and reads
// no more. Each is so long that its answer does not fit into a pipe. It does not end when it is asked to.
func serveFlood() {
	signal.Ignore(syscall.SIGTERM)
	tell()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			panic(err)
		}
		if req.ID == nil {
			continue
		}
		if req.Method == os.Getenv("FLOOD") {
			for i := 0; ; i++ {
				id := fmt.Sprint(i)
				if os.Getenv("IDS") == "one" {
					id = "0"
				}
				fmt.Printf(`{"jsonrpc": "2.0", "id": "%s", "method": "%s", "params": {}}`+"\n", id, strings.Repeat("x", 128<<10))
				fmt.Println(`{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}`)
				if i == 0 { // nearly all of it was read
					touch(os.Getenv("BEGAN"))
				}
			}
		}
		answer := `"error": {"code": -32601, "message": "what?"}`
		switch req.Method {
		case "initialize":
			answer = `"result": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "flood", "version": "1"}}`
		case "tools/list":
			answer = `"result": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}`
		case "tools/call":
			const asked = 500 // their answers fit into a pipe
			for i := range asked {
				fmt.Printf(`{"jsonrpc": "2.0", "id": %d, "method": "ping"}`+"\n", i)
			}
			for range asked {
				lines.Scan()
			}
			answer = `"result": {"content": [{"type": "text", "text": "all answered"}]}`
		}
		fmt.Printf(`{"jsonrpc": "2.0", "id": %s, %s}`+"\n", req.ID, answer)
	}
	select {}
}

// trust 8.11: a program ends, whatever it does, and nobody waits for it: when it is opened, when its tools are listed, and
// when it is closed during a call or after it.
func TestProgramsThatFloodEnd(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"server/discover", "initialize", "tools/list", "tools/call"} {
		for _, ids := range []string{"many", "one"} {
			t.Run(method+"/"+ids, func(t *testing.T) {
				t.Parallel()
				addr, connected, gone := listenForEnd(t)
				began := filepath.Join(t.TempDir(), "began")
				cfg := command(t, "flood", "TELL", addr, "FLOOD", method, "IDS", ids, "BEGAN", began)
				cfg.Timeout = time.Hour
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var failed error
				over := make(chan struct{})
				var s *mcp.Server
				if method == "tools/call" {
					s = open(t, cfg)
				}
				go func() {
					defer close(over)
					if s == nil {
						_, failed = mcp.Open(ctx, cfg)
					} else {
						_, failed = call(ctx, t, s, "x", `{}`)
					}
				}()
				<-connected
				waitFor(t, began)
				if s != nil && ids == "one" { // during the call
					s.Close()
				}
				cancel()
				<-over
				if failed == nil {
					t.Error("no error")
				}
				if s != nil {
					s.Close()
				}
				<-gone
			})
		}
	}
}

// trust 8.11: what a server asks is answered as fast as it reads.
func TestServerThatAsksALot(t *testing.T) {
	t.Parallel()
	s := open(t, command(t, "flood"))
	if got, err := call(t.Context(), t, s, "x", `{}`); err != nil || got != `"all answered"` {
		t.Errorf("%s, %v", got, err)
	}
}

// trust 8.11: an endpoint that takes no answer to what it asks does not hold up its close, nor that of its session.
func TestEndpointsThatTakeNoAnswer(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"initialize", "tools/list", "tools/call"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 100)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var req struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.NewDecoder(r.Body).Decode(&req)
				switch {
				case r.Method == http.MethodDelete, req.Method == "" && req.ID != nil: // an answer, or the end of the session
					asked <- struct{}{}
					<-r.Context().Done()
				case req.ID == nil:
					w.WriteHeader(http.StatusAccepted)
				case req.Method == method:
					w.Header().Set("Content-Type", "text/event-stream")
					for i := range 100 {
						fmt.Fprintf(w, "data: {\"jsonrpc\": \"2.0\", \"id\": %d, \"method\": \"ping\"}\n\n", i)
					}
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				default:
					answer := `"error": {"code": -32601, "message": "what?"}`
					switch req.Method {
					case "initialize":
						w.Header().Set("Mcp-Session-Id", "one")
						answer = `"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}`
					case "tools/list":
						answer = `"result": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}`
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"jsonrpc": "2.0", "id": `+string(req.ID)+`, `+answer+`}`)
				}
			}))
			t.Cleanup(server.Close)
			t.Cleanup(server.CloseClientConnections)
			cfg := mcp.Config{Name: "test", URL: server.URL, Timeout: time.Hour}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			s, err := mcp.Open(ctx, cfg)
			if method == "tools/call" {
				if err != nil {
					t.Fatal(err)
				}
				_, err = call(ctx, t, s, "x", `{}`)
				s.Close()
			}
			if err == nil {
				t.Error("no error")
			}
		})
	}
}
