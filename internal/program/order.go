package program

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/dominikbraun/graph"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
)

// ranks returns each step's place by priority, higher first, then by declaration.
func ranks(steps []compiledStep) []int32 {
	byPriority := make([]int32, len(steps))
	for i := range byPriority {
		byPriority[i] = int32(i)
	}
	slices.SortStableFunc(byPriority, func(a, b int32) int {
		return cmp.Compare(steps[b].src.Priority, steps[a].src.Priority)
	})
	rank := make([]int32, len(steps))
	for place, i := range byPriority {
		rank[i] = int32(place)
	}
	return rank
}

// byRank is a heap of steps, least rank first.
type byRank struct {
	list []int32
	rank []int32
}

func (h *byRank) Len() int { return len(h.list) }

func (h *byRank) Less(i, j int) bool { return h.rank[h.list[i]] < h.rank[h.list[j]] }

func (h *byRank) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

func (h *byRank) Push(x any) { h.list = append(h.list, x.(int32)) }

func (h *byRank) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// shortestCycle returns a shortest cycle through first within its group, in the order of
// execution that it prevents: each step waits for the one before it.
func shortestCycle(g *machine.Graph, group []int, first int) []int {
	in := make(map[int]bool, len(group))
	for _, i := range group {
		in[i] = true
	}
	from := map[int]int{first: -1}
	for level := []int{first}; len(level) > 0; {
		var next []int
		for _, i := range level {
			for _, succ := range g.Succ[i] {
				to := int(succ)
				if to == first {
					cycle := []int{}
					for ; i >= 0; i = from[i] {
						cycle = append(cycle, i)
					}
					slices.Reverse(cycle)
					return cycle
				}
				if _, seen := from[to]; !seen && in[to] {
					from[to] = i
					next = append(next, to)
				}
			}
		}
		level = next
	}
	return []int{first}
}

// order freezes the steps of a body into the machine's index slices and puts them in plan order:
// Kahn's algorithm, the ready step of the least rank first. What is left over is on a cycle, or
// behind one.
func (c *compiler) order(g *machine.Graph, steps []compiledStep) {
	n := len(steps)
	g.Nodes = make([]machine.Node, n)
	g.Succ = make([][]int32, n)
	g.Preds = make([]int32, n)
	g.Rank = ranks(steps)
	g.Listed = map[int32][]int32{}
	for i := range steps {
		s := &steps[i]
		g.Nodes[i] = s.node
		g.Preds[i] = int32(len(s.edges))
		if s.node.Trigger == machine.NoneFailed && len(s.listed) > 1 {
			slices.Sort(s.listed)
			g.Listed[int32(i)] = s.listed
		}
		for _, from := range s.sortedEdges() {
			g.Succ[from] = append(g.Succ[from], int32(i))
		}
	}
	waits := slices.Clone(g.Preds)
	ready := &byRank{rank: g.Rank}
	for i := range steps {
		if waits[i] == 0 {
			heap.Push(ready, int32(i))
		}
	}
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int32)
		g.Order = append(g.Order, i)
		for _, next := range g.Succ[i] {
			if waits[next]--; waits[next] == 0 {
				heap.Push(ready, next)
			}
		}
	}
	if len(g.Order) < n {
		c.reportCycles(g, steps, waits)
	}
}

// reportCycles reports one shortest cycle for each group of steps that wait for each other.
func (c *compiler) reportCycles(g *machine.Graph, steps []compiledStep, waits []int32) {
	// Vertices count from 1: v0.23.0 of the library loses the component of a zero key.
	left := graph.New(graph.IntHash, graph.Directed())
	for i := range steps {
		if waits[i] > 0 {
			_ = left.AddVertex(i + 1) // cannot exist already
		}
	}
	for from, succ := range g.Succ {
		for _, to := range succ {
			if waits[from] > 0 && waits[to] > 0 && from != int(to) {
				_ = left.AddEdge(from+1, int(to)+1) // both ends exist, each edge once
			}
		}
	}
	groups, err := graph.StronglyConnectedComponents(left)
	if err != nil {
		c.errorf(steps[0].src.Pos, diagnostics.CodeCycle, "", "steps wait for each other: %v", err)
		return
	}
	for _, group := range groups { // the list is sorted by position in the end
		for i := range group {
			group[i]--
		}
		first := slices.Min(group)
		if _, self := steps[first].edges[first]; self || len(group) > 1 {
			c.reportCycle(shortestCycle(g, group, first), steps)
		}
	}
}

func (c *compiler) reportCycle(cycle []int, steps []compiledStep) {
	const most = 20           // steps of a cycle that are printed
	slices.Reverse(cycle[1:]) // against the order of execution: each needs the one after it
	var path, where []string
	for _, i := range cycle[:min(most, len(cycle))] {
		path = append(path, steps[i].src.ID)
		where = append(where, fmt.Sprintf("%s at %s", steps[i].src.ID, steps[i].src.Pos))
	}
	if len(cycle) > most {
		path = append(path, fmt.Sprintf("(%d more)", len(cycle)-most))
	}
	first := steps[cycle[0]].src
	c.errorf(first.Pos, diagnostics.CodeCycle, "remove one of these needs or references: "+strings.Join(where, ", "),
		"steps need each other: %s", strings.Join(append(path, first.ID), " → "))
}
