//go:build unix

package pages_test

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/internal/npmtest"
)

var update = flag.Bool("update", false, "rewrite sessions of pages that show something else")

// The pages with sessions, each typed from its text alone.
func TestPages(t *testing.T) {
	for _, pattern := range []string{"start/*.md", "howto/*.md", "serve.md", "troubleshooting.md"} {
		pages, err := filepath.Glob("../../docs/" + pattern)
		if err != nil {
			t.Fatal(pattern, err)
		}
		for _, page := range pages {
			name := strings.TrimSuffix(filepath.Base(page), ".md")
			t.Run(name, func(t *testing.T) {
				if name == "nightly" && testing.Short() {
					t.Skip("a short test does not wait for the next minute of the clock")
				}
				t.Parallel()
				typePage(t, page)
			})
		}
	}
}

// typePage types a page, and fails where it shows something else.
func typePage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, arrange(t, page)...)
	port := freePort(t)
	lines := strings.SplitAfter(string(text), "\n")
	commands, tests := 0, 0
	for _, b := range blocks(string(text)) {
		switch {
		case b.file != "":
			b.text = strings.ReplaceAll(b.text, usualPort, port)
			b.write(t, s.dir)
		case b.language == "console":
			for _, c := range sessions(b) {
				commands++
				output, code := s.run(t, strings.ReplaceAll(c.command, usualPort, port))
				output = strings.ReplaceAll(output, port, usualPort)
				if c.command == "braise test" || c.command == "go test ." {
					if tests++; code != 0 {
						t.Errorf("%s:%d: $ %s\n%s", page, c.line, c.command, output)
					}
				}
				good := fits(c.shown, output)
				if c.shown == "" {
					good = code == 0
				}
				if good {
					continue
				}
				if *update {
					lines[c.line-1] = "$ " + strings.ReplaceAll(c.command, "\n", "\n> ") + "\n" + mask(output)
					for i := range strings.Count(c.command, "\n") + strings.Count(c.shown, "\n") {
						lines[c.line+i] = ""
					}
					continue
				}
				t.Errorf("%s:%d: $ %s\nexit code %d, shown\n%s\nappears\n%s", page, c.line, c.command, code, c.shown, output)
			}
		case b.language == "diff", b.language == "txtar", b.language == "yaml" && strings.HasPrefix(b.text, "apiVersion:"):
			t.Errorf("%s:%d: no line above names the file", page, b.line)
		}
	}
	if commands == 0 || tests == 0 && filepath.Dir(page) != "../../docs" {
		t.Errorf("%s has %d commands, and %d of them test", page, commands, tests)
	}
	if now := strings.Join(lines, ""); *update && now != string(text) {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// usualPort is the port of servers in pages; each page has another one while it is typed.
const usualPort = "7411"

// freePort is a port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// arrange provides what a page takes from elsewhere, and returns the variables that say where it is.
func arrange(t *testing.T, page string) (env []string) {
	t.Helper()
	tools := t.TempDir()
	path := "PATH=" + tools + ":" + bin + ":" + os.Getenv("PATH")
	stand := func(program, script string) {
		if err := os.WriteFile(filepath.Join(tools, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	switch filepath.Base(page) {
	case "agent.md": // what npx -y would download is installed already
		server := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem")
		stand("npx", `shift 2; exec `+server+` "$@"`)
	case "api-with-a-secret.md":
		env = append(env, "CRM_URL="+customers(t))
	case "halve-the-price.md":
		env = append(env, "OPENAI_URL="+batchtest.New(t).URL, "OPENAI_API_KEY=sk-0123456789")
	case "jaeger.md":
		env = append(env, "OTLP_URL="+collector(t))
	case "service.md":
		env = append(env, "BRAISE_STORE="+schema(t))
	case "go.md", "mount-the-api.md": // go get takes this checkout
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		real, err := exec.LookPath("go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
			value, err := exec.Command(real, "env", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			env = append(env, name+"="+strings.TrimSpace(string(value)))
		}
		stand("go", strings.NewReplacer("GO", real, "ROOT", root).Replace(`[ "$1" = get ] || exec GO "$@"
sed 's|^module .*|module example.com/support|' ROOT/go.mod >go.mod && cp ROOT/go.sum . &&
GO mod edit -require=github.com/braise-run/braise@v0.0.0 -replace=github.com/braise-run/braise=ROOT`))
	}
	return append(env, path)
}

// customers is a service that knows customer 7, and repeats what it was sent.
func customers(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := map[string]string{"/customers/7": "Ada", "/customers/echo": r.Header.Get("Authorization")}[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if name == "" || r.Header.Get("Authorization") != "Bearer correct-horse-battery" {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"name": name})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// collector takes traces, and fails the test if none comes.
func collector(t *testing.T) string {
	t.Helper()
	var traces atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			traces.Add(1)
		}
	}))
	t.Cleanup(func() {
		server.Close()
		if traces.Load() == 0 {
			t.Error("no trace was sent")
		}
	})
	return server.URL
}

// schema is the URL of a store in Postgres, in a schema that psql removes in the end.
func schema(t *testing.T) string {
	t.Helper()
	server := cmp.Or(os.Getenv("BRAISE_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	name := "pages_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		drop := "SET client_min_messages = error; DROP SCHEMA IF EXISTS " + name + " CASCADE"
		if out, err := exec.Command("psql", server, "-qc", drop).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("schema", name)
	u.RawQuery = query.Encode()
	return u.String()
}
