package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// living counts the processes with a word in their command line.
func living(t *testing.T, word string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(line), "sleep\x00"+word) {
			n++
		}
	}
	return n
}

// awaitLiving waits until so many do.
func awaitLiving(t *testing.T, word string, want int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for living(t, word) != want {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d processes live, want %d", living(t, word), want)
		}
	}
}

// A killed braise takes its children with it: trust 5.3.
func TestKilledCommandTakesItsProgramsAlong(t *testing.T) {
	dir := t.TempDir()
	word := fmt.Sprintf("600.%d", os.Getpid()) // seconds
	for name, text := range map[string]string{
		"braise.yaml": "tools: {exec: {allow: [sh]}}\n",
		"recipe.yaml": "apiVersion: braise/v1\nname: sleeper\nsteps:\n  a:\n    uses: exec.run\n" +
			"    with: {argv: [sh, -c, 'sleep " + word + " & (sleep " + word + "; :) & sleep " + word + "; :'], timeout: 10m}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"braise", "run", "recipe.yaml"}, Dir: dir,
		Env: append(os.Environ(), "HOME="+dir), SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	out := &strings.Builder{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLiving(t, word, 3)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	awaitLiving(t, word, 0)
}
