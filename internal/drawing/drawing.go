package drawing

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/program"
)

// Options are the options of Draw. A nil *Options is the zero Options.
type Options struct {
	// Direction is where edges lead: TB, from top to bottom, or LR, from left to right. Defaults to TB, as
	// everything else does.
	Direction string
	// Open has the steps whose bodies are drawn as boxes, by path. The steps around these are open too. Names of
	// other steps change nothing. nil: all bodies of a picture of up to 60 steps, else none.
	Open []string
	// Around is the step, by path, whose neighbourhood is drawn. "", or a name that the plan does not have: all steps.
	Around string
	// Hops is how many edges away from Around a step may be, against or along the edges. The way out of a body counts
	// as an edge. Defaults to 3; below 0: Around alone, and the steps in whose bodies it is.
	Hops int
}

const (
	mostOpen    = 60 // steps of a picture whose bodies are open when nobody says which
	defaultHops = 3
)

// Drawing is a picture of a plan: what stands where. All figures are pixels, from the left upper corner.
type Drawing struct {
	Direction string `json:"direction"` // TB or LR
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Nodes     []Node `json:"nodes"` // in plan order, each before those of its body
	Links     []Link `json:"edges"` // those that lead to a step are in the order of its needs
}

// Node is a step in a picture. The nodes of an open body lie within that of their step.
type Node struct {
	ID       string `json:"id"`    // the path of the step
	Label    string `json:"label"` // what is shown of the path: without that of the step around it, and not too long
	Uses     string `json:"uses"`
	Kind     string `json:"kind"` // step, or body: one with steps of its own
	When     bool   `json:"when,omitempty"`
	Foreach  bool   `json:"foreach,omitempty"`
	Finally  bool   `json:"finally,omitempty"`
	Folded   bool   `json:"folded,omitempty"`   // the body is not drawn
	Children int    `json:"children,omitempty"` // how many steps the body has, those in their bodies included
	X        int    `json:"x"`                  // of the left upper corner
	Y        int    `json:"y"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
}

// Link is an edge in a picture, from the border of a node to that of another.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"` // data or order
	// Points are two at least, each with x and y. Between two of them the edge is straight if it leads in the direction
	// of the picture, else a curve that begins and ends in that direction.
	Points [][2]int `json:"points"`
}

// Draw lays out steps as a picture. An edge from a step that is not before its user in the same body is not drawn; no
// plan of a workflow has one.
func Draw(steps []program.PlanStep, o *Options) *Drawing {
	if o == nil {
		o = &Options{}
	}
	hops := o.Hops
	if hops == 0 {
		hops = defaultHops
	}
	chain := chainTo(steps, o.Around)
	steps = near(steps, chain, hops)

	p := pen{flat: o.Direction == "LR", open: map[string]bool{}}
	if o.Open == nil && countAll(steps) <= mostOpen {
		openAll(p.open, steps)
	}
	for _, path := range o.Open {
		for _, s := range chainTo(steps, path) {
			p.open[s] = true
		}
	}
	for _, s := range chain[:max(0, len(chain)-1)] {
		p.open[s] = true
	}

	d := p.body(steps, "")
	d.Direction = "TB"
	if p.flat {
		d.Direction = "LR"
	}
	d.shift(margin, margin)
	d.Width, d.Height = d.Width+2*margin, d.Height+2*margin
	return &d
}

// Sizes of what is drawn. All are even, so that the middle of a node is a pixel.
const (
	margin      = 16 // around the picture
	padding     = 16 // inside a box
	header      = 40 // of a box
	nodeHeight  = 44
	columnWidth = 7 // of a letter, which has a fixed width
	mostColumns = 32
	leastWidth  = 88
	textPadding = 26
)

// pen draws bodies.
type pen struct {
	flat bool // LR
	open map[string]bool
}

// body draws the steps of a body, and of the bodies that are open in it. prefix is what their ids have in common.
func (p *pen) body(steps []program.PlanStep, prefix string) Drawing {
	nodes := make([]Node, len(steps))
	inside := make([]*Drawing, len(steps))
	index := make(map[string]int, len(steps))
	var edges [][2]int
	links := []Link{}
	for i := range steps {
		s := &steps[i]
		nodes[i], inside[i] = p.node(s, prefix)
		for _, e := range s.Needs {
			if from, ok := index[e.Step]; ok {
				edges, links = append(edges, [2]int{from, i}), append(links, Link{From: e.Step, To: s.ID, Kind: e.Kind})
			}
		}
		index[s.ID] = i
	}

	// The layout knows what is across the direction, and what is along it.
	sizes := make([][2]int, len(nodes))
	for i := range nodes {
		sizes[i] = p.turn([2]int{nodes[i].Width, nodes[i].Height})
	}
	places, ways, size := layOut(sizes, edges)
	size = p.turn(size)
	d := Drawing{Width: size[0], Height: size[1], Links: links, Nodes: make([]Node, 0, len(nodes))}
	for i := range links {
		links[i].Points = ways[i]
		for j, at := range ways[i] {
			ways[i][j] = p.turn(at)
		}
	}
	for i := range nodes {
		at := p.turn(places[i])
		nodes[i].X, nodes[i].Y = at[0], at[1]
		d.Nodes = append(d.Nodes, nodes[i])
		if in := inside[i]; in != nil {
			in.shift(at[0]+(nodes[i].Width-in.Width)/2, at[1]+header)
			d.Nodes, d.Links = append(d.Nodes, in.Nodes...), append(d.Links, in.Links...)
		}
	}
	return d
}

