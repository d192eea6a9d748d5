package workflow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/braise-run/braise/internal/drawing"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
)

// Plan describes what a run of a workflow would do: the steps in plan order, their edges, and what
// they require.
type Plan struct {
	Recipe   string             `json:"recipe"`
	Version  string             `json:"version,omitempty"`
	Digest   string             `json:"digest"` // of the recipe
	Steps    []program.PlanStep `json:"steps"`
	Requires Requires           `json:"requires"`
}

// Requires lists the names of what a run needs, sorted.
type Requires struct {
	Models  []string `json:"models"` // those named literally; an expression may name others
	Tools   []string `json:"tools"`
	Secrets []string `json:"secrets"`
}

// Plan returns what a run would do. It needs no runtime and makes no calls.
func (wf *Workflow) Plan() *Plan {
	return &Plan{
		Recipe: wf.program.Recipe.Name, Version: wf.program.Recipe.Version, Digest: wf.program.Recipe.Digest,
		Steps: program.Prefixed(wf.program.Steps, ""),
		Requires: Requires{Models: names(wf.program.Models), Tools: names(wf.program.Tools),
			Secrets: names(wf.program.Secrets)},
	}
}

func names(uses []program.Use) []string {
	list := make([]string, len(uses))
	for i := range uses {
		list[i] = uses[i].Name
	}
	return list
}

// JSON returns the plan as indented JSON. The error is always nil for a plan that [Workflow.Plan] returned.
func (p *Plan) JSON() ([]byte, error) { return json.MarshalIndent(p, "", "  ") }

// Text returns the plan as text for people: one line per step, with bodies indented.
func (p *Plan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", p.Recipe)
	if p.Version != "" {
		fmt.Fprintf(&b, " %s", p.Version)
	}
	fmt.Fprintf(&b, "  %s\n", p.Digest)
	writeSteps(&b, p.Steps, "  ")
	for _, r := range []struct {
		what string
		list []string
	}{{"models", p.Requires.Models}, {"tools", p.Requires.Tools}, {"secrets", p.Requires.Secrets}} {
		if len(r.list) > 0 {
			fmt.Fprintf(&b, "needs %s: %s\n", r.what, strings.Join(r.list, ", "))
		}
	}
	return b.String()
}

func writeSteps(b *strings.Builder, steps []program.PlanStep, indent string) {
	for i, s := range steps {
		fmt.Fprintf(b, "%s%d. %s  %s", indent, i+1, s.ID, s.Uses)
		if s.Foreach {
			b.WriteString("  for each item")
		}
		for j, e := range s.Needs {
			b.WriteString(map[bool]string{true: "  after ", false: ", "}[j == 0])
			fmt.Fprintf(b, "%s (%s)", e.Step, e.Kind)
		}
		if s.Trigger != string(recipe.AllSuccess) {
			fmt.Fprintf(b, "  trigger %s", s.Trigger)
		}
		if s.When != "" {
			fmt.Fprintf(b, "  when %s", strings.Join(strings.Fields(s.When), " "))
		}
		b.WriteByte('\n')
		writeSteps(b, s.Body, indent+"  ")
	}
}

// Mermaid returns the plan as a Mermaid flowchart. Solid arrows carry data, dotted arrows only
// order. Bodies are subgraphs.
func (p *Plan) Mermaid() string { return drawing.Mermaid(p.Steps) }

// DOT returns the plan for Graphviz, drawn as by Mermaid: dashed edges only order, and bodies are clusters.
// The lines are in plan order. The result is "" for a malformed plan: one with a duplicate id, or an edge to a
// step outside the same body. [Workflow.Plan] never returns such a plan.
func (p *Plan) DOT() string { return drawing.DOT(p.Recipe, p.Steps) }

// MaxReduced is the maximum number of steps, including those of bodies, in a plan that Reduced accepts. A larger
// picture is not readable, and reducing thousands of steps takes minutes.
const MaxReduced = 200

// Reduced returns a copy of the plan without redundant edges: if c waits for b and b waits for a, the edge from
// a to c is omitted, whether or not it carries data. Use it for pictures; a run uses all edges. The error says
// that the plan has more than [MaxReduced] steps.
func (p *Plan) Reduced() (*Plan, error) {
	if n := countPlan(p.Steps); n > MaxReduced {
		return nil, fmt.Errorf("the plan has %d steps: edges are left out of plans of up to %d", n, MaxReduced)
	}
	reduced := *p
	var err error
	if reduced.Steps, err = drawing.Reduce(p.Steps); err != nil {
		return nil, err
	}
	return &reduced, nil
}

func countPlan(steps []program.PlanStep) int {
	n := len(steps)
	for i := range steps {
		n += countPlan(steps[i].Body)
	}
	return n
}

// PlanStep is one step of a plan.
type PlanStep = program.PlanStep

// Edge is a dependency: a step waits for another step.
type Edge = program.Edge
