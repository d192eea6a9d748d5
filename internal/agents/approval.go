package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/programs"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// stricter returns the one that allows less without a person's approval. What it does not know counts as
// always.
func stricter(a, b agentloop.Approval) agentloop.Approval {
	order := []agentloop.Approval{"", agentloop.ApproveNever, agentloop.ApprovePause, agentloop.ApproveAlways,
		agentloop.ApproveRefuse}
	place := func(a agentloop.Approval) int {
		if i := slices.Index(order, a); i >= 0 {
			return i
		}
		return slices.Index(order, agentloop.ApproveAlways)
	}
	return order[max(place(a), place(b))]
}

// keys returns what an approval of the call for the run covers, sorted. That is every call of the tool, but for
// exec.run:
//
//	exec.run:ls         any call of a program that runs nothing else and writes nothing; plain has more of them
//	exec.run:git=SUM    calls with the same program, arguments, folder, variables and input
//	exec.run:sh         no further call, as it runs others
//	exec.run=SUM        no further call, as what it runs is not plain to see
func (g *gated) keys(plain []string) []string {
	if g.tool != agentloop.ExecTool {
		return []string{g.tool}
	}
	c := g.exec
	others := slices.ContainsFunc(c.programs, programs.RunsOthers)
	switch {
	case !c.plain || len(c.programs) > 1 && !others:
		return []string{fmt.Sprintf("%s=%s", agentloop.ExecTool, sum(g.args))}
	case others:
		var keys []string
		for _, name := range c.programs {
			keys = append(keys, agentloop.ExecTool+":"+name)
		}
		return union(nil, keys)
	}
	key, name := agentloop.ExecTool+":"+c.programs[0], c.programs[0]
	if len(c.Env) == 0 && (slices.Contains(programs.Plain(), name) || slices.Contains(plain, name)) {
		return []string{key}
	}
	text, _ := json.Marshal(c) // texts, and a map, whose keys are sorted
	return []string{fmt.Sprintf("%s=%s", key, sum(text))}
}

// sum is a checksum of a call that nobody can find another call for.
func sum(text []byte) string {
	all := sha256.Sum256(text)
	return hex.EncodeToString(all[:16])
}

// grantable reports whether an approval may cover more than this call, by its keys.
func grantable(keys []string) bool {
	for _, k := range keys {
		name, program := strings.CutPrefix(k, agentloop.ExecTool+":")
		name, _, _ = strings.Cut(name, "=")
		if program && programs.RunsOthers(name) || strings.HasPrefix(k, agentloop.ExecTool+"=") {
			return false
		}
	}
	return true
}

// wish is what a person is asked about a call.
func (t *thread) wish(c agentloop.Call, b *binding, keys []string, pauses bool) *runtime.ApprovalRequest {
	return &runtime.ApprovalRequest{Run: t.execution.terms.RunID, Step: t.path, Agent: t.loop.Name, Tool: c.Name,
		Arguments: slices.Clone(c.Arguments), Parameters: b.Parameters, Keys: slices.Clone(keys),
		To:   slices.Clone(t.loop.ApprovalTo),
		Once: !grantable(keys), Pauses: pauses}
}

func (t *thread) approvalPause(c agentloop.Call, wish *runtime.ApprovalRequest) Pause {
	return t.expires(Pause{For: ForApproval, Call: t.n, Tool: c.Name, Pause: wish.Question()},
		map[string]any{"decision": "reject", "form": map[string]any{"reason": "nobody decided in time"}})
}

// expires has a pause end with an answer, as if a person refused, where the host gives people a time.
func (t *thread) expires(p Pause, refusal map[string]any) Pause {
	if limit := t.execution.offer.Agents.ApprovalExpires; limit > 0 {
		p.ExpiresAt, p.OnExpire = t.execution.Now.Add(limit), resume.Expiry{Answered: true, Value: refusal}
	}
	return p
}

// Approves returns what approving a pause for the run would cover; nil: it is no question about a call, or an approval
// is for this call only.
func (p *Pause) Approves() []string {
	shown, _ := p.Show.(map[string]any)
	list, _ := shown["keys"].([]any)
	var keys []string
	for _, key := range list {
		if text, ok := key.(string); ok && p.For == ForApproval {
			keys = append(keys, text)
		}
	}
	if !grantable(keys) {
		return nil
	}
	return scoped(keys, p.To)
}

// scoped returns what an approval for the run covers if only some people may give it: nothing that others decide about.
// nil: anybody may give it.
func scoped(keys, to []string) []string {
	if len(to) == 0 {
		return keys
	}
	names, _ := value.JSON(slices.Sorted(slices.Values(to))) // they are strings
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = key + " " + string(names)
	}
	return list
}

// ApprovedForRun reports whether the answer to a pause that asks about a call approves for the run.
func ApprovedForRun(answer any) bool {
	d := runtime.DecisionOf(answer)
	return d.Allow && forRun(d.Scope) && d.Arguments == nil
}

// Covered reports whether earlier approvals for the run, sorted, cover a call with these keys.
func Covered(keys, grants []string) bool {
	if !grantable(keys) {
		return false
	}
	for _, k := range keys {
		if _, ok := slices.BinarySearch(grants, k); !ok {
			return false
		}
	}
	return len(keys) > 0
}

// granted returns the approvals for the run of a loop and its children, sorted.
func (s *State) granted() []string {
	all := s.Grants
	for _, name := range value.SortedKeys(s.Children) {
		if g := s.Children[name].granted(); len(g) > 0 {
			all = union(all, g)
		}
	}
	return all
}
