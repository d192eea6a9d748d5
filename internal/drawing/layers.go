package drawing

import (
	"cmp"
	"slices"
)

// part is a connected part of a body while it is laid out. Its nodes are steps, then dummies: an edge over several
// layers has one in each layer that it crosses, and is a chain of segments from one layer to the next.
type part struct {
	steps  int
	wide   []int // across the direction; of a dummy 0
	deep   []int // along it
	layer  []int
	edges  [][2]int
	chains [][]int // by edge: the dummies
	up     [][]int // by node: what segments lead from
	down   [][]int // and to
	order  [][]int // the nodes of each layer
	at     []int   // by node: its place in its layer
	sum    []int   // by node: of the places of its neighbours, while a layer is sorted
}

// mostDummies limits the dummies of a part. The longest edges above it have none: they lead straight to their end.
const mostDummies = 50_000

// newPart gives each node a layer, the longest way to it, and each edge its dummies. Edges lead to later nodes.
func newPart(sizes [][2]int, edges [][2]int) *part {
	p := &part{steps: len(sizes), edges: edges, chains: make([][]int, len(edges)), layer: make([]int, len(sizes))}
	for _, size := range sizes {
		p.wide, p.deep = append(p.wide, size[0]), append(p.deep, size[1])
	}
	for _, e := range edges { // those to a node follow those to all before it
		p.layer[e[1]] = max(p.layer[e[1]], p.layer[e[0]]+1)
	}
	span := func(e int) int { return p.layer[edges[e][1]] - p.layer[edges[e][0]] }
	shortest := make([]int, len(edges))
	for i := range edges {
		shortest[i] = i
	}
	slices.SortStableFunc(shortest, func(a, b int) int { return cmp.Compare(span(a), span(b)) })
	p.up, p.down = make([][]int, len(sizes)), make([][]int, len(sizes))
	for _, e := range shortest {
		if len(p.wide)-p.steps+span(e)-1 > mostDummies {
			break
		}
		last := edges[e][0]
		for i := 1; i < span(e); i++ {
			dummy := len(p.wide)
			p.wide, p.deep, p.layer = append(p.wide, 0), append(p.deep, 0), append(p.layer, p.layer[last]+1)
			p.up, p.down = append(p.up, nil), append(p.down, nil)
			p.chains[e] = append(p.chains[e], dummy)
			p.segment(last, dummy)
			last = dummy
		}
		p.segment(last, edges[e][1])
	}
	return p
}

func (p *part) segment(from, to int) {
	p.down[from], p.up[to] = append(p.down[from], to), append(p.up[to], from)
}

// sort puts the nodes of each layer in an order with few crossings:
//
//  1. take them as a walk along the segments finds them
//  2. put each layer in the order of the barycentres of the nodes before it, then of those behind it
//  3. swap neighbours as long as that helps
//  4. repeat 2 and 3 as long as that helps, and keep the best order
//
// See Gansner, Koutsofios, North and Vo, A Technique for Drawing Directed Graphs, 1993.
func (p *part) sort() {
	p.walk()
	p.sum = make([]int, len(p.wide))
	segments := 1
	for v := range p.up {
		segments += len(p.up[v])
	}
	best, fewest := p.copyOrder(), p.crossings()
	rounds := min(max(300_000/segments, 2), 24)
	for round, idle := 0, 0; round < rounds && idle < 4 && fewest > 0; round++ {
		for i := 1; i < len(p.order); i++ {
			p.barycentre(p.order[i], p.up)
		}
		for i := len(p.order) - 2; i >= 0; i-- {
			p.barycentre(p.order[i], p.down)
		}
		p.transpose()
		idle++
		if n := p.crossings(); n < fewest {
			best, fewest, idle = p.copyOrder(), n, 0
		}
	}
	p.order = best
	for _, nodes := range p.order {
		p.number(nodes)
	}
}

// walk puts nodes in the order in which they are met from the first one on, along and against segments.
func (p *part) walk() {
	p.order, p.at = make([][]int, slices.Max(p.layer)+1), make([]int, len(p.wide))
	seen := make([]bool, len(p.wide))
	for v := range p.steps {
		for stack := []int{v}; len(stack) > 0; {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			p.at[v] = len(p.order[p.layer[v]])
			p.order[p.layer[v]] = append(p.order[p.layer[v]], v)
			for _, next := range slices.Backward(p.down[v]) {
				stack = append(stack, next)
			}
		}
	}
}

func (p *part) copyOrder() [][]int {
	order := make([][]int, len(p.order))
	for i := range order {
		order[i] = slices.Clone(p.order[i])
	}
	return order
}

func (p *part) number(nodes []int) {
	for i, v := range nodes {
		p.at[v] = i
	}
}

// barycentre sorts a layer by the middles of the neighbours in another one. A node without any stays where it is,
// and others pass it.
func (p *part) barycentre(nodes []int, beside [][]int) {
	var places, movable []int
	for i, v := range nodes {
		if len(beside[v]) > 0 {
			places, movable, p.sum[v] = append(places, i), append(movable, v), 0
			for _, u := range beside[v] {
				p.sum[v] += p.at[u]
			}
		}
	}
	slices.SortStableFunc(movable, func(a, b int) int {
		return cmp.Compare(p.sum[a]*len(beside[b]), p.sum[b]*len(beside[a]))
	})
	for i, v := range movable {
		nodes[places[i]] = v
	}
	p.number(nodes)
}

// transpose swaps neighbours in a layer where that leaves fewer crossings.
func (p *part) transpose() {
	for _, nodes := range p.order {
		ups, downs := p.sorted(nodes, p.up), p.sorted(nodes, p.down)
		for swapped, tries := true, 0; swapped && tries < 4; tries++ {
			swapped = false
			for i := 1; i < len(nodes); i++ {
				now := inversions(ups[i-1], ups[i]) + inversions(downs[i-1], downs[i])
				if now == 0 || now <= inversions(ups[i], ups[i-1])+inversions(downs[i], downs[i-1]) {
					continue
				}
				nodes[i-1], nodes[i] = nodes[i], nodes[i-1]
				ups[i-1], ups[i] = ups[i], ups[i-1]
				downs[i-1], downs[i] = downs[i], downs[i-1]
				swapped = true
			}
		}
		p.number(nodes)
	}
}

// sorted returns the places of each node's neighbours, in order.
func (p *part) sorted(nodes []int, beside [][]int) [][]int {
	list := make([][]int, len(nodes))
	for i, v := range nodes {
		places := make([]int, len(beside[v]))
		for j, u := range beside[v] {
			places[j] = p.at[u]
		}
		slices.Sort(places)
		list[i] = places
	}
	return list
}

// inversions counts the pairs of a place of a and a lower one of b. Both are sorted.
func inversions(a, b []int) int {
	n, lower := 0, 0
	for _, place := range a {
		for lower < len(b) && b[lower] < place {
			lower++
		}
		n += lower
	}
	return n
}

// crossings counts the pairs of segments that cross, with a tree of sums: see Barth, Jünger and Mutzel, Simple and
// Efficient Bilayer Cross Counting, 2002.
func (p *part) crossings() int {
	n := 0
	for i := 1; i < len(p.order); i++ {
		tree, ends := make([]int, len(p.order[i])+1), 0
		for _, places := range p.sorted(p.order[i-1], p.down) {
			for _, place := range places { // those of one node do not cross
				n += ends
				for k := place + 1; k > 0; k &= k - 1 {
					n -= tree[k]
				}
			}
			for _, place := range places {
				ends++
				for k := place + 1; k < len(tree); k += k & -k {
					tree[k]++
				}
			}
		}
	}
	return n
}
