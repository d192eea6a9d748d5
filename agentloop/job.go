package agentloop

import (
	"encoding/json"
	"time"

	"github.com/braise-run/braise/runtime"
)

// Op says what a [Job] calls.
type Op string

// The calls that a loop makes, with the fields of Job that they have beside Path and Frame, and those of [Reply].
const (
	CallModel        Op = "model"             // Name, Request, Reply → Response
	CallTool         Op = "tool"              // Name, Scope, Call, Arguments, Timeout, Reply, ReplyTo → Output
	AskApprover      Op = "approve"           // Approval → Decision
	AskPolicy        Op = "permit"            // Name, Arguments; an error refuses the call
	LoadMemory       Op = "memory.load"       // Conversation → Messages
	SaveMemory       Op = "memory.save"       // Conversation, Key, Messages
	Retrieve         Op = "retrieve"          // Text, Most → Documents
	LoadSkills       Op = "skills.load"       // Names → Skills, sorted by SortSkills, and their Tools
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

	Request   *runtime.Request
	Scope     Scope           // where the tool is from
	Arguments json.RawMessage // may be kept, not changed
	Timeout   time.Duration   // 0: none
	Reply     *any            // the answer to the pause that the call asked for; nil: none
	ReplyTo   string          // that pause's reason

	Approval     *runtime.ApprovalRequest
	Conversation runtime.Conversation
	Key          string // under which something is kept
	Messages     []runtime.Message
	Names        []string
	Text         string
	Most         int // documents

	pending
}

// pending is what a leg knows of a [Job] under way.
type pending struct {
	trace *tracer
	then  func(Reply)
	over  bool
}

// Reply is what came of a [Job].
type Reply struct {
	// Err is what went wrong; nil: nothing. A resume.Suspension pauses the loop, a [*PanicError] is an adapter's
	// panic, and retry.FailureOf says whether a tool may have had its effect.
	Err error

	Response  *runtime.Response
	Output    json.RawMessage
	Decision  runtime.ApprovalDecision
	Messages  []runtime.Message
	Documents []runtime.Document
	Skills    []runtime.Skill
	Tools     []ToolOffer
	Notes     []runtime.Note
	Text      string
	Found     bool
}

// PanicError is a panic of an adapter.
type PanicError struct{ Text string }

// Error returns the text.
func (e *PanicError) Error() string { return e.Text }

// Scope says where a tool is from. Of two tools with one name the first scope's counts.
type Scope string

// The scopes, in order.
const (
	OfRun   Scope = "the run"
	OfAgent Scope = "the agent"
	OfHost  Scope = "the host"
	OfSkill Scope = "a skill"
	OfEnv   Scope = "the environment"
)

// Offer is what a runtime has for a loop and its children, as data, resolved once.
type Offer struct {
	Models map[string]ModelOffer // by the name that loops use
	Run    []ToolOffer           // tools of this run: they shadow all others
	Host   []ToolOffer
	Env    []ToolOffer
	Allow  []string       // the host's list of tools that may be called; empty: all
	Deny   []string       // the host's list of those that may not
	Limits runtime.Limits // with defaults

	// What is there.
	Memory, Retriever, Skills, Instructions, Inbox, Archive, Approver, Policy bool

	// Describe describes a tool. It is needed where a Loop has tools of its Own.
	Describe func(runtime.Tool) ToolOffer
	// Ask asks a predicate of a Loop, which messages call what: so that one that panics has failed. nil: it is
	// called plainly.
	Ask func(what string, by func(Progress) (bool, error), p Progress) (bool, error)
}

// ModelOffer describes a model, as far as it is known.
type ModelOffer struct{ Provider, Model string }

// ToolOffer describes a tool.
type ToolOffer struct {
	Spec     runtime.ToolSpec
	Approval Approval // that the host wants; "": none
	// EffectOf is the effect where that depends on the arguments; it must be pure and may not panic. nil: it does
	// not depend on them.
	EffectOf func(args json.RawMessage) runtime.Effect
}
