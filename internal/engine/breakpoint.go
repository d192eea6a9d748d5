package engine

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// atBreakpoint reports whether the run pauses before a step with this path in the run because of the breakpoint. The
// breakpoint is such a path, too; where it has no number of an item or a round, it is for all of them. item: the path
// is that of an item of a foreach, for which the breakpoint needs the number, as the run pauses before the foreach
// otherwise.
func atBreakpoint(breakpoint, path string, item bool) bool {
	points, parts := strings.Split(breakpoint, "/"), strings.Split(path, "/")
	if len(points) != len(parts) {
		return false
	}
	for i, part := range parts {
		each, _, _ := strings.Cut(part, "#") // without its round
		switch p := points[i]; {
		case p == part:
		case item && i == len(parts)-1, p != each && p != resume.DefinitionPath(part):
			return false
		}
	}
	return true
}

// breakpoints are the paths of the steps before which a run pauses.
type breakpoints []string

// before reports whether the run pauses before a task.
func (s breakpoints) before(t *machine.Task) bool {
	return len(s) > 0 && slices.ContainsFunc(s, func(p string) bool {
		return atBreakpoint(p, t.Path(), t.Whole() != t)
	})
}

// maxShown is how large the input of a step may be, as JSON, that a pause before the step shows.
const maxShown = 64 << 10

// pauseBefore is the pause before a step. It shows the step's input, where that is known and not large.
func pauseBefore(t *machine.Task, redact *value.Redactor) resume.Pause {
	var input any
	if n := t.Node(); n.With != nil && (n.Foreach == nil || t.Whole() != t) {
		v, err := n.With.Eval(t)
		if err == nil {
			v, err = shownSealed(v)
		}
		if err == nil {
			input = redact.Value(v)
		}
	}
	if size, err := value.Size(input, maxShown); err != nil || size > maxShown {
		input = nil
	}
	return resume.Pause{Kind: resume.System, Reason: journal.Breakpoint, Prompt: "Start this step?", Show: input,
		Decisions: []string{"continue"}}
}

// shownSealed shows an input as the recipe names its secrets: ${{ secrets.NAME }}.
func shownSealed(input any) (any, error) {
	return expr.Open(input, func(part expr.SealedPart) (string, error) {
		return "${{ secrets." + part.Secret + " }}", nil
	})
}

// atBreak returns the task with a path that waits at a breakpoint and has opened no pause; nil: none does.
func (p *leftOver) atBreak(path string) *machine.Task {
	i := slices.IndexFunc(p.pending, func(c machine.Command) bool {
		return c.Op == machine.Open && c.Task.AtBreakpoint() && c.Task.Path() == path
	})
	if i < 0 {
		return nil
	}
	return p.pending[i].Task
}
