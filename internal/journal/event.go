package journal

import (
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Indeterminate is the reason of a pause that asks about a call with unknown outcome.
const Indeterminate = "indeterminate"

// Breakpoint is the reason of a pause before a step. One that a tool asks for may have the same reason, but no effect
// on when its step begins.
const Breakpoint = "breakpoint"

// Event is one thing that happened in a run, as its journal keeps it.
type Event struct {
	At    time.Time
	Path  string // of the step, or of its rollback; "" for the run
	After int64  // what the machine had decided by then, see [machine.Machine.Decided]; 0 where it does not matter
	By    string // who acted, as the host names them; "": not known, or no one
	// Signal is the id of the signal that the event, with those behind it in the same write, carries out; "": none.
	Signal string
	What

	// Begins is the execution that begins with the event, in a journal of an earlier version; nil: none.
	Begins *Execution
}

// Execution returns the execution that begins with the event; nil: none.
func (e *Event) Execution() *Execution {
	if x, ok := e.What.(Execution); ok {
		return &x
	}
	return e.Begins
}

// What happened: one of the types of this package that have a kind. It is nil for a record of a kind that only a later
// version knows.
type What interface{ kind() checkpoint.Kind }

// Failure is how a step failed.
type Failure = machine.Failure

type (
	// Created is the first record, which the store writes itself.
	Created struct {
		Recipe, Digest string
		Queued         bool // it begins without an execution
	}
	// Begun is the run's beginning.
	Begun struct {
		Inputs    map[string]any
		Interrupt resume.Interrupt
		Parallel  int               // maximum number of concurrent calls; 0: not known
		Origin    map[string]string // see runtime.Runtime; nil: nothing is known
		Unknown   []UnknownCall     // of a fork: shared calls with unknown outcome
		Rules
	}
	// Breakpoints are the steps before which the run pauses, by path. Begun follows.
	Breakpoints struct{ Steps []string }
	// Execution is the first event of each execution; the first one follows Begun.
	Execution struct {
		Owner string // the process that drives the run from then on, as leases name it; "": as before, or not known
		// Worked is how long the run had been executed by then: the clock of a run stops while it is not executed.
		Worked   time.Duration
		Parallel int     // maximum number of concurrent calls from then on; 0: as before
		Limits   *Limits // from then on; nil: not known
		// Tools are the fingerprints of tools that may change, and that no execution before has seen, by name.
		Tools map[string]string
	}
	// Limits are those of runtime.Limits for the sizes of a run. 0: the default.
	Limits struct{ Items, Steps, OutputBytes, RunBytes int }
	// StepDenied says that a hook denies a step: one that the next decision begins, or one that had begun and in
	// which nothing has happened yet.
	StepDenied struct{ Failure *machine.Failure }
	// CallBegun comes before a call of an adapter that may have an effect: from here on it may have had it.
	CallBegun struct {
		Ordinal int
		Effect  string // a runtime.Effect; "" in old records
		Key     string // of the recipe, part of the idempotency key; "": none, or an old record
	}
	// CallOpen says that a call without CallBegun is in progress. Recovery ignores it.
	CallOpen struct {
		Kind, Name string        // of the adapter; the name "" where there is only one
		For        time.Duration // since it began, in whole milliseconds
	}
	// CallFiles is what is in the local files of a call of a model, before it is made. Each attempt must find the same.
	CallFiles struct{ Files []File }
	// CallEnded is the end of a step's call.
	CallEnded struct {
		Output  any // nil after a failure
		Failure *machine.Failure
		Models  *ModelUse // nil: nothing
		Answer
		Extent  value.Extent // of Output; zero: not measured. Not in the record
		Unknown bool         // the run ended the call, which may have had its effect
		Why     string       // the run ended it; "" where nothing is known
		Settled bool         // in a fork: a person gave the end

		Took     time.Duration // all attempts and what lay between them, in whole milliseconds; 0: less, or not known
		Attempts int           // 0 and 1: one, or not known
	}
	// CallGiven is the end of a call that another run, or an earlier definition, had made.
	CallGiven struct {
		Output  any
		Failure *machine.Failure
		Answer
	}
	// TimerDue is a timer of the machine that came due.
	TimerDue struct{ Timer machine.Timer }
	// WaitOver is the end of a wait for which no pause was opened.
	WaitOver struct {
		Output  any
		Failure *machine.Failure
	}
	// Said is what a step said: its end.
	Said struct {
		Text  string
		Value any
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
		Restart    bool // the run is rolled back, and Restarted follows
	}
	// Restarted begins the next generation, once a run has been rolled back because an answer said so.
	Restarted struct{ Generation int }
	// BatchBegun comes before a batch is sent: from here on its provider may have it.
	BatchBegun struct {
		Key, Model string
		Requests   []string // their ids, as in Batched
	}
	// BatchSent says which batch of the provider it is.
	BatchSent struct {
		Key string
		ID  string // "": the provider has none
	}
	// PauseClosed is the end of a pause that no longer needs an answer.
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
		Unknown    []UnknownCall
		Rules
	}
	// Cancelled says that only rollbacks continue.
	Cancelled struct{ Reason string }
	// Shared comes behind what a fork shares with another run: that run rolls it back, or nobody does.
	Shared struct{}
	// FinallyBegun fixes how the run ends: only what its finally says is left to do. Status is that of an outcome.
	FinallyBegun struct {
		Status string
		Error  any    // what expressions see as run.error; nil: none
		Reason string // of a run that was cancelled
	}
	// SignalDropped says that a signal no longer applied when the run took it.
	SignalDropped struct {
		ID  string // of the signal
		Why string
	}
	// Told are events that an adapter or a hook added to the trace during a call.
	Told struct{ Events []Custom }
	// Traced says which span the execution is.
	Traced struct{ Traceparent string }
	// Stopped says that the run's context ended; the run can be recovered.
	Stopped struct{}
	// Paused says that nothing continues until a pause is answered. Usage is that of the run so far.
	Paused struct {
		Usage  checkpoint.Usage
		Models map[string]checkpoint.Usage // Usage by model; "": not known. nil: nothing, or not told
	}
	// Ended is the run's end. Error is zero unless the run has failed.
	Ended struct {
		Status checkpoint.Status
		Error  checkpoint.Failure
		Usage  checkpoint.Usage
		Models map[string]checkpoint.Usage // as in Paused
	}
)

