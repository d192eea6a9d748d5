package drawing

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// SVG returns the picture as a document that needs nothing else: no script, no font, no reference. It says nothing of
// a run. Each step is a group of class step, with the path of the step as data-id. Each edge is a group of class edge,
// with data-from and data-to. An edge that only orders has the class order too. A step with a body has the class body,
// and folded if the body is not drawn. Colours follow the reader's light or dark theme.
func (d *Drawing) SVG() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="plan" width="%d" height="%d"`+
		` viewBox="0 0 %[1]d %[2]d" role="img"`+
		` font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11">`+"\n"+
		"<title>plan</title>\n<style>%[3]s</style>\n"+
		`<rect class="paper" width="%[1]d" height="%[2]d" fill="#ffffff"/>`+"\n", d.Width, d.Height, style)
	for i := range d.Nodes { // boxes lie behind edges, and those behind steps
		if d.Nodes[i].isBox() {
			d.Nodes[i].draw(&b)
		}
	}
	for i := range d.Links {
		d.Links[i].draw(&b, d.Direction == "LR")
	}
	for i := range d.Nodes {
		if !d.Nodes[i].isBox() {
			d.Nodes[i].draw(&b)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// style is for the dark. What attributes say suits the light, and stands where styles are forbidden.
const style = `@media (prefers-color-scheme: dark) {
.paper{fill:#16181d} .box{fill:#7f8ea3;fill-opacity:.09;stroke:#59637a} .shape{fill:#232730;stroke:#8a94a6}
.label{fill:#eef1f6} .caption{fill:#a5afbf} .line{stroke:#8a94a6} .head{fill:#8a94a6}
}`

// mostTitle is how much of a path a title has.
const mostTitle = 200

func (n *Node) isBox() bool { return n.Kind == "body" && !n.Folded }

// caption is the second line of a step.
func (n *Node) caption() string {
	text := shown(n.Uses, mostColumns)
	if n.When {
		text += " ?"
	}
	if n.Foreach {
		text += " ×n"
	}
	if n.Finally {
		text += " at the end"
	}
	if n.Folded {
		text += fmt.Sprintf(" +%d", n.Children)
	}
	return text
}

// title says in words what the marks of a step mean.
func (n *Node) title() string {
	text := shown(n.ID, mostTitle) + ": " + shown(n.Uses, mostTitle)
	if n.When {
		text += ", on a condition"
	}
	if n.Foreach {
		text += ", for each item"
	}
	if n.Finally {
		text += ", however the others end"
	}
	switch {
	case n.Children == 1:
		text += ", 1 step inside"
	case n.Children > 1:
		text += fmt.Sprintf(", %d steps inside", n.Children)
	}
	return text
}

const (
	violet = "#7c5cd6"
	orange = "#d9822b"
	grey   = "#8a94a6"
	blue   = "#2f80c2"
)

// tints are the colours of the edge of a step, by what it uses; tools have another one.
var tints = map[string]string{
	"model": violet, "agent": violet, "retrieve": violet, "human": orange, "wait": orange,
	"say": blue, "fail": "#c23b3b", "set": grey,
	"recipe": grey, "loop": grey, "fork": grey, "switch": grey, "send": grey, "receive": grey,
}

// classes are those of a step. What it uses is one of them if it is a kind; a tool is a tool.
func (n *Node) classes() string {
	classes := []string{"step"}
	if n.Kind == "body" {
		classes = append(classes, "body")
	}
	for _, c := range []struct {
		on   bool
		name string
	}{{n.Folded, "folded"}, {n.Foreach, "foreach"}, {n.When, "when"}, {n.Finally, "finally"}} {
		if c.on {
			classes = append(classes, c.name)
		}
	}
	if _, ok := tints[n.Uses]; ok {
		return strings.Join(append(classes, "uses-"+n.Uses), " ")
	}
	return strings.Join(append(classes, "uses-tool"), " ")
}

func (n *Node) draw(b *bytes.Buffer) {
	fmt.Fprintf(b, `<g class="%s" data-id="%s"><title>%s</title>`, n.classes(), escaped(n.ID), escaped(n.title()))
	rect := func(x, y int, class, look string) {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6" %s/>`,
			class, x, y, n.Width, n.Height, look)
	}
	if n.isBox() {
		rect(n.X, n.Y, "box", `fill="#5b6b82" fill-opacity="0.06" stroke="#aab4c3"`)
		fmt.Fprintf(b, `<text class="label" x="%d" y="%d" fill="#1c2430" font-size="12" font-weight="600">%s</text>`+
			`<text class="caption" x="%[1]d" y="%[4]d" fill="#5d6878">%[5]s</text></g>`+"\n",
			n.X+12, n.Y+17, escaped(n.Label), n.Y+31, escaped(n.caption()))
		return
	}
	look := `fill="#ffffff" stroke="#7b8798"`
	if n.When {
		look += ` stroke-dasharray="5 3"`
	}
	if n.Folded || n.Foreach { // there is more after it
		rect(n.X+4, n.Y+4, "shape", `fill="#ffffff" stroke="#7b8798"`)
	}
	rect(n.X, n.Y, "shape", look)
	tint, ok := tints[n.Uses]
	if !ok {
		tint = blue
	}
	fmt.Fprintf(b, `<rect class="tint" x="%d" y="%d" width="4" height="%d" rx="2" fill="%s"/>`+
		`<text class="label" x="%d" y="%d" fill="#1c2430" font-size="12" font-weight="600">%s</text>`+
		`<text class="caption" x="%[5]d" y="%[8]d" fill="#5d6878">%[9]s</text></g>`+"\n",
		n.X+5, n.Y+8, n.Height-16, tint, n.X+15, n.Y+19, escaped(n.Label), n.Y+34, escaped(n.caption()))
}

// headLength is that of the head of an arrow.
const headLength = 7

func (l *Link) draw(b *bytes.Buffer, flat bool) {
	class, look := "edge", ""
	if l.Kind == "order" {
		class, look = "edge order", ` stroke-dasharray="4 4"`
	}
	points := slices.Clone(l.Points)
	tip := points[len(points)-1]
	along := 1
	if flat {
		along = 0
	}
	points[len(points)-1][along] -= headLength // the line ends behind the head
	if before := &points[len(points)-2]; before[along] > points[len(points)-1][along] {
		before[along] = points[len(points)-1][along]
	}

	fmt.Fprintf(b, `<g class="%s" data-from="%s" data-to="%s">`+
		`<path class="line" fill="none" stroke="#7b8798"%s d="M%d %d`,
		class, escaped(l.From), escaped(l.To), look, points[0][0], points[0][1])
	for i := 1; i < len(points); i++ {
		a, z := points[i-1], points[i]
		half := (a[along] + z[along]) / 2
		switch {
		case a[1-along] == z[1-along]:
			fmt.Fprintf(b, "L%d %d", z[0], z[1])
		case flat:
			fmt.Fprintf(b, "C%d %d %d %d %d %d", half, a[1], half, z[1], z[0], z[1])
		default:
			fmt.Fprintf(b, "C%d %d %d %d %d %d", a[0], half, z[0], half, z[0], z[1])
		}
	}
	side, other := [2]int{tip[0] - 4, tip[1] - headLength}, [2]int{tip[0] + 4, tip[1] - headLength}
	if flat {
		side, other = [2]int{tip[0] - headLength, tip[1] - 4}, [2]int{tip[0] - headLength, tip[1] + 4}
	}
	fmt.Fprintf(b, `"/><path class="head" fill="#7b8798" d="M%d %dL%d %dL%d %dZ"/></g>`+"\n",
		tip[0], tip[1], side[0], side[1], other[0], other[1])
}

// escaped makes text of XML, without what XML cannot hold.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}
