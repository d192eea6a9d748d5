package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// The ports of this file serve agents only. Their methods must be safe for concurrent use, and should
// return soon after ctx is done.

// AgentLimits restrict what agents may do, whatever their recipes say. The zero value restricts nothing.
type AgentLimits struct {
	Tools    []string // that they may call at most: names, PREFIX.* or effects. Empty: any
	MaxCalls int      // of tools by one agent, its children's included. 0: as the agent says
	// ApprovalExpires is how long a call waits for an approval, or human.ask for an answer. Then the call is
	// refused, or the answer says that nobody answered in time. 0: for good.
	ApprovalExpires time.Duration
	// PlainPrograms are names of programs that run nothing else and write nothing, whatever their arguments are,
	// beside those that docs/reference/tools.md lists: a yes for the run to one call of such a program by exec.run
	// is one to all.
	PlainPrograms []string
}

// Memory keeps the conversations of agents beyond a run.
type Memory interface {
	// Load returns a conversation in order; nil when there is none yet.
	Load(ctx context.Context, c Conversation) ([]Message, error)
	// Save adds what one run of an agent said and heard, in one piece: a reader sees all of it or
	// nothing. turn names that run of the agent; saved again under the same name, it replaces what was
	// saved, in its place.
	Save(ctx context.Context, c Conversation, turn string, messages []Message) error
}

// Conversation names a conversation of a [Memory].
type Conversation struct {
	Thread   string // "": there is no memory
	Resource string // whom or what it is about: a part of the name; ""
}

// Approver decides about calls of an agent that need an approval. Only a decision with Allow lets the
// call happen: an error, a context that is done for one, refuses it.
type Approver interface {
	Approve(ctx context.Context, r ApprovalRequest) (ApprovalDecision, error)
}

// ApprovalRequest is a call of a tool that needs an approval.
type ApprovalRequest struct {
	Run, Step  string // the run's id, the path of the agent
	Agent      string
	Tool       string
	Arguments  json.RawMessage // what the tool is called with, byte for byte
	Parameters json.RawMessage // the JSON Schema of the tool's arguments; nil: any object
	Keys       []string        // what an approval for the run covers, sorted
	To         []string        // people and groups of whom one may approve, which the Approver checks; nil: anybody
	Once       bool            // an approval is for this call only, whatever its scope
	Pauses     bool            // without a decision the call waits for one: see [ErrNoDecision]
}

// ApprovalDecision is the decision of an Approver.
type ApprovalDecision struct {
	Allow  bool
	Scope  ApprovalScope // of an approval; "" is ApproveOnce
	Reason string        // of a refusal, for the model; "": none
	// Arguments are what the tool is to be called with instead, this one time: a JSON object that fits the tool's
	// schema, without secrets. nil: what the model gave.
	Arguments json.RawMessage
}

// ErrNoDecision is what an Approver returns to leave the decision to others: a call whose request has Pauses set waits
// for a decision, as if there were no Approver; any other call is refused.
var ErrNoDecision = errors.New("nobody can give it")

// ApprovalScope says what an approval covers.
type ApprovalScope string

// The scopes.
const (
	ApproveOnce ApprovalScope = "once" // this call
	// later calls in this run with the same keys too: of every agent, and also in another process
	ApproveRun     ApprovalScope = "run"
	ApproveSession ApprovalScope = "session" // the old name of ApproveRun
)

// SkillLoader loads skills by name. A missing one is an error.
type SkillLoader interface {
	Load(ctx context.Context, names []string) ([]Skill, error)
}

// Skill is a piece of knowledge that an agent may use.
type Skill struct {
	Scope       string `json:"scope,omitempty"` // admin, repo, system, user; ""
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"`
	SHA256      string `json:"sha256"` // of the file, in hex
	Text        string `json:"text,omitempty"`
	Tools       []Tool `json:"-"` // that it brings; nil: none
}

// Env is the host's environment of an agent.
type Env interface {
	Instructions(ctx context.Context) (string, error) // found where the agent works; "": none
	Tools() []Tool                                    // nil: none
}

// Inbox has messages from outside for agents that are at work. An agent takes them only between two
// of its steps.
type Inbox interface {
	// Waiting returns the messages for an agent that are not taken yet, in order, and keeps returning
	// them until they are. run is the run's id, step the path of the agent in it.
	Waiting(ctx context.Context, run, step string) ([]Note, error)
	// Taken says that the messages with these ids are recorded. It may be said again after a crash.
	Taken(ctx context.Context, run, step string, ids ...string) error
}

// Note is a message of an [Inbox].
type Note struct {
	ID   string `json:"id"` // unique among those for an agent
	Text string `json:"text"`
}