// File is a local file that goes with a call of a model.
type File struct {
	Path      string `json:"path"` // below the folder of runtime.Files
	SHA256    string `json:"sha256"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
}

// About are the names and values of the event in a trace.
func (s *Said) About() []any {
	if s.Value == nil {
		return []any{"text", s.Text}
	}
	return []any{"text", s.Text, "value", s.Value}
}

// Output is that of the step.
func (s *Said) Output() any { return map[string]any{"text": s.Text, "value": s.Value} }

// Answer is what is known of the answer of a model or an agent, besides the output that was made of it.
type Answer struct {
	Finish string // why it ended, of an agent the last one; "": not known
	// Calls are the calls of tools by an agent that another run, or an earlier definition, had made, as expressions see
	// them; nil: it is no such agent, or they are not known. The events of the agent tell of others.
	Calls []any
}

// Custom is an event of an adapter or a hook.
type Custom struct {
	At   time.Time
	Name string
	Data map[string]any // nil: none
}

// AgentPause says which pause of an agent one is.
type AgentPause struct {
	Step    string // the path of the agent's step
	Pause   string // what the agent calls it
	Place   string // the call that it is of
	Tries   int    // how often that call has failed
	Batched Batched
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

// UnknownCall is a call with unknown outcome, of an earlier generation or of the run that a fork comes from.
type UnknownCall struct {
	Step  string       `json:"step"`
	About string       `json:"about"`          // of a call in an agent
	Call  *resume.Call `json:"call,omitempty"` // the key at least; nil: nothing is known
}

// The kinds of records that the engine adds to those of checkpoint.
const (
	runInput    checkpoint.Kind = "run.input"   // inputs, interrupt?, parallel?, origin?, doubts?
	callBegun   checkpoint.Kind = "call.begun"  // n, ordinal, effect?, key?
	callOpen    checkpoint.Kind = "call.open"   // kind, name?, ms?
	callFiles   checkpoint.Kind = "call.files"  // n, files
	callEnded   checkpoint.Kind = "call.ended"  // n, output | error, ms?, attempts?, usage? and others, see CallEnded
	callGiven   checkpoint.Kind = "call.given"  // n, output? or error?, finish?, calls?
	timerFired  checkpoint.Kind = "timer.fired" // n, timer
	waitOver    checkpoint.Kind = "wait.over"   // n, output?, error?, approval?
	said        checkpoint.Kind = "step.said"   // n, text, value?
	denied      checkpoint.Kind = "step.denied" // n, error
	agentEvents checkpoint.Kind = "agent.event" // n, events?, calls?, usage?, waits?, began?
	valueSent   checkpoint.Kind = "value.sent"  // n, channel, value

	rollbackBegun checkpoint.Kind = "rollback.begun" //
	rollbackEnded checkpoint.Kind = "rollback.ended" // error?
	redefined     checkpoint.Kind = "run.redefined"  // digest, definition?, generation, kept, doubts, worked
	cancelling    checkpoint.Kind = "run.cancelling" // reason
	stopped       checkpoint.Kind = "run.stopped"    //
	dropped       checkpoint.Kind = "signal.dropped" // id, why
	told          checkpoint.Kind = "call.told"      // events: at, name, data?
	traced        checkpoint.Kind = "run.traced"     // traceparent
	restarted     checkpoint.Kind = "run.restarted"  // generation
	shared        checkpoint.Kind = "run.shared"     // n
	finallyBegun  checkpoint.Kind = "finally.begun"  // n, status, error?, reason?

	breakpoints checkpoint.Kind = "run.breakpoints" // steps

	batchBegun checkpoint.Kind = "batch.begun" // key, model, requests
	batchSent  checkpoint.Kind = "batch.sent"  // key, id?
)

func (Created) kind() checkpoint.Kind       { return checkpoint.RunCreated }
func (Begun) kind() checkpoint.Kind         { return runInput }
func (Breakpoints) kind() checkpoint.Kind   { return breakpoints }
func (Execution) kind() checkpoint.Kind     { return checkpoint.RunExecution }
func (CallBegun) kind() checkpoint.Kind     { return callBegun }
func (CallOpen) kind() checkpoint.Kind      { return callOpen }
func (CallFiles) kind() checkpoint.Kind     { return callFiles }
func (CallEnded) kind() checkpoint.Kind     { return callEnded }
func (CallGiven) kind() checkpoint.Kind     { return callGiven }
func (TimerDue) kind() checkpoint.Kind      { return timerFired }
func (WaitOver) kind() checkpoint.Kind      { return waitOver }
func (Said) kind() checkpoint.Kind          { return said }
func (StepDenied) kind() checkpoint.Kind    { return denied }
func (AgentEvents) kind() checkpoint.Kind   { return agentEvents }
func (PauseOpened) kind() checkpoint.Kind   { return checkpoint.PauseOpened }
func (PauseAnswered) kind() checkpoint.Kind { return checkpoint.PauseAnswered }
func (BatchBegun) kind() checkpoint.Kind    { return batchBegun }
func (BatchSent) kind() checkpoint.Kind     { return batchSent }
func (PauseClosed) kind() checkpoint.Kind   { return checkpoint.PauseClosed }
func (TokenMinted) kind() checkpoint.Kind   { return checkpoint.TokenMinted }
func (ValueSent) kind() checkpoint.Kind     { return valueSent }
func (RollbackBegun) kind() checkpoint.Kind { return rollbackBegun }
func (RollbackEnded) kind() checkpoint.Kind { return rollbackEnded }
func (Redefined) kind() checkpoint.Kind     { return redefined }
func (Cancelled) kind() checkpoint.Kind     { return cancelling }
func (Shared) kind() checkpoint.Kind        { return shared }
func (FinallyBegun) kind() checkpoint.Kind  { return finallyBegun }
func (SignalDropped) kind() checkpoint.Kind { return dropped }
func (Told) kind() checkpoint.Kind          { return told }
func (Traced) kind() checkpoint.Kind        { return traced }
func (Restarted) kind() checkpoint.Kind     { return restarted }
func (Stopped) kind() checkpoint.Kind       { return stopped }
func (Paused) kind() checkpoint.Kind        { return checkpoint.RunPaused }
func (Ended) kind() checkpoint.Kind         { return checkpoint.RunEnded }

// Ordered reports whether After says when the event came among the decisions of the machine.
func (e *Event) Ordered() bool {
	switch e.What.(type) {
	case StepDenied, CallBegun, CallFiles, CallEnded, CallGiven, TimerDue, WaitOver, Said, AgentEvents,
		PauseOpened, PauseAnswered, ValueSent, Shared, FinallyBegun:
		return true
	}
	return false
}
