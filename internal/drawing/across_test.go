package drawing

import (
	"testing"

	"pgregory.net/rapid"
)

// Neighbours of a layer, dummies too, are never nearer to each other than the gap between them.
func TestAcrossKeepsGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "nodes")
		sizes := make([][2]int, n)
		var edges [][2]int
		for v := range sizes {
			sizes[v] = [2]int{2 * rapid.IntRange(1, 300).Draw(t, "wide"), 2 * rapid.IntRange(1, 100).Draw(t, "deep")}
			for u := range v {
				if rapid.IntRange(0, n/2+1).Draw(t, "edge") == 0 {
					edges = append(edges, [2]int{u, v})
				}
			}
		}
		p := newPart(sizes, edges)
		p.sort()
		x := p.across()
		for _, nodes := range p.order {
			for i := 1; i < len(nodes); i++ {
				if u, v := nodes[i-1], nodes[i]; x[v]-x[u] < p.gap(u, v) {
					t.Fatalf("%d is at %d, %d at %d: they must be %d apart", u, x[u], v, x[v], p.gap(u, v))
				}
			}
		}
	})
}

// Crossings are counted pair by pair, and sorting does not add any.
func TestSortAndCrossings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 25).Draw(t, "nodes")
		var edges [][2]int
		for v := range n {
			for u := range v {
				if rapid.IntRange(0, 4).Draw(t, "edge") == 0 {
					edges = append(edges, [2]int{u, v})
				}
			}
		}
		p := newPart(make([][2]int, n), edges)
		p.walk()
		before := p.crossings()
		if want := crossingsOf(p); before != want {
			t.Fatalf("%d crossings, want %d", before, want)
		}
		p.sort()
		if after := p.crossings(); after > before || after != crossingsOf(p) {
			t.Fatalf("%d crossings after sorting, %d before, %d pair by pair", after, before, crossingsOf(p))
		}
	})
}

func crossingsOf(p *part) int {
	var segments [][2]int
	for u := range p.down {
		for _, v := range p.down[u] {
			segments = append(segments, [2]int{u, v})
		}
	}
	n := 0
	for i, a := range segments {
		for _, b := range segments[:i] {
			if p.layer[a[0]] == p.layer[b[0]] && (p.at[a[0]]-p.at[b[0]])*(p.at[a[1]]-p.at[b[1]]) < 0 {
				n++
			}
		}
	}
	return n
}
