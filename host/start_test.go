package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A request begins a run, answers with its id, and the run goes on.
func ExampleHost_Start() {
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
	ctx := context.Background() // of the request: context.WithoutCancel(r.Context())
	h, err := host.Open(ctx, &host.Options{Config: filepath.Join(dir, "braise.yaml")})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	wf, err := h.Load(ctx, path)
	if err != nil {
		log.Fatal(err)
	}

	id, done, err := h.Start(ctx, wf, nil, &workflow.EnqueueOptions{RunID: "refund-4711", Labels: map[string]string{"customer": "ada"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
	out := <-done
	fmt.Println(out.Status)
	// Output:
	// refund-4711
	// paused
}

// A run that Start began is in the store at once, and its execution can be waited for and cancelled.
func TestStart(t *testing.T) {
	h, dir := install(t, host.Options{}, map[string]string{
		"braise.yaml": "store: sqlite:runs.db\ntools: {exec: {allow: [sleep]}}\n",
		"recipe.yaml": "apiVersion: braise/v1\nname: long\ninputs: {seconds: integer}\n" +
			"steps:\n  nap: {uses: exec.run, with: {argv: [sleep, \"${{ string(inputs.seconds) }}\"]}}\noutput: ${{ steps.nap.output.code }}\n",
	})
	wf := loaded(t, h, dir)
	store, err := h.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	long, longDone, err := h.Start(ctx, wf, map[string]any{"seconds": 600}, &workflow.EnqueueOptions{Labels: map[string]string{"a": "b"}, By: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	sum, _, err := store.Load(t.Context(), long, math.MaxInt64)
	if diff := cmp.Diff(map[string]string{"a": "b"}, sum.Labels); err != nil || diff != "" || sum.By != "ada" || sum.Status.Ended() {
		t.Errorf("%+v, %v", sum, err)
	}
	short, shortDone, err := h.Start(t.Context(), wf, map[string]any{"seconds": 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := <-shortDone; out.Status != workflow.StatusOK || out.Output != int64(0) || out.RunID != short {
		t.Errorf("%s, %v, %v", out.Status, out.Output, out.Err)
	}
	select {
	case out := <-longDone:
		t.Fatalf("the long run is over: %v", out.Err)
	default:
	}
	cancel()
	if out := <-longDone; out.Status != workflow.StatusCancelled {
		t.Errorf("%s, %v", out.Status, out.Err)
	}

	// What is refused is not recorded.
	for code, start := range map[string]func() (string, <-chan *workflow.Outcome, error){
		"input.invalid": func() (string, <-chan *workflow.Outcome, error) {
			return h.Start(t.Context(), wf, map[string]any{"seconds": "x"}, nil)
		},
		"run.exists": func() (string, <-chan *workflow.Outcome, error) {
			return h.Start(t.Context(), wf, map[string]any{"seconds": 0}, &workflow.EnqueueOptions{RunID: short})
		},
		"": func() (string, <-chan *workflow.Outcome, error) {
			return h.Start(t.Context(), wf, map[string]any{"seconds": 0}, &workflow.EnqueueOptions{Queue: "q"})
		},
	} {
		id, done, err := start()
		known, _ := errors.AsType[*runtime.Error](err)
		if id != "" || done != nil || err == nil || code != "" && (known == nil || known.Code != code) {
			t.Errorf("%s: %q, %v", code, id, err)
		}
	}
	all, err := store.List(t.Context(), checkpoint.Filter{})
	if err != nil || len(all) != 2 {
		t.Errorf("%d runs, %v", len(all), err)
	}
}
