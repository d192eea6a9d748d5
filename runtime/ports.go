package runtime

import (
	"maps"
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// Equipped returns rt with the ports of its plugins in place, as [Runtime.Resolve] chooses them; it is rt itself if
// they bring none. It reads fields only.
func (rt *Runtime) Equipped() *Runtime {
	if len(rt.Plugins) == 0 {
		return rt
	}
	r := &Resolution{chosen: map[string]offer{}}
	r.takeSlots(rt.Plugins)
	return r.equip(rt)
}

// equip returns a copy of rt with the ports that count, and notes in r.chosen whose they are: for each port the one
// that Runtime.Providers chooses, else the host's, else that of the first plugin that has one. Trace sinks add up.
func (r *Resolution) equip(rt *Runtime) *Runtime {
	own := *rt
	port(r, rt, "approver", &own.Approver, func(p *Plugin) Approver { return p.Approver })
	port(r, rt, "env", &own.Env, func(p *Plugin) Env { return p.Env })
	port(r, rt, "memory", &own.Memory, func(p *Plugin) Memory { return p.Memory })
	port(r, rt, "retriever", &own.Retriever, func(p *Plugin) Retriever { return p.Retriever })
	port(r, rt, "skills", &own.Skills, func(p *Plugin) SkillLoader { return p.Skills })
	own.Trace = slices.Clip(own.Trace)
	names := maps.Clone(rt.Prices)
	for _, p := range r.Plugins {
		own.Trace = append(own.Trace, p.Trace...)
		if names == nil && len(p.Prices) > 0 {
			names = map[string]Price{}
		}
		maps.Copy(names, p.Prices)
	}
	own.Prices = maps.Clone(names)
	for _, name := range value.SortedKeys(names) {
		price, priced := rt.Prices[name]
		best := &price
		if !priced {
			best = nil
		}
		port(r, rt, "price:"+name, &best, func(p *Plugin) *Price {
			if price, ok := p.Prices[name]; ok {
				return &price
			}
			return nil
		})
		own.Prices[name] = *best
	}
	return &own
}

// port puts into what the host has of a port the offer that counts; a zero T is none.
func port[T comparable](r *Resolution, rt *Runtime, key string, host *T, of func(*Plugin) T) {
	var none T
	var offers []offer
	if *host != none {
		offers = append(offers, hostOffer(nil))
	}
	for i := range r.Plugins {
		if of(&r.Plugins[i]) != none {
			offers = append(offers, offer{fromPlugin, r.Plugins[i].Key, i})
		}
	}
	if offers == nil {
		return
	}
	choice, explicit := rt.Providers[key]
	best := r.choose(key, offers, choice, explicit)
	if r.chosen[key] = best; best.from == fromPlugin {
		*host = of(&r.Plugins[best.plugin])
	}
}
