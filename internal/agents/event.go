package agents

import (
	"encoding/json"
	"fmt"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Kind says what an [Event] is about.
type Kind string

// The kinds of events, with the fields that they have beside Seq, Frame and Kind.
const (
	Started      Kind = "start"         // Start
	Instructed   Kind = "instructions"  // Text: what the host's environment says
	SkillsLoaded Kind = "skills"        // Skills
	MemoryLoaded Kind = "memory.load"   // Messages; Read, if they were more
	LayersLoaded Kind = "layers.recall" // Text
	Retrieved    Kind = "retrieve"      // Documents
	Steered      Kind = "steer"         // Notes
	Compacted    Kind = "compact"       // Summary, From; or Text: the name of the archive; Usage
	ModelBegan   Kind = "model.begin"   // of a repair turn: Repair, Messages
	ModelAgain   Kind = "model.again"   // an interrupted or answered call is made again
	ModelEnded   Kind = "model.end"     // Messages: the answer, if anything was said; Usage, Finish, MS, Attempts
	Permission   Kind = "permission"    // Call, Allow, Scope, Keys, edited Arguments; Text: why not
	ToolBegan    Kind = "tool.begin"    // Call, Effect; of a tool of the recipe Tool, Arguments
	ToolAgain    Kind = "tool.again"    // Call
	ToolEnded    Kind = "tool.end"      // Call, MS, Attempts, Text and Files: what the model sees; of a failure Code
	Paused       Kind = "pause"         // Pause
	Answered     Kind = "answer"        // Answer
	HandedOff    Kind = "handoff"       // Call, Agent: the one that takes over at the end of the round
	SubagentSet  Kind = "subagent"      // Subagent: spawned or closed
	MemorySaved  Kind = "memory.save"   // nothing more
	Ended        Kind = "end"           // Stop; of a failure Category, Code, Text
)

// Event is one entry of a loop's journal: plain data, never changed once made. Its JSON is canonical
// when written by package internal/value, and is read back by UnmarshalJSON.
type Event struct {
	Seq   int64  `json:"seq"`             // from 1; a loop and its children share one sequence
	Frame string `json:"frame,omitempty"` // the child loop that it is of: research#2/dig#1; "" is the loop itself
	Kind  Kind   `json:"kind"`
	Call  int    `json:"call,omitempty"` // a tool call, by its place in State.Calls, from 1

	Messages []runtime.Message `json:"messages,omitempty"`
	Text     string            `json:"text,omitempty"`
	Usage    *runtime.Usage    `json:"usage,omitempty"`
	MS       int64             `json:"ms,omitempty"`       // that a call took, with all its attempts
	Attempts int               `json:"attempts,omitempty"` // of a call; 0: one, or not known
	Finish   string            `json:"finish,omitempty"`
	Effect   runtime.Effect    `json:"effect,omitempty"`
	Code     string            `json:"code,omitempty"`

	*More // is read by Rest; nil: nothing of that
}

// More is what few events have: none of those of every turn.
type More struct {
	Start     *Start                `json:"start,omitempty"`
	Notes     []runtime.Note        `json:"notes,omitempty"`
	Documents []runtime.Document    `json:"documents,omitempty"`
	Skills    []runtime.Skill       `json:"skills,omitempty"`
	Read      int                   `json:"read,omitempty"`    // messages in the memory
	Summary   string                `json:"summary,omitempty"` // stands for the messages before From, the task apart
	From      int                   `json:"from,omitempty"`
	Repair    bool                  `json:"repair,omitempty"`
	Allow     bool                  `json:"allow,omitempty"`
	Scope     runtime.ApprovalScope `json:"scope,omitempty"`
	Keys      []string              `json:"keys,omitempty"`
	Arguments json.RawMessage       `json:"arguments,omitempty"` // that were approved instead; nil: as they were
	Tool      string                `json:"tool,omitempty"`      // of the recipe, whose steps begin
	Pause     *Pause                `json:"pause,omitempty"`
	Answer    *Answer               `json:"answer,omitempty"`
	Subagent  *Subagent             `json:"subagent,omitempty"`
	Files     []runtime.File        `json:"files,omitempty"` // that a tool returned
	Agent     string                `json:"agent,omitempty"`
	Stop      agentloop.StopReason  `json:"stop,omitempty"`
	Category  runtime.Category      `json:"category,omitempty"`
}

// Rest returns what few events have.
func (e *Event) Rest() (more More) {
	if e.More != nil {
		more = *e.More
	}
	return more
}

// Barrier reports whether the event, and all before it, must be durable before the Execution is asked what is next:
// something is about to happen outside, or to be shown outside. Other events may go with a later
// one; lost, they are made again. The owner of the journal makes all of it durable before it shows how an Execution
// ended.
func (e *Event) Barrier() bool {
	switch e.Kind {
	case Steered, Compacted, ModelBegan, ModelAgain, Permission, Paused, Answered, MemorySaved, Ended:
		return true
	case ToolBegan, ToolAgain:
		return e.Effect != runtime.ReadOnly && e.Rest().Tool == "" // its steps record what they do
	}
	return false
}

// measure says what a call took, by the reply to it.
func (e *Event) measure(r *Reply) {
	if e.MS = r.Took.Milliseconds(); r.Attempts > 1 {
		e.Attempts = r.Attempts
	}
}

// ForRun reports whether the event is an approval that holds for the whole run.
func (e *Event) ForRun() bool {
	return e.Kind == Permission && e.Rest().Allow && forRun(e.Rest().Scope)
}

// forRun reports whether a scope, by its old name too, is the run.
func forRun(s runtime.ApprovalScope) bool {
	return s == runtime.ApproveRun || s == runtime.ApproveSession
}

// Start is what a loop begins with.
type Start struct {
	Definition string `json:"definition"` // Loop.Digest
	Agent      string `json:"agent,omitempty"`
	// Before comes before the prompt; nil: nothing. Without a prompt the last message is the task.
	Before    []Message      `json:"before,omitempty"`
	Prompt    string         `json:"prompt"`
	Files     []runtime.File `json:"files,omitempty"` // that go with the prompt; local ones by their paths
	Context   string         `json:"context,omitempty"`
	Late      bool           `json:"late,omitempty"`      // what is gathered stands behind the conversation so far
	Depth     int            `json:"depth,omitempty"`     // 0: no delegate
	MaxSteps  int            `json:"maxSteps"`            // hard
	Subagent  string         `json:"subagent,omitempty"`  // the id, of a sub-agent
	Continues string         `json:"continues,omitempty"` // the frame of the sub-agent's turn before
}

// Message is what somebody said, without more.
type Message struct {
	Role  runtime.Role   `json:"role"`
	Text  string         `json:"text"`
	Files []runtime.File `json:"files,omitempty"` // as those of Start
}

// Reasons why a loop pauses, see [Pause].
const (
	ForApproval   = "approval"      // decisions approve, reject; form {scope, arguments, reason}
	ForHuman      = "human"         // human.ask: {answer}
	ForTool       = "tool"          // the tool suspended its call
	ForModel      = "model"         // the call of the model was suspended: a budget, a long wait
	Indeterminate = "indeterminate" // the outcome of a call is unknown: retry, result, fail
)

// Pause is one open pause of a loop. Its ID is unique in the run and the same in every replay, its
// Step the path of the loop that waits.
type Pause struct {
	resume.Pause
	For    string         `json:"for"`
	Frame  string         `json:"frame,omitempty"`
	Call   int            `json:"call,omitempty"` // 0: of the model's call
	Tool   string         `json:"tool,omitempty"`
	Expiry *resume.Expiry `json:"expiry,omitempty"` // OnExpire, which the JSON of a resume.Pause leaves out
}

// Answer is the answer to a pause.
type Answer struct {
	Pause string `json:"pause"` // its ID
	Value any    `json:"value"` // Decoded JSON, as resume.Pause.Check returns it
	Due   bool   `json:"due,omitempty"`
	// Due says that the pause ended by its time without an answer, and the call is repeated.
}

// Subagent is a child that the model spawned.
type Subagent struct {
	ID     string   `json:"id"`
	Agent  string   `json:"agent,omitempty"` // the delegate whose definition it has; "": its parent's
	Tools  []string `json:"tools,omitempty"` // narrows what it is offered; nil: as its definition says
	Closed bool     `json:"closed,omitempty"`
	Last   string   `json:"last,omitempty"` // the frame of its last turn
	Call   int      `json:"call"`           // that spawned or closed it
}

// UnmarshalJSON reads an event. Integers in the free values of pauses and answers stay integers.
func (e *Event) UnmarshalJSON(text []byte) error {
	type plain Event
	var p plain
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("agent event: %w", err)
	}
	if p.More != nil && (p.More.Pause != nil || p.More.Answer != nil) {
		v, err := value.Decode(text)
		if err != nil {
			return fmt.Errorf("agent event: %w", err)
		}
		m, _ := v.(map[string]any)
		if pause, ok := m["pause"].(map[string]any); ok && p.More.Pause != nil {
			p.More.Pause.Show, p.More.Pause.Schema = pause["show"], pause["schema"]
			if expiry, ok := pause["expiry"].(map[string]any); ok && p.More.Pause.Expiry != nil {
				p.More.Pause.Expiry.Value = expiry["Value"]
				p.More.Pause.OnExpire = *p.More.Pause.Expiry
			}
		}
		if answer, ok := m["answer"].(map[string]any); ok && p.More.Answer != nil {
			p.More.Answer.Value = answer["value"]
		}
	}
	*e = Event(p)
	return nil
}
