package drawing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/drawing"
	"github.com/braise-run/braise/internal/program"
	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
)

// randomBody draws steps that wait for some of those before them, and have bodies of their own.
func randomBody(t *rapid.T, prefix string, depth int) []program.PlanStep {
	var steps []program.PlanStep
	for i := range rapid.IntRange(1, 14).Draw(t, "steps") {
		s := program.PlanStep{ID: prefix + fmt.Sprint("s", i) + strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "name")),
			Uses: "set", Foreach: rapid.IntRange(0, 4).Draw(t, "foreach") == 0}
		for range rapid.IntRange(0, min(i, 3)).Draw(t, "needs") {
			need := steps[rapid.IntRange(0, i-1).Draw(t, "need")].ID
			if !slices.ContainsFunc(s.Needs, func(e program.Edge) bool { return e.Step == need }) {
				s.Needs = append(s.Needs, program.Edge{Step: need, Kind: rapid.SampledFrom([]string{"data", "order"}).Draw(t, "kind")})
			}
		}
		if depth > 0 && rapid.IntRange(0, 3).Draw(t, "body") == 0 {
			s.Uses, s.Body = "recipe", randomBody(t, s.ID+"/", depth-1)
		}
		steps = append(steps, s)
	}
	return steps
}

// apart is how far sideways two steps are from each other, at least.
const apart = 16

// rect is what something covers.
type rect struct{ left, top, right, bottom int }

func rectOf(n drawing.Node) rect { return rect{n.X, n.Y, n.X + n.Width, n.Y + n.Height} }

func (r rect) overlaps(o rect) bool {
	return r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom
}

func (r rect) grown(by int) rect { return rect{r.left - by, r.top - by, r.right + by, r.bottom + by} }

func (r rect) holds(o rect) bool {
	return r.left < o.left && o.right < r.right && r.top < o.top && o.bottom < r.bottom
}

// Nodes keep their distance, bodies are inside of their steps, and edges go from border to border past all other steps.
func TestDrawOfRandomPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := randomBody(t, "", 2)
		o := &drawing.Options{Direction: rapid.SampledFrom([]string{"TB", "LR"}).Draw(t, "direction")}
		if rapid.Bool().Draw(t, "all open") {
			o.Open = idsOf(steps)
		}
		d := drawing.Draw(steps, o)
		if diff := cmp.Diff(d, drawing.Draw(steps, o)); diff != "" {
			t.Fatalf("the second picture differs (-first +second):\n%s", diff)
		}
		checkDrawing(t, d, o.Direction == "LR")
		if o.Open != nil && len(d.Nodes) != len(idsOf(steps)) {
			t.Fatalf("%d nodes of %d open steps", len(d.Nodes), len(idsOf(steps)))
		}
	})
}

func checkDrawing(t *rapid.T, d *drawing.Drawing, flat bool) {
	paper := rect{0, 0, d.Width, d.Height}
	byID := map[string]drawing.Node{}
	for i, n := range d.Nodes {
		r := rectOf(n)
		if !paper.holds(r) || n.Width <= 0 || n.Height <= 0 {
			t.Fatalf("%+v is not on the paper %v", n, paper)
		}
		for _, o := range d.Nodes[:i] {
			switch {
			case strings.HasPrefix(n.ID, o.ID+"/"):
				if o.Folded || !rectOf(o).holds(r) {
					t.Fatalf("%+v is not in the box %+v", n, o)
				}
			case r.grown(apart / 2).overlaps(rectOf(o).grown(apart / 2)):
				t.Fatalf("%+v is too near to %+v", n, o)
			}
		}
		byID[n.ID] = n
	}
	for _, l := range d.Links {
		checkLink(t, d, byID, l, flat)
	}
}

func checkLink(t *rapid.T, d *drawing.Drawing, byID map[string]drawing.Node, l drawing.Link, flat bool) {
	from, to, n := rectOf(byID[l.From]), rectOf(byID[l.To]), len(l.Points)
	start, end := [2]int{(from.left + from.right) / 2, from.bottom}, [2]int{(to.left + to.right) / 2, to.top}
	if flat {
		start, end = [2]int{from.right, (from.top + from.bottom) / 2}, [2]int{to.left, (to.top + to.bottom) / 2}
	}
	if n < 2 || l.Points[0] != start || l.Points[n-1] != end {
		t.Fatalf("%+v does not lead from %v to %v", l, start, end)
	}
	for i := 1; i < n; i++ {
		a, z := l.Points[i-1], l.Points[i]
		if flat && a[0] > z[0] || !flat && a[1] > z[1] {
			t.Fatalf("%+v leads back", l)
		}
		// A curve does not leave the rectangle of its ends.
		run := rect{min(a[0], z[0]), min(a[1], z[1]), max(a[0], z[0]), max(a[1], z[1])}
		for _, node := range d.Nodes {
			inside := strings.HasPrefix(l.From, node.ID+"/")
			if !inside && run.grown(1).overlaps(rectOf(node).grown(-1)) {
				t.Fatalf("%+v leads through %+v", l, node)
			}
		}
	}
}

func idsOf(steps []program.PlanStep) (ids []string) {
	for _, s := range steps {
		ids = append(append(ids, s.ID), idsOf(s.Body)...)
	}
	return ids
}

func step(id string, needs ...string) program.PlanStep {
	s := program.PlanStep{ID: id, Uses: "set"}
	for _, need := range needs {
		s.Needs = append(s.Needs, program.Edge{Step: need, Kind: "data"})
	}
	return s
}

