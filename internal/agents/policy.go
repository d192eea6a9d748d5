package agents

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/programs"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// prefixOf returns the longest PREFIX.* among the keys that matches a tool; "" for none.
func prefixOf(tool string, has func(key string) bool) string {
	for i := len(tool) - 1; i > 0; i-- {
		if tool[i-1] != '.' {
			continue
		}
		if key := tool[:i] + "*"; has(key) {
			return key
		}
	}
	return ""
}

// gated is a call of a tool as the gates see it, read once for all of them.
type gated struct {
	tool   string
	effect runtime.Effect // "" for the loop's own tools
	args   json.RawMessage
	exec   execCall // zero for other tools than exec.run
}

func gatedCall(tool string, effect runtime.Effect, args json.RawMessage) gated {
	g := gated{tool: tool, effect: effect, args: args}
	if tool == agentloop.ExecTool {
		g.exec = readExec(args)
	}
	return g
}

// execCall is a call of exec.run, as far as approvals go. The zero value may run any program.
type execCall struct {
	Argv  []string          `json:"argv"`
	Dir   string            `json:"dir,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Stdin string            `json:"stdin,omitempty"`

	programs []string // that it runs, as far as its words say so
	plain    bool     // it runs no others
}

// execMembers are the arguments of exec.run.
var execMembers = []string{"allow_code", "argv", "dir", "effect", "env", "stdin", "timeout"}

// readExec reads the arguments of a call of exec.run. What it cannot read may run any program.
func readExec(args json.RawMessage) execCall {
	v, err := value.DecodeStrict(args)
	m, _ := v.(map[string]any)
	for _, name := range value.SortedKeys(m) {
		if !slices.Contains(execMembers, name) { // another spelling of argv, say
			return execCall{}
		}
	}
	var c execCall
	if err != nil || json.Unmarshal(args, &c) != nil {
		return execCall{}
	}
	c.programs, c.plain = programs.Of(c.Argv)
	return c
}

// approvals are those of a loop or of an installation, see [agentloop.Loop].
type approvals = map[string]agentloop.Approval

// approval says which approval keys ask for before the call.
func (g *gated) approval(keys approvals) agentloop.Approval {
	need := approvalOf(keys, g.tool, g.effect)
	if g.tool != agentloop.ExecTool {
		return need
	}
	if all, ok := keys[agentloop.AnyProgram]; ok {
		need = all
	}
	if !g.exec.plain { // it may be any of them
		for _, key := range value.SortedKeys(keys) {
			if strings.HasPrefix(key, agentloop.ExecTool+":") {
				need = stricter(need, keys[key])
			}
		}
		return need
	}
	var strictest agentloop.Approval
	for _, name := range g.exec.programs {
		a, exact := keys[agentloop.ExecTool+":"+name]
		if base, known := keys[agentloop.ExecTool+":"+path.Base(name)]; !exact {
			if a = need; known { // another program of that name
				a = stricter(a, base)
			}
		}
		strictest = stricter(strictest, a)
	}
	return strictest
}

// approvalOf says which approval keys ask for before a tool is called, whatever it is called with. effect is "" for the
// loop's own tools.
func approvalOf(keys approvals, tool string, effect runtime.Effect) agentloop.Approval {
	has := func(key string) bool { _, ok := keys[key]; return ok }
	switch {
	case has(tool):
		return keys[tool]
	case prefixOf(tool, has) != "":
		return keys[prefixOf(tool, has)]
	case tool == agentloop.AskHuman || strings.HasPrefix(tool, agentloop.SubagentPrefix):
		return agentloop.ApproveNever
	case effect != "" && has(string(effect)):
		return keys[string(effect)]
	}
	return keys["*"]
}

// denies reports whether a list of tools that may not be called has one that is not offered. effect is "" for the
// loop's own tools and for those whose effect depends on their arguments.
func denies(deny []string, tool string, effect runtime.Effect) bool {
	has := func(key string) bool { return slices.Contains(deny, key) }
	return has(tool) || has("*") || prefixOf(tool, has) != "" || effect != "" && has(string(effect))
}

// mayCall reports whether the lists of the loop let it call a tool, with some arguments at least.
func mayCall(l *agentloop.Loop, t *runtime.ToolSpec) bool {
	return !denies(value.Names(l.Deny), t.Name, fixedEffect(t)) &&
		(l.HasAllTools() || slices.Contains(l.Listed(), t.Name))
}

// AlwaysAsks names what the loop may call with an approval that cannot wait: a tool, or a key where the tools are not
// all known; "": nothing. delegates are the names of its tools of that kind.
func AlwaysAsks(l *agentloop.Loop, offered []runtime.ToolSpec, delegates []string) string {
	effects := []runtime.Effect{runtime.ReadOnly, runtime.Idempotent, runtime.External}
	for _, key := range value.SortedKeys(l.Approval) {
		program := strings.HasPrefix(key, agentloop.ExecTool+":")
		effect := slices.Contains(effects, runtime.Effect(key))
		if l.Approval[key] == agentloop.ApproveAlways &&
			(l.HasAllTools() || program || effect && !knowsEffects(l, offered)) {
			return key
		}
	}
	for i := range offered {
		t := &offered[i]
		if mayCall(l, t) && ApprovalOf(l.Approval, t) == agentloop.ApproveAlways {
			return t.Name
		}
	}
	for _, name := range value.Names(slices.Concat(l.Listed(), delegates)) {
		known := slices.ContainsFunc(offered, func(t runtime.ToolSpec) bool { return t.Name == name })
		if !known && !denies(value.Names(l.Deny), name, "") &&
			approvalOf(l.Approval, name, "") == agentloop.ApproveAlways {
			return name
		}
	}
	return ""
}

// ApprovalOf says which approval keys ask for before a tool is called, as far as its arguments do not matter.
func ApprovalOf(keys map[string]agentloop.Approval, t *runtime.ToolSpec) agentloop.Approval {
	return stricter(approvalOf(keys, t.Name, fixedEffect(t)), agentloop.Approval(t.Approval))
}

// Allowed is a tool that a loop may call, with the approval that this needs as far as the arguments do not matter.
type Allowed struct {
	Tool     string             `json:"tool"` // PREFIX.* for several; exec.run:PROGRAM has an approval of its own
	Approval agentloop.Approval `json:"approval"`
}

// AllowedTools returns what the loop may call, sorted: of the tools that are offered, what it lists beside them, and
// others, its tools for delegates and hand-offs. o has what the host asks for.
func AllowedTools(l *agentloop.Loop, offered []runtime.ToolSpec, others []string, o *Offer) []Allowed {
	needs := map[string]agentloop.Approval{}
	own := func(tool string) { // or one that is not known
		if !denies(o.Deny, tool, "") && !denies(l.Deny, tool, "") {
			needs[tool] = stricter(approvalOf(l.Approval, tool, ""), approvalOf(o.Approval, tool, ""))
		}
	}
	for _, name := range slices.Concat(l.Listed(), others) {
		own(name)
	}
	if l.MaxSubagents >= 0 && (l.Tools == nil || len(value.Names(l.Tools)) > 0) {
		own(agentloop.SubagentPrefix + "*")
	}
	most := value.Names(o.Agents.Tools)
	for i := range offered {
		t := &offered[i]
		effect := fixedEffect(t)
		isOwn := slices.ContainsFunc(l.Own, func(own runtime.Tool) bool { return own.Spec().Name == t.Name })
		listed := slices.Contains(l.Listed(), t.Name)
		if !isOwn && !listed && (!l.HasAllTools() || o.Listed[t.Name] || t.Missing != "") {
			continue
		}
		if denies(l.Deny, t.Name, effect) || denies(o.Deny, t.Name, effect) ||
			len(most) > 0 && !denies(most, t.Name, effect) {
			delete(needs, t.Name)
			continue
		}
		needs[t.Name] = stricter(ApprovalOf(l.Approval, t), ApprovalOf(o.Approval, t))
	}
	if _, ok := needs[agentloop.ExecTool]; ok {
		for _, keys := range []approvals{l.Approval, o.Approval} {
			for _, key := range value.SortedKeys(keys) {
				if strings.HasPrefix(key, agentloop.ExecTool+":") {
					needs[key] = stricter(needs[key], keys[key])
				}
			}
		}
	}
	list := []Allowed{}
	for _, name := range value.SortedKeys(needs) {
		list = append(list, Allowed{name, cmp.Or(needs[name], agentloop.ApproveNever)})
	}
	return list
}

// knowsEffects reports whether the effects of all tools that the loop lists are known, whatever they are called with.
func knowsEffects(l *agentloop.Loop, offered []runtime.ToolSpec) bool {
	for _, name := range l.Listed() {
		if !agentloop.Reserved(name) && !slices.ContainsFunc(offered,
			func(t runtime.ToolSpec) bool { return t.Name == name && t.EffectOf == nil }) {
			return false
		}
	}
	return true
}

// fixedEffect is the effect of a tool; "" where it depends on the arguments.
func fixedEffect(t *runtime.ToolSpec) runtime.Effect {
	if t.EffectOf != nil {
		return ""
	}
	return t.EffectFor(nil)
}

// denied is denies for what depends on the arguments: the effect, and programs.
func (g *gated) denied(deny []string) bool {
	if denies(deny, g.tool, g.effect) {
		return true
	}
	if g.tool != agentloop.ExecTool {
		return false
	}
	c := g.exec
	return slices.ContainsFunc(deny, func(key string) bool {
		program, ok := strings.CutPrefix(key, agentloop.ExecTool+":")
		return ok && (!c.plain || program == "*" || slices.ContainsFunc(c.programs, func(name string) bool {
			return path.Base(name) == program
		}))
	})
}
