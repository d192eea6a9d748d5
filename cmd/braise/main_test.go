package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"braise": main})
}

// The scripts drive the command as a user does; each begins with what it guards.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE [ARGS…] runs braise and checks its exit code; stdout and stderr are then checked as
// after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARGS…]")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("braise", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("braise %q: %v", args[1:], err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("braise %q exits with %d, want %s", args[1:], code, args[0])
	}
}
