package call

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// Offer is what the runtime offers to agents, the same for all agents of the run.
func (c *Caller) Offer() (*agents.Offer, error) {
	c.once.Do(func() {
		defer func() {
			if p := recover(); p != nil {
				text := c.Redact.Text(fmt.Sprintf("panic in a tool that was asked about itself: %v", p))
				c.offered.err = &engine.PanicError{Text: text, Stack: stack()}
			}
		}()
		c.offer = c.makeOffer()
	})
	return c.offer, c.offered.err
}

func (c *Caller) makeOffer() *agents.Offer {
	rt := c.rt
	o := &agents.Offer{Models: map[string]agents.ModelOffer{}, Listed: listedOnly(c.Offers.Tools),
		Host:   c.describeAll(c.Offers.Tools),
		Limits: rt.Limits.WithDefaults(),
		Memory: rt.Memory != nil, Retriever: rt.Searcher(runtime.DefaultSearcher) != nil,
		Skills: rt.Skills != nil, Instructions: rt.Env != nil,
		Inbox: rt.Inbox != nil, Archive: c.Archive != nil, Approver: rt.Approver != nil,
		Policy:   c.Hooked() || c.remote != nil && c.remote.Hooked,
		Approval: approvalsOf(rt), Deny: rt.Deny, Agents: rt.Agents,
		Describe: c.describe, Ask: c.ask, NoModel: c.Offers.WhyNoModel}
	for name := range c.Offers.Models {
		if m, ok := c.Model(name); ok {
			o.Models[name] = m.ModelOffer
		}
	}
	if rt.Env != nil {
		o.Env = c.describeAll(c.env)
	}
	return o
}

// Changing describes the tools that a program may call and that may change, see [runtime.ToolSpec]; nil: there are
// none.
func (c *Caller) Changing(p *program.Program) (tools map[string]runtime.ToolSpec) {
	all := slices.ContainsFunc(p.Calls, func(call *program.Call) bool {
		return call.Agents != nil && (call.Agents.Unrestricted() || len(p.Has.Open) > 0)
	})
	for _, spec := range c.Offers.ToolSpecs() {
		if spec.Changes && spec.Missing == "" && (all || program.IndexOf(p.Tools, spec.Name) >= 0) {
			if tools == nil {
				tools = map[string]runtime.ToolSpec{}
			}
			tools[spec.Name] = spec
		}
	}
	return tools
}

// listedOnly are the tools that only agents have which list them. The last one of a name counts.
func listedOnly(tools []runtime.Tool) map[string]bool {
	listed := map[string]bool{}
	for _, t := range tools {
		_, listed[t.Spec().Name] = t.(runtime.PortTool)
	}
	return listed
}

// approvalsOf returns the host's approval settings for calls by agents.
func approvalsOf(rt *runtime.Runtime) map[string]agentloop.Approval {
	keys := make(map[string]agentloop.Approval, len(rt.Approval))
	for key, word := range rt.Approval {
		keys[key] = agentloop.Approval(word)
	}
	return keys
}

func (c *Caller) describeAll(tools []runtime.Tool) []runtime.ToolSpec {
	list := make([]runtime.ToolSpec, 0, len(tools))
	for _, t := range tools {
		if t != nil {
			list = append(list, c.describe(t))
		}
	}
	return list
}

// describe describes a tool. If asking it for its effect fails, the worst effect is assumed.
func (c *Caller) describe(t runtime.Tool) runtime.ToolSpec {
	spec := t.Spec()
	if c.remote == nil && spec.EffectOf != nil {
		spec.EffectOf = alone(spec.EffectOf)
	}
	return described(spec)
}

// Describe describes a tool. If the tool panics when asked for its effect, the worst effect is assumed.
func Describe(t runtime.Tool) runtime.ToolSpec { return described(t.Spec()) }

func described(spec runtime.ToolSpec) runtime.ToolSpec {
	if of := spec.EffectOf; of != nil {
		spec.EffectOf = func(args json.RawMessage) (effect runtime.Effect) {
			defer func() {
				if recover() != nil {
					effect = runtime.External
				}
			}()
			return of(args)
		}
	}
	return spec
}

// ask calls a predicate of an agent. A predicate that panics has failed.
func (c *Caller) ask(
	what string, by func(agentloop.Progress) (bool, error), p agentloop.Progress,
) (ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			ok, err = false, &agents.PanicError{Text: c.Redact.Text(fmt.Sprintf("panic in %s: %v", what, v))}
		}
	}()
	if ok, err = by(p); err != nil {
		_ = err.Error() // if it panics, it does so here
	}
	return ok, err
}
