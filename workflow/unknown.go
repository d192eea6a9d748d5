package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
)

// leavesOpen reports whether an attempt that failed may have had its effect: it was cut off, or lost the other
// side, before that had answered.
func (in *invocation) leavesOpen(err error) bool {
	if err == nil {
		return false
	}
	if _, suspended := errors.AsType[*resume.Suspension](err); suspended {
		return false
	}
	f := retry.FailureOf(err)
	return f.OutcomeUnknown() || in.ctx.Err() != nil && f.Sent && f.Status == 0
}

// cutOff reports whether the run ended a call without knowing whether it had its effect.
func (in *invocation) cutOff() bool {
	return in.open && in.failure != nil && in.tool != nil && !in.repeatable() && in.ctx != nil && in.ctx.Err() != nil
}

// callUnknown adds the finding about such a call. why may be "".
func (r *run) callUnknown(path, tool, why string) {
	because := "the run stopped the call"
	if why != "" {
		because += " (" + why + ")"
	}
	text := fmt.Sprintf("step %q: tool %q was called, and it is not known whether it had its effect: %s",
		path, tool, because)
	r.found.add(diagnostics.Diagnostic{Level: diagnostics.Warn, Kind: diagnostics.KindWorkflow,
		Code: diagnostics.CodeCallUnknown, Step: path, Message: r.prepared.redact.Text(text)})
}

// leftOpen tells of the calls of an agent that is left behind.
func (r *run) leftOpen(in *invocation, why string) {
	events := slices.Concat(r.logOf(in.task).events...)
	if a := in.agent; a != nil {
		a.mu.Lock()
		for _, b := range a.noted {
			events = append(events, b.Events...)
		}
		a.mu.Unlock()
	}
	if state, err := agentloop.Fold(events); err == nil { // always: it is the loop's own
		engine.OpenCalls(&state, in.path, func(path string, c agentloop.Call) { r.callUnknown(path, c.Name, why) })
	}
}

// stoppedBefore is the end of a call that was told to stop by a process that died.
func (r *run) stoppedBefore(c machine.Command) {
	t := c.Task
	in := &invocation{run: r, task: t, path: r.events.path(t), call: t.Node().Adapter.(*program.Call),
		input: c.Input, size: machine.Unknown}
	in.failure = notDone("the call was told to stop before the process died")
	if _, begun := r.unsure[t]; begun && in.call.Kind == program.ToolCall {
		in.unknown = in.prepareTool() != nil || !in.repeatable()
	}
	r.finish(in)
}

// why is what told the call to stop, secrets out; "" where nothing is known but that it was told.
func (in *invocation) why() string {
	if in.ctx == nil {
		return ""
	}
	return in.run.whyStopped(in.ctx)
}

func (r *run) whyStopped(ctx context.Context) string {
	cause := context.Cause(ctx)
	if cause == nil || cause == context.Canceled {
		return ""
	}
	return strings.ToValidUTF8(r.prepared.redact.Text(cause.Error()), "\uFFFD")
}
