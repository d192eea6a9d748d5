package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const askRecipe = `apiVersion: braise/v1
name: refund
steps:
  approve: {uses: human, with: {prompt: "Pay?", decisions: [approve, reject]}}
output: ${{ steps.approve.output.decision }}
`

// install lays files out in a new folder, and opens it as an installation.
func install(t *testing.T, opts host.Options, files map[string]string) (h *host.Host, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	opts.Recipe, opts.Trust = filepath.Join(dir, "recipe.yaml"), trust
	h, err := host.Open(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, dir
}

func loaded(t *testing.T, h *host.Host, dir string) *workflow.Workflow {
	t.Helper()
	wf, err := h.Load(t.Context(), filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// The store of the configuration is made when a run needs it, and no earlier.
func TestOpenMakesNothing(t *testing.T) {
	h, dir := install(t, host.Options{}, map[string]string{"recipe.yaml": askRecipe, "braise.yaml": "store: jsonl:runs\n"})
	wf := loaded(t, h, dir)
	if _, _, err := h.Look(filepath.Join(dir, "recipe.yaml")); err != nil {
		t.Error(err)
	}
	if h.ConfigPath() != filepath.Join(dir, "braise.yaml") {
		t.Errorf("the configuration is %q", h.ConfigPath())
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before a run: %v", err)
	}
	if out := h.Run(t.Context(), wf, nil); out.Status != workflow.StatusPaused {
		t.Fatalf("the run ended %s: %v", out.Status, out.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err != nil {
		t.Error(err)
	}
}

// A run is begun, looked at, answered and forked by one installation, and found by another that opens the same store.
func TestRunAndGoOn(t *testing.T) {
	files := map[string]string{"recipe.yaml": askRecipe}
	h, dir := install(t, host.Options{Store: "jsonl:" + t.TempDir() + "/runs", NewRunID: numbered()}, files)
	wf := loaded(t, h, dir)
	first := h.Run(t.Context(), wf, nil)
	if first.RunID != "run-1" || len(first.Pauses) != 1 {
		t.Fatalf("%+v: %v", first, first.Err)
	}
	if out := h.Resume(t.Context(), first.Token, map[string]any{"decision": "never"}, nil); out.Failure() == nil || out.Failure().Code != "answer.unfit" {
		t.Errorf("an answer that does not fit: %+v", out)
	}
	out := h.Resume(t.Context(), first.Token, map[string]any{"decision": "approve"}, nil)
	if out.Status != workflow.StatusOK || out.Output != "approve" {
		t.Errorf("resumed: %+v: %v", out, out.Err)
	}
	if out = h.Recover(t.Context(), "run-1", nil); out.Status != workflow.StatusOK || out.Output != "approve" {
		t.Errorf("recovered: %+v: %v", out, out.Err)
	}
	if out = h.Fork(t.Context(), "run-1", "approve", workflow.Edits{}, nil); out.RunID != "run-2" || out.Status != workflow.StatusPaused {
		t.Errorf("forked: %+v: %v", out, out.Err)
	}
	if out = h.Answer(t.Context(), "run-2", "approve", map[string]any{"decision": "reject"}, &workflow.ResumeOptions{Workflow: wf}); out.Status == workflow.StatusPaused {
		t.Errorf("answered: %+v: %v", out, out.Err)
	}
	third := h.Run(t.Context(), wf, nil)
	if out = h.Cancel(t.Context(), third.RunID, "enough", nil); out.Status != workflow.StatusCancelled {
		t.Errorf("cancelled: %+v: %v", out, out.Err)
	}
	for _, out := range []*workflow.Outcome{
		h.Resume(t.Context(), "no token", nil, nil),
		h.Recover(t.Context(), "none", nil),
		h.Send(t.Context(), "none", "inbox", 1, nil),
	} {
		if out.Status != workflow.StatusError || host.ExitCode(out) != host.ExitConflict {
			t.Errorf("an unknown run: %+v: %v", out, out.Err)
		}
	}

	url, _, err := h.StoreURL()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := install(t, host.Options{StoreOnly: true, Store: url}, files)
	store, err := other.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, err := history.Load(t.Context(), store, third.RunID)
	if err != nil || run.Status != history.Cancelled {
		t.Errorf("the cancelled run is %+v: %v", run, err)
	}
}

// numbered makes ids run-1, run-2 and so on.
func numbered() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("run-%d", n)
	}
}

// Runs side by side share one store and one connection to a server of tools.
func TestRunsShareServers(t *testing.T) {
	crm := newMCPEndpoint()
	defer crm.Close()
	h, dir := install(t, host.Options{}, map[string]string{"recipe.yaml": mcpRecipe,
		"braise.yaml": "store: 'memory:'\nmcp: {crm: {url: '" + crm.URL + "'}}\n"})
	if _, rt, err := h.Look(filepath.Join(dir, "recipe.yaml")); err != nil || !slices.ContainsFunc(rt.ToolSpecs(), func(s runtime.ToolSpec) bool { return s.Name == "mcp.crm.greet" }) {
		t.Errorf("Look: %v", err)
	}
	if n := crm.opened.Load(); n != 0 {
		t.Errorf("looking opened the server %d times", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wf, err := h.Load(ctx, filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store(ctx); err != nil {
		t.Fatal(err)
	}
	cancel() // what was opened stays open for others
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if out := h.Run(t.Context(), wf, nil); out.Status != workflow.StatusOK || out.Output != "hello" {
				t.Errorf("%+v: %v", out, out.Err)
			}
		})
	}
	all.Wait()
	if n := crm.opened.Load(); n != 1 {
		t.Errorf("the server was opened %d times", n)
	}
	store, err := h.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runs, err := history.List(t.Context(), store, history.Filter{Statuses: []history.Status{history.OK}})
	if err != nil || len(runs) != 8 {
		t.Errorf("%d runs in the store: %v", len(runs), err)
	}
	out := h.Recover(t.Context(), runs[0].RunID, nil) // its tools come from the stored recipe
	if out.Status != workflow.StatusOK {
		t.Errorf("recovered: %+v: %v", out, out.Err)
	}
}

// A missing server fails what needs it; once it exists, so do its tools.
func TestServerThatIsNotThere(t *testing.T) {
	crm := newMCPEndpoint()
	crm.Close()
	h, dir := install(t, host.Options{}, map[string]string{"recipe.yaml": mcpRecipe, "other.yaml": askRecipe,
		"braise.yaml": "store: 'memory:'\nmcp: {crm: {url: '" + crm.URL + "', timeout: 1s}}\n"})
	wf, err := h.Load(t.Context(), filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out := h.Run(t.Context(), wf, nil); out.Err == nil || out.Failure().Code != "tool.missing" || host.ExitCode(out) != host.ExitMissing {
		t.Errorf("a recipe that needs it: %v", out.Err)
	}
	if _, err := h.Sweep(t.Context(), nil); err == nil {
		t.Error("a sweep, which may need it, succeeded")
	}
	other, err := h.Load(t.Context(), filepath.Join(dir, "other.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out := h.Run(t.Context(), other, nil); out.Status != workflow.StatusPaused {
		t.Errorf("a recipe that does not: %+v: %v", out, out.Err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "braise.yaml"), "modles: {}\n")
	_, err := host.Open(t.Context(), &host.Options{Recipe: filepath.Join(dir, "recipe.yaml"), Trust: trust})
	if _, ok := errors.AsType[*diagnostics.Error](err); !ok {
		t.Errorf("a bad configuration: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := host.Open(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	h, err := host.Open(t.Context(), &host.Options{StoreOnly: true, Store: "memory:", Recipe: filepath.Join(dir, "recipe.yaml")})
	if err != nil {
		t.Fatal("an option that names the store needs no configuration:", err)
	}
	h.Close()
}

// Load finds everything that is wrong with a recipe, what its parser finds and what only the compiler does.
func TestLoadFindsAll(t *testing.T) {
	h, dir := install(t, host.Options{}, map[string]string{"recipe.yaml": "apiVersion: braise/v1\nname: r\nsetps: {}\nsteps:\n  a: {uses: set, needs: [b], with: 1}\n"})
	for name, load := range map[string]func(string) error{
		"Load": func(path string) error { _, err := h.Load(t.Context(), path); return err },
		"Look": func(path string) error { _, _, err := h.Look(path); return err },
		"nil":  func(path string) error { _, _, err := (*host.Host)(nil).Look(path); return err },
	} {
		err := load(filepath.Join(dir, "recipe.yaml"))
		wrong, ok := errors.AsType[*diagnostics.Error](err)
		if !ok || len(wrong.List) != 2 {
			t.Errorf("%s: %v", name, err)
		}
		if err := load(filepath.Join(dir, "none", "recipe.yaml")); err == nil || !strings.Contains(err.Error(), "the folder of the recipe cannot be read") {
			t.Errorf("%s without a folder: %v", name, err)
		}
	}
}

// Whoever only looks makes no store; the warning says that there is none.
func TestLookIntoAStoreThatIsNotThere(t *testing.T) {
	var warned []string
	dir := t.TempDir()
	h, _ := install(t, host.Options{Look: true, Store: "sqlite:" + dir + "/runs.db", Warn: func(m string) { warned = append(warned, m) }}, nil)
	for range 2 {
		if store, err := h.Store(t.Context()); err != nil {
			t.Fatal(err)
		} else if runs, err := store.List(t.Context(), checkpoint.Filter{}); err != nil || len(runs) > 0 {
			t.Errorf("it has %v: %v", runs, err)
		}
	}
	if diff := cmp.Diff([]string{"there is no store yet: sqlite:" + dir + "/runs.db"}, warned); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the folder has %v: %v", entries, err)
	}
}

func TestClosed(t *testing.T) {
	h, dir := install(t, host.Options{Store: "memory:"}, map[string]string{"recipe.yaml": askRecipe})
	wf := loaded(t, h, dir)
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Store(t.Context()); !errors.Is(err, checkpoint.ErrClosed) {
		t.Errorf("the store: %v", err)
	}
	if out := h.Run(t.Context(), wf, nil); !errors.Is(out.Err, checkpoint.ErrClosed) {
		t.Errorf("a run: %v", out.Err)
	}
}

// Options change the runtime, and what a caller does to one runtime is not in the next.
func TestOptionsOfTheRuntime(t *testing.T) {
	h, _ := install(t, host.Options{Strict: true, MaxParallel: 3}, map[string]string{"braise.yaml": "limits: {max_parallel: 8}\n"})
	rt := h.Bare()
	if rt.Diagnostics != diagnostics.Strict || rt.Limits.MaxParallel != 3 || rt.Store != nil {
		t.Errorf("%+v", rt)
	}
	rt.Models["fast"] = nil
	if again := h.Bare(); len(again.Models) != 0 {
		t.Errorf("the next one has models %v", again.Models)
	}
	h, _ = install(t, host.Options{MaxParallel: 9}, map[string]string{"braise.yaml": "limits: {max_parallel: 8}\n"})
	if n := h.Bare().Limits.MaxParallel; n != 8 {
		t.Errorf("max_parallel is %d, want the lower one, 8", n)
	}
}

// Sweeps resumes what is due when it is due, until its context ends.
func TestSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, dir := install(t, host.Options{Store: "memory:", NewRunID: numbered()}, map[string]string{
			"recipe.yaml": "apiVersion: braise/v1\nname: later\nsteps:\n  nap: {uses: wait, with: {duration: 1h}}\noutput: rested\n"})
		wf := loaded(t, h, dir)
		if out := h.Run(t.Context(), wf, nil); out.Status != workflow.StatusPaused {
			t.Fatalf("the run ended %s: %v", out.Status, out.Err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		var swept []string
		for out, err := range h.Sweeps(ctx, &workflow.SweepOptions{Every: time.Minute}) {
			if err != nil {
				t.Fatal(err)
			}
			swept = append(swept, fmt.Sprint(out.RunID, " ", out.Output, " ", time.Since(began)))
		}
		if diff := cmp.Diff([]string{"run-1 rested 1h0m0s"}, swept); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if took := time.Since(began); took != 2*time.Hour {
			t.Errorf("it ended after %s", took)
		}
	})
}

// An installation with a store: a run waits for a person, in another process if need be, and is resumed with the answer.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "braise")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "refund.yaml")
	if err := os.WriteFile(path, []byte(askRecipe), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "braise.yaml"), []byte("store: jsonl:runs\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	h, err := host.Open(ctx, &host.Options{Config: filepath.Join(dir, "braise.yaml")})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	wf, err := h.Load(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	out := h.Run(ctx, wf, nil)
	fmt.Println(out.Status, out.Pauses[0].Prompt)

	out = h.Resume(ctx, out.Token, map[string]any{"decision": "approve"}, nil)
	fmt.Println(out.Status, out.Output, host.ExitCode(out))
	// Output:
	// paused Pay?
	// ok approve 0
}
