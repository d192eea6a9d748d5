package workflow

import (
	"maps"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// unknownTools refuses a run with an agent that does not list its tools and whose approval names none of those that
// there are. Where skills or the environment may bring tools, the agent finds out when it begins.
func (wf *Workflow) unknownTools(offers *runtime.Resolution, rt *runtime.Runtime) error {
	for _, call := range wf.program.Calls {
		if call.Agents == nil || rt.Env != nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(call.Agents.Defs)) {
			def := call.Agents.Defs[id]
			if def.Loop.Tools != nil || len(def.Loop.Skills) > 0 {
				continue
			}
			known := program.DelegateTools(def)
			for _, t := range offers.Tools {
				known = append(known, t.Spec().Name)
			}
			if names, _ := def.Loop.Unmatched(known); len(names) > 0 {
				return program.ConfigError(diagnostics.CodeUnknownTool,
					"%s: approval of agent %q names %q, which is no tool%s",
					call.Pos, def.Loop.Name, names[0], program.HintLine(agentloop.SuggestTool(names[0], known)))
			}
		}
	}
	return nil
}
