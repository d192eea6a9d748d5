// Package recipe reads recipes: YAML in, data with positions out.
//
// [Parse] reads one file, [Load] also follows the files that it names. What they return mirrors
// the text and has no behaviour; package workflow compiles it. Every mistake is reported at once,
// as a [diagnostics.Error].
package recipe

import (
	"slices"
	"time"

	"github.com/braise-run/braise/diagnostics"
)

// APIVersion is the format version that this package reads.
const APIVersion = "braise/v1"

// Recipe is one recipe file as written. Slices keep the order of the file.
type Recipe struct {
	File        string // the name given to Parse or Load
	Name        string
	Version     string // the author's; "" when not given
	Description string
	Tags        []string
	Requires    Requires
	Inputs      []Input
	Consts      []Field
	Defaults    Defaults
	Limits      Limits
	Channels    []Channel
	Agents      []Agent // those of the file, then those of agents/*.md, sorted by id
	Steps       []Step
	Finally     []Step // that run when all Steps have ended, however that is; nil when not given
	Output      *Value // nil: the run's output is null

	// Diagnostics holds the warnings of a good recipe.
	Diagnostics diagnostics.List
	// Digest identifies what the recipe does: "sha256:" and 64 hex digits of its canonical JSON,
	// files it refers to included; comments, descriptions, tags, positions and x-* keys are not. It is
	// "" for a recipe that was built in Go, see ComputeDigest.
	Digest string
	// Sources holds the text of every file that was read, by name, for printing carets.
	Sources map[string][]byte

	beside
}

// beside is what belongs to a recipe that was read.
type beside struct {
	origin *origin           // what Parse or Load read; nil for a recipe that was built in Go
	tools  []*Tool           // in the order of the file
	toolOf *Recipe           // see ToolOf
	inGo   map[string]string // see AgentsInGo
}

// All returns the steps of the file: those that run at its end last.
func (r *Recipe) All() []Step {
	if r.Finally == nil {
		return r.Steps
	}
	return slices.Concat(r.Steps, r.Finally)
}

// Requires lists what a run needs before its first step.
type Requires struct {
	Capabilities, Tools, Secrets []Name
}

// Name is a string with the place where it stands.
type Name struct {
	Text string
	Pos  diagnostics.Position
}

// Value is any value as written. Exactly one form is used:
//
//	Scalar  nil, bool, int64, float64 or string (a string may hold ${{ }})
//	List    IsList is true
//	Map     IsMap is true; keys in file order, none twice
//
// Offset is the distance in columns from Pos to the first character of a string's text, for text
// that stands on one line just as it reads: 0 for a plain scalar, 1 for a quoted one without
// escapes. It is -1 where that cannot be said (block scalars, escapes, several lines). Indent is
// how many columns stand before each line of a literal block scalar, whose text begins on the line
// after Pos; 0 for other scalars.
type Value struct {
	Pos    diagnostics.Position
	Offset int
	Indent int
	Scalar any
	IsList bool
	List   []*Value
	IsMap  bool
	Map    []Field
}

// Decoded returns v as decoded JSON, a new value each time; nil for nil.
func (v *Value) Decoded() any { return v.decoded(nil) }

// decoded is Decoded with a reader of texts; nil takes them as they are written.
func (v *Value) decoded(read func(text string) string) any {
	switch {
	case v == nil:
		return nil
	case v.IsList:
		list := make([]any, len(v.List))
		for i, item := range v.List {
			list[i] = item.decoded(read)
		}
		return list
	case v.IsMap:
		object := make(map[string]any, len(v.Map))
		for _, f := range v.Map {
			object[f.Key] = f.Value.decoded(read)
		}
		return object
	}
	if text, ok := v.Scalar.(string); ok && read != nil {
		return read(text)
	}
	return v.Scalar
}

// Field is one entry of a mapping.
type Field struct {
	Key   string
	Pos   diagnostics.Position // of the key
	Value *Value
}

// Condition is a bare expression: when, until and the like.
type Condition struct {
	Text           string // "" when not given
	Pos            diagnostics.Position
	Offset, Indent int // as in Value
}

// Input declares one input of a recipe.
type Input struct {
	Name       string
	Pos        diagnostics.Position
	Schema     *Value         // the JSON Schema as written, the shorthand expanded
	SchemaJSON map[string]any // the same as decoded JSON, without default
	HasDefault bool           // false: the input is required
	Default    any            // decoded JSON; valid under the schema
}

