package engine

import (
	"encoding/json"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Call is one attempt at one call of an adapter, as data: package wire sends it to another process.
type Call struct {
	ID      int64                // tells the calls of an execution apart; all attempts have it
	Kind    program.CallKind     // what is called; "" for what only agents call, apart from memory and retriever
	Name    string               // of the tool or the model
	Path    string               // of the step, of its rollback, or of the agent or child that calls
	Pos     diagnostics.Position // where the recipe has the call, or the agent that makes it
	Job     *agents.Job          // of a call inside an agent; nil for others
	Agent   Agent                // that the Job is of
	Input   any                  // arguments of a tool or a retriever: decoded JSON
	Opens   bool                 // the Input refers to secrets, by expr.Sealed
	Request *runtime.Request     // of a model; nil for others
	Ask
	Context

	Timeout  time.Duration // of the attempt; 0: none
	Grace    time.Duration // to return after its Timeout; 0: the minimum
	Group    int64         // calls of one group are stopped together
	Alone    bool          // the call may be stopped by itself
	Rollback bool          // the end of the run's context does not stop it at once
	Dispose  bool          // made although the run is being cancelled

	Ready
}

// Agent is what a call may know about the agent that makes it.
type Agent struct {
	Name string
	Cwd  string // see agentloop.Loop
}

// Ask is how a model is asked.
type Ask struct {
	Stream bool           // the pieces of the answer are wanted
	Looks  bool           // not at all: the local files of the Request are to be read, see Result.Files
	Files  []journal.File // what those must be; nil: there are none, or it looks
	Batch  *Batch         // nil: it has nothing to do with one
}

// Batch is what a call of a model has to do with a batch of requests.
type Batch struct {
	Op    BatchOp
	Key   string    // of the batch; "" of a request that is to be sent
	ID    string    // by its provider; "": it is not known
	Begun time.Time // when it was about to be sent
	IDs   []string  // of the requests: of all in the batch, or of the one that the call is about
	Calls []*Call   // to be sent, in the order of IDs
}

// BatchOp says what a call does with a batch.
type BatchOp string

// The operations.
const (
	BatchSend BatchOp = "send" // send it: Result.BatchID, or Err
	BatchFind BatchOp = "find" // find out whether it was sent: Result.BatchID, "" if not, or Err
	BatchLook BatchOp = "look" // get the answer to the request; a [resume.Suspension] says that there is none yet
	BatchDrop BatchOp = "drop" // tell its provider that nobody waits for it
)

// Context is what an adapter may know about the call that it serves.
type Context struct {
	Generation int // of the run
	Ordinal    int // this is the step's, or the agent's, n-th logical call, from 1
	Attempt    int // from 1
	Key        string
	Recipe     string         // the name of the recipe in whose file the step stands, or the agent
	By         string         // see [Run.By]
	Replies    []resume.Reply // the answers to the pauses that the call asked for, in order
	Answered   bool           // the last of them is to the pause before the attempt
}

// Ready is what [Adapters.Prepare] finds out about a call.
type Ready struct {
	Effect runtime.Effect // what a second call would do to the world; "" for kinds without effect
	Quick  bool           // others in this process may wait for it
	Spends []string       // of a retriever: the names under which what it uses is priced
}

// Result is the result of a [Call], with secrets redacted.
type Result struct {
	Output   any             // decoded JSON, of a tool or retriever
	Extent   value.Extent    // of Output; zero: not measured
	Text     json.RawMessage // of a tool that an agent calls: canonical JSON in place of Output; nil: see there
	Response *runtime.Response
	Reply    *agents.Reply   // of what only agents call; its Err is not used. nil: nothing came
	Files    []journal.File  // of a call that looks
	Pictures []runtime.File  // in the Output of a tool that an agent calls, kept beside the journal
	Spent    []runtime.Spent // of models that a retriever asked, whatever became of the attempt

	// Err is why the attempt failed: a [*resume.Suspension] if the call waits, a [*PanicError], or what
	// retry.FailureOf reads. nil: it did not.
	Err error
	// Bad is why there is no result although the attempt did not fail: hooks denied it, a file that it shows cannot be
	// read or has changed, or the result cannot be used.
	// No further attempt is made. nil: there is a result.
	Bad   error
	Left  bool             // the driver has abandoned the call: it drops its result
	Lost  bool             // it was not made: this process no longer holds the run
	Yield bool             // it was not made: the run drains, and the model had not been asked yet
	Found diagnostics.List // diagnostics about hooks

	BatchID string           // by its provider, of a batch that was sent or found; "": there is none
	Unsent  map[string]error // why requests of it were not sent, by their ids; nil: all were
	Told    []trace.Told     // events of the adapter and hooks; live sinks have them, except those of an agent
}

// PanicError is a panic of an adapter. The stack is for the trace, not for the message.
type PanicError struct{ Text, Stack string }

// Error returns the text.
func (e *PanicError) Error() string { return e.Text }

// Adapters describes the adapters that a run may call. The results do not change during a run. The methods return at
// once.
type Adapters interface {
	// Prepare checks the arguments of a call of a tool or a retriever, with the secrets that they refer to, and fills
	// in Ready. A tool without Input gets an empty object. The error has no secrets.
	Prepare(c *Call) error
	// Shown returns the Input of a call with secrets redacted.
	Shown(c *Call) any
	// Runs says which loop runs at the path of an agent or child from now on. A loop in Go may have tools and layers
	// of its own. No call has those: they are called in this process only.
	Runs(path string, l *agentloop.Loop)
	// Retry returns the retry metadata of the adapter of a call; nil: none. It is not called for models.
	Retry(c *Call) *retry.Metadata
	// Model describes a model by the name that recipes use; false: it is not configured.
	Model(name string) (Model, bool)
	// Offer is what the runtime offers to agents.
	Offer() (*agents.Offer, error)
}

// Model describes a model.
type Model struct {
	Described bool // it has a description
	agents.ModelOffer
	Retry     *retry.Metadata // nil: none
	Streams   bool            // it can answer piece by piece
	Polled    bool            // it answers in batches
	Fallbacks []string        // models that may answer instead, in order
	Missing   string          // why the model is not configured, with a hint on a second line; "": not known
}

// Op says what a [Command] asks of a driver.
type Op uint8

// The commands, with the fields that they have.
const (
	None     Op = iota // nothing to do until something happens
	Make               // Call: to be made; Run.Returned reports its result
	Stop               // Call, Err: is to be told to stop; Run.Returned is still due
	Arm                // Timer, Wait: Run.Fired is due after that
	Disarm             // Timer: is no longer due
	Save               // what is Unsaved must be in the store before Next is asked again: then Run.Saved
	Hook               // Moment: hooks to be called before Next is called again
	Announce           // Pause: was opened
	Warn               // Text, Path: for the host's operator
	Time               // Run.Tick must say what time it is before Next is asked again
	Drop               // Call: its batch is to be dropped. Nothing is reported
	Done               // the execution is over: Run.Result says how
)

// Command is one thing that a run asks of its driver.
type Command struct {
	Op      Op
	Call    *Call
	Timer   int64
	Wait    time.Duration
	*Detail          // of Announce, Hook, Stop and Warn; else nil
	of      *pending // whose Call it is
}

// Detail is what few commands have: a step asks for several commands, and all of them are copied.
type Detail struct {
	Err    error
	Moment *runtime.Moment
	Pause  *Pause
	Text   string
	Path   string
}