func withBody(s program.PlanStep, body ...program.PlanStep) program.PlanStep {
	s.Uses, s.Body = "recipe", body
	return s
}

// A plan: a → b → c → d → e → f, and in c: c/x → c/y → c/z, and in y: c/y/deep.
func chain() []program.PlanStep {
	return []program.PlanStep{step("a"), step("b", "a"),
		withBody(step("c", "b"), step("c/x"), withBody(step("c/y", "c/x"), step("c/y/deep")), step("c/z", "c/y")),
		step("d", "c"), step("e", "d"), step("f", "e")}
}

func TestWhatIsDrawn(t *testing.T) {
	many := chain()
	for i := range 60 {
		many = append(many, step(fmt.Sprint("more", i), "f"))
	}
	for _, tt := range []struct {
		name  string
		steps []program.PlanStep
		o     *drawing.Options
		want  string
	}{
		{"no options", chain(), nil, "a b c c/x c/y c/y/deep c/z d e f"},
		{"none open", chain(), &drawing.Options{Open: []string{}}, "a b c(4) d e f"},
		{"one open", chain(), &drawing.Options{Open: []string{"c"}}, "a b c c/x c/y(1) c/z d e f"},
		{"one inside open", chain(), &drawing.Options{Open: []string{"c/y"}}, "a b c c/x c/y c/y/deep c/z d e f"},
		{"unknown names", chain(), &drawing.Options{Open: []string{"x", "c/no", ""}, Around: "c/y/no"}, "a b c(4) d e f"},
		{"more than 60", many[:62], nil, strings.Join(idsOf(append(slices.Clone(many[:2]), step("c(4)"))), " ") + " " +
			strings.Join(idsOf(many[3:62]), " ")},
		{"around", many, &drawing.Options{Around: "a", Hops: 1}, "a b"},
		{"3 hops around", chain(), &drawing.Options{Around: "f"}, "c c/x c/y c/y/deep c/z d e f"},
		{"both ways", chain(), &drawing.Options{Around: "d", Hops: 1, Open: []string{}}, "c(4) d e"},
		{"around a step in a body", chain(), &drawing.Options{Around: "c/x", Hops: 2, Open: []string{}}, "b c c/x c/y(1) c/z d"},
		{"deep", chain(), &drawing.Options{Around: "c/y/deep", Hops: 2}, "c c/x c/y c/y/deep c/z"},
		{"alone", chain(), &drawing.Options{Around: "c/y", Hops: -1, Open: []string{}}, "c c/y(1)"},
		{"empty", nil, nil, ""},
	} {
		var got []string
		for _, n := range drawing.Draw(tt.steps, tt.o).Nodes {
			if n.Folded {
				n.ID += fmt.Sprintf("(%d)", n.Children)
			}
			got = append(got, n.ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// The places of a small picture, reckoned by hand: b and c lie side by side below a, and d below the middle of both.
func TestDrawDiamond(t *testing.T) {
	steps := []program.PlanStep{step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")}
	steps[3].Needs[1].Kind = "order"
	node := func(id string, x, y int) drawing.Node {
		return drawing.Node{ID: id, Label: id, Uses: "set", Kind: "step", X: x, Y: y, Width: 88, Height: 44}
	}
	want := &drawing.Drawing{
		Direction: "TB", Width: 16 + 88 + 28 + 88 + 16, Height: 16 + 44 + 40 + 44 + 40 + 44 + 16,
		Nodes: []drawing.Node{node("a", 74, 16), node("b", 16, 100), node("c", 132, 100), node("d", 74, 184)},
		Links: []drawing.Link{
			{From: "a", To: "b", Kind: "data", Points: [][2]int{{118, 60}, {60, 100}}},
			{From: "a", To: "c", Kind: "data", Points: [][2]int{{118, 60}, {176, 100}}},
			{From: "b", To: "d", Kind: "data", Points: [][2]int{{60, 144}, {118, 184}}},
			{From: "c", To: "d", Kind: "order", Points: [][2]int{{176, 144}, {118, 184}}},
		},
	}
	if diff := cmp.Diff(want, drawing.Draw(steps, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Plans that nobody would write still have a picture, soon.
func TestDrawOfExtremes(t *testing.T) {
	ladder := []program.PlanStep{step("s0")}
	for i := 1; i < 3000; i++ { // each needs the first one, and the one before it
		ladder = append(ladder, step(fmt.Sprint("s", i), "s0", fmt.Sprint("s", i-1))) // a dummy for each would be 4,500,000
	}
	ladder[1].Needs = ladder[1].Needs[:1]
	fan := []program.PlanStep{step("s0")}
	for i := 1; i < 3000; i++ {
		fan = append(fan, step(fmt.Sprint("s", i), "s0"))
	}
	deep := []program.PlanStep{step("s")}
	for range 30 {
		deep = []program.PlanStep{withBody(step("s"), program.Prefixed(deep, "s/")...)}
	}
	for name, steps := range map[string][]program.PlanStep{
		"ladder": ladder, "fan": fan, "deep": deep, "loose": {step("a"), step("b", "gone"), step("c", "d"), step("d"), step("a")},
	} {
		d := drawing.Draw(steps, &drawing.Options{Open: idsOf(steps)})
		if len(d.Nodes) != len(idsOf(steps)) || d.Width <= 0 || d.Height <= 0 {
			t.Errorf("%s: %d nodes on %d × %d", name, len(d.Nodes), d.Width, d.Height)
		}
	}
}
