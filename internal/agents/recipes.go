package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
)

// RecipeTool is a tool that the recipe of an agent defines. Its steps run inside the agent's step.
type RecipeTool struct {
	runtime.ToolSpec         // Effect is the one that the recipe says; "": that of its calls
	Calls            []Inner // that its steps may make
}

// Inner is a call of a tool that the steps of a [RecipeTool] may make.
type Inner struct {
	Tool string
	Args json.RawMessage // as far as they are known; nil: not at all
	// ByAgent says that an agent makes it, which asks for an approval itself.
	ByAgent bool
}

// effects are in order: what comes later does more to the world.
var effects = []runtime.Effect{"", runtime.ReadOnly, runtime.Idempotent, runtime.External}

// Stronger returns the effect that does more to the world.
func Stronger(a, b runtime.Effect) runtime.Effect {
	return effects[max(slices.Index(effects, a), slices.Index(effects, b))]
}

// Strongest is the strongest effect that the steps of the tool can have. spec describes a tool; nil: it is not known.
func (t *RecipeTool) Strongest(spec func(name string) *runtime.ToolSpec) runtime.Effect {
	effect := runtime.ReadOnly
	for i := range t.Calls {
		effect = Stronger(effect, t.Calls[i].effect(spec))
	}
	return effect
}

// effect is that of the call. Of one whose tool is not known it is the strongest.
func (c *Inner) effect(spec func(name string) *runtime.ToolSpec) runtime.Effect {
	s := spec(c.Tool)
	if s == nil {
		return runtime.External
	}
	return s.EffectFor(c.Args)
}

// specOf describes a tool of the host; nil: there is none of that name.
func (o *Offer) specOf(name string) *runtime.ToolSpec {
	for _, list := range [][]runtime.ToolSpec{o.Host, o.Env} {
		for i := len(list) - 1; i >= 0; i-- { // the last one of a name counts
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// recipeTools describes the tools that the recipe defines.
func (x *Execution) recipeTools() map[string]*binding {
	found := map[string]*binding{}
	for i := range x.terms.Tools {
		t := &x.terms.Tools[i]
		b := &binding{ToolSpec: t.ToolSpec, scope: OfRecipe, calls: t.Calls, nested: true}
		b.Effect = Stronger(t.Effect, t.Strongest(x.offer.specOf))
		found[t.Name] = b
	}
	return found
}

// innerApproval is what the host asks for before the calls that the steps of a tool of the recipe may make.
func (b *binding) innerApproval(o *Offer) (need agentloop.Approval) {
	for i := range b.calls {
		c := &b.calls[i]
		if c.ByAgent {
			continue
		}
		g := gatedCall(c.Tool, c.effect(o.specOf), c.Args)
		need = stricter(need, g.approval(o.Approval))
		if spec := o.specOf(c.Tool); spec != nil {
			need = stricter(need, agentloop.Approval(spec.Approval))
		}
	}
	return need
}

// innerDenied reports whether the steps of a tool of the recipe may make a call that the host does not let agents make.
func (b *binding) innerDenied(o *Offer) bool {
	return slices.ContainsFunc(b.calls, func(c Inner) bool {
		g := gatedCall(c.Tool, c.effect(o.specOf), c.Args)
		return !c.ByAgent && g.denied(o.Deny)
	})
}

// nest makes a call of a tool of the recipe: its steps run inside the step of the agent.
func (t *thread) nest(c agentloop.Call) {
	t.want(&Job{Op: RunRecipe, Name: c.Name, Arguments: slices.Clone(c.Arguments)}, func(r Reply) {
		t.cost = Reply{Took: r.Took}
		text, err := "", r.Err
		if err == nil {
			text, err = t.forModel(c.Name, r.Output)
		}
		switch {
		case err == nil:
			t.result("", text)
		case t.execution.cut != nil:
			t.end(err)
		default:
			t.refuse(toolFailed, fmt.Sprintf("%q failed: %v", c.Name, err))
		}
	})
}

// Rest says that nothing continues before somebody answers: the Execution ends as soon as the calls under way have, but
// for tools of the recipe whose steps wait. Another Execution continues with those.
func (x *Execution) Rest() { x.resting = true }

// rests ends a thread that waits for the steps of a tool of the recipe, if the Execution rests.
func (t *thread) rests() bool {
	if t.job == nil || t.job.Op != RunRecipe || !t.execution.resting {
		return false
	}
	delete(t.execution.jobs, t.job)
	t.job = nil
	t.end(cmp.Or(t.execution.cut, errPaused))
	return true
}
