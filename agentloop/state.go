package agentloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Phase is where a loop stands.
//
//	"" ──start──▶ ready ──model.begin──▶ asking ──model.end──▶ calling ──all results──▶ ready
//	                                      ▲   └──no calls──▶ said ──end──▶ ended
//	                                      └──────repair────────┘
//
// A loop can end from any phase with an error, from ready because of a bound.
type Phase string

// The phases. The zero Phase has not begun.
const (
	Ready   Phase = "ready"   // between two steps
	Asking  Phase = "asking"  // a call of the model has no answer
	Calling Phase = "calling" // tool calls have no results
	Said    Phase = "said"    // the model called no tool
	Over    Phase = "ended"
)

// Bounds that nothing lifts (agent-loop.md 2.5, 8).
const (
	maxRepairs    = 2
	maxRecoveries = 5
)

// State is what the journal of a loop comes to: plain data, a fold of its events and nothing else.
// The zero State is the one before the first event.
type State struct {
	Seq      int64              `json:"seq"` // of the last event, children's included
	Phase    Phase              `json:"phase,omitempty"`
	Start    Start              `json:"start"`
	Gathered []Kind             `json:"gathered,omitempty"` // what is gathered once, and is
	Guide    string             `json:"guide,omitempty"`    // what the environment says
	Skills   []runtime.Skill    `json:"skills,omitempty"`
	Layers   string             `json:"layers,omitempty"`
	Found    []runtime.Document `json:"found,omitempty"`
	Messages []runtime.Message  `json:"messages"`          // the history, without a system prompt
	Own      int                `json:"own"`               // where in Messages this loop's own begin
	Archive  string             `json:"archive,omitempty"` // what the model sees for the messages before From; "": nothing
	From     int                `json:"from,omitempty"`
	Archives int                `json:"archives,omitempty"`
	Taken    []string           `json:"taken,omitempty"` // notes of the inbox, by id

	Steps      int    `json:"steps"`             // counted calls of the model, the open one with them
	Open       bool   `json:"open,omitempty"`    // while asking: the call is under way, or was when the process died
	Repairs    int    `json:"repairs,omitempty"` // repair turns
	Recoveries int    `json:"recoveries,omitempty"`
	Asked      int    `json:"asked,omitempty"` // pauses of calls of the model so far
	Reply      *any   `json:"reply,omitempty"` // what the suspended call of the model is answered
	Text       string `json:"text,omitempty"`  // of the model's last answer
	Silent     bool   `json:"silent,omitempty"`

	Calls   []Call        `json:"calls,omitempty"`
	Round   int           `json:"round"` // where in Calls the last round begins
	Repeats int           `json:"repeats,omitempty"`
	Pauses  []Pause       `json:"pauses,omitempty"` // open ones of this loop, in the order of its calls
	Grants  []string      `json:"grants,omitempty"` // approvals for the session, sorted
	Usage   runtime.Usage `json:"usage"`            // without children's

	Subagents []Subagent        `json:"subagents,omitempty"`
	Children  map[string]*State `json:"children,omitempty"` // by frame name: research#2

	Saved    bool             `json:"saved,omitempty"`
	Stop     StopReason       `json:"stop,omitempty"`
	Category runtime.Category `json:"category,omitempty"` // of a failure
	Code     string           `json:"code,omitempty"`
	Failure  string           `json:"failure,omitempty"`
}

// Call is a tool call with what became of it.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Step      int             `json:"step"`
	Effect    runtime.Effect  `json:"effect,omitempty"`
	Decided   bool            `json:"decided,omitempty"` // there was a decision about it
	Allowed   bool            `json:"allowed,omitempty"`
	Why       string          `json:"why,omitempty"` // of a refusal
	Begun     bool            `json:"begun,omitempty"`
	Open      bool            `json:"open,omitempty"` // under way, or was when the process died
	Done      bool            `json:"done,omitempty"`
	Result    string          `json:"result,omitempty"`  // what the model sees
	Code      string          `json:"code,omitempty"`    // why it failed; "": it did not
	Pauses    int             `json:"pauses,omitempty"`  // so far
	Waits     bool            `json:"waits,omitempty"`   // a pause is open
	For       string          `json:"for,omitempty"`     // of the last pause
	Answer    *any            `json:"answer,omitempty"`  // to the last pause; nil: none, or it was due
	Reply     *any            `json:"reply,omitempty"`   // the last answer to a pause that the tool asked for
	ReplyTo   string          `json:"replyTo,omitempty"` // that pause's reason
}

