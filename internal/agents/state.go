package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Phase is where a loop stands.
//
//	"" ──start──▶ ready ──model.begin──▶ asking ──model.end──▶ calling ──all results──▶ ready
//	                                      ▲   └──no calls──▶ said ──end──▶ ended
//	                                      └──────repair────────┘
//
// A loop can end from any phase with an error, from ready because of a limit.
type Phase string

// The phases. The zero Phase has not begun.
const (
	Ready   Phase = "ready"   // between two steps
	Asking  Phase = "asking"  // a call of the model has no answer
	Calling Phase = "calling" // tool calls have no results
	Said    Phase = "said"    // the model called no tool
	Over    Phase = "ended"
)

// Limits, of which a step can change only the first (agent-loop.md 2.5, 2.6, 8).
const (
	// DefaultRepairs is how many turns there are to mend an answer, unless the step gives a number.
	DefaultRepairs = 2

	mostRepairs   = 10 // turns to mend an answer that a step may allow, see recipe.MaxRepairs
	maxRecoveries = 5
	maxRounds     = 3 // with the same calls and results, or with refused calls alone
)

// State is what the journal of a loop adds up to: plain data, a fold of its events and nothing else.
// The zero State is the one before the first event.
type State struct {
	Seq   int64 `json:"seq"` // of the last event, children's included
	Phase Phase `json:"phase,omitempty"`
	Start Start `json:"start"`
	background
	history
	turns
	work
	Usage     runtime.Usage     `json:"usage"` // without children's
	Subagents []Subagent        `json:"subagents,omitempty"`
	Children  map[string]*State `json:"children,omitempty"` // by frame name: research#2
	Saved     bool              `json:"saved,omitempty"`
	outcome
}

// background is the part of a [State] that is gathered once, before the first step.
type background struct {
	Gathered []Kind             `json:"gathered,omitempty"` // what is
	Guide    string             `json:"guide,omitempty"`    // what the environment says
	Skills   []runtime.Skill    `json:"skills,omitempty"`
	Layers   string             `json:"layers,omitempty"`
	Found    []runtime.Document `json:"found,omitempty"`
}

// history is the conversation in a [State].
type history struct {
	Messages []runtime.Message `json:"messages"`          // without a system prompt
	Own      int               `json:"own"`               // where in Messages this loop's own begin
	Read     int               `json:"read,omitempty"`    // messages in the memory when it was loaded
	Summary  string            `json:"summary,omitempty"` // stands for the messages before From; "": nothing
	Archive  string            `json:"archive,omitempty"` // the same, by the archive's name
	From     int               `json:"from,omitempty"`
	Archives int               `json:"archives,omitempty"`
	Taken    []string          `json:"taken,omitempty"` // notes of the inbox, by id
}

// turns is the part of a [State] about the calls of the model.
type turns struct {
	Steps      int    `json:"steps"`             // counted calls, the open one with them
	Open       bool   `json:"open,omitempty"`    // while asking: the call is under way, or was when the process died
	Repairs    int    `json:"repairs,omitempty"` // repair turns
	Recoveries int    `json:"recoveries,omitempty"`
	Compacted  bool   `json:"compacted,omitempty"` // for this call; once is enough
	Asked      int    `json:"asked,omitempty"`     // pauses of calls so far
	Reply      *any   `json:"reply,omitempty"`     // what the suspended call is answered
	Text       string `json:"text,omitempty"`      // of the last answer
	Silent     bool   `json:"silent,omitempty"`
	Finish     string `json:"finish,omitempty"` // why the last answer ended
}

// left counts the calls of the model that there may still be.
func (s *State) left() int { return s.Start.MaxSteps - s.Steps }

// work is the part of a [State] about the calls of tools.
type work struct {
	Calls   []agentloop.Call `json:"calls,omitempty"`
	Round   int              `json:"round"` // where in Calls the last round begins
	Repeats int              `json:"repeats,omitempty"`
	// Refusals counts the last rounds in which every call was refused, see refused.
	Refusals int      `json:"refusals,omitempty"`
	Pauses   []Pause  `json:"pauses,omitempty"` // open ones of this loop, in the order of its calls
	Grants   []string `json:"grants,omitempty"` // approvals for the run, sorted
	// Handoffs are all so far. One takes effect when the round of its call is over, see [State.handoffs].
	Handoffs []Handoff `json:"handoffs,omitempty"`
}

// Handoff says that another agent takes over the conversation.
type Handoff struct {
	Agent string `json:"agent"`
	Call  int    `json:"call"`
}

// outcome is how a loop ended, in its [State].
type outcome struct {
	Stop     agentloop.StopReason `json:"stop,omitempty"`
	Category runtime.Category     `json:"category,omitempty"` // of a failure
	Code     string               `json:"code,omitempty"`
	Failure  string               `json:"failure,omitempty"`
}

// Reduce returns the state after an event. It changes nothing that it is given. An event that is
// illegal in the state is refused: then nothing happened, and it may not be recorded.
func Reduce(s State, e Event) (State, error) {
	next := s.clone(e.Frame)
	if err := next.Apply(&e); err != nil {
		return s, err
	}
	return *next, nil
}

// Fold returns what the events of a journal add up to, from the first one on.
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
	c.Calls, c.Pauses, c.Subagents = slices.Clone(s.Calls), slices.Clone(s.Pauses), slices.Clone(s.Subagents)
	c.Grants, c.Handoffs = slices.Clip(s.Grants), slices.Clip(s.Handoffs)
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
	start := e.Rest().Start
	if s.Phase != Calling || n <= s.Round || n > len(s.Calls) || !s.Calls[n-1].Open {
		return fmt.Errorf("no open call has the child %q", name)
	}
	if child == nil {
		child = new(State)
		if rest == "" && start != nil && start.Continues != "" {
			before := s.Children[start.Continues]
			if before == nil || before.Phase != Over {
				return fmt.Errorf("it continues %q, which has not ended", start.Continues)
			}
			child.Messages = slices.Clip(before.Messages)
			child.Summary, child.From = before.Summary, before.From
		}
	}
	if rest == "" && start != nil && start.Depth != s.Start.Depth+1 {
		return fmt.Errorf("depth %d below depth %d", start.Depth, s.Start.Depth)
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
	case Steered:
		return s.steer(e)
	case Compacted:
		return s.compact(e)
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
	case HandedOff:
		return s.handOff(e)
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
		for _, name := range value.SortedKeys(s.Children) {
			if ordinalOf(name) == n { // there is one at most
				list = append(list, s.Children[name].openPauses()...)
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
	for _, name := range value.SortedKeys(s.Children) {
		sum = sum.Plus(s.Children[name].Total())
	}
	return sum
}

// made counts the calls of tools that the loop and its children have made, or are about to make.
func (s *State) made() int {
	n := 0
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Begun || touched(*c) && !c.Done {
			n++
		}
	}
	for _, name := range value.SortedKeys(s.Children) {
		n += s.Children[name].made()
	}
	return n
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

// room estimates how many of something there will be, if a step with a call has n: a guess that
// saves much copying.
func room(steps, n int) int { return 8 + n*min(steps, 2*agentloop.DefaultMaxSteps) }
