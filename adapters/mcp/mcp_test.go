package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// open opens a server for the time of a test.
func open(t *testing.T, cfg mcp.Config) *mcp.Server {
	t.Helper()
	s, err := mcp.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// tool finds a tool of a server.
func tool(t *testing.T, s *mcp.Server, name string) runtime.Tool {
	t.Helper()
	for _, tool := range s.Tools() {
		if strings.HasSuffix(tool.Spec().Name, "."+name) {
			return tool
		}
	}
	t.Fatalf("no tool %q", name)
	return nil
}

// call calls a tool of a server.
func call(ctx context.Context, t *testing.T, s *mcp.Server, name, args string) (string, error) {
	t.Helper()
	out, err := tool(t, s, name).Call(ctx, json.RawMessage(args))
	return string(out), err
}

// checkFailure fails unless err is the failure that want describes, its text holding each of the words.
func checkFailure(t *testing.T, err error, want retry.Failure, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	got := retry.FailureOf(err)
	got.Err = nil
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("failure of %v (-want +got):\n%s", err, diff)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "hunter22") {
		t.Errorf("error %q has a secret", err)
	}
}

func TestConfigCheck(t *testing.T) {
	argv := []string{"server"}
	for _, tt := range []struct {
		cfg  mcp.Config
		want string
	}{
		{mcp.Config{Command: argv}, `mcp: the name "" of a server may have letters, digits, _ and -`},
		{mcp.Config{Name: "a.b", Command: argv}, `mcp: the name "a.b" of a server may have letters, digits, _ and -`},
		{mcp.Config{Name: "a"}, `mcp server "a": it needs a command or a URL`},
		{mcp.Config{Name: "a", Command: argv, URL: "http://h"}, `mcp server "a": it has a command or a URL, not both`},
		{mcp.Config{Name: "a", Command: []string{""}}, `mcp server "a": the command is empty`},
		{mcp.Config{Name: "a", URL: "file:///x"}, `mcp server "a": the URL is not one of http or https with a host`},
		{mcp.Config{Name: "a", URL: "http://me:pass@h"}, "mcp server \"a\": the URL may not hold a user\n  hint: give a header"},
		{mcp.Config{Name: "a", URL: "http://h", Dir: "d"}, `mcp server "a": only a command has env and dir`},
		{mcp.Config{Name: "a", Command: argv, Headers: map[string]string{"A": "b"}}, `mcp server "a": only a URL has headers`},
		{mcp.Config{Name: "a", URL: "http://h", Headers: map[string]string{"A b": "c"}}, `mcp server "a": "A b" is not a header`},
		{mcp.Config{Name: "a", URL: "http://h", Headers: map[string]string{"A": "c\nB: d"}}, `mcp server "a": header "A" holds a line break or another control character`},
		{mcp.Config{Name: "a", Command: argv, Env: map[string]string{"A=": "c"}}, `mcp server "a": env "A=" is not a variable`},
		{mcp.Config{Name: "a", Command: argv, Approval: "maybe"}, `mcp server "a": unknown approval "maybe", want never, pause, always or refuse`},
	} {
		if err := tt.cfg.Check(); err == nil || err.Error() != tt.want {
			t.Errorf("Check(%+v) = %v, want %s", tt.cfg, err, tt.want)
		}
		if _, err := mcp.Open(t.Context(), tt.cfg); err == nil {
			t.Errorf("Open(%+v) took it", tt.cfg)
		}
	}
}

