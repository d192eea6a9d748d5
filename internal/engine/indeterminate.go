package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// The outcome of a failed call of a tool with an outside effect is unknown if the connection was lost before an
// answer, the run stopped the call, or the process died. The outcome of an agent step is unknown if such a call of the
// agent was stopped with it.

// hasUnknownOutcome reports whether the outcome of a failed call is unknown.
func (r *Run) hasUnknownOutcome(p *pending) bool {
	return len(p.lost) > 0 || p.open && p.Kind == program.ToolCall && !p.repeatable()
}

// onIndeterminate is what follows a call with unknown outcome. By default the run pauses to ask, unless runs do not
// outlive the process, or the run is about to succeed or to end without the call.
func (r *Run) onIndeterminate(p *pending) program.OnIndeterminate {
	switch said := p.site.OnIndeterminate; {
	case said != "":
		return said
	case !r.o.Durable, p.task.Spared(), p.reports:
		return program.Ignore
	}
	return program.Ask
}

// followsUnknown returns what follows a call with unknown outcome. If that is to ask, it asks, and the call has not
// ended.
func (r *Run) followsUnknown(p *pending) program.OnIndeterminate {
	follows := r.onIndeterminate(p)
	if follows == program.Ask {
		p.Attempts = 0
		r.suspend(p, r.askWhatHappened(p))
	}
	return follows
}

// askWhatHappened is the pause of a call with unknown outcome. A run that does not continue does not offer to repeat
// the call.
func (r *Run) askWhatHappened(p *pending) *resume.Pause {
	pause := &resume.Pause{Kind: resume.System, Reason: journal.Indeterminate, Call: r.aboutCall(p)}
	about := fmt.Sprintf("%s %q was called, and %s: ", p.Kind, p.Name, knownOf(pause.Call))
	switch {
	case len(p.lost) > 0:
		pause.Call, pause.Decisions = &p.lost[0], []string{"fail"}
		pause.Prompt = fmt.Sprintf("agent %q was stopped during %d calls of tools, and it is not known whether they "+
			"had their effect: find out, then let the step fail", p.agent.loop.Name, len(p.lost))
		var shown []any
		for _, c := range p.lost {
			shown = append(shown, map[string]any{"tool": c.Tool, "arguments": c.Arguments, "key": c.Key})
		}
		pause.Show = shown
	case r.mayRetry(p.task):
		pause.Decisions = []string{"retry", "result", "fail"}
		pause.Prompt = about + "call it again, give its result, or let the step fail?"
	default:
		pause.Decisions = []string{"result", "fail"}
		pause.Prompt = about + "give its result, or let the step fail? The run does not need it any more, but " +
			"rolls back what had its effect"
	}
	return pause
}

// knownAbout completes the question about a call in an agent with what is known of the call; now is how it would be
// made.
func (r *Run) knownAbout(p *resume.Pause, now *resume.Call) {
	if p.Call = r.before.known(unknownKey(p.Step, past.AboutOf(p)), now); p.Call.Given != nil {
		p.Prompt = fmt.Sprintf("tool %q was called, and %s: call it again, give its result, or let the step fail?",
			p.Call.Tool, knownOf(p.Call))
	}
}

// knownOf says what is known of the outcome of a call.
func knownOf(c *resume.Call) string {
	answer, _ := c.Given.(map[string]any)
	switch answer["decision"] {
	case "result":
		return "a person gave its result"
	case nil:
		return "it is not known whether it had its effect"
	}
	return "a person said that it counts as failed"
}

// mayRetry reports whether the result of the call of a task can still be of use.
func (r *Run) mayRetry(t *machine.Task) bool { return r.ending.forGood == nil && t.Useful() }

// unasked reports a call with unknown outcome that the run no longer asks about, because it is about to succeed or to
// end without it.
func (r *Run) unasked(p *Pause) {
	if p.Reason == journal.Indeterminate && p.inAgent == "" && p.task.Spared() {
		r.callUnknown(p.Step, p.task.Node().Adapter.(*program.Call).Name, "")
	}
}

// aboutCall is what a person must know of a call to find out its outcome.
func (r *Run) aboutCall(p *pending) *resume.Call {
	c := &resume.Call{Tool: p.Name, Arguments: r.o.Redact.Value(r.arguments(p)), Attempt: p.Attempt, At: p.at,
		Key: r.keyOf(p), Owner: p.owner}
	if p.Attempt > 0 {
		return c
	}
	return r.before.known(unknownKey(p.Path, ""), c)
}

// keyOf is the idempotency key of a call.
func (r *Run) keyOf(p *pending) string {
	return resume.Key(r.o.ID, p.Generation, p.Path, p.Ordinal, p.Key)
}

// aboutCallIn is aboutCall for a call in an agent that an earlier process began.
func (r *Run) aboutCallIn(a *agent, path, tool string, number int, args any) resume.Call {
	return resume.Call{Tool: tool, Arguments: r.o.Redact.Value(args), Owner: a.owner,
		Key: resume.Key(r.o.ID, cmp.Or(a.began, r.generation), path, number, "")}
}

// leftOpen finds the calls with unknown outcome of an agent that was told to stop by a process that died.
func (r *Run) leftOpen(p *pending) bool {
	if r.prepareAgent(p) != nil {
		return false
	}
	a := p.agent
	a.call = nil
	state, err := agents.Fold(slices.Concat(a.events...))
	if err != nil {
		return false
	}
	past.OpenCalls(&state, p.Path, func(path, tool string, n int, args any) {
		p.lost = append(p.lost, r.aboutCallIn(a, path, tool, n, args))
	})
	return len(p.lost) > 0
}

// callUnknown adds the diagnostic about a call with unknown outcome. why may be "".
func (r *Run) callUnknown(path, tool, why string) {
	because := "the run stopped the call"
	if why != "" {
		because += " (" + why + ")"
	}
	r.Report(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeCallUnknown, Step: path, Message: r.o.Redact.Text(fmt.Sprintf(
			"step %q: tool %q was called, and it is not known whether it had its effect: %s", path, tool, because))})
}
