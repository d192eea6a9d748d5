package scenario

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/workflow"
)

// noStep reports the steps that the scripts of the scenario name and a plan does not have; nil: it has them all. What
// agents, and recipes that are found in the run, do in their steps is not in a plan.
func (s *scenario) noStep(plan *workflow.Plan) error {
	named := map[string]diagnostics.Position{}
	if s.tools != nil {
		named = s.tools.Steps()
	}
	if s.script != nil {
		maps.Copy(named, s.script.Steps())
	}
	steps := map[string]bool{} // whether the plan knows the body
	for level := plan.Steps; len(level) > 0; {
		below := level[:0:0]
		for _, step := range level {
			steps[step.ID] = step.Body != nil
			below = append(below, step.Body...)
		}
		level = below
	}
	var errs []error
	for _, path := range slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return strings.Compare(named[a].String()+a, named[b].String()+b)
	}) {
		plain := turns.ReplaceAllString(path, "")
		if hasStep(steps, plain) {
			continue
		}
		text := fmt.Sprintf("%s: the recipe has no step %q", named[path], path)
		if hint := diagnostics.DidYouMean(plain, slices.Collect(maps.Keys(steps))); hint != "" {
			text += "\n  hint: " + hint
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// turns are the parts of a path that say which item of a foreach, which round of a loop, or that a step is undone.
var turns = regexp.MustCompile(`\[[^\]]*\]|#[0-9]+|!rollback`)

// hasStep reports whether a plan has a step, or may have it inside one whose body it does not know.
func hasStep(steps map[string]bool, path string) bool {
	if _, ok := steps[path]; ok {
		return true
	}
	for end := strings.LastIndexAny(path, "/:"); end > 0; end = strings.LastIndexAny(path[:end], "/:") {
		if known, ok := steps[path[:end]]; ok {
			return !known
		}
	}
	return false
}