func TestTools(t *testing.T) {
	cfg := command(t, "full")
	cfg.Approval = "pause"
	s := open(t, cfg)
	if err := (&runtime.Runtime{Tools: s.Tools()}).Validate(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]runtime.ToolSpec{
		"echo": {Description: "Does echo.", Effect: runtime.ReadOnly},
		"put":  {Description: "Does put.", Effect: runtime.Idempotent},
		"fail": {Description: "Does fail.", Effect: runtime.External},
	} {
		want.Approval, want.Changes = "pause", true // trust 1.3, 8.12
		want.Name, want.Parameters = "mcp.test."+name, json.RawMessage(`{"type":"object"}`)
		if diff := cmp.Diff(want, tool(t, s, name).Spec()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// transports are the two ways to the same server.
func transports(t *testing.T) map[string]*mcp.Server {
	web := endpoint(t).config()
	web.Headers = map[string]string{"Authorization": "Bearer hunter22hunter"}
	return map[string]*mcp.Server{"stdio": open(t, command(t, "full", "SECRET", "hunter22hunter")), "http": open(t, web)}
}

func TestResults(t *testing.T) {
	for name, s := range transports(t) {
		for _, tt := range []struct{ tool, args, want string }{
			{"echo", `{"text": "hello"}`, `"hello"`},
			{"echo", ``, `"\u003cnil\u003e"`},
			{"echo", `{"text": "hunter22hunter"}`, `"***"`}, // trust 6.7
			{"blocks", `{"from": 0, "to": 0}`, `null`},
			{"blocks", `{"from": 0, "to": 2}`, `["one","two"]`},
			{"blocks", `{"from": 2, "to": 3}`, `{"data":"cG5n","mimeType":"image/png","type":"image"}`},
			{"blocks", `{"from": 3, "to": 5}`, `[{"name":"a","type":"resource_link","uri":"file:///a"},` +
				`{"resource":{"mimeType":"text/plain","text":"b","uri":"file:///b"},"type":"resource"}]`},
			{"sum", `{"of": [9007199254740992, 1]}`, `{"sum":9007199254740993}`},
			{"sum", `{"of": [18446744073709551615, 1]}`, `{"sum":18446744073709551616}`}, // trust 8.8
			{"blocks", `{"from": 5, "to": 6}`, `{"name":"c","size":9007199254740993,"type":"resource_link","uri":"file:///c"}`},
			{"chatty", `{}`, `"true"`},         // it was refused what it asked for
			{"put", `{}`, `"\u003cnil\u003e"`}, // no key outside of a run
		} {
			got, err := call(t.Context(), t, s, tt.tool, tt.args)
			if err != nil || got != tt.want {
				t.Errorf("%s: %s(%s) = %s, %v, want %s", name, tt.tool, tt.args, got, err, tt.want)
			}
		}
		ctx := resume.WithIdempotencyKey(t.Context(), "abc")
		if got, err := call(ctx, t, s, "put", `{}`); err != nil || got != `"abc"` {
			t.Errorf("%s: key %s, %v", name, got, err)
		}
	}
}

func TestFailures(t *testing.T) {
	for name, s := range transports(t) {
		for _, tt := range []struct {
			tool, args string
			want       retry.Failure
			words      string
		}{
			{"fail", `{}`, retry.Failure{Reason: retry.Unknown, Sent: true}, `tool "fail": no such row: ***`},
			{"refuse", `{"code": -32602}`, retry.Failure{Status: -32602, Sent: true}, `tool "refuse": not so`},
			{"refuse", `{"code": -32603}`, retry.Failure{Reason: retry.Unknown, Status: -32603, Sent: true}, "not so"},
			{"refuse", `{"code": -32004}`, retry.Failure{Reason: retry.Unknown, Status: -32004, Sent: true}, "not so"},
			{"sum", `{"of": []}`, retry.Failure{Sent: true}, "no structured content"},
			{"sum", `{"of": [1]}`, retry.Failure{Sent: true}, "does not match the schema of its output: /sum"},
			{"echo", `{`, retry.Failure{}, `tool "echo": its arguments are not JSON`},
			{"big", `{"bytes": 4500000}`, retry.Failure{Sent: true}, "its result has 4500002 bytes, more than 4194304"},
		} {
			_, err := call(t.Context(), t, s, tt.tool, tt.args)
			checkFailure(t, err, tt.want, `mcp server "test": `, tt.words)
		}
		if got, err := call(t.Context(), t, s, "echo", `{"text": "still there"}`); err != nil || got != `"still there"` {
			t.Errorf("%s: then %s, %v", name, got, err)
		}
	}
}

// What is too long to be read at all ends the session, and the next call has another one.
func TestAnswersOutOfBounds(t *testing.T) {
	t.Parallel()
	bounded := endpoint(t).config()
	stdio := command(t, "full")
	bounded.MaxBytes, stdio.MaxBytes = 10_000, 10_000
	for name, tt := range map[string]struct {
		cfg  mcp.Config
		want retry.Failure
		say  string
	}{
		"stdio": {stdio, retry.Failure{Reason: retry.Network, Sent: true}, "it sent a line that is too long"},
		"http":  {bounded, retry.Failure{Sent: true}, "its answer has more than 40000 bytes"},
	} {
		s := open(t, tt.cfg)
		_, err := call(t.Context(), t, s, "big", `{"bytes": 10000000}`)
		checkFailure(t, err, tt.want, tt.say)
		if got, err := call(t.Context(), t, s, "echo", `{"text": "again"}`); err != nil || got != `"again"` {
			t.Errorf("%s: then %s, %v", name, got, err)
		}
	}
}

func TestCallsThatHang(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]mcp.Config{"stdio": command(t, "full"), "http": endpoint(t).config()} {
		t.Run(name, func(t *testing.T) { testCallsThatHang(t, cfg) })
	}
}

func testCallsThatHang(t *testing.T, cfg mcp.Config) {
	t.Parallel()
	cfg.Timeout = 10 * time.Second // the server opens within it, too
	s := open(t, cfg)
	_, err := call(t.Context(), t, s, "hang", `{}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Timeout, Sent: true}, "timed out after 10s")
	if !retry.FailureOf(err).OutcomeUnknown() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: the outcome is known?", err)
	}

	dir := t.TempDir()
	began, cancelled := filepath.Join(dir, "began"), filepath.Join(dir, "cancelled")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, began)
		cancel()
	}()
	_, err = call(ctx, t, s, "hang", `{"began": "`+began+`", "cancelled": "`+cancelled+`"}`)
	checkFailure(t, err, retry.Failure{Sent: true}, "canceled")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waitFor(t, cancelled)
	if _, err := call(ctx, t, s, "echo", `{}`); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was cancelled beforehand: %v", err)
	}
	if got, err := call(t.Context(), t, s, "echo", `{"text": "there"}`); err != nil || got != `"there"` {
		t.Errorf("then %s, %v", got, err)
	}
}

// A server that does not read what it is sent holds up nobody beyond the timeout.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	cfg := command(t, "raw", "TOOLS", `[{"name": "x", "inputSchema": {}}]`, "DEAF", "1")
	cfg.Timeout = 10 * time.Second // time to send some of it, on a busy machine
	s := open(t, cfg)
	_, err := call(t.Context(), t, s, "x", `{"text": "`+strings.Repeat("x", 1<<20)+`"}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Timeout, Sent: true}, `tool "x": timed out after 10s`)
}

func TestCallsSideBySide(t *testing.T) {
	for name, s := range transports(t) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if got, err := call(t.Context(), t, s, "echo", fmt.Sprintf(`{"text": "%d"}`, i)); err != nil || got != fmt.Sprintf(`"%d"`, i) {
					t.Errorf("%s: call %d: %s, %v", name, i, got, err)
				}
			})
		}
		all.Wait()
	}
}

// In a run, a call with an external effect whose server dies waits for somebody's word; one that only
// reads is made again, by the server's next process.
func TestServerThatDiesInARun(t *testing.T) {
	run := func(steps string) *workflow.Outcome {
		rt := &runtime.Runtime{Tools: open(t, command(t, "full")).Tools(), Store: &checkpoint.Memory{}}
		r, err := recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\nsteps:\n"+steps))
		if err != nil {
			t.Fatal(err)
		}
		wf, err := workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := wf.Run(t.Context(), nil, rt)
		return out
	}
	out := run("  a: {uses: mcp.test.die, retry: {max_attempts: 3}}\n")
	if len(out.Pauses) != 1 || out.Pauses[0].Reason != "indeterminate" {
		t.Errorf("die: %s, %v, pauses %+v", out.Status, out.Err, out.Pauses)
	}
	out = run("  a: {uses: mcp.test.recover, with: {state: " + filepath.Join(t.TempDir(), "state") + "}, retry: {max_attempts: 2}}\n")
	if out.Artefact["a"] != "recovered" {
		t.Errorf("recover: %s, %v, %v", out.Status, out.Err, out.Artefact)
	}
}

// waitFor waits until a file exists.
func waitFor(t *testing.T, name string) {
	for range time.Tick(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil || t.Context().Err() != nil {
			return
		}
	}
}

