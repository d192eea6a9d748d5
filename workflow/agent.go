package workflow

import (
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/program"
)

// AgentOptions are what Agent may know beside the loop. A nil *AgentOptions is the zero value.
type AgentOptions struct {
	// Archive keeps the summaries for which Compaction.Due asks. nil: none is made.
	Archive agentloop.Archive
}

// Agent makes a Workflow of an agent that is written in Go: one step, "agent", whose inputs are prompt and context,
// two texts of which context may be left out. The output is {text, steps, stop_reason}, or the answer of a loop with
// a Schema. Hooks, sinks, retries, budgets, store and approvals hold for it as for any step.
//
// The loop is part of the Workflow's digest, as far as it is data, but not of the recipe that a store keeps: whoever
// goes on with such a run gives the Workflow, by its methods or by ResumeOptions.Workflow. The error is a
// *runtime.Error for a loop that is not valid.
func Agent(loop *agentloop.Loop, o *AgentOptions) (*Workflow, error) {
	if o == nil {
		o = &AgentOptions{}
	}
	return newWorkflow(program.CompileLoop(loop, o.Archive))
}
