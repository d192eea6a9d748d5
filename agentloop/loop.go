// Package agentloop defines agents in Go: a [Loop] is a model that calls tools until it answers, within limits.
//
// A Loop is only a definition. workflow.Agent makes a workflow of it. Its runs have hooks, sinks, retries,
// budgets, pauses and a store, like those of recipes, and continue after a pause or a crash.
package agentloop

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Loop is an agent: one model with tools until it answers. It is immutable once it runs, and many
// runs may share it. Building one does no I/O.
type Loop struct {
	Name         string // the agent's id; ""
	Description  string // for the loops that may delegate to it
	Model        string // by the name that Runtime.Models has
	Instructions string // the system prompt; "": none

	// Tools are the tools that it may call, by name, beside those of Own; AllTools: all that are allowed. nil: none. An
	// empty list takes away agent.spawn and the others of sub-agents, too.
	Tools []string
	// NeedsTools makes it an error that a tool of Tools is not there or not allowed; by default the loop goes without.
	NeedsTools bool
	Deny       []string       // tools that it may not call, even if another setting allows them
	Own        []runtime.Tool // more tools that it may call, which shadow the Runtime's
	Skills     []string       // by name; nil: none
	Cwd        string         // below the folders of file.* and exec.run: what its calls of them are held to. "": those

	MaxSteps    int  // calls of the model, 1 to 1000. Defaults to 10
	FailAtLimit bool // where a limit or the model stops the loop without an answer: an error instead of a warning
	// OnRepetition says what happens to a loop whose calls repeat themselves: RepetitionStop, RepetitionFail or
	// RepetitionGoOn. Defaults to what FailAtLimit says.
	OnRepetition string
	// MaxCalls limits the calls of tools, children's included, MaxCallsPerAnswer those of one answer; further ones get
	// an error result. They default to 1000 and 64.
	MaxCalls, MaxCallsPerAnswer int
	// Until ends the loop after a step. It must be pure. nil: never.
	Until func(Progress) (bool, error)

	// Approval says which tools need one, by name, PREFIX.*, exec.run:PROGRAM or effect, the most specific one first;
	// "*" is for the others, but not for human.ask and agent.*. nil: none.
	Approval map[string]Approval
	// ApprovalTo names the people and groups of whom one may give these approvals, see [resume.Pause.Allows]; nil:
	// anybody may.
	ApprovalTo []string
	// ReportIndeterminate gives the model an error result for a call with an unknown outcome, where it
	// may have had its effect. By default that pauses the loop.
	ReportIndeterminate bool

	ToolConcurrency int           // tool calls of one step that may be under way at once. Defaults to 1
	ToolTimeout     time.Duration // of each tool call, delegates and people apart; 0: none
	MaxResultBytes  int           // of a result that the model sees; the rest is cut. Defaults to 64 KiB

	Delegates          map[string]*Loop // offered as delegate_NAME; nil: none
	MaxDelegationDepth int              // how deep loops may start loops; a lower one of a parent counts. Defaults to 3
	MaxSubagents       int              // that agent.spawn may make at once. Defaults to 4; negative: no such tools

	Handoffs    map[string]*Loop // loops that may take over the conversation, offered as handoff_NAME; nil: none
	MaxHandoffs int              // the most of them. Defaults to 10

	Temperature *float64 // nil: the model's default
	MaxTokens   int      // of one answer; 0: the model's default
	// Options are further settings of the model, which must take them. A ToolChoice that asks for a call holds for the
	// first answer of the loop, and after a hand-off to it.
	Options runtime.ModelOptions
	Schema  json.RawMessage // JSON Schema of the answer; nil: free text

	Memory        runtime.Conversation // the zero value: none
	InheritMemory bool                 // as a child: the memory of its parent
	TopK          int                  // documents to retrieve for the prompt; 0: none
	Layers        []Layer              // nil: none
	Compaction    *Compaction          // nil: never
}

// Approval says whether a tool needs an approval.
type Approval string

// The approvals.
const (
	ApproveNever  Approval = "never"  // it needs none; also ""
	ApproveAlways Approval = "always" // the Approver is asked; without one the call is refused
	ApprovePause  Approval = "pause"  // the Approver is asked; without one the loop pauses
	ApproveRefuse Approval = "refuse" // the tool is offered, and each call of it gets a result that says it is refused
)

// AllTools is what [Loop.Tools] has for all tools that the host, the recipe and its servers let an agent call. Those
// that come with a port, such as docs.search, and human.ask have to be listed all the same, beside it.
var AllTools = []string{AnyTool}

// HasAllTools reports whether the loop may call all tools that are allowed.
func (l *Loop) HasAllTools() bool { return slices.Contains(l.Tools, AnyTool) }

// Listed returns the names of the tools that the loop lists, sorted; nil: Tools is nil.
func (l *Loop) Listed() []string {
	if l.Tools == nil {
		return nil
	}
	return slices.DeleteFunc(value.Names(l.Tools), func(name string) bool { return name == AnyTool })
}

