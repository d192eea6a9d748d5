package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// The floors do the same work with nothing around it: what no engine can be faster than.

// floorMaps calls a closure for each node in turn.
func floorMaps(_ testing.TB, g graph) job {
	steps := make([]func(value) value, len(g))
	for i := range steps {
		steps[i] = add1
	}
	return func(context.Context) (value, error) {
		values := make([]value, len(g))
		for i, step := range steps {
			values[i] = step(g.input(values, i))
		}
		return values[len(g)-1], nil
	}
}

// floorGoroutines starts a goroutine for each node, which waits for those before it.
func floorGoroutines(_ testing.TB, g graph) job {
	return func(context.Context) (value, error) {
		values := make([]value, len(g))
		done := make([]chan struct{}, len(g))
		for i := range done {
			done[i] = make(chan struct{})
		}
		var group sync.WaitGroup
		for i, needs := range g {
			group.Go(func() {
				for _, n := range needs {
					<-done[n]
				}
				values[i] = add1(g.input(values, i))
				close(done[i])
			})
		}
		group.Wait()
		return values[len(g)-1], nil
	}
}

// index is a graph as slices of numbers.
type index struct {
	succ  [][]int32
	waits []int32
}

func (g graph) index() index {
	x := index{make([][]int32, len(g)), make([]int32, len(g))}
	for i, needs := range g {
		x.waits[i] = int32(len(needs))
		for _, n := range needs {
			x.succ[n] = append(x.succ[n], int32(i))
		}
	}
	return x
}

// floorWorkers has two workers that take ready nodes off a channel.
func floorWorkers(_ testing.TB, g graph) job {
	x := g.index()
	return func(context.Context) (value, error) {
		values := make([]value, len(g))
		waits := append([]int32(nil), x.waits...)
		ready := make(chan int32, len(g))
		var left atomic.Int32
		left.Store(int32(len(g)))
		for i, n := range waits {
			if n == 0 {
				ready <- int32(i)
			}
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for i := range ready {
					values[i] = add1(g.input(values, int(i)))
					for _, s := range x.succ[i] {
						if atomic.AddInt32(&waits[s], -1) == 0 {
							ready <- s
						}
					}
					if left.Add(-1) == 0 {
						close(ready)
					}
				}
			})
		}
		group.Wait()
		return values[len(g)-1], nil
	}
}

// floorKahn only decides what comes next; it carries no values.
func floorKahn(_ testing.TB, g graph) job {
	x := g.index()
	return func(context.Context) (value, error) {
		waits := append([]int32(nil), x.waits...)
		queue := make([]int32, 0, len(g))
		for i, n := range waits {
			if n == 0 {
				queue = append(queue, int32(i))
			}
		}
		for head := 0; head < len(queue); head++ {
			for _, s := range x.succ[queue[head]] {
				if waits[s]--; waits[s] == 0 {
					queue = append(queue, s)
				}
			}
		}
		return nil, nil
	}
}