// Reduce returns what a state becomes by an event. It changes nothing that it is given. An event that is
// illegal in the state is refused: then nothing happened, and it may not be recorded.
func Reduce(s State, e Event) (State, error) {
	next := s.clone(e.Frame)
	if err := next.Apply(&e); err != nil {
		return s, err
	}
	return *next, nil
}

// Fold returns what the events of a journal come to, from the first one on.
func Fold(events []Event) (State, error) {
	var s State
	for i := range events {
		if err := s.Apply(&events[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// clone copies what an event for frame may change in place; what only grows is shared.
func (s *State) clone(frame string) *State {
	c := *s
	c.Gathered, c.Messages, c.Taken = slices.Clip(s.Gathered), slices.Clip(s.Messages), slices.Clip(s.Taken)
	c.Calls, c.Pauses, c.Grants, c.Subagents = slices.Clone(s.Calls), slices.Clone(s.Pauses), slices.Clip(s.Grants), slices.Clone(s.Subagents)
	if name, rest, _ := strings.Cut(frame, "/"); name != "" {
		c.Children = maps.Clone(s.Children)
		if child := c.Children[name]; child != nil {
			c.Children[name] = child.clone(rest)
		}
	}
	return &c
}

// Apply is [Reduce] in place. An event that it refuses has changed nothing.
func (s *State) Apply(e *Event) error {
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("agent event %d (%s) does not follow event %d", e.Seq, e.Kind, s.Seq)
	}
	if err := s.route(e.Frame, e); err != nil {
		where := ""
		if e.Frame != "" {
			where = fmt.Sprintf(" of %q", e.Frame)
		}
		return fmt.Errorf("agent event %d (%s)%s: %w", e.Seq, e.Kind, where, err)
	}
	return nil
}

// route finds the loop that an event is of.
func (s *State) route(frame string, e *Event) error {
	if frame == "" {
		if err := s.take(e); err != nil {
			return err
		}
		s.Seq = e.Seq
		return nil
	}
	name, rest, _ := strings.Cut(frame, "/")
	child, n := s.Children[name], ordinalOf(name)
	if s.Phase != Calling || n <= s.Round || n > len(s.Calls) || !s.Calls[n-1].Open {
		return fmt.Errorf("no open call has the child %q", name)
	}
	if child == nil {
		child = new(State)
		if rest == "" && e.Start != nil && e.Start.Continues != "" {
			before := s.Children[e.Start.Continues]
			if before == nil || before.Phase != Over {
				return fmt.Errorf("it continues %q, which has not ended", e.Start.Continues)
			}
			child.Messages = slices.Clip(before.Messages)
		}
	}
	if rest == "" && e.Start != nil && e.Start.Depth != s.Start.Depth+1 {
		return fmt.Errorf("depth %d below depth %d", e.Start.Depth, s.Start.Depth)
	}
	if err := child.route(rest, e); err != nil {
		return err
	}
	if s.Children == nil {
		s.Children = map[string]*State{}
	}
	s.Children[name] = child
	if id := child.Start.Subagent; id != "" && e.Kind == Started {
		s.Subagents[s.subagent(id)].Last = name
	}
	s.Seq = e.Seq
	return nil
}

// take applies an event of this loop itself: every case checks first and changes then.
func (s *State) take(e *Event) error {
	if e.Kind == Started {
		return s.begin(e)
	}
	if s.Phase == "" || s.Phase == Over {
		return fmt.Errorf("the loop has %s", map[Phase]string{"": "not begun", Over: "ended"}[s.Phase])
	}
	switch e.Kind {
	case Instructed, SkillsLoaded, MemoryLoaded, LayersLoaded, Retrieved:
		return s.gather(e)
	case Steered, Compacted:
		return s.turn(e)
	case ModelBegan, ModelAgain, ModelEnded:
		return s.model(e)
	case Permission, ToolBegan, ToolAgain, ToolEnded:
		return s.tool(e)
	case Paused:
		return s.pause(e)
	case Answered:
		return s.answer(e)
	case SubagentSet:
		return s.setSubagent(e)
	case MemorySaved:
		if s.Saved || s.Phase != Ready && s.Phase != Said {
			return s.refuse()
		}
		s.Saved = true
		return nil
	case Ended:
		return s.end(e)
	}
	return fmt.Errorf("unknown kind")
}

func (s *State) refuse() error { return fmt.Errorf("the loop is %s", s.Phase) }

func (s *State) begin(e *Event) error {
	switch {
	case s.Phase != "":
		return s.refuse()
	case e.Start == nil || e.Start.MaxSteps < 1:
		return fmt.Errorf("it has no step to go")
	}
	s.Phase, s.Start, s.Own = Ready, *e.Start, len(s.Messages)
	text := s.Start.Prompt
	if s.Start.Context != "" {
		text = s.Start.Context + "\n\n" + text
	}
	s.Messages = append(slices.Grow(s.Messages, room(s.Start.MaxSteps, 2)), runtime.Message{Role: runtime.User, Text: text})
	return nil
}

// gather takes what is gathered once, before the first call of the model.
func (s *State) gather(e *Event) error {
	if s.Phase != Ready || s.Steps > 0 || slices.Contains(s.Gathered, e.Kind) {
		return fmt.Errorf("it comes once, before the first step")
	}
	s.Gathered = append(s.Gathered, e.Kind)
	switch e.Kind {
	case Instructed:
		s.Guide = e.Text
	case SkillsLoaded:
		s.Skills = e.Skills
	case LayersLoaded:
		s.Layers = e.Text
	case Retrieved:
		s.Found = e.Documents
	case MemoryLoaded:
		s.Messages = slices.Concat(e.Messages, s.Messages)
		s.Own += len(e.Messages)
	}
	return nil
}

// turn takes what may change the history between two steps.
func (s *State) turn(e *Event) error {
	if s.Phase != Ready {
		return s.refuse()
	}
	if e.Kind == Compacted {
		if e.Text == "" {
			return fmt.Errorf("it names no archive")
		}
		s.Archive, s.From = e.Text, len(s.Messages)
		s.Archives++
		s.count(e.Usage)
		return nil
	}
	for _, n := range e.Notes {
		s.Messages = append(s.Messages, runtime.Message{Role: runtime.User, Text: n.Text})
		s.Taken = append(s.Taken, n.ID)
	}
	s.Repeats = 0 // somebody has had a word
	return nil
}

func (s *State) count(u *runtime.Usage) {
	if u != nil {
		s.Usage.InputTokens += u.InputTokens
		s.Usage.OutputTokens += u.OutputTokens
	}
}

// model takes the beginning and the end of a call of the model.
func (s *State) model(e *Event) error {
	switch {
	case e.Kind == ModelBegan && e.Repair:
		if s.Phase != Said || s.Repairs >= maxRepairs {
			return s.refuse()
		}
		s.Repairs++
		s.Messages = append(s.Messages, e.Messages...)
	case e.Kind == ModelBegan:
		if s.Phase != Ready {
			return s.refuse()
		}
		if s.Steps >= s.Start.MaxSteps {
			return fmt.Errorf("%d steps are the most", s.Start.MaxSteps)
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
	s.Phase, s.Open, s.Recoveries, s.Reply = Asking, true, 0, nil
	return nil
}

// hear takes the model's answer. One that says nothing is not appended.
func (s *State) hear(e *Event) error {
	if !s.Open || len(e.Messages) > 1 || len(e.Messages) == 1 && e.Messages[0].Role != runtime.Assistant {
		return fmt.Errorf("it is no answer to a call of the model")
	}
	s.count(e.Usage)
	s.Phase, s.Open, s.Text, s.Silent = Said, false, "", len(e.Messages) == 0
	if s.Silent {
		return nil
	}
	m := e.Messages[0]
	s.Messages, s.Text = append(s.Messages, m), m.Text
	if len(m.ToolCalls) > 0 {
		s.Phase, s.Round = Calling, len(s.Calls)
		if s.Calls == nil {
			s.Calls = make([]Call, 0, room(s.Start.MaxSteps, 1))
		}
		for _, c := range m.ToolCalls {
			s.Calls = append(s.Calls, Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Step: s.Steps})
		}
	}
	return nil
}

// call returns an open call of the last round, by its number.
func (s *State) call(n int) (*Call, error) {
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
		c.Decided, c.Allowed, c.Why = true, e.Allow, e.Text
		if e.Allow && e.Scope == runtime.ApproveSession {
			s.Grants = union(s.Grants, e.Keys)
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
		for name, child := range s.Children {
			if ordinalOf(name) == e.Call && child.Phase != Over {
				return fmt.Errorf("call %d has a result before its child %q has ended", e.Call, name)
			}
		}
		c.Done, c.Open, c.Result, c.Code = true, false, e.Text, e.Code
		s.settle()
	}
	return nil
}

// settle closes the round when all its calls have results: those go into the history in the order of
// the calls, whatever the order in which they came.
func (s *State) settle() {
	round := s.Calls[s.Round:]
	if slices.ContainsFunc(round, func(c Call) bool { return !c.Done }) {
		return
	}
	for i := range round {
		s.Messages = append(s.Messages, runtime.Message{Role: runtime.ToolRole, ToolCallID: round[i].ID, Text: round[i].Result})
	}
	before := s.Round
	for before > 0 && s.Calls[before-1].Step == s.Calls[s.Round-1].Step {
		before--
	}
	if s.Repeats++; !slices.EqualFunc(s.Calls[before:s.Round], round, sameCall) {
		s.Repeats = 1
	}
	s.Phase = Ready
}

// sameCall reports whether two calls are one, and came to the same.
func sameCall(a, b Call) bool {
	if a.Name != b.Name || a.Result != b.Result || a.Code != b.Code {
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
	if e.Pause == nil || e.Pause.ID == "" {
		return fmt.Errorf("it has no pause")
	}
	p := *e.Pause
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
	i := -1
	if e.Answer != nil {
		i = slices.IndexFunc(s.Pauses, func(p Pause) bool { return p.ID == e.Answer.Pause })
	}
	if i < 0 {
		return fmt.Errorf("no such pause is open")
	}
	var reply *any
	if !e.Answer.Due {
		reply = &e.Answer.Value
	}
	if n := s.Pauses[i].Call; n > 0 {
		c := &s.Calls[n-1]
		c.Waits, c.Answer = false, reply
		if c.For == ForTool && reply != nil {
			c.Reply, c.ReplyTo = reply, s.Pauses[i].Reason
		}
	} else if reply != nil {
		s.Reply = reply
	}
	s.Pauses = slices.Delete(s.Pauses, i, i+1)
	return nil
}

// subagent returns the place of a sub-agent, -1 if there is none.
func (s *State) subagent(id string) int {
	return slices.IndexFunc(s.Subagents, func(a Subagent) bool { return a.ID == id })
}

func (s *State) setSubagent(e *Event) error {
	if _, err := s.call(e.Call); err != nil {
		return err
	}
	if e.Subagent == nil || e.Subagent.ID == "" {
		return fmt.Errorf("it has no sub-agent")
	}
	i := s.subagent(e.Subagent.ID)
	if i < 0 && e.Subagent.Closed || i >= 0 && e.Subagent.Closed == s.Subagents[i].Closed {
		return fmt.Errorf("sub-agent %q is not one to open or close", e.Subagent.ID)
	}
	if i < 0 {
		s.Subagents = append(s.Subagents, *e.Subagent)
	} else {
		s.Subagents[i] = *e.Subagent
	}
	return nil
}

func (s *State) end(e *Event) error {
	ok := false
	switch e.Stop {
	case StopAnswer:
		ok = s.Phase == Said && !s.Silent
	case StopNoAction:
		ok = s.Phase == Said && s.Silent
	case StopMaxSteps:
		ok = s.Phase == Ready && s.Steps == s.Start.MaxSteps
	case StopRepetition:
		ok = s.Phase == Ready && s.Repeats >= maxRounds
	case StopUntil:
		ok = s.Phase == Ready && s.Steps > 0
	case StopError:
		ok = e.Text != ""
	}
	if !ok {
		return fmt.Errorf("it cannot stop for the reason %q while it is %s", e.Stop, s.Phase)
	}
	s.Phase, s.Open, s.Stop, s.Pauses = Over, false, e.Stop, nil
	s.Category, s.Code, s.Failure = e.Category, e.Code, e.Text
	return nil
}

// openPauses returns the pauses of the loop and its children, in the order of the calls.
func (s *State) openPauses() []Pause {
	var list []Pause
	if s.Phase == Asking {
		list = append(list, s.Pauses...)
	}
	for n := s.Round + 1; s.Phase == Calling && n <= len(s.Calls); n++ {
		for _, p := range s.Pauses {
			if p.Call == n {
				list = append(list, p)
			}
		}
		for name, child := range s.Children {
			if ordinalOf(name) == n { // there is one at most
				list = append(list, child.openPauses()...)
			}
		}
	}
	return list
}

// at returns the state of a child by its frame, s itself for ""; nil before its first event.
func (s *State) at(frame string) *State {
	for frame != "" && s != nil {
		var name string
		name, frame, _ = strings.Cut(frame, "/")
		s = s.Children[name]
	}
	return s
}

// Total is what the loop and its children have used.
func (s *State) Total() runtime.Usage {
	sum := s.Usage
	for _, child := range s.Children {
		u := child.Total()
		sum.InputTokens += u.InputTokens
		sum.OutputTokens += u.OutputTokens
	}
	return sum
}

// union adds words to a sorted list, which it does not change.
func union(sorted, words []string) []string {
	all := slices.Concat(sorted, words)
	slices.Sort(all)
	return slices.Compact(all)
}

// ordinalOf returns the number of the call that a frame is of: 2 for research#2.
func ordinalOf(frame string) int {
	n := 0
	_, digits, _ := strings.Cut(frame, "#")
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<30 {
			return 0
		}
		n = 10*n + int(d-'0')
	}
	return n
}
