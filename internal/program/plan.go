package program

import "github.com/braise-run/braise/recipe"

// PlanStep is one step of a plan.
type PlanStep struct {
	ID       string     `json:"id"` // a path inside bodies: both/left/ask
	Uses     string     `json:"uses"`
	Needs    []Edge     `json:"needs"` // in declaration order
	When     string     `json:"when,omitempty"`
	Trigger  string     `json:"trigger"`
	Foreach  bool       `json:"foreach,omitempty"`
	Priority int        `json:"priority"`
	Body     []PlanStep `json:"body,omitempty"` // of a composite
	// Waits says, of a loop, that a wait lies between its rounds. Its path is that of the loop with /.wait.
	Waits bool `json:"waits,omitempty"`
	// Finally says that the step runs when all steps outside of finally have ended.
	Finally bool `json:"finally,omitempty"`
}

// Edge says that a step waits for another one.
type Edge struct {
	Step string `json:"step"`
	Kind string `json:"kind"` // data: an expression reads it; order: only needs names it
}

func planStep(s *compiledStep, all []compiledStep, prefix string) PlanStep {
	p := PlanStep{
		ID: prefix + s.src.ID, Uses: s.src.Uses.Text, Needs: []Edge{}, When: s.src.When.Text,
		Trigger: string(s.src.Trigger), Foreach: s.src.Foreach != nil,
		Priority: s.src.Priority, Body: s.sub, Waits: s.src.Loop != nil && s.src.Loop.Wait != nil,
	}
	if p.Trigger == "" {
		p.Trigger = string(recipe.AllSuccess)
	}
	for _, i := range s.sortedEdges() {
		kind := "order"
		if s.edges[i] {
			kind = "data"
		}
		p.Needs = append(p.Needs, Edge{Step: prefix + all[i].src.ID, Kind: kind})
	}
	return p
}

// Prefixed copies steps with a prefix before every id.
func Prefixed(steps []PlanStep, prefix string) []PlanStep {
	if steps == nil {
		return nil
	}
	list := make([]PlanStep, len(steps))
	for i, s := range steps {
		s.ID = prefix + s.ID
		needs := make([]Edge, len(s.Needs))
		for j, e := range s.Needs {
			needs[j] = Edge{prefix + e.Step, e.Kind}
		}
		s.Needs, s.Body = needs, Prefixed(s.Body, prefix)
		list[i] = s
	}
	return list
}
