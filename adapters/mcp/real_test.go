package mcp_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/internal/npmtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// The servers of the protocol's own project, which is written in another language.
const published = "2026.8.31"

func TestPublishedFilesystem(t *testing.T) {
	program := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", published, "mcp-server-filesystem")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, mcp.Config{Name: "files", Command: []string{program, dir}})
	if err := (&runtime.Runtime{Tools: s.Tools()}).Validate(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]runtime.Effect{"read_text_file": runtime.ReadOnly, "write_file": runtime.Idempotent, "move_file": runtime.External} {
		if got := tool(t, s, name).Spec().Effect; got != want {
			t.Errorf("%s: effect %s, want %s", name, got, want)
		}
	}
	file := filepath.Join(dir, "a.txt")
	if got, err := call(t.Context(), t, s, "write_file", fmt.Sprintf(`{"path": %q, "content": "zwölf <&>"}`, file)); err != nil {
		t.Errorf("write: %s, %v", got, err)
	}
	if got, err := call(t.Context(), t, s, "read_text_file", fmt.Sprintf(`{"path": %q}`, file)); err != nil || got != `{"content":"zwölf <&>"}` {
		t.Errorf("read: %s, %v", got, err)
	}
	_, err = call(t.Context(), t, s, "read_text_file", `{"path": "/etc/passwd"}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Unknown, Sent: true}, `mcp server "files": tool "read_text_file": Access denied`)
	if err := os.WriteFile(filepath.Join(dir, "dot.png"), []byte("\x89PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := call(t.Context(), t, s, "read_media_file", fmt.Sprintf(`{"path": %q}`, filepath.Join(dir, "dot.png")))
	if err != nil || !strings.Contains(got, `"data":"iVBORw=="`) || !strings.Contains(got, `"mimeType":"image/png"`) {
		t.Errorf("image: %s, %v", got, err)
	}
}

func TestPublishedEverything(t *testing.T) {
	t.Parallel()
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything", published, "mcp-server-everything")
	for name, cfg := range map[string]mcp.Config{
		"stdio": {Name: "all", Command: []string{program, "stdio"}},
		"http":  {Name: "all", URL: serveHTTP(t, program)},
	} {
		s := open(t, cfg)
		for _, tt := range []struct{ tool, args, want string }{
			{"echo", `{"message": "hi"}`, `"Echo: hi"`},
			{"get-sum", `{"a": 1, "b": 2}`, `"The sum of 1 and 2 is 3."`},
			{"get-structured-content", `{"location": "Chicago"}`, `{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}`},
			{"trigger-long-running-operation", `{"duration": 0.1, "steps": 2}`, `"Long running operation completed. Duration: 0.1 seconds, Steps: 2."`},
		} {
			if got, err := call(t.Context(), t, s, tt.tool, tt.args); err != nil || got != tt.want {
				t.Errorf("%s: %s: %s, %v, want %s", name, tt.tool, got, err, tt.want)
			}
		}
		_, err := call(t.Context(), t, s, "get-sum", `{"a": "x"}`)
		checkFailure(t, err, retry.Failure{Reason: retry.Unknown, Sent: true}, `tool "get-sum": MCP error -32602`)
	}
}

// What the published server asks, with a form of every kind of field, is answered.
func TestPublishedElicitation(t *testing.T) {
	t.Parallel()
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything", published, "mcp-server-everything")
	for name, cfg := range map[string]mcp.Config{
		"stdio": {Name: "all", Command: []string{program, "stdio"}, Elicit: true},
		"http":  {Name: "all", URL: serveHTTP(t, program), Elicit: true},
	} {
		s := open(t, cfg)
		ctx := &resume.CallContext{Context: t.Context(), RunID: "r"}
		_, err := call(ctx, t, s, "trigger-elicitation-request", `{}`)
		asked, ok := err.(*resume.Suspension)
		if !ok {
			t.Fatalf("%s: %v", name, err)
		}
		p := asked.Pause
		answer, err := p.Check(map[string]any{"decision": "approve", "form": map[string]any{"name": "Ada", "check": true}})
		if err != nil {
			t.Fatal(err)
		}
		ctx.Detail = &resume.CallDetail{Answered: true, Replies: []resume.Reply{{To: p.Reason, Answer: answer}}}
		got, err := call(ctx, t, s, "trigger-elicitation-request", `{}`)
		for _, want := range []string{"- Name: Ada\\n- Agreed to terms: true\\n- Favorite Integer: 42", `\"action\": \"accept\"`} {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %s, %v, want %s", name, got, err, want)
			}
		}
		ctx.Detail.Replies[0].Answer = map[string]any{"decision": "reject", "form": nil}
		if got, err = call(ctx, t, s, "trigger-elicitation-request", `{}`); err != nil || !strings.Contains(got, `\"action\": \"decline\"`) {
			t.Errorf("%s: rejected: %s, %v", name, got, err)
		}
	}
}

// serveHTTP has the published server speak HTTP for the time of a test, and returns its URL.
func serveHTTP(t *testing.T, program string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	server := exec.Command(program, "streamableHttp")
	server.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
	}
	read := make(chan struct{})
	go func() {
		for lines.Scan() { // what it says goes nowhere, but does not block it
		}
		close(read)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-read
		_ = server.Wait()
	})
	return fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
}

// The published memory server keeps what it is told, and lists tools without arguments.
func TestPublishedMemory(t *testing.T) {
	program := npmtest.Program(t, "@modelcontextprotocol/server-memory", published, "mcp-server-memory")
	s := open(t, mcp.Config{Name: "memory", Command: []string{program}, Env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "facts.json")}})
	if err := (&runtime.Runtime{Tools: s.Tools()}).Validate(); err != nil {
		t.Error(err)
	}
	const ada = `{"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}]}`
	if got, err := call(t.Context(), t, s, "create_entities", ada); err != nil || !strings.Contains(got, "likes tea") {
		t.Errorf("create: %s, %v", got, err)
	}
	if got, err := call(t.Context(), t, s, "read_graph", `{}`); err != nil || !strings.Contains(got, `"observations":["likes tea"]`) {
		t.Errorf("read: %s, %v", got, err)
	}
}

// A server as it was published in 2024, for the protocol 2024-11-05.
func TestPublishedIn2024(t *testing.T) {
	program := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", "0.6.2", "mcp-server-filesystem")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, mcp.Config{Name: "files", Command: []string{program, dir}})
	file := filepath.Join(dir, "a.txt")
	if got, err := call(t.Context(), t, s, "write_file", fmt.Sprintf(`{"path": %q, "content": "zwölf"}`, file)); err != nil {
		t.Errorf("write: %s, %v", got, err)
	}
	if got, err := call(t.Context(), t, s, "read_file", fmt.Sprintf(`{"path": %q}`, file)); err != nil || got != `"zwölf"` {
		t.Errorf("read: %s, %v", got, err)
	}
}