// Defaults apply to steps that do not set these fields themselves.
type Defaults struct {
	Model   string        // of model steps; "" when not given
	Timeout time.Duration // of steps that call adapters; 0 when not given
	// Retry has policies by kind of adapter: model, tool, retriever, memory. A kind that is not
	// given has none.
	Retry map[string]*Retry
}

// Retry says when calls are tried again. A field that is not given has its zero value and leaves
// the matter to others; a duration of 0s that is given is a pointer to 0.
type Retry struct {
	Pos         diagnostics.Position
	MaxAttempts int // all calls, the first included
	Backoff     *time.Duration
	MaxBackoff  *time.Duration
	Jitter      string         // none or full
	Mode        string         // wait or pause
	RetryOn     []string       // of rate_limit, 5xx, timeout, network, unknown; empty but not nil: no reason
	Timeout     *time.Duration // of each attempt
	When        Condition      // over error; of defaults.retry it reads no steps
}

// Limits restrict a run, or a step with its body. Zero fields are not given.
type Limits struct {
	Pos         diagnostics.Position
	WallTime    time.Duration
	MaxParallel int     // of a run only
	Tokens      int     // of all calls of models together
	CostUSD     float64 // of all calls of models together
	ToolCalls   int     // of steps and agents together
	Pause       bool    // on_exceeded: pause; else exceeding a limit fails
}

// Channel declares a channel of a recipe file, for its send and receive steps.
type Channel struct {
	Name string
	Pos  diagnostics.Position
	Kind string // value, queue or topic
}

// Trigger says which ends of a step's needs let it run.
type Trigger string

// The triggers; "" in a Step means AllSuccess.
const (
	AllSuccess Trigger = "all_success"
	NoneFailed Trigger = "none_failed"
	AllDone    Trigger = "all_done"
	AnySuccess Trigger = "any_success"
)

// Step is one entry of steps.
type Step struct {
	ID          string
	Pos         diagnostics.Position // of the id
	Description string
	Tags        []string

	Uses    Name
	With    *Value // nil when not given, and where what it says is in the field of a kind, below, instead
	Needs   []Name
	When    Condition
	Trigger Trigger
	Foreach *Foreach

	// What a step of the kind with that name does; nil for every other kind.
	Body     *Body // of the kind recipe, or a tool of the recipe; see Bodies for those of all kinds
	Human    *Human
	Wait     *Wait
	Loop     *Loop
	Fork     *Fork
	Switch   *Switch
	Send     *Send
	Receive  *Receive
	Retrieve *Retrieve
	Index    *Index

	Timeout    time.Duration // 0 when not given
	TimeoutPos diagnostics.Position
	Output     *Output
	OnError    OnError
	Priority   int
	Limits     *Limits // of the step and its body; nil when not given

	Retry          *Retry // around each adapter call of the step; nil when not given
	Rollback       *Rollback
	IdempotencyKey *Value // a string, which may hold expressions; nil when not given

	OnIndeterminate OnIndeterminate // "" when not given
}

// OnIndeterminate says what follows if the outcome of a tool call is unknown.
type OnIndeterminate string

// The values of on_indeterminate.
const (
	PauseIndeterminate    OnIndeterminate = "pause"    // a person is asked
	FailIndeterminate     OnIndeterminate = "fail"     // the call counts as failed
	ContinueIndeterminate OnIndeterminate = "continue" // the run does what it was about to do, with a warning
)

// Rollback is the call of a tool that undoes a step.
type Rollback struct {
	Pos  diagnostics.Position
	Uses Name   // a tool
	With *Value // its arguments, which may read the step itself; nil when not given
}

// Human is what a step of the kind human asks.
type Human struct {
	Pos       diagnostics.Position
	Prompt    *Value         // a string, which may hold expressions
	Show      *Value         // nil when not given
	Decisions []Name         // at least one, none twice; approve and reject when not given
	Form      *Value         // the JSON Schema of an object; nil when not given
	FormJSON  map[string]any // the same as decoded JSON
	// Answer is the JSON Schema of the answer where that is the output itself, without decisions and form; of the name
	// of a type it is {type: NAME}; nil when not given. AnswerJSON is the same as decoded JSON.
	Answer     *Value
	AnswerJSON map[string]any
	To         *Value        // who may answer: a list of names, or an expression; nil when not given: anybody
	FourEyes   bool          // whoever began the run may not answer
	Expires    time.Duration // 0 when not given: never
	OnExpire   OnExpire
}

// OnExpire says what happens when there is no answer in time. The zero OnExpire fails the step.
type OnExpire struct {
	Pos    diagnostics.Position // zero when not given
	Reject bool                 // like the answer reject, without a form
	Set    *Value               // not nil: the step succeeds with this output; may hold expressions
}