func TestServerThatDies(t *testing.T) {
	s := open(t, command(t, "full"))
	_, err := call(t.Context(), t, s, "die", `{}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Network, Sent: true}, `tool "die"`, "it exited with code 3", "stderr: out of cheese")
	if !retry.FailureOf(err).OutcomeUnknown() {
		t.Error("the outcome is known")
	}
	if got, err := call(t.Context(), t, s, "echo", `{"text": "again"}`); err != nil || got != `"again"` {
		t.Fatalf("started again: %s, %v", got, err)
	}

	_, err = call(t.Context(), t, s, "die", `{}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Network, Sent: true}, "it exited with code 3")
	_, err = call(t.Context(), t, s, "die", `{}`)
	checkFailure(t, err, retry.Failure{Reason: retry.Network, Sent: true}, "it exited with code 3")
	_, err = call(t.Context(), t, s, "echo", `{}`)
	f := retry.FailureOf(err)
	if f.Reason != retry.Network || f.Sent || f.After <= 0 || f.After > time.Second || !strings.Contains(f.Error(), "is not started again before") {
		t.Errorf("the second time in a row: %+v", f)
	}
}

func TestToolThatDisappears(t *testing.T) {
	s := open(t, command(t, "shrinks", "STATE", filepath.Join(t.TempDir(), "state")))
	if _, err := call(t.Context(), t, s, "die", `{}`); err == nil {
		t.Fatal("no error")
	}
	_, err := call(t.Context(), t, s, "echo", `{}`)
	checkFailure(t, err, retry.Failure{}, `mcp server "test": it no longer has the tool "echo"`)
	if got, err := call(t.Context(), t, s, "put", `{}`); err != nil {
		t.Errorf("put: %s, %v", got, err)
	}
}

// trust 8.12: a tool that a server lists in another way when it is started again is not called.
func TestToolThatChanges(t *testing.T) {
	s := open(t, command(t, "turns", "STATE", filepath.Join(t.TempDir(), "state")))
	if _, err := call(t.Context(), t, s, "die", `{}`); err == nil {
		t.Fatal("no error")
	}
	_, err := call(t.Context(), t, s, "echo", `{}`)
	changed, ok := errors.AsType[*runtime.Error](err)
	if !ok || changed.Code != "mcp.changed" || !strings.Contains(err.Error(), `tool "mcp.test.echo" is not called, as it has changed since its server was opened: `) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"its effect was read_only and is external", "its description is another one", "the schema of its arguments is another one"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say that %s", err, part)
		}
	}
	if got, err := call(t.Context(), t, s, "put", `{}`); err != nil {
		t.Errorf("put: %s, %v", got, err)
	}
}

// A server that does not answer what it does not know is spoken to as an old one.
func TestServerThatIsMute(t *testing.T) {
	t.Parallel()
	s := open(t, command(t, "mute"))
	if got, err := call(t.Context(), t, s, "echo", `{"text": "at last"}`); err != nil || got != `"at last"` {
		t.Errorf("got %s, %v", got, err)
	}
}

