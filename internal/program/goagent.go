package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/recipe"
)

// goAgent begins the description of a recipe whose agent is written in Go. The digest of the agent follows.
const goAgent = "An agent written in Go: "

// CompileLoop compiles a recipe of one step, agent, that runs a loop. Its inputs are prompt and context, and its
// output is the agent's. archive keeps what compaction removes from conversations; nil: none.
func CompileLoop(l *agentloop.Loop, archive agentloop.Archive) (*Program, error) {
	if err := l.Validate(); err != nil {
		return nil, ConfigError("agent.invalid", "%w", err)
	}
	spec := map[string]any{}
	if l.Model != "" {
		spec["model"] = l.Model
	}
	step := map[string]any{"uses": "agent", "with": map[string]any{"agent": spec,
		"prompt": "${{ inputs.prompt }}", "context": "${{ inputs.context }}"}}
	if l.Schema != nil {
		step["output"] = map[string]any{"schema": l.Schema}
	}
	text, err := flow(map[string]any{"apiVersion": "braise/v1", "name": "agent", "description": goAgent + l.Digest(),
		"inputs": map[string]any{"prompt": map[string]any{"type": "string"},
			"context": map[string]any{"type": "string", "default": ""}},
		"steps":  map[string]any{"agent": step},
		"output": "${{ steps.agent.output }}"})
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse(fmt.Sprintf("agent %s", l.Name), text)
	if err != nil {
		return nil, err
	}
	p, err := Compile(r, nil, false)
	if err != nil {
		return nil, err
	}
	p.Archive = archive
	p.Overlaps = overlaps(l, map[*agentloop.Loop]bool{})
	p.Calls[0].Agents.Defs[""] = &agentDef{Loop: *l}
	return p, nil
}

// InGo reports whether a recipe is for an agent that is written in Go, so that it does not describe the agent.
func InGo(r *recipe.Recipe) bool { return strings.HasPrefix(r.Description, goAgent) }

// flow writes YAML on one line.
func flow(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err != nil {
		err = errors.Join(errors.New("the schema of the answer is not JSON"), err)
	}
	return b.Bytes(), err
}

// overlaps reports whether calls of a loop, or of one that it delegates to, may overlap.
func overlaps(l *agentloop.Loop, seen map[*agentloop.Loop]bool) bool {
	if l == nil || seen[l] {
		return false
	}
	seen[l] = true
	several := l.ToolConcurrency > 1
	for _, d := range l.Delegates {
		several = overlaps(d, seen) || several
	}
	return several
}
