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
func (p *pending) hasUnknownOutcome() bool {
	return len(p.lost) > 0 || p.open && p.Kind == program.ToolCall && !p.repeatable()
}

// onIndeterminate is what follows a call with unknown outcome. By default the run pauses to ask, unless runs do not
// outlive the process, or the run is about to succeed or to end without the call.
func (p *pending) onIndeterminate(durable bool) program.OnIndeterminate {
	switch said := p.site.OnIndeterminate; {
	case said != "":
		return said
	case !durable, p.task.Spared(), p.reports:
		return program.Ignore
	}
	return program.Ask
}

// followsUnknown returns what follows a call with unknown outcome. If that is to ask, it asks, and the call has not
// ended.
func (p *pending) followsUnknown(r *Run) program.OnIndeterminate {
	follows := p.onIndeterminate(r.o.Durable)
	if follows == program.Ask {
		p.Attempts = 0
		step{}.suspend(r, p, p.askWhatHappened(r.o.aboutCall(p, &r.before), r.ending.mayRetry(p.task)))
	}
	return follows
}

// askWhatHappened is the pause of a call with unknown outcome. A run that does not continue does not offer to repeat
// the call.
func (p *pending) askWhatHappened(call *resume.Call, mayRetry bool) *resume.Pause {
	pause := &resume.Pause{Kind: resume.System, Reason: journal.Indeterminate, Call: call}
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
	case mayRetry:
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
func (a *Answers) knownAbout(p *resume.Pause, now *resume.Call) {
	if p.Call = a.known(unknownKey(p.Step, past.AboutOf(p)), now); p.Call.Given != nil {
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
func (e *ending) mayRetry(t *machine.Task) bool { return e.forGood == nil && t.Useful() }

// unasked is the diagnostic about a call with unknown outcome that a run no longer asks about when a pause is over,
// because it is about to succeed or to end without it. Else there is none.
func (o *Options) unasked(p *Pause) diagnostics.List {
	if p.Reason == journal.Indeterminate && p.inAgent == "" && p.task.Spared() {
		return diagnostics.List{o.callUnknown(p.Step, p.task.Node().Adapter.(*program.Call).Name, "")}
	}
	return nil
}

// aboutCall is what a person must know of a call to find out its outcome.
func (o *Options) aboutCall(p *pending, before *Answers) *resume.Call {
	c := &resume.Call{Tool: p.Name, Arguments: o.Redact.Value(o.arguments(p)), Attempt: p.Attempt, At: p.at,
		Key: p.keyIn(o.ID), Owner: p.owner}
	if p.Attempt > 0 {
		return c
	}
	return before.known(unknownKey(p.Path, ""), c)
}

// keyIn is the idempotency key of a call in a run.
func (p *pending) keyIn(run string) string {
	return resume.Key(run, p.Generation, p.Path, p.Ordinal, p.Key)
}

// aboutCallIn is aboutCall for a call in an agent that an earlier process began.
func (o *Options) aboutCallIn(a *agent, generation int, path, tool string, number int, args any) resume.Call {
	return resume.Call{Tool: tool, Arguments: o.Redact.Value(args), Owner: a.owner,
		Key: resume.Key(o.ID, cmp.Or(a.began, generation), path, number, "")}
}

// leftOpen finds the calls with unknown outcome of an agent that was told to stop by a process that died.
func (a *agent) leftOpen(p *pending, o *Options, generation int) bool {
	a.call = nil
	state, err := agents.Fold(slices.Concat(a.events...))
	if err != nil {
		return false
	}
	past.OpenCalls(&state, p.Path, func(path, tool string, n int, args any) {
		p.lost = append(p.lost, o.aboutCallIn(a, generation, path, tool, n, args))
	})
	return len(p.lost) > 0
}

// callUnknown is the diagnostic about a call with unknown outcome. why may be "".
func (o *Options) callUnknown(path, tool, why string) diagnostics.Diagnostic {
	because := "the run stopped the call"
	if why != "" {
		because += " (" + why + ")"
	}
	return diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeCallUnknown, Step: path, Message: o.Redact.Text(fmt.Sprintf(
			"step %q: tool %q was called, and it is not known whether it had its effect: %s", path, tool, because))}
}
