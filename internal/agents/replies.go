package agents

import (
	"fmt"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// accept ends the loop with its answer, unless somebody had a word meanwhile and there are steps left, or is to reply.
func (f *frame) accept() {
	s, talk := f.state(), f.leg.terms.Replies
	switch {
	case s.left() > 0 && f.told():
	case talk == nil || f.name != "":
		f.ends = agentloop.StopAnswer
	case s.Replies >= talk.Max:
		f.ends, f.talk = agentloop.StopAnswer, TalkMax
	default:
		n := s.Replies + 1
		f.emit(trace.HumanRequest, "reply", n)
		f.pause(f, Pause{For: ForReply, Pause: resume.Pause{Kind: resume.Human, Prompt: s.Text,
			Schema: map[string]any{"type": "string"}}}, fmt.Sprintf("%s:reply %d", f.path, n))
	}
}

// replied ends the talk, or lets the model hear what somebody replied.
func (f *frame) replied(words string) {
	f.emit(trace.HumanResponse, "reply", f.state().Replies)
	over, err := f.leg.terms.Replies.Until(words)
	switch {
	case err != nil:
		f.finish(fail(runtime.CategoryConfig, "agent.replies", err))
	case over:
		f.ends, f.talk = agentloop.StopAnswer, TalkUntil
	default:
		f.record(Event{Kind: Replied})
	}
}

// talked returns the turns of a talk that is over.
func (s *State) talked() []Turn {
	if s.Turns == nil {
		return []Turn{{Text: s.Text}}
	}
	list := append([]Turn{}, s.Turns...)
	list[len(list)-1].Text = s.Text
	return list
}
