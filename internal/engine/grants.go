package engine

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// grants are approvals that apply to the rest of the run, sorted: to every step, round, child and later generation. A
// fork and a changed definition start without them, because they share no answers to an agent's questions.
type grants []string

// with returns the approvals together with more.
func (g grants) with(keys []string) grants {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(g, keys))))
}

// approves is what an approval for the run, given to a pause, would cover; nil: the pause does not ask about a call.
func (s agentsOf) approves(p *Pause) []string {
	if p.inAgent == "" || s[p.task] == nil {
		return nil
	}
	for _, events := range s[p.task].events {
		for i := range events {
			if e := &events[i]; e.Kind == agents.Paused && e.Rest().Pause.ID == p.inAgent {
				return e.Rest().Pause.Approves()
			}
		}
	}
	return nil
}

// cover are the ends of the pauses that the approvals cover, except one.
func (g grants) cover(pauses []*Pause, but *Pause, of agentsOf, now moment) (events []journal.Event) {
	if len(g) == 0 {
		return nil
	}
	for _, p := range pauses {
		if p != but && agents.Covered(of.approves(p), g) {
			yes := map[string]any{"decision": "approve", "form": map[string]any{"scope": string(runtime.ApproveRun)}}
			events = append(events, now.ends(p, resume.Answered, yes))
		}
	}
	return events
}

// answerGranted ends the pending pauses that approvals for the run cover.
func (r *Run) answerGranted() { r.TakeNow(r.grants.cover(r.Pauses(), nil, r.agents, r.moment())) }

// unscoped returns the events of an agent in which no approval is for the run.
func unscoped(events []agents.Event) []agents.Event {
	events = slices.Clone(events)
	for i := range events {
		if e := &events[i]; e.ForRun() {
			more := e.Rest()
			more.Scope = runtime.ApproveOnce
			e.More = &more
		}
	}
	return events
}

// secretRef matches what would be a reference to a secret in a recipe.
var secretRef = regexp.MustCompile(`\$\{\{[^}]*\bsecrets\b`)

// FitsApproval checks the answer to a question about a call beyond its form: combinations that are not allowed, and
// arguments with secrets or references to them. nil: the answer is valid, or the pause does not ask about a call.
func FitsApproval(p *resume.Pause, answer any, redact *value.Redactor) error {
	shown, _ := p.Show.(map[string]any)
	if shown["tool"] == nil || shown["keys"] == nil || !slices.Contains(p.Decisions, "approve") {
		return nil
	}
	d := runtime.DecisionOf(answer)
	edited, _ := value.Decode(d.Arguments)
	switch {
	case d.Allow && d.Reason != "":
		return fmt.Errorf("%s: a reason is for a rejection", p)
	case !d.Allow && (d.Scope != "" || d.Arguments != nil):
		return fmt.Errorf("%s: a rejection takes a reason, no scope and no arguments", p)
	case d.Arguments == nil:
		return nil
	case d.Scope != "" && d.Scope != runtime.ApproveOnce:
		return fmt.Errorf("%s: edited arguments are for this call only\n  hint: leave the scope out", p)
	case secretRef.Match(d.Arguments):
		return fmt.Errorf("%s: the arguments refer to a secret; no reference is resolved here", p)
	case !value.Equal(redact.Value(edited), edited):
		return fmt.Errorf("%s: the arguments hold a secret", p)
	}
	return nil
}