// Wait is what a step of the kind wait waits for: exactly one of Duration, At and Event.
type Wait struct {
	Pos      diagnostics.Position
	Duration *Value // a duration, or a string that holds an expression
	At       *Value // a time (RFC 3339), or a string that holds an expression
	Event    Name
	Timeout  time.Duration // of the wait for the event; 0 when not given
}

// Body is what a composite step runs: another file, or steps written in place.
type Body struct {
	Pos    diagnostics.Position
	Ref    Name    // a file, relative to the recipe's folder; Text is "" for inline steps
	Recipe *Recipe // the file, set by Load; nil after Parse, and for inline steps
	Tool   *Tool   // of a step that runs a tool of the recipe: that tool; Recipe is what it does. nil for other bodies
	Inputs *Value  // with Ref: the inputs of the other recipe; nil when not given
	Steps  []Step  // inline
	Output *Value  // inline; nil: the body's output is null
}

// Loop repeats a body: once for each item of a list, or until a condition or a number of rounds ends it.
type Loop struct {
	Pos   diagnostics.Position
	Body  *Body
	Over  *Value    // an expression or a list: there is a round for each item; nil when not given
	As    Name      // with Over: what the item is called, "item" when not given
	First *Value    // what last is in the first round; nil when not given
	Until Condition // asked after each round; "" when not given
	Wait  *Value    // how long to wait between two rounds: a duration as text; nil when not given
	// MaxIterations is the most rounds, 1 to 1000. It is 0 where MaxExpression gives the number instead, a string that
	// holds an expression, and where none is given: then it is 1000.
	MaxIterations int
	MaxExpression *Value
	Next          *Value // of a body in another file: its inputs from the second round on; nil when not given
	Continue      bool   // on_error: continue; a round that fails does not end the loop
	FailAtLimit   bool   // a loop that comes to its last round fails: on_limit: fail, or Until alone is given
}

// Fork runs several bodies side by side.
type Fork struct {
	Pos         diagnostics.Position
	Mode        string // all, which is the default, race or settle
	Branches    []Branch
	MaxParallel int // 0: no limit of its own
}

// Branch is a body of a fork. One without any steps has Steps of length 0.
type Branch struct {
	Name string
	Pos  diagnostics.Position
	Body *Body
}

// Switch runs the body of the first case that matches.
type Switch struct {
	Pos     diagnostics.Position
	Cases   []Case // at least one
	Default *Body  // runs when no case matches; nil when not given
}

// Case is a body of a switch. One without any steps has Steps of length 0.
type Case struct {
	Name Name // never "default"
	When Condition
	Body *Body
}

// Send puts a value into a channel.
type Send struct {
	Pos     diagnostics.Position
	Channel Name
	Value   *Value
}

// Receive takes a value out of a channel.
type Receive struct {
	Pos     diagnostics.Position
	Channel Name
	Timeout time.Duration // of the wait for a value; 0 when not given: forever
	OnEmpty OnEmpty
}

// OnEmpty says what happens when a channel has no value. The zero OnEmpty waits for one.
type OnEmpty struct {
	Fail bool
	Set  *Value // not nil: the step succeeds with this output; may hold expressions
}

// Foreach runs a step once per item of a list.
type Foreach struct {
	Pos         diagnostics.Position
	In          *Value // an expression or a list
	As          Name   // Text defaults to "item"
	MaxParallel int    // 0: no limit of its own
	Collect     bool   // on_error: collect
	MaxItems    int    // 0: the engine's default
}

// Output limits and shapes what a step returns.
type Output struct {
	Pos        diagnostics.Position
	Schema     *Value         // nil when not given
	SchemaJSON map[string]any // the same as decoded JSON; also for `true`-like schemas: {}
	MaxBytes   int            // of the canonical JSON; 0 when not given
	Checks     []Check        // come after the schema; nil when not given
	Repairs    *int           // how often a model or an agent may mend its answer; nil when not given: 2
}

// Check is a rule for a step's output.
type Check struct {
	That Condition // in which output is the output
	Else *Value    // what is wrong otherwise; may hold expressions, also with output
}

// OnError says what a step's failure does.
type OnError struct {
	Continue bool   // the step stays failed, its output is null, the run continues
	Set      *Value // not nil: the step counts as succeeded with this output; may hold expressions
}

// Agent is one declared agent.
type Agent struct {
	ID           string
	Pos          diagnostics.Position
	File         string // of a Markdown agent; "" for an entry of agents:
	Model        string
	Instructions string
	Description  string
	Spec         *Value // all keys as written, checked
}
