//go:build unix

package pages_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is a bash that is typed into, in an empty folder.
type shell struct {
	dir  string
	in   io.Writer
	out  *bufio.Reader
	mark string // the shell prints it after each command, and the exit code
}

// bin is the folder of the braise command, which TestMain builds.
var bin string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "braise-pages")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "braise"), "github.com/braise-run/braise/cmd/braise")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	return m.Run()
}

// newShell starts a shell with the environment of a new user, and what env adds.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, w, w
	cmd.Env = append([]string{"HOME=" + home, "LANG=C.UTF-8", "TERM=dumb"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()                                                         // the shell has its own: what it wrote ends with it
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // and what it left in the background
	hang := time.AfterFunc(10*time.Minute, end)                           // on a busy machine, too
	t.Cleanup(func() {
		hang.Stop()
		end()
		_ = cmd.Wait()
		_ = r.Close()
	})
	return &shell{dir: dir, in: in, out: bufio.NewReader(r), mark: "\x01done "}
}

// run types a command and returns what appeared and the exit code.
func (s *shell) run(t *testing.T, command string) (output string, code int) {
	t.Helper()
	fmt.Fprintf(s.in, "{ %s\n} </dev/null; __code=$?; printf '\\n%s%%d\\n' $__code; (exit $__code)\n", command, s.mark)
	var all strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("$ %s\n%s%v", command, &all, err)
		}
		if rest, ok := strings.CutPrefix(line, s.mark); ok {
			_, _ = fmt.Sscan(rest, &code)
			// The shell has put an end of line before its mark.
			return strings.TrimSuffix(all.String(), "\n"), code
		}
		all.WriteString(line)
	}
}

// session is a command of a page with what is shown below it.
type session struct {
	command, shown string
	line           int // of the command
}

// sessions returns the commands of a console block. A line that begins with "> " continues a command.
func sessions(b block) (all []session) {
	more := false
	for i, line := range strings.SplitAfter(b.text, "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		next, continues := strings.CutPrefix(line, "> ")
		switch {
		case ok:
			all = append(all, session{command: strings.TrimSuffix(command, "\n"), line: b.line + i})
			more = true
		case len(all) == 0:
		case more && continues:
			all[len(all)-1].command += "\n" + strings.TrimSuffix(next, "\n")
		default:
			more = false
			all[len(all)-1].shown += line
		}
	}
	return all
}

// fits reports whether an output is what a page shows.
func fits(shown, output string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(shown) {
		if line = strings.TrimSuffix(line, "\n"); line == "…" {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		parts := strings.Split(line, "…")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		pattern.WriteString(strings.Join(parts, `[^\n]*?`) + `\n`)
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(output)
}

var volatile = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "01a2…"},
	{regexp.MustCompile(`\.[A-Za-z0-9_-]{32}\b`), ".…"}, // a token, behind the run
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "…s"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?`), "…"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:…"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "http://…"},
	{regexp.MustCompile(`/tmp/[^\s:"]*`), "…"},
	{regexp.MustCompile(`process \d+ on \S+`), "process … on …"},
	{regexp.MustCompile(`by [a-z]+@\S+`), "by …"},
	{regexp.MustCompile(`bash: line \d+: .*`), "…"}, // a job that was killed
}

// mask puts "…" in the place of what is another each time.
func mask(output string) string {
	for _, v := range volatile {
		output = v.what.ReplaceAllString(output, v.with)
	}
	return output
}
