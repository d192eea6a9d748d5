//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trust 6.10: a pipe that nobody writes to is refused where a flag names a file, and not waited for.
func TestFlagsOfPipes(t *testing.T) {
	dir := t.TempDir()
	recipe := "apiVersion: braise/v1\nname: x\ninputs: {n: {type: integer, default: 1}}\nsteps:\n  a: {uses: set, with: 1}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(recipe), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"run", "x.yaml", "--inputs-json", "@pipe"},
		{"run", "pipe"},
		{"run", "x.yaml", "--config", "pipe"},
		{"run", "x.yaml", "--replay", "pipe"},
	} {
		cmd := exec.CommandContext(ctx, "braise", append(args, "--store", "memory:")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 3 || !strings.Contains(string(out), "not a regular file") {
			t.Errorf("trust 6.10: %v: %v, want exit 3\n%s", args, err, out)
		}
	}
}
