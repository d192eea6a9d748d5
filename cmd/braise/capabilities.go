package main

import (
	"maps"
	"slices"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// planWithCapabilities is a plan with what the host offers for it.
type planWithCapabilities struct {
	*workflow.Plan
	Capabilities []capability `json:"capabilities"`
}

// capability is one thing that runs may use: a model or the tools, by name, and where it is from.
type capability struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"` // host: braise.yaml and flags; builtin: every installation has it
}

func capabilities(rt *runtime.Runtime) []capability {
	list := []capability{}
	if names := slices.Sorted(maps.Keys(rt.Models)); len(names) > 0 {
		list = append(list, capability{"model", names, "host"})
	}
	var tools []string
	for _, spec := range rt.ToolSpecs() {
		tools = append(tools, spec.Name)
	}
	slices.Sort(tools)
	return append(list, capability{"tools", tools, "builtin"})
}
