package agents

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

func (s *State) begin(e *Event) error {
	start := e.Rest().Start
	switch {
	case s.Phase != "":
		return s.refuse()
	case start == nil || start.MaxSteps < 1:
		return fmt.Errorf("it has no step to go")
	}
	s.Phase, s.Start = Ready, *start
	text, told := s.Start.Prompt, s.Start.Before
	switch {
	case s.Start.Context == "":
	case text == "" && len(told) > 0:
		text = s.Start.Context
	default:
		text = s.Start.Context + "\n\n" + text
	}
	s.Own = len(told)
	s.Messages = slices.Grow(s.Messages, s.Own+room(s.Start.MaxSteps, 2))
	for _, m := range told {
		s.Messages = append(s.Messages, runtime.Message{Role: m.Role, Text: m.Text, Files: m.Files})
	}
	if text == "" && s.Start.Files == nil && s.Own > 0 {
		s.Own--
		return nil
	}
	s.Messages = append(s.Messages, runtime.Message{Role: runtime.User, Text: text, Files: s.Start.Files})
	return nil
}

// task is what the loop was asked to do.
func (s *Start) task() string {
	if told := s.Before; s.Prompt == "" && len(told) > 0 {
		return told[len(told)-1].Text
	}
	return s.Prompt
}

// gather takes what is gathered once, before the first call of the model.
func (s *State) gather(e *Event) error {
	if s.Phase != Ready || !s.fresh() || slices.Contains(s.Gathered, e.Kind) {
		return fmt.Errorf("it comes once, before the first step")
	}
	s.Gathered = append(s.Gathered, e.Kind)
	switch e.Kind {
	case Instructed:
		s.Guide = e.Text
	case SkillsLoaded:
		s.Skills = e.Rest().Skills
	case LayersLoaded:
		s.Layers = e.Text
	case Retrieved:
		s.Found = e.Rest().Documents
	case MemoryLoaded:
		s.Messages, s.Read = slices.Concat(e.Messages, s.Messages), max(e.Rest().Read, len(e.Messages))
		s.Own += len(e.Messages)
	}
	return nil
}

// steer takes the messages that came in between two steps.
func (s *State) steer(e *Event) error {
	if s.Phase != Ready && (s.Phase != Said || s.Saved) {
		return s.refuse()
	}
	s.Phase, s.Repairs = Ready, 0 // an answer is not the last one then
	for _, n := range e.Rest().Notes {
		s.Messages = append(s.Messages, runtime.Message{Role: runtime.User, Text: n.Text})
		s.Taken = append(s.Taken, n.ID)
	}
	s.Repeats, s.Refusals = 0, 0 // somebody has had a word
	return nil
}

func (s *State) count(u *runtime.Usage) {
	if u != nil {
		s.Usage = s.Usage.Plus(*u)
	}
}

// model takes the beginning and the end of a call of the model.
func (s *State) model(e *Event) error {
	switch {
	case e.Kind == ModelBegan && e.Rest().Repair:
		if s.Phase != Said || s.Repairs >= mostRepairs {
			return s.refuse()
		}
		s.Repairs++
		s.Messages = append(s.Messages, e.Messages...)
	case e.Kind == ModelBegan:
		if s.Phase != Ready {
			return s.refuse()
		}
		if s.left() <= 0 {
			return fmt.Errorf("the limit is %d steps", s.Start.MaxSteps)
		}
		s.Steps++
	case s.Phase != Asking || s.waits(0):
		return s.refuse()
	case e.Kind == ModelAgain:
		if s.Open {
			if s.Recoveries >= maxRecoveries {
				return fmt.Errorf("the call was interrupted %d times", s.Recoveries+1)
			}
			s.Recoveries++
		}
		s.Open = true
		return nil
	default:
		return s.hear(e)
	}
	s.Phase, s.Open, s.Compacted, s.Recoveries, s.Reply = Asking, true, false, 0, nil
	return nil
}

