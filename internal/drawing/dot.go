// Package drawing draws plans, and finds the ways in them.
package drawing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dominikbraun/graph"

	"github.com/braise-run/braise/internal/program"
)

// DOT draws steps for Graphviz: dashed edges only order, bodies are clusters. The lines are in plan order. Steps of no
// workflow, with an edge to a step that is not in the same body or with an id twice, have no picture: the result is "".
func DOT(label string, steps []program.PlanStep) string {
	var b strings.Builder
	fmt.Fprintf(&b, "strict digraph {\n  label=\"%s\";\n", dotText.Replace(label))
	if !writeSteps(&b, steps, map[string]bool{}) {
		return ""
	}
	writeClusters(&b, steps, "  ")
	b.WriteString("}\n")
	return b.String()
}

// writeSteps writes the steps of a body, each with those of its own body, and then the edges between them. It reports
// whether the steps are those of a workflow, of which drawn has the ids so far.
func writeSteps(b *strings.Builder, steps []program.PlanStep, drawn map[string]bool) bool {
	here := map[string]bool{}
	for i := range steps {
		s := &steps[i]
		if drawn[s.ID] {
			return false
		}
		drawn[s.ID], here[s.ID] = true, true
		look := `label="` + dotLabel(s) + `", shape="box"`
		if len(s.Body) > 0 { // its cluster has the name
			look = `shape="point"`
		}
		fmt.Fprintf(b, "  %q [ %s,  weight=0 ];\n", s.ID, look)
		if !writeSteps(b, s.Body, drawn) {
			return false
		}
	}
	for i := range steps {
		for j, e := range steps[i].Needs {
			same := func(other program.Edge) bool { return other.Step == e.Step }
			if !here[e.Step] || slices.ContainsFunc(steps[i].Needs[:j], same) {
				return false
			}
			style := ""
			if e.Kind == "order" {
				style = `style="dashed", `
			}
			fmt.Fprintf(b, "  %q -> %q [ %s weight=1 ];\n", e.Step, steps[i].ID, style)
		}
	}
	return true
}

func dotLabel(s *program.PlanStep) string { return s.ID + `\n` + dotText.Replace(s.Uses) }

// writeClusters draws a box around every body.
func writeClusters(b *strings.Builder, steps []program.PlanStep, indent string) {
	for i := range steps {
		s := &steps[i]
		if len(s.Body) == 0 {
			continue
		}
		fmt.Fprintf(b, "%ssubgraph \"cluster_%s\" {\n%s  label=\"%s\";\n", indent, s.ID, indent, dotLabel(s))
		fmt.Fprintf(b, "%s  %q;\n", indent, s.ID)
		for j := range s.Body {
			fmt.Fprintf(b, "%s  %q;\n", indent, s.Body[j].ID)
		}
		writeClusters(b, s.Body, indent+"  ")
		fmt.Fprintf(b, "%s}\n", indent)
	}
}

// Reduce copies the steps of a body, and those in their bodies, without the edges that follow from others.
func Reduce(steps []program.PlanStep) ([]program.PlanStep, error) {
	if steps == nil {
		return nil, nil
	}
	g := graph.New(graph.StringHash, graph.Directed())
	if err := addSteps(g, steps); err != nil {
		return nil, err
	}
	left, err := graph.TransitiveReduction(g)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	list := slices.Clone(steps)
	for i := range list {
		s := &list[i]
		s.Needs = slices.DeleteFunc(slices.Clone(s.Needs), func(e program.Edge) bool {
			_, err := left.Edge(e.Step, s.ID)
			return err != nil
		})
		if s.Body, err = Reduce(s.Body); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// addSteps adds the steps of one body to a graph, with the edges between them.
func addSteps(g graph.Graph[string, string], steps []program.PlanStep) error {
	for i := range steps {
		if err := g.AddVertex(steps[i].ID); err != nil {
			return fmt.Errorf("plan: step %q: %w", steps[i].ID, err)
		}
	}
	for i := range steps {
		for _, e := range steps[i].Needs {
			if err := g.AddEdge(e.Step, steps[i].ID); err != nil {
				return fmt.Errorf("plan: edge from %q to %q: %w", e.Step, steps[i].ID, err)
			}
		}
	}
	return nil
}
