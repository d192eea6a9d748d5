package main

import (
	"encoding/json"
	"errors"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/internal/command"
	"github.com/braise-run/braise/runtime"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"braise": main})
}

// The scripts drive the command against a server, as a user does; each begins with what it guards.
func TestScripts(t *testing.T) {
	server := servertest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("ADDR", server.Addr)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "eventually": eventually, "token": token},
	})
}

// exits CODE [ARGS…] runs braise and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARGS…]")
	}
	code := 0
	if err := ts.Exec("braise", args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("braise %q: %v", args[1:], err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("braise %q exits with %d, want %s", args[1:], code, args[0])
	}
}

// eventually PROGRAM [ARGS…] runs a program again and again until it succeeds.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: eventually PROGRAM [ARGS…]")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for ts.Exec(args[0], args[1:]...) != nil {
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("%q never succeeds", args)
		}
	}
}

// token VAR sets an environment variable to the token in the outcome on stdout.
func token(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: token VAR")
	}
	var out struct{ Token string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &out))
	if out.Token == "" {
		ts.Fatalf("no token")
	}
	ts.Setenv(args[0], out.Token)
}

func TestRead(t *testing.T) {
	t.Setenv("SHORT", "c2hvcnQ=")
	t.Setenv("GOOD", strings.Repeat("ab", 32))
	for _, tt := range []struct{ url, addr, namespace, queue, wrong, code string }{
		{url: "temporal://h:1/n?queue=q", addr: "h:1", namespace: "n", queue: "q"},
		{url: "temporal://h", addr: "h:7233", namespace: "default"},
		{url: "temporal://[::1]/n/", addr: "[::1]:7233", namespace: "n"},
		{url: "temporal://h?codec_key_env=GOOD&token_key_env=GOOD&tls=true", addr: "h:7233", namespace: "default"},
		{url: "temporal:///n", wrong: "the URL is not temporal://HOST:PORT/NAMESPACE?queue=NAME"},
		{url: "temporal://h/a/b", wrong: "the URL is not temporal://"},
		{url: "temporal://h?queue=", wrong: `option "queue" in the URL has one value`},
		{url: "temporal://h?queue=a&queue=b", wrong: `option "queue" in the URL has one value`},
		{url: "temporal://h?queu=a", wrong: "unknown option \"queu\" in the URL\n  hint: did you mean \"queue\"?"},
		{url: "temporal://h?calls=demo.work:gpu,fast:gpu&local_reads=true", addr: "h:7233", namespace: "default"},
		{url: "temporal://h?calls=demo.work", wrong: `option "calls" in the URL is TOOL:QUEUE`},
		{url: "temporal://h?calls=a:gpu,a:cpu", wrong: `each tool or model once`},
		{url: "temporal://h?local_reads=no", wrong: `option "local_reads" in the URL is true`},
		{url: "temporal://h?tls=no", wrong: `option "tls" in the URL is true`},
		{url: "temporal://h?tls_cert=c.pem", wrong: "needs both tls_cert and tls_key"},
		{url: "temporal://h?tls_ca=no.pem", wrong: "no.pem: no such file", code: "cluster.key"},
		{url: "temporal://h?api_key_env=NO_SUCH", wrong: "environment variable NO_SUCH is not set", code: "cluster.key"},
		{url: "temporal://h?codec_key_env=SHORT", wrong: "it has 5 bytes, not 32", code: "cluster.codecKey"},
		{url: "temporal://h?token_key_env=SHORT", wrong: "it has 5 bytes, not 32", code: "cluster.codecKey"},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		p, err := read(u, "")
		if tt.wrong == "" {
			if err != nil || p.addr != tt.addr || p.namespace != tt.namespace || p.queue != tt.queue {
				t.Errorf("%s: %+v, %v", tt.url, p, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.wrong)
			continue
		}
		if _, bad := errors.AsType[command.BadURL](err); bad != (tt.code == "") {
			t.Errorf("%s: %v is a mistake in the URL: %t", tt.url, err, bad)
		}
		if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code != tt.code {
			t.Errorf("%s: code %s, want %s", tt.url, e.Code, tt.code)
		}
	}
}
