package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// Requires lists the names of what a run needs, sorted.
type Requires struct {
	Models     []string `json:"models"` // those that are known; see Open
	Tools      []string `json:"tools"`
	Secrets    []string `json:"secrets"`
	Retrievers []string `json:"retrievers,omitempty"` // those that are looked in, or written to
	Rerankers  []string `json:"rerankers,omitempty"`
	Embedders  []string `json:"embedders,omitempty"` // that the retrievers ask; see With
	Skills     []string `json:"skills,omitempty"`
	Agents     []string `json:"agents,omitempty"` // that are written in Go, see Options.Agents
	Memory     bool     `json:"memory,omitempty"` // an agent remembers earlier runs
	Open       []string `json:"open,omitempty"`   // models, skills, tools: of these, expressions may name others
}

func requiresOf(p *program.Program) Requires {
	r := Requires{Models: names(p.Models), Tools: names(p.Tools), Secrets: names(p.Secrets),
		Agents: slices.Sorted(maps.Keys(p.Recipe.AgentsInGo()))}
	for _, u := range p.Has.Open {
		r.Open = append(r.Open, u.Name)
	}
	for _, u := range p.Ports {
		switch port, name := u.Place(); port {
		case program.SearcherPort, program.IndexPort:
			r.Retrievers = append(r.Retrievers, name)
		case program.RerankerPort:
			r.Rerankers = append(r.Rerankers, name)
		case program.SkillPort:
			r.Skills = append(r.Skills, name)
		}
		r.Memory = r.Memory || u.Name == "memory"
	}
	slices.Sort(r.Retrievers) // a place may be written to and looked in
	r.Retrievers = slices.Compact(r.Retrievers)
	return r
}

// With adds to the plan what its retrievers and rerankers need in a runtime: their embedders. It returns p.
func (p *Plan) With(rt *runtime.Runtime) *Plan {
	var adapters []any
	for _, name := range p.Requires.Retrievers {
		adapters = append(adapters, rt.Searcher(name))
	}
	for _, name := range p.Requires.Rerankers {
		adapters = append(adapters, rt.Rerankers[name])
	}
	for _, a := range adapters {
		if d, ok := a.(runtime.Described); ok {
			p.Requires.Embedders = append(p.Requires.Embedders, d.Metadata().Spends...)
		}
	}
	slices.Sort(p.Requires.Embedders)
	p.Requires.Embedders = slices.Compact(p.Requires.Embedders)
	return p
}

// text lists the requirements, a line each.
func (r *Requires) text(b *strings.Builder) {
	for _, one := range []struct {
		what string
		list []string
	}{{"models", r.Models}, {"tools", r.Tools}, {"secrets", r.Secrets},
		{"retrievers", r.Retrievers}, {"rerankers", r.Rerankers}, {"embedders", r.Embedders},
		{"skills", r.Skills}, {"agents in Go", r.Agents}} {
		if len(one.list) > 0 {
			b.WriteString("needs " + one.what + ": " + strings.Join(one.list, ", ") + "\n")
		}
	}
	if r.Memory {
		b.WriteString("needs memory\n")
	}
	if len(r.Open) > 0 {
		b.WriteString("may need more that expressions name: " + strings.Join(r.Open, ", ") + "\n")
	}
}
