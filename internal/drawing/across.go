package drawing

import "slices"

// Room between two neighbours of a layer.
const (
	nodeGap  = 28
	dummyGap = 16
)

// gap is how far apart the middles of two neighbours must be.
func (p *part) gap(u, v int) int {
	half := func(v int) int {
		if v >= p.steps {
			return dummyGap / 2
		}
		return p.wide[v]/2 + nodeGap/2
	}
	return half(u) + half(v)
}

// across returns where the middle of each node lies across the direction, from any origin. Long edges become straight,
// and nodes lie near the middle of their neighbours:
//
//  1. line nodes up with the middle ones of their neighbours, in four ways: neighbours before or behind them, lines
//     that lean to the left or to the right
//  2. push the lines of each way together
//  3. take the middle of the four places of each node
//
// See Brandes and Köpf, Fast and Simple Horizontal Coordinate Assignment, 2001, with Brandes, Walter and Zink, Erratum,
// 2020. Lines are pushed together along their graph, not in classes as in the paper: its offsets between classes do not
// respect the gaps.
func (p *part) across() []int {
	crossed := p.conflicts()
	var ways [4][]int
	narrowest, width := 0, -1
	lows, highs := [4]int{}, [4]int{}
	for i := range ways {
		upwards, mirrored := i >= 2, i%2 == 1
		ways[i] = p.compact(p.lines(crossed, upwards, mirrored), mirrored)
		lows[i], highs[i] = p.extent(ways[i])
		if w := highs[i] - lows[i]; width < 0 || w < width {
			narrowest, width = i, w
		}
	}
	for i := range ways { // lay them on the narrowest: on its left side those that lean to the left
		shift := lows[narrowest] - lows[i]
		if i%2 == 1 {
			shift = highs[narrowest] - highs[i]
		}
		for v := range ways[i] {
			ways[i][v] += shift
		}
	}
	x := make([]int, len(p.wide))
	for v := range x {
		four := [4]int{ways[0][v], ways[1][v], ways[2][v], ways[3][v]}
		slices.Sort(four[:])
		x[v] = (four[1] + four[2]) >> 1 // which rounds all down: gaps stay
	}
	return x
}

func (p *part) extent(x []int) (low, high int) {
	low, high = x[0]-p.wide[0]/2, x[0]+p.wide[0]/2
	for v := range x {
		low, high = min(low, x[v]-p.wide[v]/2), max(high, x[v]+p.wide[v]/2)
	}
	return low, high
}

// conflicts finds the segments that cross one between two dummies: long edges stay straight.
func (p *part) conflicts() map[[2]int]bool {
	crossed := map[[2]int]bool{}
	for i := 1; i < len(p.order); i++ {
		left, next := 0, 0
		for j, v := range p.order[i] {
			right, inner := len(p.order[i-1])-1, false
			if v >= p.steps && p.up[v][0] >= p.steps {
				right, inner = p.at[p.up[v][0]], true
			}
			if !inner && j < len(p.order[i])-1 {
				continue
			}
			for ; next <= j; next++ {
				w := p.order[i][next]
				for _, u := range p.up[w] {
					if (p.at[u] < left || p.at[u] > right) && (u < p.steps || w < p.steps) {
						crossed[[2]int{u, w}] = true
					}
				}
			}
			left = right
		}
	}
	return crossed
}

// lines lines each node up with a middle neighbour in the layer before it, or behind it, as far as lines do not cross.
// It returns the first node of the line of each node. Where two are in the middle, the left one goes first, in a
// mirrored picture the right one.
func (p *part) lines(crossed map[[2]int]bool, upwards, mirrored bool) []int {
	first := make([]int, len(p.wide))
	for v := range first {
		first[v] = v
	}
	for i := range p.order {
		beside := p.up
		if upwards {
			i, beside = len(p.order)-1-i, p.down
		}
		reached := -1
		for j := range p.order[i] {
			v := p.order[i][mirror(j, len(p.order[i]), mirrored)]
			n := len(beside[v])
			if n == 0 {
				continue
			}
			width := len(p.order[p.layer[beside[v][0]]])
			near := slices.Clone(beside[v])
			slices.SortFunc(near, func(a, b int) int {
				return mirror(p.at[a], width, mirrored) - mirror(p.at[b], width, mirrored)
			})
			for _, u := range near[(n-1)/2 : n/2+1] {
				at := mirror(p.at[u], width, mirrored)
				segment := [2]int{u, v}
				if upwards {
					segment = [2]int{v, u}
				}
				if at <= reached || crossed[segment] {
					continue
				}
				first[v], reached = first[u], at
				break
			}
		}
	}
	return first
}

// mirror is the place i of n, or that place counted from the other end.
func mirror(i, n int, mirrored bool) int {
	if mirrored {
		return n - 1 - i
	}
	return i
}

// compact gives lines the least places that gaps allow, then moves them as near to what is right of them as that
// leaves room for. In a mirrored picture all this is counted from the right.
func (p *part) compact(first []int, mirrored bool) []int {
	type neighbour struct{ line, gap int }
	right := make([][]neighbour, len(first))
	waits := make([]int, len(first)) // for lines on the left of it
	for _, nodes := range p.order {
		for j := 1; j < len(nodes); j++ {
			u, v := first[nodes[j-1]], first[nodes[j]]
			if mirrored {
				u, v = v, u
			}
			right[u] = append(right[u], neighbour{v, p.gap(nodes[j-1], nodes[j])})
			waits[v]++
		}
	}
	var lines []int // each behind those on the left of it
	for v := range first {
		if first[v] == v && waits[v] == 0 {
			lines = append(lines, v)
		}
	}
	x := make([]int, len(first))
	for i := 0; i < len(lines); i++ {
		for _, r := range right[lines[i]] {
			x[r.line] = max(x[r.line], x[lines[i]]+r.gap)
			if waits[r.line]--; waits[r.line] == 0 {
				lines = append(lines, r.line)
			}
		}
	}
	for _, line := range slices.Backward(lines) {
		for i, r := range right[line] {
			if room := x[r.line] - r.gap; i == 0 || room < x[line] {
				x[line] = room
			}
		}
	}
	for v := range x {
		x[v] = x[first[v]]
	}
	if mirrored {
		for v := range x {
			x[v] = -x[v]
		}
	}
	return x
}
