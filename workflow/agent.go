package workflow

import (
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/program"
)

// AgentOptions are the options of Agent. A nil *AgentOptions is the zero value.
type AgentOptions struct {
	// Archive keeps the summaries for which Compaction.Due asks. nil: none is made.
	Archive agentloop.Archive
}

// Agent makes a Workflow of an agent that is written in Go. The workflow has one step, "agent". Its inputs are the
// texts prompt and, optionally, context. The output is {text, steps, stop_reason}, or the answer if the loop has a
// Schema. Hooks, sinks, retries, budgets, the store and approvals apply as they do to any step.
//
// The data of the loop is part of the Workflow's digest, but not of the recipe that a store keeps. To resume such a
// run, use the methods of the Workflow or set ResumeOptions.Workflow. The error is a *runtime.Error if the loop is
// not valid.
func Agent(loop *agentloop.Loop, o *AgentOptions) (*Workflow, error) {
	if o == nil {
		o = &AgentOptions{}
	}
	return newWorkflow(program.CompileLoop(loop, o.Archive))
}
