package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/engine/enginetest"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/scenario"
)

// scenarioFiles are the scenarios of the repository.
func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := scenario.Find([]string{"../../testdata/scenarios", "../../recipes"}, nil)
	if err != nil || len(files) < 300 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	return files
}

// some are all files, or in a short test every other one.
func some(t *testing.T, files []string) (list []string) {
	t.Helper()
	if !testing.Short() {
		return files
	}
	part := seedtest.Part(t, 8) / 4 // every part meets all of seeds(t, 4)
	for i, file := range files {
		if i%2 == part {
			list = append(list, file)
		}
	}
	return list
}

// fresh is a store that has nothing but the run that was begun last: all runs of a scenario have the same id.
type fresh struct{ *checkpoint.Memory }

func (f *fresh) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	f.Memory = &checkpoint.Memory{}
	return f.Memory.Create(ctx, run, owner, ttl, recs...)
}

// options are those that a scenario runs with.
func options(t *testing.T, file string, durable bool) *scenario.Options {
	t.Helper()
	if filepath.Base(filepath.Dir(file)) != "scenarios" {
		return nil
	}
	var none *host.Config
	rt, err := none.Runtime("")
	if err != nil {
		t.Fatal(err)
	}
	if durable {
		rt.Store = &fresh{&checkpoint.Memory{}}
	}
	return &scenario.Options{Runtime: rt}
}

// play runs a scenario with a toy.
func play(t *testing.T, y *enginetest.Toy, file string, durable bool) *scenario.Result {
	t.Helper()
	result, err := scenario.Check(local.With(t.Context(), y.Drive), file, options(t, file, durable))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// onToyClock calls f in a bubble with a clock of its own, unless the scenario has processes, which go by the machine's.
func onToyClock(t *testing.T, file string, f func(t *testing.T)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if processes.Match(text) {
		f(t)
		return
	}
	synctest.Test(t, f)
}

var processes = regexp.MustCompile(`(?m)^(tools:.*exec|  exec:|mcp:)`)

// oneAtATime are the scenarios that cannot come out as they should with a toy, which makes one call after the other.
var oneAtATime = map[string]string{
	"retry_timeout":        "one call is slow, and others that overlap with it have a timeout",
	"timeout_foreach_item": "an item is slow, and the others that overlap with it have a timeout",
}

// seeds are those that a test takes each scenario through: so many, or one of them in a short test.
func seeds(t *testing.T, n int) (all []uint64) {
	t.Helper()
	if testing.Short() {
		return []uint64{uint64(seedtest.Part(t, n))}
	}
	for i := range n {
		all = append(all, uint64(i))
	}
	return all
}

// Every scenario comes out as it should, whatever the order in which calls return. On the way, and at the end of each
// execution, another engine that is told the journal comes to the same state.
func TestScenariosInAnyOrder(t *testing.T) {
	var told atomic.Int64
	for _, file := range scenarioFiles(t) {
		t.Run(scenario.Name(file), func(t *testing.T) {
			t.Parallel()
			if why := oneAtATime[scenario.Name(file)]; why != "" {
				t.Skip(why)
			}
			for _, seed := range seeds(t, 2) {
				onToyClock(t, file, func(t *testing.T) {
					y := newToy(t, seed)
					for _, f := range play(t, y, file, false).Failures {
						t.Errorf("seed %d: %s", seed, f)
					}
					told.Add(int64(y.Told))
				})
			}
		})
	}
	t.Cleanup(func() { t.Logf("told %d journals to other engines", told.Load()) })
}

// Every scenario comes out the same when other engines carry its runs on, from their events, at many moments.
func TestScenariosHandedOver(t *testing.T) {
	var moments atomic.Int64
	for _, file := range some(t, scenarioFiles(t)) {
		t.Run(scenario.Name(file), func(t *testing.T) {
			t.Parallel()
			if why := oneAtATime[scenario.Name(file)]; why != "" {
				t.Skip(why)
			}
			for _, seed := range seeds(t, 4) {
				onToyClock(t, file, func(t *testing.T) {
					moments.Add(int64(handedOver(t, file, seed)))
				})
			}
		})
	}
	t.Cleanup(func() { t.Logf("handed runs over at %d moments", moments.Load()) })
}

// A run that is held and then cancelled comes to its end.
func TestHeldAndCancelled(t *testing.T) {
	for _, file := range some(t, scenarioFiles(t)) {
		t.Run(scenario.Name(file), func(t *testing.T) {
			t.Parallel()
			onToyClock(t, file, func(t *testing.T) {
				y := newToy(t, 0)
				y.Hand = enginetest.Handover{Run: 1, Most: 1, Every: 2, Cancels: true}
				play(t, y, file, true)
				if len(y.Executions) == 0 && y.Runs > 0 {
					t.Error("it came to no end")
				}
			})
		})
	}
}

// handedOver hands one run of a scenario over, and returns at how many moments: the first run, which makes a call at a
// time, or the third, which makes up to eight; with a store, or without; at each moment, or at one of three.
func handedOver(t *testing.T, file string, seed uint64) int {
	durable := (seed+seed/2)%2 == 0
	whole, parts := newToy(t, seed), newToy(t, seed)
	parts.Hand = enginetest.Handover{Run: 1 + 2*int(seed%2), Most: 40, Every: 1 + 2*int(seed/2)}
	play(t, whole, file, durable)
	play(t, parts, file, durable) // no more than this run: its trace is another one
	before, after := whole.Executions[:min(len(parts.Executions), len(whole.Executions))], parts.Executions
	if text, err := os.ReadFile(file); err == nil && races.Match(text) {
		before, after = firstLines(before), firstLines(after)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("seed %d, %d moments (-whole +handed over):\n%s", seed, parts.Hand.Total, diff)
	}
	return parts.Hand.Total
}

// races matches the scenarios in which the order of calls decides what wins.
var races = regexp.MustCompile(`(?m)^same: output$`)

// firstLines are those of texts that say how executions ended: status and output.
func firstLines(texts []string) (lines []string) {
	for _, text := range texts {
		line, _, _ := strings.Cut(text, "\n")
		lines = append(lines, line)
	}
	return lines
}
