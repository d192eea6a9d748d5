package agentloop

import (
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/programs"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// The tools that mean something to a loop itself.
const (
	AskHuman       = "human.ask" // asks a person
	SubagentPrefix = "agent."    // of the tools that make sub-agents and talk to them
	DelegatePrefix = "delegate_" // of the tools that give a task to a delegate
	HandoffPrefix  = "handoff_"  // of the tools by which another agent takes over the conversation
	ExecTool       = "exec.run"  // whose approvals may be by program, see Loop.Approval
)

// Reserved reports whether a name is one of the loop's own tools.
func Reserved(name string) bool {
	return name == AskHuman || strings.HasPrefix(name, SubagentPrefix) || strings.HasPrefix(name, DelegatePrefix) ||
		strings.HasPrefix(name, HandoffPrefix)
}

// builtinTools are tools that a host may have, whether or not it does.
var builtinTools = []string{ExecTool, "http.request", "file.read", "file.write", AskHuman,
	"docs.search", runtime.StateGet, runtime.StatePut, "agent.spawn", "agent.send", "agent.wait", "agent.close"}

// A key of Approval and an entry of Deny is a tool's name, PREFIX.*, exec.run:PROGRAM, exec.run:* for every
// program, an effect, or *. Of keys that match, the most specific one counts: program, every program, name,
// longest prefix, effect, *.

// AnyTool is the name in AllTools, which no tool has.
const AnyTool = "*"

// AnyProgram is the key for every program that exec.run runs.
const AnyProgram = ExecTool + ":*"

// isEffect reports whether a key is an effect.
func isEffect(key string) bool {
	effects := []runtime.Effect{runtime.ReadOnly, runtime.Idempotent, runtime.External}
	return slices.Contains(effects, runtime.Effect(key))
}

// Unmatched returns the keys of Approval and the entries of Deny that can match none of these tools, sorted. Built-in
// tools, programs, effects and * can match always.
func (l *Loop) Unmatched(tools []string) (approval, deny []string) {
	known := slices.Concat(tools, builtinTools)
	matches := func(key string) bool {
		switch prefix, isPrefix := strings.CutSuffix(key, "*"); {
		case key == "*", isEffect(key):
			return true
		case strings.HasPrefix(key, ExecTool+":"):
			return key == AnyProgram || programs.IsName(key[len(ExecTool)+1:])
		case isPrefix && strings.HasSuffix(prefix, "."):
			return slices.ContainsFunc(known, func(tool string) bool {
				return strings.HasPrefix(tool, prefix) && tool != prefix
			})
		}
		return isOf(known, key)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Approval)) {
		if !matches(key) {
			approval = append(approval, key)
		}
	}
	for _, key := range value.Names(l.Deny) {
		if !matches(key) {
			deny = append(deny, key)
		}
	}
	return approval, deny
}

// isOf reports whether a name is one of these tools. One that ends in .* stands for all with its prefix, see
// runtime.ToolSpec.Missing.
func isOf(tools []string, name string) bool {
	return slices.ContainsFunc(tools, func(tool string) bool {
		prefix, group := strings.CutSuffix(tool, ".*")
		return tool == name || group && strings.HasPrefix(name, prefix+".")
	})
}

// Unknown returns the names that the loop lists in Tools and that are none of these tools, nor built-in or its own,
// sorted.
func (l *Loop) Unknown(tools []string) []string {
	return slices.DeleteFunc(l.Listed(), func(name string) bool {
		return Reserved(name) || isOf(tools, name) || slices.Contains(builtinTools, name) ||
			slices.ContainsFunc(l.Own, func(t runtime.Tool) bool { return t != nil && t.Spec().Name == name })
	})
}

// SuggestTool is a hint about a name that matches none of the tools; "" for none.
func SuggestTool(name string, tools []string) string {
	switch {
	case slices.Contains(builtinTools, name):
		return "list it under tools"
	case strings.HasPrefix(name, ExecTool+":"):
		return "it takes one program's name, such as " + ExecTool + ":git, without folder and arguments, or " +
			AnyProgram + " for all"
	}
	return diagnostics.DidYouMean(name, slices.Concat(tools, builtinTools))
}
