package execution_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/engine/enginetest"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/workflow"
)

// eachHandover calls f in bubbles with toys that hand runs over: at each moment, at one of two, and so on up to one of ten,
// and each so many times with other choices. It fails if no run was handed over. The calls of every other toy overlap.
func eachHandover(t *testing.T, times int, f func(t *testing.T, y *enginetest.Toy, limit int)) {
	limits, total := 10, 0
	if testing.Short() {
		limits, times = 2, 1
	}
	for limit := 1; limit <= limits; limit++ {
		for time := range times {
			synctest.Test(t, func(t *testing.T) {
				y := enginetest.New(t, uint64(time))
				y.Overlaps = (limit+time)%2 == 0
				y.Hand = enginetest.Handover{Run: 1, Most: 40, Every: limit}
				f(t, y, limit)
				if total += y.Hand.Total; t.Failed() {
					t.Fatalf("at one of %d moments, seed %d: %d hand-overs", limit, time, y.Hand.Total)
				}
			})
		}
	}
	if t.Logf("%d hand-overs", total); total == 0 {
		t.Error("no run was handed over")
	}
}

// newBubbleWorld returns an empty world in memory, whose store goes by the clock of the bubble.
func newBubbleWorld(t *testing.T) *world {
	store := &checkpoint.Memory{}
	t.Cleanup(func() { store.Close() })
	return &world{kind: "memory", store: store, dir: t.TempDir()}
}

// overJSON is a value as another process reads it.
func overJSON[T any](t *testing.T, v T) (read T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// together are the recipes with a call that hangs until another one has returned: their calls overlap, and they are
// handed over when all calls that can begin have begun.
var together = []*crashRecipe{crashCut, crashDoomed}

// Every run that crashes are tested with comes to what it should when other engines continue it, from its events, at many moments.
func TestCrashRecipesHandedOver(t *testing.T) {
	for _, recipe := range append(slices.Clone(crashRecipes), crashItems, crashQuestion) {
		t.Run(recipe.name, func(t *testing.T) {
			eachHandover(t, 3, func(t *testing.T, y *enginetest.Toy, limit int) {
				w := newBubbleWorld(t)
				job := w.job(t, recipe)
				job.Seed = uint64(limit - 1)
				y.Hand.AtRest, y.Looks = slices.Contains(together, recipe), recipe.signals
				y.Overlaps = y.Overlaps || y.Hand.AtRest
				c := &crashChild{job: job, recipe: recipe, store: w.store}
				got := c.run(local.With(context.Background(), y.Drive), recipe.load(t))
				w.check(t, job, overJSON(t, got))
			})
		})
	}
}

// Every run with agents comes to what an undisturbed one does when other engines continue it at many moments.
func TestCrashAgentsHandedOver(t *testing.T) {
	for _, scene := range slices.Sorted(maps.Keys(agentScenes)) {
		t.Run(scene, func(t *testing.T) {
			var want agentRun
			var snapshots map[string]string
			synctest.Test(t, func(t *testing.T) { want, snapshots = playedScene(t, scene, nil, false) })
			if want.Status != workflow.StatusOK {
				t.Fatalf("the undisturbed run ended %s", want.Status)
			}
			eachHandover(t, 1, func(t *testing.T, y *enginetest.Toy, limit int) {
				got, ended := playedScene(t, scene, y, limit%2 == 0)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				for path, snapshot := range ended { // the trace has those of loops that ended in the last engine
					if snapshot != snapshots[path] {
						t.Errorf("snapshot of %s\nwant %s\ngot  %s", path, snapshots[path], snapshot)
					}
				}
			})
		})
	}
}

// playedScene runs agents, driven by a toy or, without one, as usual. It returns what the run came to, and the last
// snapshots of its loops.
func playedScene(t *testing.T, scene string, y *enginetest.Toy, last bool) (agentRun, map[string]string) {
	t.Helper()
	w := newBubbleWorld(t)
	job := agentJob{Scene: scene, Last: last, crashJob: crashJob{Run: "r1"}}
	job.Dir = filepath.Join(w.dir, job.Run)
	if err := os.Mkdir(job.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if y != nil {
		ctx = local.With(ctx, y.Drive)
	}
	c := &agentChild{crashChild{job: job.crashJob, store: w.store}, job}
	got := overJSON(t, c.run(ctx, t))
	out := &workflow.Outcome{Status: got.Status, Output: got.Output, Artefact: got.Artefact}
	return agentRunOf(t, job.Run, out, w.records(t, job.Run), effectsIn(job.Dir), got.Memory), got.Snapshots
}
