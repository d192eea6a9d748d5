package execution

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

// Send sends a value to a channel of a run, and resumes the run.
func Send(ctx context.Context, runID, channel string, v any, rt *runtime.Runtime, o Options) *local.End {
	x := newResumption(ctx, runID, "resume", rt, o)
	v, err := value.Normalise(v)
	if err != nil {
		return x.refuse(program.ConfigError(diagnostics.CodeInput, "the value is not JSON: %w", err))
	}
	return x.resume(&sent{channel: channel, value: value.Clone(v)})
}

// sent is a value for a channel.
type sent struct {
	recovery
	channel string
	index   int // of the channel, once the program is known
	value   any
}

func (s *sent) possible(x *resumption, p *program.Program) error {
	if err := x.unchanged(p, "recover it with the new one first"); err != nil {
		return err
	}
	list := p.Graph.Channels
	s.index = program.ChannelIndex(list, s.channel)
	switch {
	case s.index >= 0 && x.ended:
		return s.closed(x)
	case s.index >= 0:
		return nil
	}
	return NoChannel(p, s.channel)
}

// NoChannel is the error for a value that is sent to a channel which the recipe does not have.
func NoChannel(p *program.Program, channel string) error {
	var names []string
	for _, c := range p.Graph.Channels {
		names = append(names, c.Name)
	}
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.unknown",
		Err: fmt.Errorf("recipe %q has no channel %q%s", p.Recipe.Name, channel,
			program.HintLine(diagnostics.DidYouMean(channel, names)))}
}

// tell records the value: as the answer to the pauses of the steps that receive it and, unless they consume it, as a
// value in the channel.
func (s *sent) tell(x *resumption, r *local.Run) error {
	failure, over := r.Engine.View().Takes(s.index, s.value)
	switch {
	case over:
		return s.closed(x)
	case failure != nil:
		return &runtime.Error{Category: runtime.Category(failure.Category), Code: failure.Code, Err: failure.Err}
	}
	return x.record(r, nil, func() []journal.Event { return r.Engine.Send(s.index, s.value) })
}

// closed is the error for a value sent to a run that is over.
func (s *sent) closed(x *resumption) error { return Closed(x.runID, s.channel) }

// Closed is the error for a value sent to a run that is over.
func Closed(runID, channel string) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "channel.closed",
		Err: fmt.Errorf("channel %q is closed: run %q is over", channel, runID)}
}
