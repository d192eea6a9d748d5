package soak

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// store is where the runs of one soak are kept.
type store struct {
	name string
	url  string
	via  *proxy // between the processes and the server; nil where there is none
}

// with returns the store behind another proxy.
func (s *store) with(p *proxy) *store {
	u, err := url.Parse(s.url)
	if err != nil {
		panic(err)
	}
	u.Host = p.addr()
	return &store{s.name, u.String(), p}
}

// databases counts those that were made.
var databases atomic.Int32

// openStore opens a store of a kind, or at a URL.
func openStore(t *testing.T, w *world, name string) *store {
	t.Helper()
	if strings.HasPrefix(name, "sqlite:") {
		return &store{name: "sqlite", url: name}
	}
	switch name {
	case "jsonl":
		return &store{name: name, url: "jsonl:" + filepath.Join(w.dir, "runs")}
	case "sqlite":
		return &store{name: name, url: "sqlite:" + filepath.Join(w.dir, "runs.db")}
	}
	server := postgresServer(t)
	database := fmt.Sprintf("soak_%d_%d", os.Getpid(), databases.Add(1))
	psql(t, server.String(), "CREATE DATABASE "+database)
	t.Cleanup(func() { psql(t, server.String(), "DROP DATABASE "+database+" WITH (FORCE)") })
	target := *server
	if name == "pgbouncer" {
		target.Host = startBouncer(t, server)
		q := target.Query()
		q.Set("pooler", "transaction")
		target.RawQuery = q.Encode()
	}
	target.Path = "/" + database
	s := &store{name: name, url: target.String()}
	return s.with(newProxy(t, target.Host))
}

// postgresServer is the server that BRAISE_TEST_POSTGRES names, else one of the tests' own.
func postgresServer(t *testing.T) *url.URL {
	t.Helper()
	text := os.Getenv("BRAISE_TEST_POSTGRES")
	if text == "" {
		c, err := shared()
		if err != nil {
			t.Fatal(err)
		}
		text = c.url
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// psql runs one statement.
func psql(t *testing.T, url, sql string) {
	t.Helper()
	if out, err := exec.Command("psql", "-X", "-q", "-d", url, "-c", sql).CombinedOutput(); err != nil {
		t.Errorf("psql -c %q: %v\n%s", sql, err, out)
	}
}

// startBouncer starts a PgBouncer in transaction mode before a server, and returns where it listens.
func startBouncer(t *testing.T, server *url.URL) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak-bouncer-") // not t.TempDir, which other users may not enter
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port := freePort(t)
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
`, server.Hostname(), server.Port(), server.User.Username(), port)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	bouncer := exec.Command("pgbouncer", "-q", ini)
	bouncer.SysProcAttr, bouncer.Dir = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: userPostgres()}, "/"
	start(t, bouncer)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	awaitPort(t, addr)
	return addr
}

// userPostgres is who runs servers that refuse to be root; nil: who runs the test.
func userPostgres() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	id := func(flag string) uint32 {
		out, err := exec.Command("id", flag, "postgres").Output()
		if err != nil {
			panic("there is no user postgres")
		}
		n, _ := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
		return uint32(n)
	}
	return &syscall.Credential{Uid: id("-u"), Gid: id("-g")}
}

// start starts a server that ends with the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() && out.Len() > 0 {
			t.Logf("%s said:\n%s", cmd.Path, last(out.String(), 2000))
		}
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for range 300 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		pause(50 * time.Millisecond)
	}
	t.Fatalf("nothing listens on %s", addr)
}

// proxy passes bytes on, until somebody cuts them off.
type proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	conns   map[net.Conn]bool
	closed  bool // nothing is passed on
	refused int  // connections while it was closed
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut(true)
		done.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// pass passes one connection on.
func (p *proxy) pass(from net.Conn) {
	defer from.Close()
	if !p.keep(from) { // the server hears nothing of it: a server that is away does not fork for a caller either
		return
	}
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.keep(to) {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(to, from)
		to.Close()
	})
	io.Copy(from, to)
	from.Close()
	both.Wait()
}

// keep notes a connection, so that it is cut with the others; false: nothing is passed on now.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.refused++
		return false
	}
	p.conns[c] = true
	return true
}

// cut ends all connections; while it stays closed, new ones end at once.
func (p *proxy) cut(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
	for c := range p.conns {
		c.Close()
	}
}

// open passes connections on again.
func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

// tried is how many connections were refused.
func (p *proxy) tried() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// last is the end of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }
