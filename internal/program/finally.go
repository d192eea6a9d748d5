package program

import (
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/recipe"
)

// mostEnds limits the edges of a plan from the last steps of a file to the first ones of its finally.
const mostEnds = 10_000

// finally compiles the steps that run when all others of their file have ended. They see those, which are compiled:
// file is their source.
func (c *compiler) finally(steps []recipe.Step, file bodySource, main *body) {
	if len(steps) == 0 {
		return
	}
	c.nameSteps(&file)
	src := file
	src.steps, src.output = steps, nil
	src.names = expr.Scope{Inputs: file.names.Inputs, Consts: file.names.Consts, Final: true,
		Stored: c.stored, Outer: &file.names}
	b := c.body(src)
	for _, r := range b.outer {
		if r.Field == "output" && !r.Optional {
			c.errorf(r.Pos, diagnostics.CodeMaybeSkipped, fmt.Sprintf("write steps.%s.output?.…", r.Name),
				"finally runs however step %q has ended: it may have no output", r.Name)
		}
	}
	b.graph.Consts = file.names.Consts
	main.graph.Finally = b.graph

	var ends []Edge // what the plan shows it after
	for _, s := range main.graph.Order {
		if len(main.graph.Succ[s]) == 0 {
			ends = append(ends, Edge{Step: file.steps[s].ID, Kind: "order"})
		}
	}
	for i, room := 0, mostEnds; i < len(b.steps); i++ {
		s := &b.steps[i]
		s.Finally = true
		if room -= len(ends); len(s.Needs) == 0 && (room >= 0 || i == 0) {
			s.Needs = ends
		}
	}
	main.steps, main.count = append(main.steps, b.steps...), main.count+b.count
}
