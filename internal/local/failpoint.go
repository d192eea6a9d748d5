package local

import (
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/program"
)

// Failpoint is called at each boundary at which a process may die, with its name. Tests set it before
// anything runs; otherwise it is nil.
var Failpoint func(name string)

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
	if Failpoint != nil {
		Failpoint(name)
	}
}

// reachedCall is Reached for a call of an adapter: of a tool, a retriever or a model.
func reachedCall(c *engine.Call, tool, model string) {
	if Failpoint == nil {
		return
	}
	switch c.Kind {
	case program.ToolCall, program.RetrieverCall:
		Failpoint(tool)
	case program.ModelCall:
		Failpoint(model)
	}
}
