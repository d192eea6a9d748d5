package soak

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// cluster is a PostgreSQL server of the tests' own.
type cluster struct {
	bin string // of the server's programs
	dir string // which other users may enter
	url string
}

// shared is the server of all tests but those that restart theirs. Its tests hold more connections than the 100 that a
// server as Debian installs it allows.
var shared = sync.OnceValues(func() (*cluster, error) {
	c, err := newCluster()
	if err == nil {
		removeShared = c.remove
	}
	return c, err
})

var removeShared = func() {}

// newCluster makes and starts a server.
func newCluster() (*cluster, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		return nil, errors.New("pg_ctl is missing: install postgresql, or set BRAISE_TEST_POSTGRES")
	}
	dir, err := os.MkdirTemp("", "soak-postgres-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c := &cluster{bin: filepath.Dir(slices.Max(found)), dir: dir,
		url: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)}
	conf := fmt.Sprintf("port = %d\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 1000\n", port)
	if err := errors.Join(os.Chmod(dir, 0o777),
		c.run(filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"),
		c.run("sh", "-c", `printf '%s' "$1" >>"$0"`, filepath.Join(c.data(), "postgresql.conf"), conf),
		c.ctl("start")); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// ctl has pg_ctl do something, and waits until it is done.
func (c *cluster) ctl(args ...string) error {
	return c.run(filepath.Join(c.bin, "pg_ctl"), append([]string{"-D", c.data(), "-l", filepath.Join(c.dir, "log"), "-s", "-w"}, args...)...)
}

// remove ends the server and removes its files.
func (c *cluster) remove() {
	_ = c.ctl("stop", "-m", "immediate") // it may not have started
	os.RemoveAll(c.dir)
}

// run runs a program as the user postgres.
func (c *cluster) run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: userPostgres()} // no Pdeathsig: the server outlives pg_ctl, which starts it
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", name, args, err)
	}
	return nil
}
