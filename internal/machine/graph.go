package machine

import (
	"cmp"
	"time"

	"github.com/braise-run/braise/internal/expr"
)

// Graph is one compiled body: the steps of a recipe, or of a body written in place. It is
// immutable and shared by runs.
type Graph struct {
	Nodes  []Node         // in declaration order
	Succ   [][]int32      // by node: the nodes that wait for it, ascending
	Preds  []int32        // by node: how many nodes it waits for
	Order  []int32        // the nodes in plan order: topological, ties by Rank
	Rank   []int32        // by node: its place among siblings by priority (higher first), then declaration
	Output *expr.Template // the body's output; nil: null

	// Listed has, by node with NoneFailed, those of its needs that belong to it and not to its expressions, ascending.
	Listed map[int32][]int32

	Finally *Graph // of a file: runs when all Nodes have ended, see [Machine.Finally]; nil: nothing does

	Consts map[string]any // of the file that the body stands in

	Channels []Channel // declared by a file; nil for steps in place

}

// Kind says how a node is executed.
type Kind uint8

// The kinds.
const (
	Set     Kind = iota // its input is its output
	Call                // the driver calls an adapter
	Sub                 // a body
	Again               // a loop
	Choice              // a switch
	Many                // a fork
	Fail                // fails on purpose
	Wait                // waits for an answer or a time; the driver opens it
	Send                // sends its input to a channel
	Receive             // receives a value from a channel; the driver opens it when nothing else can continue
)

// Trigger says how a node's needs must end for it to run.
type Trigger uint8

// The triggers, as the recipe format defines them.
const (
	AllSuccess Trigger = iota
	NoneFailed
	AllDone
	AnySuccess
)

// Node is one step.
type Node struct {
	ID      string
	Kind    Kind
	Trigger Trigger
	When    *expr.Program  // nil: always
	With    *expr.Template // nil: no input
	Foreach *Foreach
	Body    *Body         // of a Sub
	Loop    *Loop         // of an Again
	Fork    *Fork         // of a Many
	Cases   []Branch      // of a Choice; the default, which has no condition, last
	Timeout time.Duration // for each execution; 0: none
	// WallTime says that Timeout is a limit of the step: exceeding it is a failure of category limit.
	WallTime bool
	OnError  OnError

	Channel int // of a Send or a Receive: which one of its file
	exchange

	// Rules are for the output. The driver checks what its calls return itself, by [Task.Broken].
	Rules Rules
	// Adapter is the driver's own: what a Call calls.
	Adapter any
	Limits  any // the driver's own
	// Rollback undoes an execution that succeeded; nil: nothing does.
	Rollback *Rollback

	bound bound // of the size of the input, see [Node.Bound]
}

// Rules say what an output has to be.
type Rules struct {
	Fits   func(any) error // its shape and size; nil: all fit
	Checks []Check         // come after that
}

// Check is a rule.
type Check struct {
	That *expr.Program  // in an environment with the output
	Else *expr.Template // what is wrong otherwise, in the same environment
}

// exchange is what a node gets from others or tells them.
type exchange struct {
	OnEmpty OnEmpty // of a Receive
	// Messages are those of a Call that asks a model; nil: it has none.
	Messages *Messages
}

// bound is the maximum size of the value of a template, see [expr.Template.Bound]; paths is -1 if it is not
// known.
type bound struct{ fixed, paths int }

// Bound works out the maximum size of the node's input.
func (n *Node) Bound() {
	var ok bool
	if n.bound.fixed, n.bound.paths, ok = n.With.Bound(); !ok {
		n.bound.paths = -1
	}
}

// Rollback says how an execution is undone. The driver does it, see [Machine.Undo].
type Rollback struct {
	With    *expr.Template // in the environment that [Task.Ended] returns; nil: no input
	Timeout time.Duration
	Adapter any // the driver's own
}

// Foreach runs a node once per item.
type Foreach struct {
	In          *expr.Template
	MaxParallel int    // concurrent items, not counting those that wait; 0: only the limit of the run's calls
	MaxItems    int    // 0: the run's
	Collect     bool   // every item runs; the output has how each has ended
	Where       string // file:line:column, for messages
}

// OnError says what an execution's failure does to the step.
type OnError struct {
	Continue bool
	Set      *expr.Template // nil: no replacement
}

// Status is the state of a step.
//
//	            ┌────────▶ waiting
//	            │             │ answered
//	pending ──▶ running ◀─────┴──▶ succeeded | failed | cancelled
//	   │          └───────────────────────▶ ▲
//	   ├──▶ skipped (by its condition, or by what it needs)
//	   └──▶ cancelled (the body it stands in failed or was cancelled before it began)
type Status uint8

// The statuses. The two skips are one status with two reasons for users.
const (
	Pending Status = iota
	Running
	Waiting
	Succeeded
	Failed
	Cancelled
	SkippedWhen
	SkippedUpstream
)

// String returns the word that recipes and traces use.
func (s Status) String() string {
	return [...]string{"pending", "running", "waiting", "succeeded", "failed", "cancelled", "skipped", "skipped"}[s]
}

// Failure is why an execution, a body or the run failed.
type Failure struct {
	Category string // model, tool, config, limit, cancelled …
	Code     string
	Path     string // of the step that failed first
	Err      error

	Reason string // of a call, see package retry; "": none, or nothing reads it
	Status int    // by which the other side answered: an HTTP status, an exit code; 0: likewise
}

// all is all that is known of the failure of a task, as expressions see it.
func (f *Failure) all(t *Task) map[string]any {
	v := map[string]any{"category": f.Category, "code": f.Code, "message": f.Err.Error(), "reason": f.Reason,
		"status": nil, "step": cmp.Or(f.Path, t.Path())}
	if f.Status != 0 {
		v["status"] = int64(f.Status)
	}
	return v
}

// Value is the failure of one of many, an item or a branch, as expressions see it.
func (f *Failure) Value() any {
	if f == nil {
		return nil
	}
	return map[string]any{"category": f.Category, "code": f.Code, "message": f.Err.Error()}
}
