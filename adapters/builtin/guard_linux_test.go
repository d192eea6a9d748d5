package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
)

// The modes of the test binary.
const (
	modeVariable = "BRAISE_TEST_MODE"
	guardMode    = "guard"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == guardMode {
		builtin.Guard()
	}
	if mode := os.Getenv(modeVariable); mode != "" {
		runPrograms(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// runPrograms is a host that has a program run which starts others, until it is killed.
func runPrograms(mode string) {
	opts := builtin.ExecOptions{Allow: []string{"sh"}}
	if mode == guardMode {
		opts.Guard = []string{"/proc/self/exe", guardMode}
	}
	ctx := resume.WithIdempotencyKey(context.Background(), os.Getenv("TEST_KEY"))
	const script = "sleep 600 & (sleep 600 & sleep 600; :) & sleep 600; :"
	text, _ := json.Marshal(map[string]any{"argv": []string{"sh", "-c", script}})
	_, err := builtin.ExecRun(opts).Call(ctx, text)
	panic(err)
}

// hostOf starts a process that runs a program with three children, and waits for all of these processes.
func hostOf(t *testing.T, mode, key string) (c *exec.Cmd, pids []int) {
	t.Helper()
	c = exec.Command("/proc/self/exe", "-test.run=^$")
	c.Env = append(os.Environ(), modeVariable+"="+mode, "TEST_KEY="+key)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, await(t, key, 6) // sh, a subshell and four of sleep
}

// await waits until so many processes have a key, and returns them. One that begins another program just then has none.
func await(t *testing.T, key string, want int) []int {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for {
		living, err := procgroup.Living(key)
		if err != nil {
			t.Fatal(err)
		}
		pids := living[key]
		if len(pids) == want {
			return pids
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("processes %v have the key, want %d", pids, want)
		}
	}
}

// A host that is killed takes its programs with it, and all that they have started: trust 5.3.
func TestKilledHostTakesItsProgramsAlong(t *testing.T) {
	c, _ := hostOf(t, guardMode, "test-guard-"+t.Name())
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	await(t, "test-guard-"+t.Name(), 0) // trust 6.4: while they live, they are found
}

// Without a guard at least the program itself dies: trust 5.3.
func TestKilledLibraryTakesItsProgramAlong(t *testing.T) {
	key := "test-library-" + t.Name()
	c, before := hostOf(t, "library", key)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	after := await(t, key, 5)
	for _, pid := range after {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if before[0] == after[0] {
		t.Errorf("%v lived before, %v after", before, after)
	}
	await(t, key, 0)
}

// With a guard a call ends as it does without.
func TestGuardedCalls(t *testing.T) {
	tool := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}, Guard: []string{"/proc/self/exe", guardMode}})
	for _, tt := range []struct{ script, stdout, wrong string }{
		{"echo out", "out\n", ""},
		{"sleep 600 & echo out", "out\n", ""},
		{"trap '' TERM; kill -TERM 0; echo out", "out\n", ""}, // the guard does not mind
		{"exit 3", "", `"sh" exited with code 3`},
		{"kill -KILL 0", "", `"sh" ended by signal: killed`},
	} {
		ctx := resume.WithIdempotencyKey(t.Context(), "test-guarded")
		got, err := call(ctx, t, tool, args{"argv": []string{"sh", "-c", tt.script}})
		if tt.wrong != "" {
			checkError(t, err, tt.wrong)
		} else if err != nil || got["stdout"] != tt.stdout {
			t.Errorf("%s: %v, %v", tt.script, got, err)
		}
		await(t, "test-guarded", 0)
	}
	_, err := call(t.Context(), t, tool, args{"argv": []string{"sh", "-c", "sleep 600"}, "timeout": "50ms"})
	checkError(t, err, `"sh" was killed: timed out after 50ms`)
	broken := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}, Guard: []string{"/nowhere/guard"}})
	_, err = call(t.Context(), t, broken, args{"argv": []string{"sh", "-c", "true"}})
	checkError(t, err, `"sh" could not start`)
}
