package workflow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/drawing"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Plan describes what a run of a workflow would do: the steps in plan order, their edges, and what
// they require.
type Plan struct {
	Recipe   string             `json:"recipe"`
	Version  string             `json:"version,omitempty"`
	Digest   string             `json:"digest"` // of the recipe
	Steps    []program.PlanStep `json:"steps"`
	Requires Requires           `json:"requires"`
	Agents   []call.AgentTools  `json:"agents,omitempty"` // see Workflow.ToolsOfAgents
}

// Plan returns what a run would do. It needs no runtime and makes no calls.
func (wf *Workflow) Plan() *Plan {
	return &Plan{
		Recipe: wf.program.Recipe.Name, Version: wf.program.Recipe.Version, Digest: wf.program.Digest,
		Steps:    program.Prefixed(wf.program.Steps, ""),
		Requires: requiresOf(wf.program),
	}
}

// ToolsOfAgents says what the agents of the workflow's steps may call of what a runtime offers, and which approvals
// that needs as far as arguments do not matter, by steps in plan order.
func (wf *Workflow) ToolsOfAgents(rt *runtime.Runtime) []call.AgentTools {
	return call.ToolsOfAgents(wf.program, rt.Resolve())
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
	p.Requires.text(&b)
	for i := range p.Agents {
		writeAgent(&b, &p.Agents[i])
	}
	return b.String()
}

// writeAgent writes which tools an agent has, those with an approval that is needed with it.
func writeAgent(b *strings.Builder, a *call.AgentTools) {
	fmt.Fprintf(b, "agent %s of step %s: ", a.Agent, a.Step)
	if a.All {
		b.WriteString("all tools, now ")
	}
	if len(a.Tools) == 0 {
		b.WriteString("none")
	}
	for i, t := range a.Tools {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.Tool)
		if t.Approval != agentloop.ApproveNever || strings.Contains(t.Tool, ":") {
			fmt.Fprintf(b, " (%s)", t.Approval)
		}
	}
	if a.Open {
		b.WriteString(", and what expressions name")
	}
	b.WriteByte('\n')
}

func writeSteps(b *strings.Builder, steps []program.PlanStep, indent string) {
	for i, s := range steps {
		fmt.Fprintf(b, "%s%d. %s  %s", indent, i+1, s.ID, s.Uses)
		if s.Foreach {
			b.WriteString("  for each item")
		}
		if s.Finally {
			b.WriteString("  at the end")
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

// Draw returns a picture of the plan, as data and as SVG. Bodies are boxes in the boxes of others. See [DrawOptions];
// nil is its zero value. Unknown names in it are ignored. The same plan always gives the same picture.
func (p *Plan) Draw(opts *DrawOptions) *Drawing { return drawing.Draw(p.Steps, opts) }

// DrawOptions say what of a plan is drawn, and in which direction.
type DrawOptions = drawing.Options

// PlanID returns the id of the step in a plan whose path in a run is given: without the numbers of foreach items and of
// rounds of loops. For verify[2]/check#3 it is verify/check. A path without numbers is returned as it is. What an agent
// delegates has paths below that of its step, such as ask/research#1; a plan does not have these, but PlanID makes
// all children of one name ask/research.
func PlanID(path string) string { return resume.DefinitionPath(path) }

// Drawing is a picture of a plan. Its JSON is for programs that draw it themselves, its method SVG for others.
type Drawing = drawing.Drawing
