package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under -race
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "shape": shape},
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

// shape FILE compares the shape of the JSON on stdout, one value or one a line, with a file: a line
// for every path with the type of what is there, sorted; [] stands for each element of a list.
func shape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shape FILE")
	}
	paths := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			paths[path+" object"] = true
			for k, e := range v {
				walk(path+"."+k, e)
			}
		case []any:
			paths[path+" list"] = true
			for _, e := range v {
				walk(path+"[]", e)
			}
		default:
			paths[path+" "+strings.TrimSuffix(fmt.Sprintf("%T", v), "64")] = true
		}
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	for {
		var v any
		err := dec.Decode(&v)
		if err == io.EOF {
			break
		}
		ts.Check(err)
		walk("", v)
	}
	got := strings.Join(slices.Sorted(maps.Keys(paths)), "\n") + "\n"
	if diff := cmp.Diff(ts.ReadFile(args[0]), got); diff != "" {
		ts.Fatalf("shape (-want +got):\n%s", diff)
	}
}
