// Package servertest starts Temporal servers for tests: real ones, in processes of their own, that a test may kill.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/braise-run/braise/internal/procgroup"
)

// Variable names the environment variable that has the path of Temporal's command, or the address HOST:PORT of a server
// that runs already. Unset: the command is .tools/temporal of the repository.
const Variable = "BRAISE_TEST_TEMPORAL"

// patience is how long a server may take until it answers.
const patience = 2 * time.Minute

// Server is a Temporal server with the namespace "default".
type Server struct {
	Addr string // HOST:PORT

	t       testing.TB
	command []string         // nil: somebody else runs the server
	log     *os.File         // what its processes say
	process *procgroup.Group // nil: it is killed
}

// Start starts a server that keeps its state in a file, and waits until it answers. Server and state go with the test, or when the
// process of the test dies. flags are more of `temporal server start-dev`, such as --search-attribute=Name=Keyword.
//
// Where Temporal's command is missing, the test is skipped; it fails if the environment has CI=true. With a server that runs
// already the flags are ignored, and [Server.Kill] skips the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	command, addr, err := find(os.Getenv(Variable))
	switch {
	case err != nil && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	case addr != "":
		s := &Server{Addr: addr, t: t}
		s.wait()
		return s
	}
	dir := t.TempDir()
	s := &Server{t: t, Addr: freeAddr(t)}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.command = append([]string{command, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port,
		"--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "warn"}, flags...)
	if s.log, err = os.Create(filepath.Join(dir, "temporal.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	s.Restart()
	return s
}

// Kill kills the server at once, as a crash would (SIGKILL). What it has acknowledged is in its file.
func (s *Server) Kill() {
	s.t.Helper()
	if s.command == nil {
		s.t.Skipf("%s names a server that somebody else runs", Variable)
	}
	if s.process != nil {
		s.process.Close()
		<-s.process.Exited()
		s.process = nil
	}
}

// Restart starts the server again that [Server.Kill] has killed, with the same address and state.
func (s *Server) Restart() {
	s.t.Helper()
	if s.process != nil {
		s.t.Fatal("the server runs already")
	}
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	process, err := procgroup.Start(cmd, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = process
	s.wait()
}

// Client returns a client of the server, that is closed with the test. HostPort is set; without a logger it logs nothing.
func (s *Server) Client(o client.Options) client.Client {
	s.t.Helper()
	o.HostPort = s.Addr
	if o.Logger == nil {
		o.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	}
	c, err := client.Dial(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// wait waits until the server answers.
func (s *Server) wait() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var exited <-chan struct{}
	if s.process != nil {
		exited = s.process.Exited()
	}
	for {
		err := s.answers(ctx)
		if err == nil {
			return
		}
		select {
		case <-exited:
			s.t.Fatalf("the server has ended\n%s", s.said())
		case <-ctx.Done():
			s.t.Fatalf("the server at %s does not answer: %v\n%s", s.Addr, err, s.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answers returns nil when the server knows its namespace.
func (s *Server) answers(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.Addr) // gRPC would wait longer and longer
	if err != nil {
		return err
	}
	conn.Close()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Addr, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	once, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.WorkflowService().DescribeNamespace(once, &workflowservice.DescribeNamespaceRequest{Namespace: client.DefaultNamespace})
	return err
}

func (s *Server) end() {
	s.Kill()
	s.log.Close()
	if s.t.Failed() {
		s.t.Logf("the server said:\n%s", s.said())
	}
}

// said returns the last lines that the server wrote.
func (s *Server) said() string {
	if s.log == nil {
		return ""
	}
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// find returns Temporal's command, or the address of a server, as value has it, the value of [Variable].
func find(value string) (command, addr string, err error) {
	if host, port, err := net.SplitHostPort(value); err == nil && host != "" && port != "" && !strings.ContainsRune(value, filepath.Separator) {
		return "", value, nil
	}
	if value != "" {
		if _, err := os.Stat(value); err != nil {
			return "", "", fmt.Errorf("%s names neither a command nor HOST:PORT: %w", Variable, err)
		}
		return value, "", nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for {
		command := filepath.Join(dir, ".tools", "temporal")
		if _, err := os.Stat(command); err == nil {
			return command, "", nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", "", fmt.Errorf("there is no Temporal server: .tools/temporal is missing, which .ci/long temporal makes, and %s is not set", Variable)
		}
		dir = parent
	}
}

// freeAddr returns an address that nobody listens on. Its port is below those that systems give to connections: while the
// server is away, a client could otherwise get the very port that it dials, and reach itself.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(15_000+rand.IntN(17_000)))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("there is no free port")
	return ""
}