// hear takes the model's answer. One that says nothing is not appended.
func (s *State) hear(e *Event) error {
	if !s.Open || len(e.Messages) > 1 || len(e.Messages) == 1 && e.Messages[0].Role != runtime.Assistant {
		return fmt.Errorf("it is not an answer to a call of the model")
	}
	s.count(e.Usage)
	s.Phase, s.Open, s.Text, s.Silent, s.Finish = Said, false, "", len(e.Messages) == 0, e.Finish
	if s.Silent {
		return nil
	}
	m := e.Messages[0]
	s.Messages, s.Text = append(s.Messages, m), m.Text
	if len(m.ToolCalls) > 0 {
		s.Phase, s.Round = Calling, len(s.Calls)
		if s.Calls == nil {
			s.Calls = make([]agentloop.Call, 0, room(s.Start.MaxSteps, 1))
		}
		for _, c := range m.ToolCalls {
			s.Calls = append(s.Calls, agentloop.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Step: s.Steps})
		}
	}
	return nil
}

// call returns an open call of the last round, by its number.
func (s *State) call(n int) (*agentloop.Call, error) {
	if s.Phase != Calling || n <= s.Round || n > len(s.Calls) {
		return nil, fmt.Errorf("there is no call %d", n)
	}
	c := &s.Calls[n-1]
	if c.Done {
		return nil, fmt.Errorf("call %d has its result", n)
	}
	return c, nil
}

// tool takes what happens to a call.
func (s *State) tool(e *Event) error {
	c, err := s.call(e.Call)
	switch {
	case err != nil:
		return err
	case c.Waits:
		return fmt.Errorf("call %d waits for an answer", e.Call)
	}
	switch e.Kind {
	case Permission:
		if c.Decided || c.Begun {
			return fmt.Errorf("call %d is decided", e.Call)
		}
		more := e.Rest()
		c.Decided, c.Allowed, c.Why = true, more.Allow, e.Text
		if more.Allow && more.Arguments != nil {
			c.Arguments = more.Arguments
		}
		if e.ForRun() {
			s.Grants = union(s.Grants, more.Keys)
		}
	case ToolBegan:
		if c.Begun || c.Decided && !c.Allowed {
			return fmt.Errorf("call %d has begun, or may not", e.Call)
		}
		c.Begun, c.Open, c.Effect = true, true, e.Effect
	case ToolAgain:
		if !c.Begun {
			return fmt.Errorf("call %d has not begun", e.Call)
		}
		c.Open = true
	case ToolEnded:
		if e.Code == "" && !c.Begun {
			return fmt.Errorf("call %d has a result and has not begun", e.Call)
		}
		for _, name := range value.SortedKeys(s.Children) {
			if ordinalOf(name) == e.Call && s.Children[name].Phase != Over {
				return fmt.Errorf("call %d has a result before its child %q has ended", e.Call, name)
			}
		}
		c.Done, c.Open, c.Result, c.Files, c.Code = true, false, e.Text, e.Rest().Files, e.Code
		s.settle()
	}
	return nil
}

// settle closes the round when all its calls have results: those go into the history in the order of
// the calls, whatever the order in which they came.
func (s *State) settle() {
	round := s.Calls[s.Round:]
	if slices.ContainsFunc(round, func(c agentloop.Call) bool { return !c.Done }) {
		return
	}
	for i := range round {
		s.Messages = append(s.Messages, runtime.Message{Role: runtime.ToolRole, ToolCallID: round[i].ID,
			Text: round[i].Result, Files: round[i].Files})
	}
	before := s.Round
	for before > 0 && s.Calls[before-1].Step == s.Calls[s.Round-1].Step {
		before--
	}
	if s.Repeats++; !slices.EqualFunc(s.Calls[before:s.Round], round, sameCall) {
		s.Repeats = 1
	}
	if s.Refusals++; slices.ContainsFunc(round, func(c agentloop.Call) bool { return !refused(c) }) {
		s.Refusals = 0
	}
	s.Phase = Ready
	s.takeOver()
}

// sameCall reports whether two calls are one, and came to the same.
func sameCall(a, b agentloop.Call) bool {
	if a.Name != b.Name || a.Result != b.Result || a.Code != b.Code || !slices.Equal(a.Files, b.Files) {
		return false
	}
	if bytes.Equal(a.Arguments, b.Arguments) {
		return true
	}
	x, err := value.Decode(a.Arguments)
	y, err2 := value.Decode(b.Arguments)
	return err == nil && err2 == nil && value.Equal(x, y)
}

