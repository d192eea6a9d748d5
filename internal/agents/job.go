package agents

import (
	"encoding/json"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Op says what a [Job] calls.
type Op string

// The calls that a loop makes, with the fields of Job that they have beside Path and Frame, and those of [Reply].
const (
	CallModel        Op = "model"             // Name, Request, Reply → Response
	AskSummary       Op = "summary"           // the same, of what is not the agent's answer: it is not streamed
	CallTool         Op = "tool"              // Name, Scope, Call, Arguments, Timeout, Replies → Output, Files
	RunRecipe        Op = "recipe"            // Name, Arguments → Output: a tool of the recipe
	AskApprover      Op = "approve"           // Approval → Decision
	AskPolicy        Op = "permit"            // Name, Arguments; an error refuses the call
	TellPolicy       Op = "permitted"         // Name, Arguments, Text: the result, Code; where no CallTool was made
	LoadMemory       Op = "memory.load"       // → Messages
	SaveMemory       Op = "memory.save"       // Key, Messages
	Retrieve         Op = "retrieve"          // Text, Most → Documents
	LoadSkills       Op = "skills.load"       // Names → Skills and Flaws by CheckSkills, and their Tools
	LoadInstructions Op = "instructions.load" // → Text
	ReadInbox        Op = "inbox.waiting"     // → Notes
	ClearInbox       Op = "inbox.taken"       // Names
	PutArchive       Op = "archive.put"       // Name, Text
	GetArchive       Op = "archive.get"       // Name → Text, Found
	InitLayer        Op = "init of layer"     // Name, Key
	RecallLayer      Op = "recall of layer"   // Name, Key, Text → Text
	StoreLayer       Op = "store of layer"    // Name, Key, Messages
	DisposeLayer     Op = "dispose of layer"  // Name, Key; also when the run is being cancelled
)

// Job is one call that a loop needs, as plain data: it can be made in another process.
type Job struct {
	Op    Op
	Path  string // of the loop, or of the child, that calls
	Frame string // the same, as events name it
	Call  int    // of a tool, its approval and its policy: the number in that loop, from 1
	Name  string // of the model, tool, layer or archive

	Conversation runtime.Conversation // that the loop remembers

	Request   *runtime.Request
	Scope     Scope           // where the tool is from
	Arguments json.RawMessage // may be kept, not changed
	Args      any             `json:"-"` // of CallTool: the Arguments, decoded; they belong to who makes the call
	Timeout   time.Duration   // 0: none
	Replies   []resume.Reply  `json:"-"` // the answers to the pauses that the call asked for; the engine passes them on

	Approval *runtime.ApprovalRequest
	Key      string // under which something is kept
	Messages []runtime.Message
	Names    []string
	Text     string
	Code     string // of a call that came to an error result
	Most     int    // documents
}

// pending is what an Execution has about a [Job] under way.
type pending struct {
	trace *tracer
	then  func(Reply)
}

// Reply is the result of a [Job].
type Reply struct {
	// Err is what went wrong; nil: nothing. A resume.Suspension pauses the loop, a [*PanicError] is an adapter's
	// panic, and retry.FailureOf says whether a tool may have had its effect.
	Err error

	Response  *runtime.Response
	Output    json.RawMessage
	Files     []runtime.File // pictures in the Output, kept beside the journal
	Decision  runtime.ApprovalDecision
	Messages  []runtime.Message
	Documents []runtime.Document
	Skills    []runtime.Skill
	Flaws     []string // of the skills
	Tools     []runtime.ToolSpec
	Notes     []runtime.Note
	Text      string
	Found     bool

	Took     time.Duration // all attempts and what lay between them
	Attempts int           // 0: none was made
}

// PanicError is a panic of an adapter.
type PanicError struct{ Text string }

// Error returns the text.
func (e *PanicError) Error() string { return e.Text }

// Scope says where a tool is from. Of two tools with one name the first scope's counts.
type Scope string

// The scopes, in order.
const (
	OfRecipe Scope = "the recipe"
	OfAgent  Scope = "the agent"
	OfHost   Scope = "the host"
	OfSkill  Scope = "a skill"
	OfEnv    Scope = "the environment"
)

// Offer is what a runtime has for a loop and its children, as data, resolved once.
type Offer struct {
	Models map[string]ModelOffer // by the name that loops use
	// NoModel says why a model that the host names cannot be used; "": no reason. nil: never.
	NoModel func(name string) string
	Host    []runtime.ToolSpec
	Listed  map[string]bool // those of Host that only agents have that list them; nil: none
	Env     []runtime.ToolSpec
	Agents  runtime.AgentLimits
	Deny    []string // the host's list of those that may not
	// Approval is what the host asks for, by keys like those of a loop's own, beside those and what tools ask for.
	Approval map[string]agentloop.Approval
	Limits   runtime.Limits // with defaults

	// Whether the host has them.
	Memory, Retriever, Skills, Instructions, Inbox, Archive, Approver, Policy bool

	// Describe describes a tool; an EffectOf that it returns may not panic. It is needed where a Loop has tools of its
	// Own.
	Describe func(runtime.Tool) runtime.ToolSpec
	// Ask asks a predicate of a Loop, which messages call what: so that one that panics has failed. nil: it is
	// called plainly.
	Ask func(what string, by func(agentloop.Progress) (bool, error), p agentloop.Progress) (bool, error)
}

// ModelOffer describes a model, as far as it is known.
type ModelOffer struct {
	Provider, Model string
	Options         []string // that it takes
}
