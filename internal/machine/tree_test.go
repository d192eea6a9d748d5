package machine

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
)

// never is a condition that does not hold, and always one that does.
var (
	never, _  = (&expr.Scope{}).Condition(expr.Source{Text: "1 > 2", Pos: diagnostics.Position{File: "test"}})
	always, _ = (&expr.Scope{}).Condition(expr.Source{Text: "1 < 2", Pos: diagnostics.Position{File: "test"}})
)

// statusOf gives the status of a step of the same body, by index.
var statusOf = func() (list [4]*expr.Template) {
	for i := range list {
		id := fmt.Sprintf("n%d", i)
		scope := expr.Scope{Steps: map[string]expr.StepRef{id: {Index: i}}}
		list[i], _ = scope.Text(expr.Source{Text: "${{ steps." + id + ".status }}", Pos: diagnostics.Position{File: "test"}})
	}
	return list
}()

// testChannels are those of the run's own file, a kind each.
var testChannels = []Channel{{"state", ValueChannel}, {"mail", QueueChannel}, {"news", TopicChannel}}

// drawTree makes a random graph of all kinds of nodes, with bodies and foreach inside each other.
// Of a smooth one nothing fails, nothing has a timeout and nothing is a race.
func drawTree(t *rapid.T, depth int, smooth bool) *Graph {
	n := rapid.IntRange(0, min(len(statusOf), 2+depth)).Draw(t, "nodes")
	g := &Graph{Nodes: make([]Node, n), Succ: make([][]int32, n), Preds: make([]int32, n)}
	for i := range n {
		kinds := []Kind{Call, Call, Set, Wait, Fail, Sub, Again, Choice, Many}
		if depth == 0 {
			kinds = kinds[:5]
		}
		if !smooth { // who gets what depends on who is first
			kinds = append(kinds, Send, Receive)
		}
		node := Node{ID: fmt.Sprintf("n%d", i), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Trigger: Trigger(rapid.IntRange(0, 3).Draw(t, "trigger"))}
		if node.Kind == Fail && smooth {
			node.Kind = Call
		}
		drawBodies(t, &node, depth-1, smooth)
		if node.Kind == Send || node.Kind == Receive {
			node.Channel = rapid.IntRange(0, len(testChannels)-1).Draw(t, "channel")
			node.OnEmpty.Fail = rapid.IntRange(0, 5).Draw(t, "on_empty") == 0
		}
		if rapid.IntRange(0, 4).Draw(t, "when") == 0 {
			node.When = never
		}
		if !smooth {
			node.Timeout = time.Duration(rapid.IntRange(0, 1).Draw(t, "timeout")) * time.Minute
			switch rapid.IntRange(0, 3).Draw(t, "on_error") {
			case 0:
				node.OnError.Continue = true
			case 1:
				node.OnError.Set = expr.Literal("set")
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "foreach") == 0 {
			items := make([]any, rapid.IntRange(0, 4).Draw(t, "items")) // of null
			node.Foreach = &Foreach{In: expr.Literal(items), MaxParallel: rapid.IntRange(0, 2).Draw(t, "max_parallel"), Collect: drawMode(t, smooth) == Settle}
		}
		var with []*expr.Template
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				g.Succ[j] = append(g.Succ[j], int32(i))
				g.Preds[i]++
				with = append(with, statusOf[j])
			}
		}
		if node.Kind != Fail {
			node.With = expr.List(with)
		}
		g.Nodes[i] = node
		g.Order, g.Rank = append(g.Order, int32(i)), append(g.Rank, int32(i))
	}
	g.Output = expr.List(statusOf[:n])
	return g
}

// drawBodies gives a composite its bodies.
func drawBodies(t *rapid.T, node *Node, depth int, smooth bool) {
	body := func() Body {
		b := Body{Graph: drawTree(t, depth, smooth)}
		if rapid.IntRange(0, 4).Draw(t, "finally") == 0 {
			b.Graph.Finally = drawTree(t, 0, smooth)
			for i := range b.Graph.Finally.Nodes { // their paths are beside those of the body's steps
				b.Graph.Finally.Nodes[i].ID = fmt.Sprintf("f%d", i)
			}
		}
		return b
	}
	branches := func() []Branch {
		list := make([]Branch, rapid.IntRange(0, 3).Draw(t, "branches"))
		for i := range list {
			list[i] = Branch{Name: fmt.Sprintf("b%d", i), Body: body()}
		}
		return list
	}
	switch node.Kind {
	case Sub:
		b := body()
		node.Body = &b
	case Again:
		node.Loop = &Loop{Body: body(), Max: rapid.IntRange(1, 3).Draw(t, "rounds"),
			Until: rapid.SampledFrom([]*expr.Program{nil, never, always}).Draw(t, "until")}
		switch rapid.IntRange(0, 3).Draw(t, "over") {
		case 0:
			node.Loop.Over = expr.Literal(make([]any, rapid.IntRange(0, 3).Draw(t, "list")))
		case 1:
			node.Loop.Over, node.Loop.Max = expr.Literal([]any{1, 2, 3}), 0
		case 2:
			node.Loop.Most = expr.Literal(int64(rapid.IntRange(0, 2).Draw(t, "most")))
		}
		if !smooth {
			node.Loop.Continue, node.Loop.FailAt = rapid.Bool().Draw(t, "continue"), rapid.IntRange(0, 3).Draw(t, "fail at") == 0
		}
	case Choice:
		node.Cases = branches()
		for i := range node.Cases {
			node.Cases[i].When = rapid.SampledFrom([]*expr.Program{never, always}).Draw(t, "case")
		}
	case Many:
		node.Fork = &Fork{Branches: branches(), MaxParallel: rapid.IntRange(0, 2).Draw(t, "max_parallel"),
			Mode: drawMode(t, smooth)}
	}
}

func drawMode(t *rapid.T, smooth bool) Mode {
	modes := []Mode{All, Settle, Race}
	if smooth {
		modes = modes[:2]
	}
	return rapid.SampledFrom(modes).Draw(t, "mode")
}
