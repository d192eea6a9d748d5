package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const crashBatchVar = "BRAISE_CRASH_BATCH" // a batchJob in JSON

// batchJob is what a child is told.
type batchJob struct {
	Provider, URL, Place string
	N                    int // items
}

const batchRecipe = `apiVersion: braise/v1
name: crashes
steps:
  each:
    foreach: {in: "${{ 1..N }}"}
    uses: model
    with: {model: m, prompt: "q ${{ item }}"}
  talk: {uses: agent, with: {agent: {model: m}, prompt: hi}}
  last: {uses: model, needs: [each], with: {model: m, prompt: "last of ${{ len(steps.each.output) }}"}}
output: ["${{ map(steps.each.output, #.text) }}", "${{ steps.talk.output.text }}", "${{ steps.last.output.text }}"]
`

// The child begins or continues the only run in its store. Whoever answers a pause has the batch looked at now.
func TestCrashBatchChild(t *testing.T) {
	text := os.Getenv(crashBatchVar)
	if text == "" {
		t.Skip("this is what TestCrashInBatches starts")
	}
	var job batchJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	store, err := openWorld("sqlite", job.Place)
	if err != nil {
		t.Fatal(err)
	}
	c := &crashChild{at: os.Getenv(failpointVar)}
	c.setTimes(usualLease)
	failpoint.Hook = c.reached
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "run" },
		Models: map[string]runtime.Model{"m": batchesOf(t, job)}}
	ctx := context.Background()
	out, _ := workflow.Recover(ctx, "run", rt, nil)
	for runtest.ErrorCode(out) == "run.busy" {
		<-time.After(5 * time.Millisecond)
		out, _ = workflow.Recover(ctx, "run", rt, nil)
	}
	if runtest.ErrorCode(out) == "run.notFound" {
		out, _ = runtest.Load(t, []byte(strings.ReplaceAll(batchRecipe, "1..N", "1.."+fmt.Sprint(job.N)))).Run(ctx, nil, rt)
	}
	for i := 0; out.Status == workflow.StatusPaused && i < 20; i++ {
		out, _ = workflow.Answer(ctx, "run", out.Pauses[0].ID, nil, rt, nil)
	}
	c.mutex.Lock()
	line, err := json.Marshal(crashResult{Status: out.Status, Code: runtest.ErrorCode(out), Output: out.Output, Hits: c.hits})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	os.Exit(0)
}

// batchesOf is the model of a provider, whose list of batches has them at once.
func batchesOf(t *testing.T, job batchJob) runtime.Model {
	t.Helper()
	if job.Provider == "anthropic" {
		m, err := anthropic.NewBatches(anthropic.Options{BaseURL: job.URL, Model: "big"})
		if err != nil {
			t.Fatal(err)
		}
		m.Settle = 0
		return m
	}
	m, err := openai.NewBatches(openai.Options{BaseURL: job.URL, Model: "big"})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle = 0
	return m
}

// models.md 2, batch: true: killed at any boundary, and once more in the execution after it, a run comes to the same end,
// and no request is sent twice.
func TestCrashInBatches(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			round := func(items int, at ...string) (hits int) {
				var texts []any
				for i := range items {
					texts = append(texts, fmt.Sprint("re: q ", i+1))
				}
				want := []any{texts, "re: hi", fmt.Sprint("re: last of ", items)}
				status := func(_, asked int) string {
					if asked == 0 && provider == "openai" { // one that is in progress cannot be told from others at Anthropic
						return "in_progress"
					}
					return "completed"
				}
				s := batchtest.New(t)
				s.Set(func() { s.Status = status })
				job := batchJob{provider, s.URL, filepath.Join(t.TempDir(), "runs.db"), items}
				for _, at := range at {
					if p := startTest(t, "TestCrashBatchChild", crashBatchVar, job, at, ""); !p.killed() {
						hits = max(hits, len(p.read(t).Hits)) // it had not so many boundaries left
					}
				}
				got := startTest(t, "TestCrashBatchChild", crashBatchVar, job, "", "").result(t)
				if diff := cmp.Diff(want, got.Output); diff != "" || got.Status != workflow.StatusOK {
					t.Errorf("killed at %v: %s %s (-want +got):\n%s", at, got.Status, got.Code, diff)
				}
				seen, prompts := map[string]bool{}, map[string]bool{}
				for _, b := range s.Batches() {
					for i, id := range b.IDs {
						prompt := batchtest.PromptOf(b.Bodies[i])
						if seen[id] || prompts[prompt] {
							t.Errorf("killed at %v: request %q of batch %s was sent before", at, prompt, b.ID)
						}
						seen[id], prompts[prompt] = true, true
					}
				}
				if n := len(s.Batches()); n != 2 || len(seen) != items+2 {
					t.Errorf("killed at %v: %d requests in %d batches", at, len(seen), n)
				}
				return max(hits, len(got.Hits))
			}
			few, many := 1, 10
			if testing.Short() {
				few, many = 7, 150
			}
			for items, step := range map[int]int{5: few, 500: many} {
				hits := round(items, "any:0")
				for n := 1; n <= hits; n += step {
					round(items, fmt.Sprint("any:", n), fmt.Sprint("any:", 1+n*7%20))
				}
				t.Logf("%d boundaries with %d items", hits, items)
			}
		})
	}
}
