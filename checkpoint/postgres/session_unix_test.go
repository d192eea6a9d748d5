//go:build unix

package postgres

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// bouncer starts a PgBouncer in transaction mode in front of the tests' server. It logs in as user, "" is that of the server's URL,
// and ignores the settings that sessions ask for, or refuses them. It returns its address.
func bouncer(t *testing.T, user string, ignores bool) (host string) {
	t.Helper()
	addr, _ := server(t)
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		message := "NO PGBOUNCER, THE STORE IS NOT TESTED BEHIND ONE (apt-get install pgbouncer)"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	ignored := "extra_float_digits"
	if ignores {
		ignored = "search_path,synchronous_commit,lock_timeout,default_transaction_isolation"
	}
	if user == "" {
		user = u.User.Username()
	}
	server := fmt.Sprintf("host=%s port=%s dbname=%s user=%s", u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), user)
	if password, ok := u.User.Password(); ok {
		server += " password=" + password
	}
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nignore_startup_parameters = %s\n", server, port, ignored)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, config)
	if os.Geteuid() == 0 { // which it refuses to run as
		for dir := filepath.Dir(config); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if said = append(said, lines.Text()); strings.Contains(lines.Text(), "process up") {
			go func() {
				for lines.Scan() { // or it would wait for a reader
				}
			}()
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	t.Fatalf("pgbouncer ended: %s", strings.Join(said, "\n"))
	return ""
}

// through returns the URL of a medium by way of a pooler.
func (m *medium) through(host, query string) string {
	m.t.Helper()
	u, err := url.Parse(m.url)
	if err != nil {
		m.t.Fatal(err)
	}
	u.Host = host
	u.RawQuery += query
	return u.String()
}

// trust 6.5: the store does all that it should behind PgBouncer in transaction mode, where no statement stays prepared.
func TestBouncer(t *testing.T) {
	host := bouncer(t, "", true)
	testStore(t, func(t *testing.T, m *medium) { m.url = m.through(host, "&pooler=transaction") })
}

// trust 6.5: a session without the settings that the store asks for is an error, which says what to do.
func TestSessionIsChecked(t *testing.T) {
	m := newMedium(t)
	for ignores, want := range map[bool]string{
		true:  `lock_timeout is "0", not "5s"`,
		false: "unsupported startup parameter",
	} {
		s, err := Open(t.Context(), m.through(bouncer(t, "", ignores), ""), nil)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pooler=transaction") {
			t.Errorf("ignores %v: %v, want %q and a hint", ignores, err, want)
		}
	}
	if _, err := Open(t.Context(), m.url+"&pooler=session", nil); err == nil || !strings.Contains(err.Error(), `"session"`) {
		t.Errorf("another pooler: %v", err)
	}
	if got := m.column("SELECT nspname FROM pg_namespace WHERE nspname = $1", m.name); len(got) > 0 {
		t.Error("a store that was not opened has made its schema")
	}
}

// trust 6.5: behind a pooler too, each write is made with the store's settings, and in the store's schema, whatever those of the session.
func TestBouncerSettings(t *testing.T) {
	m := newMedium(t)
	role := m.name + "_role"
	m.exec("CREATE ROLE " + role + " LOGIN SUPERUSER")
	t.Cleanup(func() { m.exec("DROP OWNED BY " + role + " CASCADE"); m.exec("DROP ROLE " + role) })
	m.exec("ALTER ROLE " + role + " SET synchronous_commit = off")
	m.exec("ALTER ROLE " + role + " SET search_path = nowhere")
	s, err := Open(t.Context(), m.through(bouncer(t, role, true), "&pooler=transaction&lock_timeout=7s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.exec("CREATE TABLE SCHEMA.seen (settings text)")
	m.exec("CREATE FUNCTION SCHEMA.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO SCHEMA.seen VALUES " +
		"(current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')); RETURN NULL; END $$")
	for _, table := range []string{"runs", "records", "documents", "definitions"} {
		m.exec("CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON SCHEMA." + table + " EXECUTE FUNCTION SCHEMA.see()")
	}
	l := m.create(s, "run", note("a"))
	for _, err := range []error{
		s.Append(t.Context(), l, 2, note("b")),
		s.PutDocument(t.Context(), "c", checkpoint.Document{Name: "a"}),
		s.Release(t.Context(), l),
		s.Delete(t.Context(), "run"),
		s.sweep(t.Context()),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"on 7s"}, m.column("SELECT DISTINCT settings FROM SCHEMA.seen")); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
