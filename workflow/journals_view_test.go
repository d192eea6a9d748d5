package workflow_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

// upTo is a store whose journals end at a record.
type upTo struct {
	checkpoint.Store
	last int64
}

func (s *upTo) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	_, recs, err := s.Store.Load(ctx, runID, 0)
	if err != nil {
		return checkpoint.Summary{}, nil, err
	}
	recs = recs[:s.last]
	sum, err := checkpoint.Fold(runID, recs)
	sum.Held = !sum.Status.Ended() && sum.Status != checkpoint.Paused
	return sum, recs[min(after, s.last):], err
}

// plannedSteps are the ids of the steps of a plan.
func plannedSteps(steps []program.PlanStep) (ids []string) {
	for _, s := range steps {
		ids = append(append(ids, s.ID), plannedSteps(s.Body)...)
	}
	return ids
}

// The view of a run has every step of its plan, wherever its journal ends.
func TestViewsOfEarlierVersions(t *testing.T) {
	known := []string{"pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"}
	for _, edition := range append([]string{"1-repaired"}, editions...) {
		for _, c := range journalCases(t, edition) {
			t.Run(edition+" "+c.name, func(t *testing.T) {
				t.Parallel()
				store := openJournals(t, filepath.Join(c.dir, "store"))
				defer store.Close()
				runs, err := store.List(t.Context(), checkpoint.Filter{})
				if err != nil {
					t.Fatal(err)
				}
				for _, sum := range runs {
					ends := writesOf(t, filepath.Join(c.dir, "store", sum.ID+".jsonl"))
					if testing.Short() {
						ends = ends[max(0, len(ends)-4):]
					}
					for _, n := range ends {
						run, err := history.Load(t.Context(), &upTo{store, n}, sum.ID)
						if err != nil {
							t.Fatal(err)
						}
						if slices.ContainsFunc(run.Diagnostics, func(d diagnostics.Diagnostic) bool { return d.Code == diagnostics.CodePartialHistory }) {
							t.Fatalf("%s at %d: %v", sum.ID, n, run.Diagnostics)
						}
						var seen []string
						for _, s := range run.Steps {
							if path := resume.DefinitionPath(s.Step); !strings.Contains(path, ".") { // those of tools are in no plan
								seen = append(seen, path)
							}
							if !slices.Contains(known, s.Status) || run.Status == history.OK && !slices.Contains(known[3:], s.Status) {
								t.Errorf("%s at %d: step %s is %s", sum.ID, n, s.Step, s.Status)
							}
						}
						if run.Events == nil || slices.ContainsFunc(run.Acts, func(a history.Act) bool { return a.What == "change" }) {
							continue // it has another recipe by now
						}
						plan := plannedSteps(storedPlan(t, store, run.Digest))
						slices.Sort(seen)
						slices.Sort(plan)
						if !slices.Equal(slices.Compact(seen), plan) {
							t.Fatalf("%s at %d has the steps %q of %q", sum.ID, n, seen, plan)
						}
					}
				}
			})
		}
	}
}

// writesOf are the last records of the writes of a journal, each of which is atomic.
func writesOf(t *testing.T, file string) (ends []int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := int64(0) // of a batch
	for line := range strings.Lines(string(text)) {
		var rec struct {
			Seq  int64
			Kind string
			Data struct{ Records int64 }
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		switch {
		case rec.Kind == "batch":
			end = rec.Seq - 1 + rec.Data.Records
		case rec.Seq >= end:
			ends = append(ends, rec.Seq)
		}
	}
	return ends
}

// storedPlan is the plan of a recipe in a store.
func storedPlan(t *testing.T, store checkpoint.Store, digest string) []program.PlanStep {
	t.Helper()
	text, err := store.Definition(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.FromDefinition(text)
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf.Plan().Steps
}
