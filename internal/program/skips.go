package program

import (
	"cmp"
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// warnSkipped warns about reads of outputs of steps that may be skipped, or may fail without ending the run, if the
// reader runs all the same.
func (c *compiler) warnSkipped(steps []compiledStep, skips []skip, refs []expr.Ref, reader machine.Trigger) {
	for _, r := range refs {
		if r.Kind != expr.RefStep || r.Step.Up > 0 || r.Field != "output" || r.Optional {
			continue
		}
		target := skips[r.Step.Index]
		switch reader {
		case machine.AllSuccess: // skipped together with what it reads
			continue
		case machine.NoneFailed:
			target.fails = false // as above
		}
		what := ""
		switch {
		case target.byCondition || target.upstream:
			what = "be skipped"
		case target.fails:
			what = "fail"
		default:
			continue
		}
		id := steps[r.Step.Index].src.ID
		c.list = append(c.list, diagnostics.Diagnostic{
			Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeMaybeSkipped,
			Message: fmt.Sprintf("step %q may %s, then its output is null and this fails", id, what),
			Hint:    fmt.Sprintf("write steps.%s.output?.…", id), Position: r.Pos,
		})
	}
}

// warnNever warns about a condition that wants a status of another step with which the trigger does not let the step
// run.
func (c *compiler) warnNever(s *compiledStep, trigger machine.Trigger) {
	if s.node.When == nil {
		return
	}
	for _, w := range s.node.When.Wants() {
		never := w.Status == "failed" || w.Status == "cancelled"
		hint := "write trigger: all_done"
		switch {
		case w.Step.Up > 0:
			continue
		case trigger == machine.AllSuccess && w.Status == "skipped":
			never, hint = true, "write trigger: none_failed"
		case trigger != machine.AllSuccess && trigger != machine.NoneFailed:
			continue
		}
		if never {
			c.list = append(c.list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeNeverTrue,
				Message: fmt.Sprintf("step %q never runs: its trigger %s skips it where step %q has %s", s.src.ID,
					cmp.Or(s.src.Trigger, recipe.AllSuccess), w.Name, ended[w.Status]),
				Hint: hint, Position: w.Pos,
			})
		}
	}
}

// ended are the statuses that a trigger may forbid, as said of a step that has them.
var ended = map[string]string{"failed": "failed", "cancelled": "been cancelled", "skipped": "been skipped"}

// skip says how a step may be skipped.
type skip struct {
	byCondition bool // its when is false
	upstream    bool // what it needs was skipped, so that its trigger cannot hold
	fails       bool // it is not skipped: it fails, and the run continues without its output
}

// findSkips works out which steps may be skipped in a run that goes well.
func findSkips(g *machine.Graph, steps []compiledStep) []skip {
	skips := make([]skip, len(steps))
	for _, i := range g.Order {
		s := &steps[i]
		skips[i].byCondition, skips[i].fails = s.src.When.Text != "", s.src.OnError.Continue
		skippable := 0
		for from := range s.edges {
			if from := skips[from]; from.upstream || from.byCondition {
				skippable++
			}
		}
		switch s.node.Trigger {
		case machine.AllSuccess:
			skips[i].upstream = skippable > 0
		case machine.NoneFailed: // a branch is listed from its beginning
			heads, tails, some := false, false, 0
			for _, n := range s.listed {
				heads, tails = heads || skips[n].byCondition, tails || skips[n].upstream
				if skips[n].byCondition || skips[n].upstream {
					some++
				}
			}
			skips[i].upstream = heads && tails && some > 1
		case machine.AnySuccess:
			skips[i].upstream = skippable > 0 && skippable == len(s.edges)
		}
	}
	return skips
}
