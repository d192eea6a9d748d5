package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// handOff takes that another agent goes on when the round is over.
func (s *State) handOff(e *Event) error {
	c, err := s.call(e.Call)
	next := e.Rest().Agent
	switch {
	case err != nil:
		return err
	case next == "" || !c.Begun || s.handsOff() != nil:
		return fmt.Errorf("call %d cannot hand off", e.Call)
	}
	s.Handoffs = append(s.Handoffs, Handoff{Agent: next, Call: e.Call})
	return nil
}

// handsOff is the hand-off of the round that is not over; nil: there is none.
func (s *State) handsOff() *Handoff {
	if n := len(s.Handoffs); s.Phase == Calling && n > 0 && s.Handoffs[n-1].Call > s.Round {
		return &s.Handoffs[n-1]
	}
	return nil
}

// handoffs are those that have taken effect.
func (s *State) handoffs() []Handoff {
	if s.handsOff() != nil {
		return s.Handoffs[:len(s.Handoffs)-1]
	}
	return s.Handoffs
}

// InCharge is the name of the agent at work.
func (s *State) InCharge() string {
	if made := s.handoffs(); len(made) > 0 {
		return made[len(made)-1].Agent
	}
	return s.Start.Agent
}

// entered is the number of steps before the agent at work took the conversation over.
func (s *State) entered() int {
	if made := s.handoffs(); len(made) > 0 {
		return s.Calls[made[len(made)-1].Call-1].Step
	}
	return 0
}

// fresh reports whether the agent at work has not asked its model yet.
func (s *State) fresh() bool { return s.Steps == s.entered() }

// takeOver begins the part of the next agent, if the round that is over handed off. The conversation goes on; what one
// agent looked up, and the sub-agents that it made, are not for the next.
func (s *State) takeOver() {
	if !s.fresh() {
		return
	}
	s.Gathered = slices.DeleteFunc(slices.Clone(s.Gathered),
		func(k Kind) bool { return k == Retrieved || k == SkillsLoaded })
	s.Found, s.Skills, s.Repeats, s.Refusals = nil, nil, 0, 0
	for i := range s.Subagents {
		s.Subagents[i].Closed = true
	}
}

// follow makes the frame that of the agent which the hand-offs led to. The output's schema, the limits of the whole and
// the layers of memory stay those of the first.
func (f *frame) follow() error {
	s := f.state()
	for _, h := range s.handoffs()[f.followed:] {
		first, next := f.loop, f.loop.Handoffs[strings.TrimPrefix(s.Calls[h.Call-1].Name, agentloop.HandoffPrefix)]
		if next == nil {
			return f.outside(runtime.CategoryConfig, "resume.definitionChanged",
				fmt.Errorf("agent %q has handed off to %q, and does not any more", first.Name, h.Agent))
		}
		l := *next
		l.Schema, l.Layers = first.Schema, first.Layers
		l.MaxSteps, l.MaxCalls, l.MaxHandoffs = first.MaxSteps, first.MaxCalls, first.MaxHandoffs
		if l.MaxDelegationDepth > 0 {
			f.maxDepth = min(f.maxDepth, l.MaxDelegationDepth)
		}
		f.loop, f.tools, f.skills, f.seen = &l, nil, nil, nil
		f.followed++
	}
	return nil
}

// addHandoffs offers hand-offs; a sub-agent has none.
func (f *frame) addHandoffs(add func(b *binding, listed bool)) {
	if f.state().Start.Subagent != "" {
		return
	}
	for _, name := range value.SortedKeys(f.loop.Handoffs) {
		text := "Let " + name + " take over the conversation."
		if about := f.loop.Handoffs[name].Description; about != "" {
			text += " " + about
		}
		add(&binding{ToolSpec: runtime.ToolSpec{Name: agentloop.HandoffPrefix + name, Description: text,
			Parameters: object("", "")}}, false)
	}
}

// handoffWaits reports whether an earlier call of the round, which would hand off first, waits for an answer.
func (f *frame) handoffWaits(n int) bool {
	s := f.state()
	return slices.ContainsFunc(s.Calls[s.Round:n-1], func(c agentloop.Call) bool {
		return strings.HasPrefix(c.Name, agentloop.HandoffPrefix) && !c.Done
	})
}

// handOff makes another agent go on, unless a call of the same answer has done so or there were the most hand-offs.
func (t *thread) handOff(name string) {
	s := t.state()
	made := len(s.handoffs())
	most := cmp.Or(t.loop.MaxHandoffs, agentloop.DefaultMaxHandoffs)
	switch h := s.handsOff(); {
	case h != nil && h.Call == t.n:
		t.result("", h.Agent+" takes over the conversation.")
	case h != nil:
		t.refuse(handoffSecond, h.Agent+" takes over the conversation, as an earlier call says")
	case made >= most:
		t.refuse(toolLimit, fmt.Sprintf("the conversation was handed off %d times, which is the most", most))
	default:
		next := cmp.Or(t.loop.Handoffs[name].Name, name)
		t.record(Event{Kind: HandedOff, More: &More{Agent: next}})
		t.emit(trace.AgentHandoff, "call", t.n, "from", s.InCharge(), "to", next)
	}
}