// turn swaps what is across and what is along, where edges lead to the right.
func (p *pen) turn(v [2]int) [2]int {
	if p.flat {
		return [2]int{v[1], v[0]}
	}
	return v
}

// node is a step that has a size and no place yet, and what is inside.
func (p *pen) node(s *program.PlanStep, prefix string) (Node, *Drawing) {
	n := Node{ID: s.ID, Label: shown(strings.TrimPrefix(s.ID, prefix), mostColumns), Uses: s.Uses, Kind: "step",
		When: s.When != "", Foreach: s.Foreach, Finally: s.Finally, Children: countAll(s.Body), Height: nodeHeight}
	if len(s.Body) > 0 {
		n.Kind, n.Folded = "body", !p.open[s.ID]
	}
	n.Width = max(columns(n.Label), columns(n.caption()))*columnWidth + textPadding
	n.Width = max(n.Width+n.Width%2, leastWidth)
	if n.Kind == "step" || n.Folded {
		return n, nil
	}
	in := p.body(s.Body, s.ID+"/")
	n.Width = max(n.Width, in.Width+2*padding)
	n.Width += n.Width % 2
	n.Height = header + in.Height + padding
	n.Height += n.Height % 2
	return n, &in
}

// shift moves all that a picture has.
func (d *Drawing) shift(x, y int) {
	for i := range d.Nodes {
		d.Nodes[i].X, d.Nodes[i].Y = d.Nodes[i].X+x, d.Nodes[i].Y+y
	}
	for _, l := range d.Links {
		for i, at := range l.Points {
			l.Points[i] = [2]int{at[0] + x, at[1] + y}
		}
	}
}

// shown is what people see of a text: so many columns at most, on one line, without what is invisible or turns
// the direction of writing.
func shown(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case unicode.IsControl(r) || unicode.IsSpace(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	width, cut := 0, 0
	for i, r := range text {
		if width += columns(string(r)); width > most {
			return text[:cut] + "…"
		}
		if width < most {
			cut = i + utf8.RuneLen(r)
		}
	}
	return text
}

// columns is how wide a text is: letters of the East, and pictures, need two columns.
func columns(text string) int {
	n := 0
	for _, r := range text {
		if n++; r >= 0x1100 && r != 0xFFFD {
			n++
		}
	}
	return n
}

// openAll opens all bodies.
func openAll(open map[string]bool, steps []program.PlanStep) {
	for i := range steps {
		open[steps[i].ID] = true
		openAll(open, steps[i].Body)
	}
}

func countAll(steps []program.PlanStep) int {
	n := len(steps)
	for i := range steps {
		n += countAll(steps[i].Body)
	}
	return n
}

// chainTo returns the paths of the steps in whose bodies a step is, the outermost first, and its own; nil if there is
// no such step.
func chainTo(steps []program.PlanStep, path string) []string {
	i := slices.IndexFunc(steps, func(s program.PlanStep) bool {
		return s.ID == path || strings.HasPrefix(path, s.ID+"/")
	})
	switch {
	case i < 0:
		return nil
	case steps[i].ID == path:
		return []string{path}
	}
	rest := chainTo(steps[i].Body, path)
	if rest == nil {
		return nil
	}
	return append([]string{steps[i].ID}, rest...)
}

// near returns the steps at most so many edges away from the last of a chain: see Options. The chain leads from a step
// of the body to those in bodies. It is empty: all.
func near(steps []program.PlanStep, chain []string, hops int) []program.PlanStep {
	if len(chain) == 0 {
		return steps
	}
	index := make(map[string]int, len(steps))
	for i := range steps {
		index[steps[i].ID] = i
	}
	beside := make([][]int, len(steps))
	for i := range steps {
		for _, e := range steps[i].Needs {
			if from, ok := index[e.Step]; ok {
				beside[from], beside[i] = append(beside[from], i), append(beside[i], from)
			}
		}
	}
	start := index[chain[0]]
	distance := map[int]int{start: len(chain) - 1}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range beside[queue[0]] {
			if _, seen := distance[next]; !seen && distance[queue[0]] < hops {
				distance[next] = distance[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	var left []program.PlanStep
	for i := range steps {
		if _, ok := distance[i]; ok {
			left = append(left, steps[i])
			if i == start {
				left[len(left)-1].Body = near(steps[i].Body, chain[1:], hops)
			}
		}
	}
	return left
}
