package recipe

import (
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// checkNesting reports the body that is nested too deeply. Recipes that call others are counted
// together with them.
func checkNesting(r *Recipe, report *yamlnode.Reader) {
	h := heights{}
	for _, t := range r.tools {
		if t.Body != nil && h.body(t.Body) > maxNesting {
			report.Errorf(t.Pos, diagnostics.CodeRecursion, "", "bodies are nested more than %d deep", maxNesting)
		}
	}
	if h.recipe(r) <= maxNesting {
		return
	}
	// Follow the deepest bodies down to the first one that is too deep.
	steps := r.All()
	for range maxNesting {
		steps = h.deepest(steps).All()
	}
	report.Errorf(h.deepest(steps).Pos, diagnostics.CodeRecursion, "",
		"bodies are nested more than %d deep", maxNesting)
}

// heights remembers how many levels of bodies there are in a recipe.
type heights map[*Recipe]int

func (h heights) recipe(r *Recipe) int {
	height, ok := h[r]
	if !ok {
		height = h.steps(r.All())
		h[r] = height
	}
	return height
}

func (h heights) steps(steps []Step) int {
	height := 0
	for i := range steps {
		for _, b := range steps[i].Bodies() {
			height = max(height, h.body(b))
		}
	}
	return height
}

func (h heights) body(b *Body) int {
	if b.Recipe != nil {
		return 1 + h.recipe(b.Recipe)
	}
	return 1 + h.steps(b.Steps)
}

// deepest returns the body of the steps that has the most levels.
func (h heights) deepest(steps []Step) *Body {
	var best *Body
	for i := range steps {
		for _, b := range steps[i].Bodies() {
			if best == nil || h.body(b) > h.body(best) {
				best = b
			}
		}
	}
	return best
}

// All returns the steps of a body, its own or those of the recipe that it names; nil for no body.
func (b *Body) All() []Step {
	switch {
	case b == nil:
		return nil
	case b.Recipe != nil:
		return b.Recipe.All()
	}
	return b.Steps
}
