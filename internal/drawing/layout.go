package drawing

import "slices"

// Room between layers, between parts of a body, and how wide a row of parts may be.
const (
	layerGap = 40
	partGap  = 36
	rowWidth = 1600
)

// layOut lays out nodes of known sizes. Sizes and places have what is across the direction of edges first, then what is
// along it. A place is that of the corner before all others. ways has the points of each edge. No node lies on another.
// Edges lead from nodes to later ones.
//
// What is not connected has a place of its own: parts stand side by side, in several rows if they are many, and single
// nodes behind them.
func layOut(sizes [][2]int, edges [][2]int) (places [][2]int, ways [][][2]int, size [2]int) {
	places, ways = make([][2]int, len(sizes)), make([][][2]int, len(edges))
	var at, row [2]int // where the next part goes, and how far the row reaches
	for _, c := range components(len(sizes), edges) {
		var own [][2]int
		for _, v := range c.nodes {
			own = append(own, sizes[v])
		}
		p := newPart(own, c.edges)
		p.sort()
		spots, runs, extent := p.place()
		if at[0] > 0 && at[0]+extent[0] > rowWidth {
			at = [2]int{0, row[1] + partGap}
		}
		for i, v := range c.nodes {
			places[v] = [2]int{spots[i][0] + at[0], spots[i][1] + at[1]}
		}
		for i, e := range c.from {
			for j := range runs[i] {
				runs[i][j][0] += at[0]
				runs[i][j][1] += at[1]
			}
			ways[e] = runs[i]
		}
		size = [2]int{max(size[0], at[0]+extent[0]), max(size[1], at[1]+extent[1])}
		row[1] = max(row[1], at[1]+extent[1])
		at[0] += extent[0] + partGap
	}
	return places, ways, size
}

// component is what is connected.
type component struct {
	nodes []int
	edges [][2]int // between places in nodes
	from  []int    // which edges these are
}

// components finds what is connected, in the order of the first nodes, but single nodes last.
func components(n int, edges [][2]int) []component {
	head := make([]int, n) // the first node that is known to be connected
	for v := range head {
		head[v] = v
	}
	find := func(v int) int {
		for head[v] != v {
			head[v] = head[head[v]]
			v = head[v]
		}
		return v
	}
	for _, e := range edges {
		a, b := find(e[0]), find(e[1])
		head[max(a, b)] = min(a, b)
	}
	var list []component
	which, place := make([]int, n), make([]int, n)
	for v := range n {
		if h := find(v); h == v {
			which[v] = len(list)
			list = append(list, component{})
		} else {
			which[v] = which[h]
		}
		c := &list[which[v]]
		place[v] = len(c.nodes)
		c.nodes = append(c.nodes, v)
	}
	for i, e := range edges {
		c := &list[which[e[0]]]
		c.edges, c.from = append(c.edges, [2]int{place[e[0]], place[e[1]]}), append(c.from, i)
	}
	single := func(c component) bool { return len(c.nodes) == 1 }
	connected := slices.DeleteFunc(slices.Clone(list), single)
	return append(connected, slices.DeleteFunc(list, func(c component) bool { return !single(c) })...)
}

// place gives nodes their places, and edges their points.
func (p *part) place() (places [][2]int, ways [][][2]int, size [2]int) {
	middles := p.across()
	low, high := p.extent(middles)
	for _, chain := range p.chains { // long edges may lead around all nodes
		for _, v := range chain {
			low, high = min(low, middles[v]), max(high, middles[v])
		}
	}
	begin, end := make([]int, len(p.order)), make([]int, len(p.order)) // of each layer, along the direction
	for i, nodes := range p.order {
		if i > 0 {
			begin[i] = end[i-1] + layerGap
		}
		for _, v := range nodes {
			end[i] = max(end[i], begin[i]+p.deep[v])
		}
	}
	places = make([][2]int, p.steps)
	for v := range places {
		i := p.layer[v]
		places[v] = [2]int{middles[v] - p.wide[v]/2 - low, begin[i] + (end[i]-begin[i]-p.deep[v])/2}
	}
	ways = make([][][2]int, len(p.edges))
	for e, ends := range p.edges {
		from, to := ends[0], ends[1]
		x := middles[from] - low
		way := [][2]int{{x, places[from][1] + p.deep[from]}, {x, end[p.layer[from]]}}
		for _, v := range p.chains[e] {
			x, i := middles[v]-low, p.layer[v]
			way = append(way, [2]int{x, begin[i]}, [2]int{x, end[i]})
		}
		x = middles[to] - low
		way = append(way, [2]int{x, begin[p.layer[to]]}, [2]int{x, places[to][1]})
		ways[e] = straight(way)
	}
	return places, ways, [2]int{high - low, end[len(end)-1]}
}

// straight leaves out the points between others on one line along the direction.
func straight(way [][2]int) [][2]int {
	left := way[:1]
	for i := 1; i < len(way); i++ {
		last := left[len(left)-1]
		if i < len(way)-1 && last[0] == way[i][0] && way[i][0] == way[i+1][0] || way[i] == last {
			continue
		}
		left = append(left, way[i])
	}
	return left
}
