package workflow

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Send puts a value into a channel of a run that waits or was interrupted, and goes on with the run. The
// channel is one of the recipe's own file; those of sub-recipes are reached by answering the pauses of
// their receive steps. value is anything that is JSON.
//
// The value answers the pauses of the steps that get it. When nobody waits, a queue or a value channel
// keeps it, a topic does not, and the run pauses again. Nothing has happened when the Outcome's error
// is channel.unknown, channel.closed (the run is over), channel.full, or run.busy (somebody works on the
// run).
func Send(
	ctx context.Context, runID, channel string, value any, rt *runtime.Runtime, opts *ResumeOptions,
) (*Outcome, error) {
	l := &leg{ctx: ctx, rt: rt, opts: opts, runID: runID}
	v, err := frozen(value)
	if err != nil {
		return l.refuse(program.ConfigError(diagnostics.CodeInput, "%w", err))
	}
	l.sent = &sent{name: channel, value: v}
	return l.apart(func() (*Outcome, error) { return l.run(nil) })
}

// frozen is a value of the caller's that the caller may change afterwards.
func frozen(v any) (any, error) {
	v, err := value.Normalise(v)
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	return value.Clone(v), nil
}

// sent is a value from outside.
type sent struct {
	name  string
	index int // of the channel, once the workflow is known
	value any
}

// send writes down a value from outside, as the answer to the pauses of those who get it and, where
// it does not end there, as a value in the channel; and goes on with the run.
func (l *leg) send(r *local.Run) error {
	s := l.sent
	failure, over := r.Engine.Takes(s.index, s.value)
	switch {
	case over:
		return channelClosed(l.runID, s.name)
	case failure != nil:
		return &runtime.Error{Category: runtime.Category(failure.Category), Code: failure.Code, Err: failure.Err}
	}
	return l.tell(r, nil, func() []journal.Event { return r.Engine.Send(s.index, s.value) })
}

// channelClosed is the error of a value for a run that is over.
func channelClosed(runID, channel string) *runtime.Error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.closed",
		Err: fmt.Errorf("channel %q is closed: run %q is over", channel, runID)}
}

// find finds the channel of a run that can take the value.
func (s *sent) find(l *leg, wf *Workflow) error {
	list := wf.program.Graph.Channels
	s.index = program.ChannelIndex(list, s.name)
	switch {
	case l.old != nil:
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.definitionChanged",
			Err: fmt.Errorf("run %q began with another definition of recipe %q"+
				"\n  hint: recover it with the new one first", l.runID, wf.Name())}
	case s.index >= 0 && l.ended:
		return channelClosed(l.runID, s.name)
	case s.index >= 0:
		return nil
	}
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.unknown",
		Err: fmt.Errorf("recipe %q has no channel %q%s", wf.Name(), s.name,
			program.HintLine(diagnostics.DidYouMean(s.name, names)))}
}
