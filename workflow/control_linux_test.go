package workflow_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
)

// The program of a branch that loses, and what that has started, are dead when the run goes on. Both hold
// one end of a pipe.
func TestRaceKillsPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var pipe *os.File
	ready := runtest.Tool("test.ready", func(context.Context, map[string]any) (any, error) {
		f, err := os.Open(path) // waits for the program
		if err != nil {
			return nil, err
		}
		pipe = f
		line, err := bufio.NewReaderSize(f, 16).ReadString('\n')
		return line, err
	})
	rt := &runtime.Runtime{Tools: []runtime.Tool{ready, builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}})}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  race:
    uses: fork
    with:
      mode: race
      branches:
        loses: {steps: {run: {uses: exec.run, with: {argv: [sh, -c, 'exec 3>"$0"; sleep 600 & echo ready >&3; wait', "`+path+`"], timeout: 10m}}}}
        wins: {steps: {see: {uses: test.ready}}, output: "${{ steps.see.output }}"}
output: ${{ steps.race.output.output }}
`)).Run(t.Context(), nil, rt)
	if err != nil || out.Output != "ready\n" {
		t.Fatal(err, out.Output)
	}
	defer pipe.Close()
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(pipe); err != nil || len(rest) > 0 {
		t.Errorf("somebody still holds the pipe: %q, %v", rest, err)
	}
	if got := ends(out); got["race/loses/run"] != "cancelled" {
		t.Errorf("ends %v", got)
	}
}
