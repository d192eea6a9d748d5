//go:build unix

package page_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// command builds the braise command and serves the recipes of the repository with it, as a new user would, on a free
// port. It returns the address that it prints. When the test ends, the command ends with exit code 0.
func command(t *testing.T) (address string) {
	t.Helper()
	braise, home := filepath.Join(t.TempDir(), "braise"), t.TempDir()
	build := exec.Command("go", "build", "-o", braise, "./cmd/braise")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(braise, "serve", "recipes", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env, cmd.Stderr = build.Dir, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(address, "/#login=") {
		t.Fatalf("it prints %q, %v", address, err)
	}
	return strings.TrimSpace(address)
}

// The steps of docs/serve.md, "Two minutes", by somebody who has a clone of the repository, no key and a browser: a run
// is started, approved, and has a result.
func TestStranger(t *testing.T) {
	browser(t) // or it is skipped
	b := (&site{TB: t}).shown(command(t), chromedp.WithNewBrowserContext())
	b.see(".top nav")
	b.sees(".empty", "no runs yet")
	b.press("Recipes")
	b.press("operator")
	b.see(node("operate"))
	b.sees(".starts", "The alert \"disk is filling up\"")
	b.press("Start")
	b.sees("h1 .state", "waiting")
	b.sees(".why", `agent "operator" wants to call tool "exec.run"`)
	b.sees(".top nav .badge", "1")
	b.click(".top nav a[href='#/inbox']")
	b.click(".pauses a")
	b.sees(".pane .show", "df")
	b.press("approve")
	b.press("See the run")
	b.sees("h1 .state", "ok")
	b.press("Result")
	b.sees(".result", "The disk was looked at.")
	b.gone(".badge")
}