// waits reports whether a pause is open for a call, 0 for that of the model.
func (s *State) waits(call int) bool {
	return slices.ContainsFunc(s.Pauses, func(p Pause) bool { return p.Call == call })
}

func (s *State) pause(e *Event) error {
	opened := e.Rest().Pause
	if opened == nil || opened.ID == "" {
		return fmt.Errorf("it has no pause")
	}
	p := *opened
	if p.For == ForModel {
		if s.Phase != Asking || p.Call != 0 || s.waits(0) {
			return s.refuse()
		}
		s.Open = false
		s.Asked++
	} else {
		c, err := s.call(p.Call)
		switch {
		case err != nil:
			return err
		case c.Waits || c.Begun == (p.For == ForApproval) || c.Decided && p.For == ForApproval:
			return fmt.Errorf("call %d cannot wait for this now", p.Call)
		}
		c.Open, c.Waits, c.For, c.Answer = false, true, p.For, nil
		c.Pauses++
	}
	at, _ := slices.BinarySearchFunc(s.Pauses, p.Call, func(q Pause, call int) int { return q.Call - call })
	s.Pauses = slices.Insert(s.Pauses, at, p)
	return nil
}

func (s *State) answer(e *Event) error {
	i, given := -1, e.Rest().Answer
	if given != nil {
		i = slices.IndexFunc(s.Pauses, func(p Pause) bool { return p.ID == given.Pause })
	}
	if i < 0 {
		return fmt.Errorf("no such pause is open")
	}
	var reply *any
	if !given.Due {
		reply = &given.Value
	}
	if n := s.Pauses[i].Call; n > 0 {
		c := &s.Calls[n-1]
		c.Waits, c.Answer = false, reply
		if c.For == ForTool && reply != nil {
			c.Replies = append(slices.Clip(c.Replies), resume.Reply{To: s.Pauses[i].Reason, Answer: *reply})
		}
	} else if reply != nil {
		s.Reply = reply
	}
	s.Pauses = slices.Delete(s.Pauses, i, i+1)
	return nil
}

// replies is the answer to the pause of the model's call; nil: there is none.
func (s *State) replies() []resume.Reply {
	if s.Reply == nil {
		return nil
	}
	return []resume.Reply{{Answer: *s.Reply}}
}

// subagent returns the place of a sub-agent, -1 if there is none.
func (s *State) subagent(id string) int {
	return slices.IndexFunc(s.Subagents, func(a Subagent) bool { return a.ID == id })
}

func (s *State) setSubagent(e *Event) error {
	if _, err := s.call(e.Call); err != nil {
		return err
	}
	sub := e.Rest().Subagent
	if sub == nil || sub.ID == "" {
		return fmt.Errorf("it has no sub-agent")
	}
	i := s.subagent(sub.ID)
	if i < 0 && sub.Closed || i >= 0 && sub.Closed == s.Subagents[i].Closed {
		return fmt.Errorf("sub-agent %q is not one to open or close", sub.ID)
	}
	if i < 0 {
		s.Subagents = append(s.Subagents, *sub)
	} else {
		s.Subagents[i] = *sub
	}
	return nil
}

func (s *State) end(e *Event) error {
	ok, more := false, e.Rest()
	switch more.Stop {
	case agentloop.StopAnswer:
		ok = s.Phase == Said && !s.Silent
	case agentloop.StopNoAction:
		ok = s.Phase == Said && (s.Silent || s.Finish == runtime.FinishCalls)
	case agentloop.StopCut:
		ok = s.Phase == Said && s.Finish == runtime.FinishLength
	case agentloop.StopMaxSteps:
		ok = s.Phase == Ready && s.left() == 0
	case agentloop.StopRepetition:
		ok = s.Phase == Ready && s.Repeats >= maxRounds
	case agentloop.StopRefused:
		ok = s.Phase == Ready && s.Refusals >= maxRounds
	case agentloop.StopUntil:
		ok = s.Phase == Ready && s.Steps > 0
	case agentloop.StopError:
		ok = e.Text != ""
	}
	if !ok {
		return fmt.Errorf("it cannot stop for the reason %q while it is %s", more.Stop, s.Phase)
	}
	s.Phase, s.Open, s.Stop, s.Pauses = Over, false, more.Stop, nil
	s.Category, s.Code, s.Failure = more.Category, e.Code, e.Text
	return nil
}
