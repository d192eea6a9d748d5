package journal

import (
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/resume"
)

// Event is one thing that happened in a run, as its journal keeps it.
type Event struct {
	At    time.Time
	Path  string // of the step, or of its rollback; "" for the run
	After int64  // what the machine had decided by then, see [machine.Machine.Decided]; 0 where it does not matter
	By    string // who acted, as the host names them; "": not known, or no one
	// Owner is the process that drives the run from then on, as leases name it; "": as before, or not known.
	Owner string
	What

	// Resumed says that the event is the first one after a resume. Worked is how long the run had been executed
	// by then: the clock of a run stops while it is not executed. Parallel is the maximum number of concurrent calls
	// from then on; 0: as before.
	Resumed  bool
	Worked   time.Duration
	Parallel int
}

// What happened: one of the types of this package that have a kind. It is nil for a record of a kind that means
// nothing to a run.
type What interface{ kind() checkpoint.Kind }

type (
	// Created is the first record, which the store writes itself.
	Created struct{ Recipe, Digest string }
	// Begun is the run's beginning.
	Begun struct {
		Inputs    map[string]any
		Interrupt resume.Interrupt
		Parallel  int               // maximum number of concurrent calls; 0: not known
		Origin    map[string]string // see runtime.Runtime; nil: nothing is known
		Doubts    []Doubt           // of a fork: shared calls with unknown outcome
	}
	// CallBegun comes before a call of an adapter that may have an effect: from here on it may have had it.
	CallBegun struct {
		Ordinal int
		Effect  string // a runtime.Effect; "" in old records
		Key     string // of the recipe, part of the idempotency key; "": none, or an old record
	}
	// CallEnded is the end of a step's call.
	CallEnded struct {
		Output  any // nil after a failure
		Failure *machine.Failure
		Models  ModelUse
		Finish  string // why the answer of the model ended, or the last one of an agent; "": not known
		Size    int    // of Output plus 1, as value.Size counts; 0: not measured. Not in the record
		Unknown bool   // the run ended the call, which may have had its effect
		Why     string // the run ended it; "" where nothing is known
		Settled bool   // in a fork: a person gave the end
	}
	// CallGiven is the output of a call that another run, or an earlier definition, had made.
	CallGiven struct {
		Output any
		Finish string // as of CallEnded
	}
	// TimerDue is a timer of the machine that came due.
	TimerDue struct{ Timer machine.Timer }
	// WaitOver is the end of a wait for which no pause was opened.
	WaitOver struct {
		Output  any
		Failure *machine.Failure
	}
	// AgentEvents are what happened in an agent that has not ended.
	AgentEvents struct {
		Events []agents.Event
		Calls  []Drawn // of models
		Used   Amount  // by calls of models
		Waits  bool    // the agent waits for answers from here on
		Began  int     // the generation in which the agent began, of one that was shared; 0: none
	}
	// PauseOpened is a pause of a step, or of an agent.
	PauseOpened struct {
		Pause     resume.Pause // without a token
		Interrupt resume.Interrupt
		Progress  Progress // of the call that asked for the pause
		Models    ModelUse // by that call
		Agent     *AgentPause
	}
	// PauseAnswered is the end of a pause by an answer or by the time.
	PauseAnswered struct {
		Pause      string // its id
		Next       resume.Next
		Answer     any  // nil unless Next is resume.Answered
		Kept       bool // an earlier generation had the answer
		Generation int  // that the answer begins; 0: none
	}
	// PauseClosed is the end of a pause that needs no answer any more.
	PauseClosed struct{ Pause string }
	// TokenMinted is a new token of a pause.
	TokenMinted struct {
		Pause     string
		Hash      []byte
		ExpiresAt time.Time
	}
	// ValueSent is a value from outside, where it is not only the answer to a pause.
	ValueSent struct {
		Channel string
		Value   any
	}
	// RollbackBegun comes before the call of a rollback: from here on it may have had its effect.
	RollbackBegun struct{ Effect string } // as that of CallBegun
	// RollbackEnded is the end of a rollback.
	RollbackEnded struct{ Error string }
	// Redefined restarts a journal under another definition. The events that are still valid under the new
	// definition follow it.
	Redefined struct {
		Digest     string
		Definition any // decoded JSON; nil: the store has it
		Generation int
		Kept       []KeptAnswer
		Doubts     []Doubt
	}
	// Cancelled says that only rollbacks continue.
	Cancelled struct{ Reason string }
	// Told are events that an adapter or a hook added to the trace during a call.
	Told struct{ Events []Custom }
	// Traced says which span the execution is.
	Traced struct{ Traceparent string }
	// Stopped says that the run's context ended; the run can be recovered.
	Stopped struct{}
	// Paused says that nothing continues until a pause is answered.
	Paused struct{}
	// Ended is the run's end.
	Ended struct{ Status checkpoint.Status }
)

