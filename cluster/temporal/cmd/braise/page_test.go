//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/cluster/temporal/servertest"
)

// temporalCommand is the path of Temporal's command, as servertest finds it.
func temporalCommand(t *testing.T) string {
	t.Helper()
	path := os.Getenv(servertest.Variable)
	if path == "" {
		path, _ = filepath.Abs("../../../../.tools/temporal")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" && os.Getenv(servertest.Variable) == "" {
			t.Fatal(err)
		}
		t.Skip("the page starts a server itself: ", err)
	}
	return path
}

// The page docs/cluster.md is typed into a shell, in an empty folder: a file in a block, below a line that names it, is
// written; of a console block each command must succeed, and what is shown below it must appear. "…" stands for anything.
func TestPage(t *testing.T) {
	temporal := temporalCommand(t)
	page, err := os.ReadFile("../../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	text := strings.ReplaceAll(string(page), "7233", port)
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(temporal, filepath.Join(bin, "temporal")); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^`([a-z.]+)`:\n\n```yaml\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mark = "== done "
	var script strings.Builder
	var shown []string // below each command
	for _, m := range regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				if len(shown) > 0 {
					script.WriteString("echo '" + mark + "'\n")
				}
				script.WriteString(command)
				shown = append(shown, "")
			} else if more, ok := strings.CutPrefix(line, "> "); ok {
				script.WriteString(more)
			} else {
				shown[len(shown)-1] += line
			}
		}
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "-e", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(dir, "shell.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(2*time.Minute, end)
	err = cmd.Wait()
	late.Stop()
	end() // the server and the worker that are left
	out, _ := os.ReadFile(log.Name())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := regexp.MustCompile("(?m)^bash: line .*Killed.*\n").ReplaceAllString(string(out), "") // of the worker
	parts := strings.Split(said, mark+"\n")
	if len(parts) != len(shown) || len(shown) < 5 {
		t.Fatalf("%d commands, %d outputs\n%s", len(shown), len(parts), out)
	}
	for i, want := range shown {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
		if want != "" && !regexp.MustCompile("^"+pattern+"$").MatchString(parts[i]) {
			t.Errorf("command %d shows\n%s\nwant\n%s", i+1, parts[i], want)
		}
	}
}
