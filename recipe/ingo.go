package recipe

import (
	"maps"
	"slices"
)

// AgentsInGo are the digests of agents that are written in Go and that the recipe was compiled with, by the names that
// it uses; nil: there are none. They count for its Digest. It must not be changed.
func (r *Recipe) AgentsInGo() map[string]string { return r.inGo }

// WithAgentsInGo returns a copy of the recipe that was compiled with these agents, with a Digest of its own if r has
// one. The error is that of ComputeDigest.
func (r *Recipe) WithAgentsInGo(inGo map[string]string) (*Recipe, error) {
	c := *r
	c.inGo = inGo
	if c.Digest == "" {
		return &c, nil
	}
	var err error
	c.Digest, err = c.ComputeDigest()
	return &c, err
}

// Outside returns the agents that a step of the kind agent may run and that r does not have: the one that it names,
// and those that get tasks or the conversation. begins reports that an expression names the agent, so that it may be
// any; any that an expression names it or a delegate.
func (r *Recipe) Outside(s *Step) (names []Name, begins, any bool) {
	add := func(n Name) {
		known := slices.ContainsFunc(r.Agents, func(a Agent) bool { return a.ID == n.Text })
		if !known && !slices.ContainsFunc(names, func(o Name) bool { return o.Text == n.Text }) {
			names = append(names, n)
		}
	}
	if asked := s.With.get("agent"); asked != nil && !asked.IsMap {
		if id, ok := asked.Literal().(string); ok && !asked.HasExpression() {
			add(Name{Text: id, Pos: asked.Pos})
		}
		begins = asked.HasExpression()
	}
	any = begins
	for _, a := range r.AgentsOf(s) {
		any = any || a.delegatesToAny()
		for _, id := range a.Others() {
			add(id)
		}
	}
	return names, begins, any
}

// inGoOf returns the digests of the agents in Go that a step may run.
func (d *stepDigests) inGoOf(r *Recipe, s *Step) map[string]string {
	if len(d.inGo) == 0 {
		return nil
	}
	names, _, any := r.Outside(s)
	if any {
		return d.inGo
	}
	own := maps.Clone(d.inGo)
	maps.DeleteFunc(own, func(id, _ string) bool {
		return !slices.ContainsFunc(names, func(n Name) bool { return n.Text == id })
	})
	return own
}

func inGoEssence(digests map[string]string) map[string]any {
	e := make(map[string]any, len(digests))
	for id, digest := range digests {
		e[id] = digest
	}
	return e
}