// Custom is an event of an adapter or a hook.
type Custom struct {
	At   time.Time
	Name string
	Data map[string]any // nil: none
}

// AgentPause says which pause of an agent one is.
type AgentPause struct {
	Step  string // the path of the agent's step
	Pause string // what the agent calls it
	Place string // the call that it is of
	Tries int    // how often that call has failed
}

// KeptAnswer is an answer for a pause that a later generation comes to again.
type KeptAnswer struct {
	Step     string
	Kind     resume.Kind
	Reason   string
	About    string // of a pause in an agent: what it is about, as JSON
	Answer   any
	Question string // that was answered, see [resume.Pause.Question]; "": not known
}

// Doubt is a call with unknown outcome, of an earlier generation or of the run that a fork comes from.
type Doubt struct {
	Step  string       `json:"step"`
	About string       `json:"about"`          // of a call in an agent
	Call  *resume.Call `json:"call,omitempty"` // the key at least; nil: nothing is known
}

// The kinds of records that the engine adds to those of checkpoint.
const (
	runInput    checkpoint.Kind = "run.input"   // inputs, interrupt?, parallel?, origin?, doubts?
	callBegun   checkpoint.Kind = "call.begun"  // n, ordinal, effect?, key?
	callEnded   checkpoint.Kind = "call.ended"  // n, output | error, draws?, usage?, finish?, settled?, unknown?, why?
	callGiven   checkpoint.Kind = "call.given"  // n, output?, finish?
	timerFired  checkpoint.Kind = "timer.fired" // n, timer
	waitOver    checkpoint.Kind = "wait.over"   // n, output?, error?
	agentEvents checkpoint.Kind = "agent.event" // n, events?, calls?, usage?, waits?, began?
	valueSent   checkpoint.Kind = "value.sent"  // n, channel, value

	rollbackBegun checkpoint.Kind = "rollback.begun" //
	rollbackEnded checkpoint.Kind = "rollback.ended" // error?
	redefined     checkpoint.Kind = "run.redefined"  // digest, definition?, generation, kept, doubts, worked
	cancelling    checkpoint.Kind = "run.cancelling" // reason
	stopped       checkpoint.Kind = "run.stopped"    //
	told          checkpoint.Kind = "call.told"      // events: at, name, data?
	traced        checkpoint.Kind = "run.traced"     // traceparent
)

func (Created) kind() checkpoint.Kind       { return checkpoint.RunCreated }
func (Begun) kind() checkpoint.Kind         { return runInput }
func (CallBegun) kind() checkpoint.Kind     { return callBegun }
func (CallEnded) kind() checkpoint.Kind     { return callEnded }
func (CallGiven) kind() checkpoint.Kind     { return callGiven }
func (TimerDue) kind() checkpoint.Kind      { return timerFired }
func (WaitOver) kind() checkpoint.Kind      { return waitOver }
func (AgentEvents) kind() checkpoint.Kind   { return agentEvents }
func (PauseOpened) kind() checkpoint.Kind   { return checkpoint.PauseOpened }
func (PauseAnswered) kind() checkpoint.Kind { return checkpoint.PauseAnswered }
func (PauseClosed) kind() checkpoint.Kind   { return checkpoint.PauseClosed }
func (TokenMinted) kind() checkpoint.Kind   { return checkpoint.TokenMinted }
func (ValueSent) kind() checkpoint.Kind     { return valueSent }
func (RollbackBegun) kind() checkpoint.Kind { return rollbackBegun }
func (RollbackEnded) kind() checkpoint.Kind { return rollbackEnded }
func (Redefined) kind() checkpoint.Kind     { return redefined }
func (Cancelled) kind() checkpoint.Kind     { return cancelling }
func (Told) kind() checkpoint.Kind          { return told }
func (Traced) kind() checkpoint.Kind        { return traced }
func (Stopped) kind() checkpoint.Kind       { return stopped }
func (Paused) kind() checkpoint.Kind        { return checkpoint.RunPaused }
func (Ended) kind() checkpoint.Kind         { return checkpoint.RunEnded }

// Ordered reports whether After says when the event came among the decisions of the machine.
func (e *Event) Ordered() bool {
	switch e.What.(type) {
	case CallBegun, CallEnded, CallGiven, TimerDue, WaitOver, AgentEvents, PauseOpened, PauseAnswered, ValueSent:
		return true
	}
	return false
}
