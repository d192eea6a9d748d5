package agentloop

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// ApproveRefuse offers a tool, and refuses each call of it with a result that says so.
const ApproveRefuse Approval = "refuse"

// builtinTools are tools that a host may have, whether or not it does.
var builtinTools = []string{execTool, "http.request", "file.read", "file.write", askHuman,
	"agent.spawn", "agent.send", "agent.wait", "agent.close"}

// A key of Approval and an entry of Deny is a tool's name, PREFIX.*, exec.run:PROGRAM, an effect, or *. Of keys
// that match, the most specific one counts: program, name, longest prefix, effect, *.

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
		case strings.HasPrefix(key, execTool+":"):
			return len(key) > len(execTool)+1
		case isPrefix && strings.HasSuffix(prefix, "."):
			return slices.ContainsFunc(known, func(tool string) bool {
				return strings.HasPrefix(tool, prefix) && tool != prefix
			})
		}
		return slices.Contains(known, key)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Approval)) {
		if !matches(key) {
			approval = append(approval, key)
		}
	}
	for _, key := range normal(l.Deny) {
		if !matches(key) {
			deny = append(deny, key)
		}
	}
	return approval, deny
}

// prefixOf returns the longest PREFIX.* among the keys that matches a tool; "" for none.
func prefixOf(tool string, has func(key string) bool) string {
	for i := len(tool) - 1; i > 0; i-- {
		if key := tool[:i] + "*"; tool[i-1] == '.' && has(key) {
			return key
		}
	}
	return ""
}

// programsOf are the programs that a call of exec.run begins; false when they are not plain to see.
func programsOf(args json.RawMessage) ([]string, bool) {
	v, err := value.DecodeStrict(args)
	m, _ := v.(map[string]any)
	list, _ := m["argv"].([]any)
	argv := make([]string, len(list))
	for i, a := range list {
		argv[i], _ = a.(string)
	}
	names, plain := commandNames(argv, nil)
	return names, plain && err == nil
}

// approvalFor says whether a call needs an approval. effect is "" for the loop's own tools.
func (l *Loop) approvalFor(tool string, effect runtime.Effect, args json.RawMessage) Approval {
	need := l.approvalOf(tool, effect)
	if tool != execTool {
		return need
	}
	programs, plain := programsOf(args)
	if !plain { // it may be any of them
		for _, key := range value.SortedKeys(l.Approval) {
			if strings.HasPrefix(key, execTool+":") {
				need = stricter(need, l.Approval[key])
			}
		}
		return need
	}
	var strictest Approval
	for _, name := range programs {
		a, exact := l.Approval[execTool+":"+name]
		if base, known := l.Approval[execTool+":"+path.Base(name)]; !exact {
			if a = need; known { // another program of that name
				a = stricter(a, base)
			}
		}
		strictest = stricter(strictest, a)
	}
	return strictest
}

// approvalOf is approvalFor for a tool, whatever it is called with.
func (l *Loop) approvalOf(tool string, effect runtime.Effect) Approval {
	has := func(key string) bool { _, ok := l.Approval[key]; return ok }
	switch {
	case has(tool):
		return l.Approval[tool]
	case prefixOf(tool, has) != "":
		return l.Approval[prefixOf(tool, has)]
	case tool == askHuman || strings.HasPrefix(tool, subagentPrefix):
		return ApproveNever
	case effect != "" && has(string(effect)):
		return l.Approval[string(effect)]
	}
	return l.Approval["*"]
}

// denies reports whether a list of tools that may not be called has one that is not offered. effect is "" for the
// loop's own tools and for those whose effect depends on their arguments.
func denies(deny []string, tool string, effect runtime.Effect) bool {
	has := func(key string) bool { return slices.Contains(deny, key) }
	return has(tool) || has("*") || prefixOf(tool, has) != "" || effect != "" && has(string(effect))
}

// deniesCall is denies for what depends on the arguments: the effect, and programs.
func deniesCall(deny []string, tool string, effect runtime.Effect, args json.RawMessage) bool {
	if denies(deny, tool, effect) {
		return true
	}
	if tool != execTool {
		return false
	}
	programs, plain := programsOf(args)
	return slices.ContainsFunc(deny, func(key string) bool {
		program, ok := strings.CutPrefix(key, execTool+":")
		return ok && (!plain || slices.ContainsFunc(programs, func(name string) bool {
			return name == program || path.Base(name) == program
		}))
	})
}

// SuggestTool says which of the tools, or of the built-in ones, a name that matches none may stand for; "" for none.
func SuggestTool(name string, tools []string) string {
	return diagnostics.DidYouMean(name, slices.Concat(tools, builtinTools))
}
