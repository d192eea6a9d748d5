package agentloop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/braise-run/braise/runtime"
)

// offer is what the runtime has, as a leg wants to know it.
func (d *driver) offer() *Offer {
	o := &Offer{Models: map[string]ModelOffer{}, Run: describeAll(d.in.Tools), Host: describeAll(d.offers.Tools),
		Allow: d.in.Allow, Deny: d.in.Deny, Limits: d.limits,
		Memory: d.rt.Memory != nil, Retriever: d.rt.Retriever != nil,
		Skills: d.rt.Skills != nil, Instructions: d.rt.Env != nil,
		Inbox: d.rt.Inbox != nil, Archive: d.in.Archive != nil,
		Approver: d.rt.Approver != nil, Policy: d.in.Permit != nil, Describe: describe,
		Ask: func(what string, by func(Progress) (bool, error), p Progress) (bool, error) {
			return guard(context.Background(), d, 0, what, "", func(context.Context) (bool, error) { return by(p) })
		}}
	for name, m := range d.offers.Models {
		if m == nil {
			continue
		}
		o.Models[name] = ModelOffer{}
		if about, ok := m.(runtime.Described); ok {
			o.Models[name] = ModelOffer{about.Metadata().Provider, about.Metadata().Model}
		}
	}
	if d.rt.Env != nil {
		d.env = d.rt.Env.Tools()
		o.Env = describeAll(d.env)
	}
	return o
}

func describeAll(tools []runtime.Tool) []ToolOffer {
	list := make([]ToolOffer, 0, len(tools))
	for _, t := range tools {
		if t != nil {
			list = append(list, describe(t))
		}
	}
	return list
}

// describe describes a tool. An effect over which the tool panics is the worst.
func describe(t runtime.Tool) ToolOffer {
	o := ToolOffer{Spec: t.Spec()}
	if asks, ok := t.(runtime.ApprovalTool); ok {
		o.Approval = Approval(asks.Approval())
	}
	if depends, ok := t.(runtime.EffectTool); ok {
		o.EffectOf = func(args json.RawMessage) (effect runtime.Effect) {
			defer func() {
				if recover() != nil {
					effect = runtime.External
				}
			}()
			return depends.EffectOf(args)
		}
	}
	return o
}

// tool finds the tool that a call is of.
func (d *driver) tool(j *Job) runtime.Tool {
	d.mu.Lock()
	defer d.mu.Unlock()
	tools := map[Scope][]runtime.Tool{OfRun: d.in.Tools, OfHost: d.offers.Tools,
		OfSkill: d.skills[j.Frame], OfEnv: d.env}[j.Scope]
	if j.Scope == OfAgent {
		tools = d.leg.Definition(j.Frame).Own
	}
	for _, t := range slices.Backward(tools) {
		if t != nil && t.Spec().Name == j.Name {
			return t
		}
	}
	return nil
}

// loadSkills asks the loader, and keeps the tools that skills bring.
func (d *driver) loadSkills(ctx context.Context, j *Job) (Reply, error) {
	skills, err := d.rt.Skills.Load(ctx, j.Names)
	if err != nil {
		return Reply{}, err
	}
	r := Reply{Skills: SortSkills(skills)}
	var tools []runtime.Tool
	for _, k := range r.Skills {
		tools = append(tools, k.Tools...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.skills[j.Frame] = tools
	r.Tools = describeAll(tools)
	return r, nil
}

// callLayer calls a function of a layer.
func (d *driver) callLayer(ctx context.Context, j *Job) (string, error) {
	d.mu.Lock()
	layers := d.leg.Definition(j.Frame).Layers
	d.mu.Unlock()
	y := &layers[slices.IndexFunc(layers, func(y Layer) bool { return y.ID == j.Name })]
	switch j.Op {
	case InitLayer:
		return "", y.Init(ctx, j.Key)
	case RecallLayer:
		return y.Recall(ctx, j.Key, j.Text)
	case StoreLayer:
		return "", y.Store(ctx, j.Key, j.Messages)
	case DisposeLayer:
		return "", y.Dispose(ctx, j.Key)
	}
	return "", fmt.Errorf("unknown call %q", cmp.Or(j.Op, "none"))
}