// Progress is what Loop.Until decides by, after a step.
type Progress struct {
	StepsDone int
	Text      string // of the model's last answer
	Calls     []Call // all so far, with results
	Usage     runtime.Usage
}

// Call is a tool call with its outcome.
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
	Files     []runtime.File  `json:"files,omitempty"`   // that go with it; nil: none
	Code      string          `json:"code,omitempty"`    // why it failed; "": it did not
	Pauses    int             `json:"pauses,omitempty"`  // so far
	Waits     bool            `json:"waits,omitempty"`   // a pause is open
	For       string          `json:"for,omitempty"`     // of the last pause
	Answer    *any            `json:"answer,omitempty"`  // to the last pause; nil: none, or it was due
	Replies   []resume.Reply  `json:"replies,omitempty"` // the answers to the pauses that the tool asked for
}

// StopReason says why a loop ended.
type StopReason string

// The stop reasons.
const (
	StopAnswer     StopReason = "answer"
	StopMaxSteps   StopReason = "max_steps"
	StopRepetition StopReason = "repetition" // three rounds with the same calls and results
	StopRefused    StopReason = "refused"    // three rounds with nothing but calls that a limit or a policy refused
	StopNoAction   StopReason = "no_action"  // the model said nothing, or that it calls tools, and called none
	StopCut        StopReason = "cut"        // the model's answer has as many tokens as it may have, and is not whole
	StopUntil      StopReason = "until"
	StopError      StopReason = "error"
	StopCancelled  StopReason = "cancelled"
)

// What [Loop.OnRepetition] says: end with a warning, fail, or continue.
const (
	RepetitionStop = "stop"
	RepetitionFail = "fail"
	RepetitionGoOn = "go_on"
)

// The defaults of a Loop.
const (
	DefaultMaxSteps           = 10
	DefaultMaxCalls           = 1000
	DefaultMaxCallsPerAnswer  = 64
	DefaultMaxDelegationDepth = 3
	DefaultMaxSubagents       = 4
	DefaultMaxHandoffs        = 10
	DefaultMaxResultBytes     = 64 << 10
	DefaultKeep               = 6 // messages, see [Compaction]
	mostSteps                 = 1000
)

