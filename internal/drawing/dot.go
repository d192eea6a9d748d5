// Package drawing draws plans, and finds the ways in them.
package drawing

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dominikbraun/graph"
	"github.com/dominikbraun/graph/draw"

	"github.com/braise-run/braise/internal/program"
)

// DOT draws steps for Graphviz: dashed edges only order, bodies are clusters. The lines are in plan order. Steps of no
// workflow, with an edge to a step that is not in the same body or with an id twice, have no picture: the result is "".
func DOT(label string, steps []program.PlanStep) string {
	g := graph.New(graph.StringHash, graph.Directed())
	if addTree(g, steps) != nil {
		return ""
	}
	var text bytes.Buffer
	if draw.DOT(g, &text, draw.GraphAttribute("label", dotText.Replace(label))) != nil {
		return ""
	}
	rank := map[string]int{}
	rankStatements(rank, steps)

	// The library gives the statements in any order, between empty lines.
	var b strings.Builder
	var statements []string
	for line := range strings.Lines(text.String()) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, `"`):
			statements = append(statements, line)
		case line != "" && line != "}":
			if b.Len() > 0 {
				b.WriteString("  ")
			}
			b.WriteString(line + "\n")
		}
	}
	subject := func(statement string) int {
		head, _, _ := strings.Cut(statement, " [")
		return rank[head]
	}
	slices.SortFunc(statements, func(x, y string) int { return cmp.Compare(subject(x), subject(y)) })
	for _, s := range statements {
		b.WriteString("  " + s + "\n")
	}
	writeClusters(&b, steps, "  ")
	b.WriteString("}\n")
	return b.String()
}

// addTree adds the steps of a body, and those in their bodies.
func addTree(g graph.Graph[string, string], steps []program.PlanStep) error {
	err := addSteps(g, steps, func(s *program.PlanStep) map[string]string {
		if len(s.Body) > 0 { // its cluster has the name
			return map[string]string{"shape": "point"}
		}
		return map[string]string{"shape": "box", "label": dotLabel(s)}
	})
	for i := 0; i < len(steps) && err == nil; i++ {
		err = addTree(g, steps[i].Body)
	}
	return err
}

func dotLabel(s *program.PlanStep) string { return s.ID + `\n` + dotText.Replace(s.Uses) }

// rankStatements numbers what statements are about: a step, or an edge.
func rankStatements(rank map[string]int, steps []program.PlanStep) {
	for i := range steps {
		rank[fmt.Sprintf("%q", steps[i].ID)] = len(rank)
		rankStatements(rank, steps[i].Body)
	}
	for i := range steps {
		for _, e := range steps[i].Needs {
			rank[fmt.Sprintf("%q -> %q", e.Step, steps[i].ID)] = len(rank)
		}
	}
}

// writeClusters draws a box around every body, which the library cannot.
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
	if err := addSteps(g, steps, nil); err != nil {
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

// addSteps adds the steps of one body to a graph, with the edges between them. look says how a step
// is drawn; nil: in no way.
func addSteps(
	g graph.Graph[string, string], steps []program.PlanStep, look func(*program.PlanStep) map[string]string,
) error {
	for i := range steps {
		var attributes map[string]string
		if look != nil {
			attributes = look(&steps[i])
		}
		if err := g.AddVertex(steps[i].ID, graph.VertexAttributes(attributes)); err != nil {
			return fmt.Errorf("plan: step %q: %w", steps[i].ID, err)
		}
	}
	for i := range steps {
		for _, e := range steps[i].Needs {
			options := []func(*graph.EdgeProperties){graph.EdgeWeight(1)} // 0 would let Graphviz draw it of any length
			if e.Kind == "order" {
				options = append(options, graph.EdgeAttribute("style", "dashed"))
			}
			if err := g.AddEdge(e.Step, steps[i].ID, options...); err != nil {
				return fmt.Errorf("plan: edge from %q to %q: %w", e.Step, steps[i].ID, err)
			}
		}
	}
	return nil
}
