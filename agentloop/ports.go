package agentloop

import (
	"context"
	"encoding/json"

	"github.com/braise-run/braise/runtime"
)

// Journal is where the events of a loop and its children go.
type Journal interface {
	// Events returns what earlier legs of the loop appended, in order; nil: nothing.
	Events() []Event
	// Append records events, in order: all of them or, with an error, none. It is called by one
	// goroutine at a time. If one of them is a [Event.Barrier], all that was appended is durable
	// when it returns. After an error the loop ends and appends nothing more.
	Append(ctx context.Context, events ...Event) error
}

// Ports are what a loop may touch beside the models and tools of a Runtime. A nil port is not there:
// what needs it is left out, or said to be missing.
type Ports struct {
	Approver  Approver
	Memory    Memory
	Retriever Retriever
	Skills    SkillLoader
	Env       Env
	Inbox     Inbox
	Archive   Archive
}

// Approver decides about calls that need an approval. Only a Decision with Allow lets the call
// happen: an error, a context that is done for one, refuses it.
type Approver interface {
	Approve(ctx context.Context, p Wish) (Decision, error)
}

// Wish is a call that needs an approval.
type Wish struct {
	Run, Step string // the run's id, the path of the loop
	Agent     string
	Tool      string
	Arguments json.RawMessage // what the tool is called with, byte for byte
	Keys      []string        // what an approval for the session covers, sorted
}

// Decision is an Approver's word.
type Decision struct {
	Allow  bool
	Scope  Scope  // of an approval; "" is ForOnce
	Reason string // of a refusal, for the model; "": none
}

// Scope says what an approval covers.
type Scope string

// The scopes.
const (
	ForOnce    Scope = "once"    // this call
	ForSession Scope = "session" // later calls of this loop with the same keys too, also in another process
)

// Memory keeps conversations beyond a run.
type Memory interface {
	// Load returns a conversation in order; nil when there is none yet.
	Load(ctx context.Context, c Conversation) ([]runtime.Message, error)
	// Save appends what one run of a loop added, in one piece: a reader sees all of it or nothing.
	// turn names that run of the loop; saved again under the same name, it replaces what was there.
	Save(ctx context.Context, c Conversation, turn string, messages []runtime.Message) error
}

// Conversation names a conversation of a [Memory].
type Conversation struct {
	Thread   string // "": there is no memory
	Resource string // whom or what it is about; ""
}

// Retriever finds documents.
type Retriever interface {
	// Retrieve returns at most top documents, the best first; none is no error.
	Retrieve(ctx context.Context, query string, top int) ([]Document, error)
}

// Document is something that was found.
type Document struct {
	ID     string  `json:"id"`
	Text   string  `json:"text"`
	Source string  `json:"source,omitempty"`
	Score  float64 `json:"score,omitempty"`
}

// SkillLoader loads skills by name.
type SkillLoader interface {
	Load(ctx context.Context, names []string) ([]Skill, error)
}

// Skill is a piece of knowledge that an agent may use.
type Skill struct {
	Scope  string         `json:"scope,omitempty"` // admin, repo, system, user
	Name   string         `json:"name"`
	Path   string         `json:"path"`
	SHA256 string         `json:"sha256"` // of the file, in hex
	Text   string         `json:"text,omitempty"`
	Tools  []runtime.Tool `json:"-"` // that it brings; nil: none
}

// Env is the host's environment.
type Env interface {
	Instructions(ctx context.Context) (string, error) // found where the agent works; "": none
	Tools() []runtime.Tool                            // of the host's hook; nil: none
}

// Inbox has messages from outside for a loop that runs. A loop takes them only between two steps.
type Inbox interface {
	// Waiting returns the messages that nobody has taken, in order, and goes on returning them until
	// they are.
	Waiting(ctx context.Context) ([]Note, error)
	// Taken says that the messages with these ids are recorded. It may be said again after a crash.
	Taken(ctx context.Context, ids ...string) error
}

// Note is a message from outside.
type Note struct {
	ID   string `json:"id"` // unique in the inbox
	Text string `json:"text"`
}

// Archive keeps the texts that stand for compacted conversations, by name.
type Archive interface {
	Put(ctx context.Context, name, text string) error
	// Get reports false when there is no text of that name.
	Get(ctx context.Context, name string) (string, bool, error)
}

// forgetful is the Journal of a loop that has none: its state is all that there is.
type forgetful struct{}

func (forgetful) Events() []Event                        { return nil }
func (forgetful) Append(context.Context, ...Event) error { return nil }
