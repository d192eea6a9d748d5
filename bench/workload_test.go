// Package bench does the same work on Braise, on its peers and by hand. README.md says what the
// workloads are, and holds what was measured.
package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// value is what nodes hand on: a small map.
type value = map[string]any

// add1 is the work of every node of every workload, whoever runs it.
func add1(v value) value {
	n, _ := v["n"].(int64)
	return value{"n": n + 1}
}

// zero is what the first nodes start from.
func zero() value { return value{"n": int64(0)} }

// graph is a workload: by node, the nodes that it waits for, all of lower number. A node adds 1 to
// the value of the first of them; the last node's value is the result.
type graph [][]int

// layers returns layers of the given widths, each node of one waiting for all of the layer before.
func layers(widths ...int) graph {
	var g graph
	var above []int
	for _, width := range widths {
		var layer []int
		for range width {
			layer = append(layer, len(g))
			g = append(g, above)
		}
		above = layer
	}
	return g
}

func chain(n int) graph { return square(n, 1) }

// square returns depth layers of one width.
func square(depth, width int) graph {
	widths := make([]int, depth)
	for i := range widths {
		widths[i] = width
	}
	return layers(widths...)
}

// levels groups the nodes by the longest way that leads to them.
func (g graph) levels() [][]int {
	var levels [][]int
	level := make([]int, len(g))
	for i, needs := range g {
		for _, n := range needs {
			level[i] = max(level[i], level[n]+1)
		}
		if level[i] == len(levels) {
			levels = append(levels, nil)
		}
		levels[level[i]] = append(levels[level[i]], i)
	}
	return levels
}

// ends lists the nodes that no node waits for.
func (g graph) ends() []int {
	waited := make([]bool, len(g))
	for _, needs := range g {
		for _, n := range needs {
			waited[n] = true
		}
	}
	var ends []int
	for i, yes := range waited {
		if !yes {
			ends = append(ends, i)
		}
	}
	return ends
}

// input is the value that a node works on.
func (g graph) input(values []value, node int) value {
	if len(g[node]) == 0 {
		return zero()
	}
	return values[g[node][0]]
}

func id(node int) string { return fmt.Sprintf("s%d", node) }

// job runs a graph once and returns the result.
type job func(context.Context) (value, error)

// engine is something that runs graphs.
type engine struct {
	name  string
	build func(testing.TB, graph) job
	alone bool              // a job serves one run at a time
	skips map[string]string // by workload: why it is left out
}

// What takes a peer more than a few seconds is left out.
var (
	quadratic = map[string]string{
		"W4Chain":   "eino is quadratic in the nodes: 9 s to compile, 2 s (Pregel) or 16 s (DAG) a run",
		"W4Layered": "eino is quadratic in the nodes",
	}
	scansEdges = map[string]string{"W4Layered": "langgraphgo looks at all 990,000 edges after each node: 34 s a run"}
	cubic      = map[string]string{
		"W4Chain":   "go-workflow is cubic in the nodes: 11 s for a chain of 400",
		"W4Layered": "go-workflow is cubic in the nodes",
	}
)

var engines = []engine{
	{name: "braise", build: buildBraise},
	{name: "eino-dag", build: einoDAG, skips: quadratic},
	{name: "eino-pregel", build: einoPregel, skips: quadratic},
	{name: "langgraphgo", build: langgraphgo, skips: scansEdges},
	{name: "go-taskflow", build: goTaskflow, alone: true},
	{name: "adk-go", build: adkGo},
	{name: "go-workflow", build: goWorkflow, alone: true, skips: cubic},
	{name: "floor-maps", build: floorMaps},
	{name: "floor-goroutines", build: floorGoroutines},
	{name: "floor-workers", build: floorWorkers},
	{name: "floor-kahn", build: floorKahn},
}

// each runs a benchmark for every engine that can do the workload.
func each(b *testing.B, workload string, bench func(*testing.B, engine)) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			if why := e.skips[workload]; why != "" {
				b.Skip(why)
			}
			b.ReportAllocs()
			bench(b, e)
		})
	}
}

// measure runs the job again and again, and checks that it did the work.
func (j job) measure(b *testing.B, want int64) {
	ctx := context.Background()
	for b.Loop() {
		if err := j.check(ctx, want); err != nil {
			b.Fatal(err)
		}
	}
}

func (j job) check(ctx context.Context, want int64) error {
	v, err := j(ctx)
	if err != nil {
		return err
	}
	if v != nil && v["n"] != want { // floor-kahn carries no values
		return fmt.Errorf("the result is %v, want %d", v["n"], want)
	}
	return nil
}

func BenchmarkW1(b *testing.B) {
	each(b, "W1", func(b *testing.B, e engine) { e.build(b, chain(100)).measure(b, 100) })
}

func BenchmarkW2(b *testing.B) {
	each(b, "W2", func(b *testing.B, e engine) { e.build(b, layers(1, 100, 1)).measure(b, 3) })
}

func BenchmarkW3(b *testing.B) {
	each(b, "W3", func(b *testing.B, e engine) { e.build(b, square(10, 10)).measure(b, 10) })
}

func BenchmarkW4Chain(b *testing.B)   { benchmarkLarge(b, "W4Chain", chain(10_000), 10_000) }
func BenchmarkW4Layered(b *testing.B) { benchmarkLarge(b, "W4Layered", square(100, 100), 100) }

// benchmarkLarge measures compiling and running apart. What Braise does before it compiles has
// benchmarks of its own.
func benchmarkLarge(b *testing.B, workload string, g graph, want int64) {
	b.Run("compile", func(b *testing.B) {
		each(b, workload, func(b *testing.B, e engine) {
			if e.name == "braise" {
				compileBraise(b, g)
				return
			}
			for b.Loop() {
				e.build(b, g)
			}
		})
	})
	b.Run("run", func(b *testing.B) {
		each(b, workload, func(b *testing.B, e engine) { e.build(b, g).measure(b, want) })
	})
}

func BenchmarkW8(b *testing.B) {
	const runs = 1000
	each(b, "W8", func(b *testing.B, e engine) {
		jobs := make([]job, runs)
		for i := range jobs {
			if i == 0 || e.alone {
				jobs[i] = e.build(b, chain(10))
			} else {
				jobs[i] = jobs[0]
			}
		}
		ctx := context.Background()
		for b.Loop() {
			var group sync.WaitGroup
			for _, j := range jobs {
				group.Go(func() {
					if err := j.check(ctx, 10); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
		}
	})
}
