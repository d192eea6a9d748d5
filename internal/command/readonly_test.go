package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint/checkpointtest"
)

// trust 6.10: an auditor who may not write to a copy of a store can list, show, trace and export what is in it.
func TestReadOnlyStores(t *testing.T) {
	const recipe = "apiVersion: braise/v1\nname: pay\nsteps:\n  first: {uses: set, with: {value: 1}}\n" +
		"  ask: {uses: human, needs: [first], with: {prompt: Pay this}}\n"
	for scheme, name := range map[string]string{"sqlite:": "runs.db", "jsonl:": "runs"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "pay.yaml"), []byte(recipe), 0o600); err != nil {
				t.Fatal(err)
			}
			braise := func(start func(*exec.Cmd) error, args ...string) (string, error) {
				cmd := exec.Command("braise", args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, "GORACE=atexit_sleep_ms=0")
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				err := start(cmd)
				if err == nil {
					err = cmd.Wait()
				}
				return out.String(), err
			}
			store := scheme + filepath.Join(dir, "store", name)
			out, err := braise((*exec.Cmd).Start, "run", "pay.yaml", "--store", store, "--run-id", "audited", "--no-interactive")
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 4 {
				t.Fatalf("run: %v\n%s", err, out)
			}
			checkpointtest.MakeReadOnly(t, filepath.Join(dir, "store"))
			for _, command := range [][]string{{"list"}, {"show", "audited"}, {"trace", "audited"}, {"export", "audited"}} {
				out, err := braise(checkpointtest.StartWithoutRights, append([]string{"runs", "--store", store}, command...)...)
				if err != nil || !strings.Contains(out, "ask") && !strings.Contains(out, "audited") {
					t.Errorf("runs %s: %v\n%s", command, err, out)
				}
			}
			if out, err := braise(checkpointtest.StartWithoutRights, "run", "pay.yaml", "--store", store, "--no-interactive"); err == nil ||
				!strings.Contains(out, name) {
				t.Errorf("run: %v\n%s", err, out)
			}
		})
	}
}
