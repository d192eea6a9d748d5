// Package failpoint names the boundaries at which a process may die, so that tests can end it there.
package failpoint

// Hook is called at each boundary with its name. Tests set it before anything runs; otherwise it is nil.
var Hook func(name string)

// The boundaries. Those of journal writes enclose the store's call; the others lie between two of them.
const (
	BeforeCreate  = "create.before" // a new run's first write
	AfterCreate   = "create.after"
	BeforeAppend  = "append.before" // any later write, except of answers and values from outside
	AfterAppend   = "append.after"
	BeforeTool    = "tool.before" // the call of a tool, or of a retriever
	AfterTool     = "tool.after"
	BeforeModel   = "model.before" // the call of a model, or the calls that repair its answer
	AfterModel    = "model.after"
	PauseNoted    = "pause.noted"  // a pause is recorded, but has no token yet
	TokenMinted   = "token.minted" // it has a token, which is not in the store yet
	BeforeEnd     = "end.before"   // the record of the end, or of an execution that ends paused
	AfterEnd      = "end.after"    // the end is in the store
	BeforeRelease = "release.before"
	AfterRelease  = "release.after"
	BeforeClaim   = "claim.before" // a run that is resumed
	AfterClaim    = "claim.after"
	Replayed      = "replay.after"  // its journal has been told to the machine
	BeforeAnswer  = "answer.before" // the write of an answer or value from outside; consumes the token of an answer
	AfterAnswer   = "answer.after"
	SignalTaken   = "signal.taken" // a record carries a signal out, and the signal is still open

	ExecutionBegun = "execution.begun" // of a run that is resumed: it is recorded, and nothing has been done yet
)

// Reached says that a boundary is reached.
func Reached(name string) {
	if Hook != nil {
		Hook(name)
	}
}
