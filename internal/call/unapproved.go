package call

import (
	"maps"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// Unapproved reports the agents of a program whose calls need an approval, although no approver is configured: each
// agent once per step.
func Unapproved(p *program.Program, offers *runtime.Resolution) (list diagnostics.List) {
	if offers.Runtime.Approver != nil {
		return nil
	}
	for _, call := range p.Calls {
		if call.Agents == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(call.Agents.Defs)) {
			def := call.Agents.Defs[id]
			loop := &def.Loop
			tools := toolsFor(call.Agents, loop, offers)
			if what := agents.AlwaysAsks(loop, tools, program.ToolsToOthers(def)); what != "" {
				list = append(list, warning(diagnostics.CodeNoApprover, program.Use{Pos: call.Pos, Step: call.Step},
					`"pause" waits for an answer; at a terminal "always" asks there`,
					"agent %q: %q needs an approval, and nobody can be asked: such calls are refused", loop.Name, what))
			}
		}
	}
	return list
}

// toolsFor are the tools of the host, of a loop itself and of its recipe.
func toolsFor(set *program.AgentSet, loop *agentloop.Loop, offers *runtime.Resolution) []runtime.ToolSpec {
	tools := offersOf(slices.Concat(offers.Tools, loop.Own))
	for i := range tools {
		tools[i].Approval = string(agents.ApprovalOf(approvalsOf(offers.Runtime), &tools[i]))
	}
	for _, own := range set.Own() {
		own.Effect = agents.Stronger(own.Effect, own.Strongest(specIn(tools)))
		tools = append(tools, own.ToolSpec)
	}
	return tools
}

// AgentTools says what an agent of a step may call.
type AgentTools struct {
	Step  string           `json:"step"`
	Agent string           `json:"agent"`
	All   bool             `json:"all,omitempty"`  // that are allowed; more may come with skills and the environment
	Open  bool             `json:"open,omitempty"` // expressions give them: these are those that are known
	Tools []agents.Allowed `json:"tools"`
}

// ToolsOfAgents returns what each agent of a program may call, by steps in plan order.
func ToolsOfAgents(p *program.Program, offers *runtime.Resolution) (list []AgentTools) {
	o := &agents.Offer{Listed: listedOnly(offers.Tools), Approval: approvalsOf(offers.Runtime),
		Deny: offers.Runtime.Deny, Agents: offers.Runtime.Agents}
	for _, call := range p.Calls {
		if call.Agents == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(call.Agents.Defs)) {
			def := call.Agents.Defs[id]
			loop := def.MayBe()
			list = append(list, AgentTools{call.Step, loop.Name, loop.HasAllTools(), def.ChoosesTools(),
				agents.AllowedTools(&loop, toolsFor(call.Agents, &loop, offers), program.ToolsToOthers(def), o)})
		}
	}
	return list
}

// specIn finds a tool by its name; nil: there is none.
func specIn(tools []runtime.ToolSpec) func(name string) *runtime.ToolSpec {
	return func(name string) *runtime.ToolSpec {
		if i := slices.IndexFunc(tools, func(t runtime.ToolSpec) bool { return t.Name == name }); i >= 0 {
			return &tools[i]
		}
		return nil
	}
}

// offersOf describes tools for an agent. A tool that panics is reported when the agent begins.
func offersOf(tools []runtime.Tool) (list []runtime.ToolSpec) {
	for _, t := range tools {
		func() {
			defer func() { _ = recover() }()
			list = append(list, Describe(t))
		}()
	}
	return list
}
