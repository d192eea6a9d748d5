package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "4") // scripts wait for programs that they start
	testscript.Main(m, map[string]func(){
		"braise":     func() { Main() },
		"braise-toy": func() { Main(toy{}) },
	})
}

// The scripts drive the command as a user does; each begins with what it guards.
func TestScripts(t *testing.T) {
	ports, err := filepath.Abs("../../testdata/ports")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", t.TempDir()) // a working folder above it would vouch for nothing
			env.Setenv("PORTS", ports)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second under -race
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "shape": shape, "token": token,
			"toyexits": toyExits, "eventually": eventually, "later": later},
	})
}

// docs/command.md has every command and flag.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	root := (&app{}).rootCommand()
	usages := root.PersistentFlags().FlagUsages()
	for _, c := range root.Commands() {
		if !regexp.MustCompile("(?m)^\\| .*`" + c.Name() + "[ `]").Match(page) {
			t.Errorf("docs/command.md lacks the command %s", c.Name())
		}
		usages += c.LocalNonPersistentFlags().FlagUsages()
		for _, sub := range c.Commands() {
			if !regexp.MustCompile("(?m)^\\| `" + c.Name() + " " + sub.Name() + "[ `]").Match(page) {
				t.Errorf("docs/command.md lacks the command %s %s", c.Name(), sub.Name())
			}
			usages += sub.LocalNonPersistentFlags().FlagUsages()
		}
	}
	for _, flag := range regexp.MustCompile(`(?m)^ +(?:-., )?(--[a-z-]+)`).FindAllStringSubmatch(usages, -1) {
		if !regexp.MustCompile("[`\\[]" + flag[1] + "[` \\]]").Match(page) {
			t.Errorf("docs/command.md lacks the flag %s", flag[1])
		}
	}
}

// The exit code of an outcome is the first that fits.
func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		status   workflow.Status
		category runtime.Category
		code     string
		why      *stopped
		want     int
	}{
		{workflow.StatusOK, "", "", nil, 0},
		{workflow.StatusOK, "", "", interrupted, 0}, // too late to matter
		{workflow.StatusError, runtime.CategoryTool, "tool.failed", nil, 1},
		{workflow.StatusError, runtime.CategoryTool, "tool.failed", interrupted, 130},
		{workflow.StatusError, runtime.CategoryTool, "tool.failed", terminated, 1},
		{workflow.StatusError, runtime.CategoryInfra, "step.timeout", nil, 1},
		{workflow.StatusError, runtime.CategoryLimit, "foreach.maxItems", nil, 1},
		{workflow.StatusError, runtime.CategoryConfig, "recipe.inputs", nil, 1},
		{workflow.StatusError, runtime.CategoryConfig, "input.invalid", nil, 3},
		{workflow.StatusError, runtime.CategoryConfig, "secret.tooShort", nil, 3},
		{workflow.StatusError, runtime.CategoryConfig, "runtime.invalid", nil, 3},
		{workflow.StatusCancelled, runtime.CategoryCancelled, "run.cancelled", nil, 5},
		{workflow.StatusCancelled, runtime.CategoryCancelled, "run.cancelled", terminated, 5},
		{workflow.StatusCancelled, runtime.CategoryCancelled, "run.cancelled", interrupted, 130},
		{workflow.StatusError, runtime.CategoryLimit, "limits.wall_time", nil, 6},
		{workflow.StatusError, runtime.CategoryLimit, "outputs.tooLarge", nil, 6},
		{workflow.StatusError, runtime.CategoryConfig, "model.missing", nil, 8},
		{workflow.StatusError, runtime.CategoryConfig, "strict.failed", nil, 8},
		{workflow.StatusError, runtime.CategoryInfra, "engine.panic", nil, 9},
		{workflow.StatusError, runtime.CategoryInfra, "secret.failed", nil, 9},
		{workflow.StatusError, "", "", nil, 9}, // no error at all
		{workflow.StatusPaused, "", "", nil, 4},
		{workflow.StatusPaused, "", "", interrupted, 130}, // at a question
		{workflow.StatusPaused, "", "", terminated, 4},
		{workflow.StatusError, runtime.CategoryInfra, "run.exists", nil, 7},
		{workflow.StatusError, runtime.CategoryInfra, "run.busy", nil, 7},
		{workflow.StatusError, runtime.CategoryInfra, "resume.invalidToken", nil, 7},
		{workflow.StatusError, runtime.CategoryConfig, "answer.unfit", nil, 3},
		{workflow.StatusError, runtime.CategoryInfra, "store.failed", nil, 9},
		{workflow.StatusError, runtime.CategoryInfra, "store.failed", interrupted, 130},
	} {
		out := &workflow.Outcome{Status: tt.status}
		if tt.code != "" {
			out.Err = &runtime.Error{Category: tt.category, Code: tt.code, Err: errors.New("x")}
		}
		if got := exitCode(out, tt.why); got != tt.want {
			t.Errorf("%s %s %s, stopped by %v: exit %d, want %d", tt.status, tt.category, tt.code, tt.why, got, tt.want)
		}
	}
}

// exits CODE [ARGS…] runs braise and checks its exit code; stdout and stderr are then checked as
// after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) { exitsOf("braise", ts, neg, args) }

// toyExits is exits for the command with the toy.
func toyExits(ts *testscript.TestScript, neg bool, args []string) {
	exitsOf("braise-toy", ts, neg, args)
}

// eventually PROGRAM [ARGS…] runs a program again and again until it succeeds.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: eventually PROGRAM [ARGS…]")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(3 * time.Minute)
	for ts.Exec(args[0], args[1:]...) != nil {
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("%q never succeeds", args)
		}
	}
}

func exitsOf(program string, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARGS…]")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(program, args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s %q: %v", program, args[1:], err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s %q exits with %d, want %s", program, args[1:], code, args[0])
	}
}

// token VAR [STEP] sets an environment variable to the token in the outcome on stdout: the first, or that of a step or a pause.
func token(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: token VAR [STEP or PAUSE]")
	}
	var out struct {
		Token  string
		Pauses []struct{ ID, Step, Token string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &out))
	for _, p := range out.Pauses {
		if len(args) > 1 && (p.Step == args[1] || p.ID == args[1]) {
			out.Token = p.Token
		}
	}
	if out.Token == "" {
		ts.Fatalf("no token")
	}
	ts.Setenv(args[0], out.Token)
}

// later RUN appends a record of a version to come to a run of the store runs.db.
func later(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: later RUN")
	}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ts.MkAbs("runs.db"), nil)
	ts.Check(err)
	defer store.Close()
	lease, err := store.Claim(ctx, args[0], "later", time.Minute)
	ts.Check(err)
	sum, _, err := store.Load(ctx, args[0], math.MaxInt64)
	ts.Check(err)
	rec, err := checkpoint.NewRecord(time.Now(), "run.dreamt", "", nil)
	ts.Check(err)
	ts.Check(store.Append(ctx, lease, sum.Seq, rec))
	ts.Check(store.Release(ctx, lease))
}

// shape FILE compares the shape of the JSON on stdout, one value or one a line, with a file: a line
// for every path with the type of its value, sorted; [] stands for each element of a list.
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
