//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
)

var shell = builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}, MaxBytes: 100_000})

// sh are the arguments that run a script.
func sh(script string) args { return args{"argv": []string{"sh", "-c", script}} }

func TestExecRun(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRAISE_TEST_HOST", "hidden")
	t.Setenv("LANG", "C.UTF-8")
	for _, tt := range []struct {
		name string
		args args
		want map[string]any
	}{
		{"output", sh("echo out; echo err >&2"), map[string]any{"code": 0.0, "stdout": "out\n", "stderr": "err\n"}},
		{"no shell", args{"argv": []string{"sh", "-c", `echo "$1"`, "_", "$HOME; `ls` *"}}, map[string]any{"code": 0.0, "stdout": "$HOME; `ls` *\n", "stderr": ""}},
		{"stdin", args{"argv": []string{"sh", "-c", "cat"}, "stdin": "grüße"}, map[string]any{"code": 0.0, "stdout": "grüße", "stderr": ""}},
		{"no stdin", sh("cat"), map[string]any{"code": 0.0, "stdout": "", "stderr": ""}},
		{"stdin that nobody reads", args{"argv": []string{"sh", "-c", "exit 0"}, "stdin": strings.Repeat("x", 1<<20)}, map[string]any{"code": 0.0, "stdout": "", "stderr": ""}},
		{"environment", args{"argv": []string{"sh", "-c", "echo $BRAISE_TEST_HOST-$LANG-$ARG_OWN"}, "env": args{"ARG_OWN": "own"}}, map[string]any{"code": 0.0, "stdout": "-C.UTF-8-own\n", "stderr": ""}},
		{"working folder", sh("pwd -P"), map[string]any{"code": 0.0, "stdout": here + "\n", "stderr": ""}},
		{"another folder", args{"argv": []string{"sh", "-c", "pwd -P"}, "dir": "/"}, map[string]any{"code": 0.0, "stdout": "/\n", "stderr": ""}},
		{"allowed code", args{"argv": []string{"sh", "-c", "exit 3"}, "allow_code": []int{1, 3}}, map[string]any{"code": 3.0, "stdout": "", "stderr": ""}},
		{"any code", args{"argv": []string{"sh", "-c", "exit 255"}, "allow_code": true}, map[string]any{"code": 255.0, "stdout": "", "stderr": ""}},
		{"a signal", args{"argv": []string{"sh", "-c", "kill -TERM $$"}, "allow_code": true}, map[string]any{"code": -1.0, "stdout": "", "stderr": ""}},
		{"binary stderr", sh(`printf '\377' >&2`), map[string]any{"code": 0.0, "stdout": "", "stderr": "\uFFFD"}},
		{"much output", sh("head -c 100000 /dev/zero | tr '\\0' x"), map[string]any{"code": 0.0, "stdout": strings.Repeat("x", 100_000), "stderr": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(t.Context(), t, shell, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got)\n%s", diff)
			}
		})
	}
}

func TestExecRunFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   args
		want   string
		reason retry.Reason
		status int
		sent   bool
	}{
		{"code", sh("echo why >&2; echo this >&2; exit 3"), `"sh" exited with code 3: why this`, retry.Unknown, 3, true},
		{"long stderr", sh(`i=0; while [ $i -lt 1000 ]; do echo filler; i=$((i+1)); done >&2; echo last >&2; exit 1`), "filler last", retry.Unknown, 1, true},
		{"another code allowed", args{"argv": []string{"sh", "-c", "exit 3"}, "allow_code": []int{4}}, "code 3", retry.Unknown, 3, true},
		{"signal", sh("kill -TERM $$"), `"sh" ended by signal: terminated`, retry.Unknown, -1, true},
		{"binary output", sh(`printf '\377'`), "not UTF-8 text", "", 0, true},
		{"too much output", sh("yes"), `"sh" printed more than 100000 bytes`, "", 0, true},
		{"too much on stderr", sh("yes >&2"), `"sh" printed more than 100000 bytes`, "", 0, true},
		{"too much, then an end", sh("head -c 100001 /dev/zero"), `"sh" printed more than 100000 bytes`, "", 0, true},
		{"timeout", args{"argv": []string{"sh", "-c", "sleep 600"}, "timeout": "20ms"}, `"sh" was killed: timed out after 20ms`, retry.Timeout, 0, true},
		{"no folder", args{"argv": []string{"sh"}, "dir": "/no/such/folder"}, "no such file", "", 0, false},
		{"a file as folder", args{"argv": []string{"sh"}, "dir": "exec_test.go"}, `dir "exec_test.go" is not a folder`, "", 0, false},
		{"bad timeout", args{"argv": []string{"sh"}, "timeout": "soon"}, `timeout "soon"`, "", 0, false},
		{"no argv", args{"argv": []string{}}, "argv is empty", "", 0, false},
		{"NUL", args{"argv": []string{"sh", "\x00"}}, `"sh" could not start`, retry.Unknown, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := call(t.Context(), t, shell, tt.args)
			checkError(t, err, tt.want)
			f := failureOf(t, err)
			if f.Reason != tt.reason || f.Status != tt.status || f.Sent != tt.sent {
				t.Errorf("failure %+v", f)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestExecRunRefusesPrograms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tool", "sh", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	absolute := filepath.Join(dir, "other")
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh", "./tool", absolute, "no-such-program"}, Dir: dir})
	for _, tt := range []struct {
		name, want string // want "": it runs
	}{
		{"./tool", ""},
		{absolute, ""},
		{"tool", "not allowed"},
		{filepath.Join(dir, "tool"), "not allowed"},
		{"other", "not allowed"},
		{"./other", "not allowed"},
		{"./sh", "not allowed"},
		{filepath.Join(dir, "sh"), "not allowed"},
		{"/bin/sh", "not allowed"},
		{"SH", "not allowed"},
		{" sh", "not allowed"},
		{"", "not allowed"},
		{dir + "/./other", "not allowed"},
		{"no-such-program", "executable file not found"},
	} {
		_, err := call(t.Context(), t, tool, args{"argv": []string{tt.name}})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.name, err)
			}
			continue
		}
		checkError(t, err, strconv.Quote(tt.name), tt.want)
		if f := failureOf(t, err); f.Reason != "" || f.Sent {
			t.Errorf("%q: refusal %+v could be retried", tt.name, f)
		}
	}
}

