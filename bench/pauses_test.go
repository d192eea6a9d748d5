package bench

import (
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// 4,000 pauses of a run are open, and one of them is answered: at most 50 ms (trust 8.14). Each answer opens a fresh token for
// each pause that is left.
func BenchmarkPauses(b *testing.B) {
	const open = 4000
	text := fmt.Appendf(nil, "apiVersion: braise/v1\nname: ask\nsteps:\n"+
		"  f: {uses: human, foreach: {in: \"${{ 1..%d }}\"}, with: {prompt: \"${{ item }}?\"}}\n", open)
	r, err := recipe.Parse("ask.yaml", text)
	if err != nil {
		b.Fatal(err)
	}
	wf := compile(b, r)
	disk, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { disk.Close() })
	for name, store := range map[string]checkpoint.Store{"memory": &checkpoint.Memory{}, "sqlite": disk} {
		b.Run(name, func(b *testing.B) {
			rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
			for b.Loop() {
				b.StopTimer()
				out, _ := wf.Run(b.Context(), nil, rt)
				b.StartTimer()
				out, _ = workflow.Answer(b.Context(), out.RunID, "f[7]", map[string]any{"decision": "approve"}, rt, nil)
				if len(out.Pauses) != open-1 {
					b.Fatal(len(out.Pauses), out.Failure())
				}
			}
		})
	}
}

// BenchmarkPaused has 10,000 runs in a store that wait for a person, and a process that lists them all: how much of its memory
// each run takes, how long the list takes, and how long one of the newest 50. The process is this one: what it had before it opened
// the store is not counted. A Memory has the journals too, and SQLite a cache outside of what is counted, of at most 16 MB.
func BenchmarkPaused(b *testing.B) {
	const runs = 10_000
	for _, in := range []struct {
		name string
		open func(b *testing.B, wf *workflow.Workflow) (before uint64, store checkpoint.Store)
	}{
		{"memory", func(b *testing.B, wf *workflow.Workflow) (uint64, checkpoint.Store) {
			before, store := heap(), &checkpoint.Memory{}
			pause(b, wf, store, runs)
			return before, store
		}},
		{"sqlite", func(b *testing.B, wf *workflow.Workflow) (uint64, checkpoint.Store) {
			path := filepath.Join(b.TempDir(), "runs.db")
			first, err := sqlite.Open(b.Context(), path, &sqlite.Options{Synchronous: "normal"})
			if err != nil {
				b.Fatal(err)
			}
			pause(b, wf, first, runs)
			if err := first.Close(); err != nil {
				b.Fatal(err)
			}
			before := heap()
			second, err := sqlite.Open(b.Context(), path, nil)
			return before, closed(b, second, err)
		}},
	} {
		b.Run(in.name+"/braise", func(b *testing.B) {
			wf := parse(b, "apiVersion: braise/v1\nname: ask\ninputs: {text: string}\nsteps:\n"+
				"  draft: {uses: set, with: {text: \"${{ inputs.text }}\"}}\n"+
				"  ask: {uses: human, with: {prompt: \"Send this? ${{ steps.draft.output.text }}\"}}\n")
			before, store := in.open(b, wf)
			var list []history.Info
			for b.Loop() {
				list = listed(b, store, runs, 0)
			}
			each := float64(heap()-before) / runs
			began := time.Now()
			listed(b, store, 50, 50)
			page := time.Since(began)
			b.ReportMetric(float64(page), "page-ns")
			b.ReportMetric(each, "B/run")
			goruntime.KeepAlive(list)
		})
	}
}

// heap is how much is in use when everything else has been collected.
func heap() uint64 {
	goruntime.GC()
	goruntime.GC() // the first one may leave what has finalizers
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// pause executes runs until they wait.
func pause(b *testing.B, wf *workflow.Workflow, store checkpoint.Store, runs int) {
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
	inputs := map[string]any{"text": strings.Repeat("some words ", 10)}
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for range runs/16 + min(1, max(0, runs%16-w)) {
				if out, _ := wf.Run(b.Context(), inputs, rt); out.Status != workflow.StatusPaused {
					b.Error(out.Status, out.Failure())
				}
			}
		})
	}
	group.Wait()
}

func listed(b *testing.B, store checkpoint.Store, want, limit int) []history.Info {
	list, err := history.List(b.Context(), store, history.Filter{Statuses: []history.Status{history.Paused}, Limit: limit})
	if err != nil || len(list) != want {
		b.Fatal(len(list), err)
	}
	return list
}