// childName is that of another loop: part of a path, or of a tool's name.
var childName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,48}$`)

// ValidName reports whether a name is fit for a delegate or a hand-off, or as the id of a sub-agent.
func ValidName(name string) bool { return childName.MatchString(name) }

// Validate reports what can be wrong with a definition before it runs, delegates and hand-offs included, all at
// once. workflow.Agent calls it first.
func (l *Loop) Validate() error {
	var errs []error
	l.validate("agent "+fmt.Sprintf("%q", l.Name), map[*Loop]bool{}, func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format, args...))
	})
	return errors.Join(errs...)
}

func (l *Loop) validate(who string, seen map[*Loop]bool, bad func(string, ...any)) {
	if seen[l] {
		return
	}
	seen[l] = true
	if l.Model == "" {
		bad("%s: it names no model", who)
	}
	if l.MaxSteps < 0 || l.MaxSteps > mostSteps {
		bad("%s: max_steps is %d, it is 1 to %d", who, l.MaxSteps, mostSteps)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"tool_concurrency", l.ToolConcurrency}, {"max_delegation_depth", l.MaxDelegationDepth},
		{"max_handoffs", l.MaxHandoffs},
		{"max_tokens", l.MaxTokens}, {"max_calls", l.MaxCalls}, {"max_calls_per_answer", l.MaxCallsPerAnswer},
		{"top_k", l.TopK}, {"the size of results", l.MaxResultBytes}, {"the timeout of tools", int(l.ToolTimeout)}} {
		if n.value < 0 {
			bad("%s: %s is negative", who, n.name)
		}
	}
	if !slices.Contains([]string{"", RepetitionStop, RepetitionFail, RepetitionGoOn}, l.OnRepetition) {
		bad("%s: unknown on_repetition %q\n  hint: it is %q, %q or %q", who, l.OnRepetition,
			RepetitionStop, RepetitionFail, RepetitionGoOn)
	}
	for _, tool := range slices.Sorted(maps.Keys(l.Approval)) {
		known := []Approval{"", ApproveNever, ApproveAlways, ApprovePause, ApproveRefuse}
		if a := l.Approval[tool]; !slices.Contains(known, a) {
			bad("%s: unknown approval %q of %q\n  hint: it is %q, %q, %q or %q",
				who, a, tool, ApproveNever, ApproveAlways, ApprovePause, ApproveRefuse)
		}
	}
	if slices.Contains(l.ApprovalTo, "") {
		bad("%s: approval_to: a name is empty", who)
	}
	for i, t := range l.Own {
		if t == nil {
			bad("%s: tool %d is nil", who, i)
		} else if name := t.Spec().Name; Reserved(name) {
			bad("%s: the name of tool %q is reserved", who, name)
		}
	}
	if l.Schema != nil {
		if _, err := schema.Compile(l.Schema); err != nil {
			bad("%s: schema of the answer: %w", who, err)
		}
	}
	l.validateLayers(who, bad)
	l.Compaction.validate(who, bad)
	others := func(what string, loops map[string]*Loop) {
		for _, name := range slices.Sorted(maps.Keys(loops)) {
			switch other := loops[name]; {
			case !ValidName(name):
				bad("%s: %q is not a name for a %s", who, name, what)
			case other == nil:
				bad("%s: %s %q is nil", who, what, name)
			default:
				other.validate(fmt.Sprintf("%s: %s %q", who, what, name), seen, bad)
			}
		}
	}
	others("delegate", l.Delegates)
	others("hand-off", l.Handoffs)
	for _, name := range slices.Sorted(maps.Keys(l.Handoffs)) {
		if l.Handoffs[name] == l {
			bad("%s: hand-off %q is the agent itself", who, name)
		}
	}
}

// Others returns the loops that the loop itself names, delegates first, each by the order of the names.
func (l *Loop) Others() (list []*Loop) {
	for _, loops := range []map[string]*Loop{l.Delegates, l.Handoffs} {
		for _, name := range value.SortedKeys(loops) {
			list = append(list, loops[name])
		}
	}
	return list
}

// Models are the names of the models that the loop, its delegates and those that it hands off to call, sorted.
func (l *Loop) Models() []string {
	var names []string
	seen := map[*Loop]bool{}
	var add func(l *Loop)
	add = func(l *Loop) {
		if l == nil || seen[l] {
			return
		}
		seen[l] = true
		if names = append(names, l.Model); l.Compaction != nil {
			names = append(names, l.Compaction.Model)
		}
		for _, other := range l.Others() {
			add(other)
		}
	}
	add(l)
	return value.Names(names)
}

// Digest is the SHA-256, in hex, of the definition's canonical JSON, delegates and hand-offs included. Of what is
// Go code (Own, Until, layers, the policy of compaction) only the names, or its presence, count.
func (l *Loop) Digest() string {
	text, err := value.JSON(l.describe(map[*Loop]int{}))
	if err != nil { // a schema that Validate refuses
		text = []byte(err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (l *Loop) describe(seen map[*Loop]int) any {
	if n, ok := seen[l]; ok {
		return n
	}
	seen[l] = len(seen)
	own := []any{}
	for _, t := range l.Own {
		if t != nil {
			own = append(own, t.Spec().Name)
		}
	}
	layers := []any{}
	for _, y := range l.Layers {
		layers = append(layers, y.ID)
	}
	describeAll := func(loops map[string]*Loop) map[string]any {
		described := map[string]any{}
		for _, name := range value.SortedKeys(loops) {
			if other := loops[name]; other != nil {
				described[name] = other.describe(seen)
			}
		}
		return described
	}
	delegates := describeAll(l.Delegates)
	approval := map[string]any{}
	for _, tool := range value.SortedKeys(l.Approval) {
		approval[tool] = string(l.Approval[tool])
	}
	var temperature, compaction any
	if l.Temperature != nil {
		temperature = *l.Temperature
	}
	if c := l.Compaction; c != nil {
		parts := []any{c.Model, c.Prompt, c.MaxResult}
		if c.Above > 0 { // digests of earlier versions stand
			parts = append(parts, c.Above, c.Keep)
		}
		compaction = parts
	}
	described := map[string]any{
		"name": l.Name, "description": l.Description, "model": l.Model, "instructions": l.Instructions,
		"tools": l.Listed(), "allTools": l.HasAllTools(),
		"deny": value.Names(l.Deny), "own": own, "skills": value.Names(l.Skills),
		"maxSteps": cmp.Or(l.MaxSteps, DefaultMaxSteps), "failAtLimit": l.FailAtLimit, "until": l.Until != nil,
		"approval":            approval,
		"reportIndeterminate": l.ReportIndeterminate, "toolTimeout": l.ToolTimeout.String(),
		"maxResultBytes": l.MaxResultBytes,
		"delegates":      delegates, "maxDelegationDepth": l.MaxDelegationDepth, "maxSubagents": l.MaxSubagents,
		"temperature": temperature, "maxTokens": l.MaxTokens, "schema": string(l.Schema),
		"thread": l.Memory.Thread, "resource": l.Memory.Resource, "inheritMemory": l.InheritMemory, "topK": l.TopK,
		"layers": layers, "compaction": compaction,
	}
	if l.OnRepetition != "" || l.MaxCalls+l.MaxCallsPerAnswer > 0 { // digests of earlier versions stand
		described["calls"] = []any{l.OnRepetition, l.MaxCalls, l.MaxCallsPerAnswer}
	}
	if l.Cwd != "" {
		described["cwd"] = l.Cwd
	}
	if l.NeedsTools {
		described["needsTools"] = true
	}
	if options, _ := json.Marshal(l.Options); string(options) != "{}" {
		described["options"] = string(options)
	}
	if len(l.Handoffs) > 0 {
		described["handoffs"] = []any{cmp.Or(l.MaxHandoffs, DefaultMaxHandoffs), describeAll(l.Handoffs)}
	}
	if len(l.ApprovalTo) > 0 {
		described["approvalTo"] = value.Names(l.ApprovalTo)
	}
	return described
}