// A name is looked up in the host's PATH; a folder that is relative there is refused, or dir could
// choose the program.
func TestExecRunLooksNamesUpInTheHostsPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"tool"}})
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if got, err := call(t.Context(), t, tool, args{"argv": []string{"tool"}}); err != nil || got["stdout"] != "ran\n" {
		t.Errorf("%v, %v", got, err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", "."+string(filepath.ListSeparator)+"/bin")
	if _, err := call(t.Context(), t, tool, args{"argv": []string{"tool"}}); !errors.Is(err, exec.ErrDot) {
		t.Errorf("error %v, want exec.ErrDot", err)
	}
}

// The environment of programs: trust 6.8.
func TestExecRunEnvironment(t *testing.T) {
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TERM"} {
		t.Setenv(name, "host's "+name)
	}
	t.Setenv("BRAISE_TEST_HOST", "hidden")
	t.Setenv("TMPDIR", "hidden")
	env := filepath.Join(bin(t), "env")
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{env}, Env: []string{"OWN", "LANG"}})
	ctx := resume.WithIdempotencyKey(t.Context(), "the key")
	got, err := call(ctx, t, tool, args{"argv": []string{env}, "env": args{"OWN": "own", "LANG": "C"}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(got["stdout"].(string)), "\n")
	slices.Sort(lines)
	want := []string{"BRAISE_IDEMPOTENCY_KEY=the key", "HOME=host's HOME", "LANG=C", "OWN=own", "PATH=host's PATH", "TERM=host's TERM", "TZ=host's TZ"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("trust 6.8 (-want +got)\n%s", diff)
	}
}

// bin is the folder of env.
func bin(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "env")); err == nil {
			return dir
		}
	}
	t.Fatal("there is no env")
	return ""
}

// Which variables a call may set: trust 8.16.
func TestExecRunAllowsVariables(t *testing.T) {
	for _, tt := range []struct {
		allowed []string
		name    string
		want    string // of the error; "": it is set
	}{
		{nil, "ARG_NAME", ""},
		{nil, "ARG_", ""},
		{[]string{"GREETING", "GIT_DIR"}, "GREETING", ""},
		{[]string{"GREETING", "GIT_DIR"}, "GIT_DIR", ""},
		{[]string{"GREETING", "GIT_DIR"}, "ARG_x", ""},
		{[]string{"HOME"}, "HOME", ""},
		{[]string{"GREETING", "GIT_DIR"}, "greeting", `env "greeting" is not allowed here`},
		{[]string{"GREETING"}, "GREETING2", `env "GREETING2" is not allowed here`},
		{[]string{}, "GREETING", "name it ARG_GREETING"},
		{nil, "GREETING", "name it ARG_GREETING"},
		{nil, "arg_name", `env "arg_name" is not allowed here`},
		{nil, "", "is not a variable"},
		{nil, "A=B", "is not a variable"},
		{nil, "ARG_A\x00", "is not a variable"},
		{[]string{"BRAISE_IDEMPOTENCY_KEY"}, "BRAISE_IDEMPOTENCY_KEY", "env BRAISE_IDEMPOTENCY_KEY is set by Braise"},
	} {
		tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}, Env: tt.allowed})
		got, err := call(t.Context(), t, tool, args{"argv": []string{"sh", "-c", `printf %s "$` + tt.name + `"`}, "env": args{tt.name: "x"}})
		if tt.want != "" {
			checkError(t, err, tt.want)
		} else if err != nil || got["stdout"] != "x" {
			t.Errorf("%v, %s: %v, %v", tt.allowed, tt.name, got, err)
		}
	}
	// Without a list, no variable that any program reads may be set, whichever it is.
	for _, name := range strings.Fields(`PATH Path LD_PRELOAD DYLD_INSERT_LIBRARIES BASH_ENV IFS HOME PYTHONPATH PERL5OPT NODE_OPTIONS GIT_SSH_COMMAND
		OPENSSL_CONF http_proxy EDITOR RSYNC_RSH PSQLRC GROFF_COMMAND_PREFIX EXINIT SVN_SSH FZF_DEFAULT_COMMAND GTK_MODULES KRB5_CONFIG
		PGSERVICEFILE GS_LIB ANYTHING_ELSE BASH_FUNC_ls%%`) {
		_, err := call(t.Context(), t, shell, args{"argv": []string{"sh"}, "env": args{name: "x"}})
		checkError(t, err, strconv.Quote(name)+" is not allowed here")
	}
}