// A server that answers "1" to the request 1 is understood.
func TestServerWhoseIDsAreTexts(t *testing.T) {
	t.Parallel()
	cfg := command(t, "texts")
	cfg.Timeout = time.Minute // for which a server whose answers are not known would be waited for
	s := open(t, cfg)
	for range 2 {
		if got, err := call(t.Context(), t, s, "echo", `{"text": "understood"}`); err != nil || got != `"understood"` {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

func TestServersThatDoNotOpen(t *testing.T) {
	t.Parallel()
	silent := command(t, "silent")
	silent.Timeout = 10 * time.Second // time to say something, on a busy machine
	for _, tt := range []struct {
		cfg   mcp.Config
		want  retry.Failure
		words []string
	}{
		{mcp.Config{Name: "test", Command: []string{"no-such-program-3141"}}, retry.Failure{Reason: retry.Unknown}, []string{"it could not start", "no-such-program-3141"}},
		{command(t, "exit", "SECRET", "hunter22hunter"), retry.Failure{Reason: retry.Network},
			[]string{`mcp server "test": it could not be opened`, "it exited with code 7", "stderr: the token *** is wrong"}},
		{silent, retry.Failure{Reason: retry.Timeout}, []string{"timed out after 10s", "on stdout, but no message: starting…"}},
		{command(t, "broken"), retry.Failure{Reason: retry.Network}, []string{"it sent something that is not a message"}},
		{command(t, "raw", "TOOLS", `"x"`), retry.Failure{}, []string{"it could not be opened: its answer does not keep to the protocol"}},
		{command(t, "raw", "TOOLS", `[{"name": "x", "inputSchema": {}}, {"name": "x", "inputSchema": {}}]`), retry.Failure{}, []string{`it lists the tool "x" twice`}},
		{command(t, "raw", "TOOLS", `[{"name": "a b", "inputSchema": {}}, {"name": "a/b", "inputSchema": {}}]`), retry.Failure{},
			[]string{`its tools "a b" and "a/b" would both be "mcp.test.a_b"`}},
		{command(t, "raw", "TOOLS", `[{"name": "", "inputSchema": {}}]`), retry.Failure{}, []string{"it lists a tool without a name"}},
	} {
		_, err := mcp.Open(t.Context(), tt.cfg)
		checkFailure(t, err, tt.want, tt.words...)
	}
}

func TestServersThatAreOdd(t *testing.T) {
	for _, mode := range []string{"noise", "slow"} {
		if got, err := call(t.Context(), t, open(t, command(t, mode)), "echo", `{"text": "hi"}`); err != nil || got != `"hi"` {
			t.Errorf("%s: %s, %v", mode, got, err)
		}
	}
}

// What a server asks its client for is declined, and the call goes on.
func TestRequestsOfServers(t *testing.T) {
	for method, want := range map[string]string{"sampling/createMessage": "does not support", "elicitation/create": "does not support", "roots/list": `\"roots\":[]`, "who/knows": "method not found"} {
		s := open(t, command(t, "raw", "TOOLS", `[{"name": "x", "inputSchema": {}}]`, "ASK", method))
		if got, err := call(t.Context(), t, s, "x", `{}`); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, %v, want %s", method, got, err, want)
		}
	}
}

// Schemas are taken as far as they can be checked here; names are those that recipes can have.
func TestSchemas(t *testing.T) {
	listed := []map[string]any{}
	for name, text := range map[string]string{
		"none":    `{}`,
		"a list":  `[]`,
		"string":  `{"type": "string"}`,
		"pattern": `{"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!x)"}, "id": {"type": "string", "pattern": "^a"}}}`,
		"remote":  `{"type": "object", "properties": {"x": {"$ref": "https://schemas.test/x"}}}`,
	} {
		listed = append(listed, map[string]any{"name": name, "inputSchema": json.RawMessage(text)})
	}
	tools, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, command(t, "raw", "TOOLS", string(tools), "RESULT", `{"content": [{"type": "hologram", "_meta": {}, "x": 1}]}`))
	if err := (&runtime.Runtime{Tools: s.Tools()}).Validate(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"none":    `{"type":"object"}`,
		"a_list":  `{"type":"object"}`,
		"string":  `{"type":"object"}`,
		"pattern": `{"properties":{"id":{"pattern":"^a","type":"string"},"mail":{"type":"string"}},"type":"object"}`,
		"remote":  `{"type":"object"}`,
	} {
		if got := string(tool(t, s, name).Spec().Parameters); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got, err := call(t.Context(), t, s, "a_list", `{}`); err != nil || got != `{"type":"hologram","x":1}` {
		t.Errorf("what there is no kind for: %s, %v", got, err)
	}
}

// A program gets little of the host's environment, and what the configuration adds.
func TestEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "hunter22hunter")
	cfg := command(t, "full", "EXTRA", "given")
	cfg.Dir = t.TempDir()
	got, err := call(t.Context(), t, open(t, cfg), "env", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"EXTRA=given": true, "PATH=": true, "dir=" + dir: true, "HOST_SECRET": false} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q in %s: not %t", text, got, want)
		}
	}
}

func TestClose(t *testing.T) {
	for name, s := range transports(t) {
		began := filepath.Join(t.TempDir(), "began")
		failed := make(chan error)
		go func() {
			_, err := call(t.Context(), t, s, "hang", `{"began": "`+began+`"}`)
			failed <- err
		}()
		waitFor(t, began)
		go s.Close()
		checkFailure(t, <-failed, retry.Failure{Reason: retry.Network, Sent: true}, "it was closed")
		s.Close()
		_, err := call(t.Context(), t, s, "echo", `{}`)
		checkFailure(t, err, retry.Failure{}, "it was closed")
		_ = name
	}
}

// listenForEnd returns an address, and a channel that is closed once who has connected there is gone.
func listenForEnd(t *testing.T) (addr string, connected, gone chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connected, gone = make(chan struct{}), make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		close(connected)
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
		close(gone)
	}()
	return l.Addr().String(), connected, gone
}

// A program that does not want to end is killed.
func TestCloseKills(t *testing.T) {
	t.Parallel()
	addr, connected, gone := listenForEnd(t)
	s := open(t, command(t, "stubborn", "TELL", addr))
	<-connected
	s.Close()
	<-gone
}
