package program

import (
	"cmp"
	"slices"

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