func TestExecRunStaysInItsFolder(t *testing.T) {
	base := folder(t)
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}, Dir: base})
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, want string }{ // want "": refused
		{"", real},
		{".", real},
		{"sub", filepath.Join(real, "sub")},
		{"sub/..", real},
		{filepath.Join(base, "sub"), filepath.Join(real, "sub")},
		{"..", ""},
		{"sub/../..", ""},
		{"/", ""},
		{"up", ""},
		{"up/base", real}, // leads out and in again
	} {
		got, err := call(t.Context(), t, tool, args{"argv": []string{"sh", "-c", "pwd -P"}, "dir": tt.dir})
		if tt.want == "" {
			checkError(t, err, "outside of the folder that the host allows")
		} else if err != nil || got["stdout"] != tt.want+"\n" {
			t.Errorf("%q: %v, %v, want %s", tt.dir, got, err, tt.want)
		}
	}
}

// waitForEnd reads a FIFO until nobody holds its other end any more: that is how a test waits for
// the death of processes. It returns what they said.
func waitForEnd(t *testing.T, fifo *os.File) string {
	t.Helper()
	if err := fifo.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var said []byte
	buf := make([]byte, 100)
	for {
		n, err := fifo.Read(buf)
		said = append(said, buf[:n]...)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("a process lives on")
			}
			return string(said)
		}
	}
}

// newFIFO makes a FIFO, open for reading here.
func newFIFO(t *testing.T) (path string, f *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

// The processes of each script hold the write end of a FIFO: once the call is over, all must be
// gone.
func TestExecRunKillsTheWholeGroup(t *testing.T) {
	for _, tt := range []struct {
		name, script, timeout string
		failed                bool
	}{
		{"timeout", `echo up >&3; sleep 600 & sleep 600 & wait`, "200ms", true},
		{"a program that ignores signals", `trap '' TERM INT HUP; echo up >&3; while :; do sleep 600; done`, "200ms", true},
		{"children that outlive it", `sleep 600 & sleep 600 & echo up >&3; exit 0`, "20s", false},
		{"children that outlive it and hold no pipe", `sleep 600 >/dev/null 2>&1 & echo up >&3; exit 0`, "20s", false},
		{"grandchildren", `sh -c 'sleep 600 & sleep 600' & echo up >&3; exit 0`, "20s", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, fifo := newFIFO(t)
			a := sh("exec 3>" + path + "; " + tt.script)
			a["timeout"] = tt.timeout
			if _, err := call(t.Context(), t, shell, a); (err != nil) != tt.failed {
				t.Errorf("error %v", err)
			}
			if said := waitForEnd(t, fifo); said != "up\n" && !tt.failed {
				t.Errorf("the processes said %q", said)
			}
		})
	}
}

func TestExecRunCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := call(ctx, t, shell, sh("exec 3>"+path+"; sleep 600"))
		ended <- err
	}()
	fifo, err := os.Open(path) // waits until the program opens its end
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	cancel()
	err = <-ended
	if f := failureOf(t, err); !errors.Is(err, context.Canceled) || f.Reason != "" || !f.Sent {
		t.Errorf("failure %+v", f)
	}
	waitForEnd(t, fifo)
}

// A process that leaves the group escapes the kill; the call ends without it, with what the
// program itself printed.
func TestExecRunDoesNotWaitForADaemon(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	path, fifo := newFIFO(t)
	script := "exec 3>" + path + `
		mkfifo "$TMPDIR/up"
		setsid sh -c 'echo up >"$TMPDIR/up"; exec sleep 600' &
		read up <"$TMPDIR/up"
		echo $!`
	t.Setenv("TMPDIR", t.TempDir())
	begun := time.Now()
	got, err := call(t.Context(), t, shell, sh(script))
	if err != nil || time.Since(begun) > 5*time.Minute {
		t.Fatalf("%v after %s", err, time.Since(begun))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(got["stdout"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon: %v", err)
	}
	waitForEnd(t, fifo)
}
