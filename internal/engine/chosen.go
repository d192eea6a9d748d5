package engine

import (
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
)

// chosen returns the tool that a step of the kind tool calls, and the arguments.
func chosen(site *program.Call, input any) (name string, args any, err error) {
	fields, _ := input.(map[string]any)
	name, text := fields["name"].(string)
	names := value.SortedKeys(site.Of)
	switch _, known := site.Of[name]; {
	case !text:
		err = program.ConfigError("tool.name", "%s: the name of a tool must be text, not %s", site.Pos,
			value.TypeName(fields["name"]))
	case !known:
		err = program.ConfigError("tool.name", "%s: %q is not one of the tools that the step may call: %s%s", site.Pos,
			name, strings.Join(names, ", "), program.HintLine(diagnostics.DidYouMean(name, names)))
	}
	return name, fields["args"], err
}

// startOwn begins a step of the kind tool that calls a tool of the recipe, or ends it once the steps inside have
// ended. It returns false for other calls.
func (r *Run) startOwn(c machine.Command) bool {
	t := c.Task
	site := t.Node().Adapter.(*program.Call)
	if site.Of == nil {
		return false
	}
	name, args, err := chosen(site, c.Input)
	tool := site.Own[name]
	if err != nil || tool == nil {
		return false
	}
	output, failure, over, there := t.Inside(labelOfStep(name))
	switch {
	case over:
		p := r.newCall(t, site, r.path(t))
		if p.Name = name; failure != nil {
			own := *failure // its record has no path
			own.Path = ""
			r.finish(p, outcome{size: machine.Unknown, failure: &own})
		} else {
			r.succeeded(p, output, machine.Unknown)
		}
	case !there:
		if args == nil {
			args = map[string]any{}
		}
		r.record(t, r.path(t), journal.ToolEntered{Tool: name, Arguments: args})
	}
	return true
}

func labelOfStep(tool string) string { return "/" + tool }

// applyEntered opens the steps of a tool of the recipe inside a step that calls it.
func (r *Run) applyEntered(t *machine.Task, what journal.ToolEntered) {
	site := t.Node().Adapter.(*program.Call)
	if tool := site.Own[what.Tool]; tool != nil {
		r.m.Enter(t, &tool.Body, labelOfStep(what.Tool), what.Arguments)
	}
}

// namedBy is the tool that a site calls, as far as that is known without an input.
func namedBy(site *program.Call) string {
	if site.Of == nil {
		return site.Name
	}
	return strings.Join(value.SortedKeys(site.Of), " or ")
}
