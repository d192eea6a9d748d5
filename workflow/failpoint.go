package workflow

import "github.com/braise-run/braise/internal/program"

// failpoint is called at each boundary at which a process may die, with its name. Tests set it before
// anything runs; otherwise it is nil.
var failpoint func(name string)

// The boundaries. Those of journal writes enclose the store's call; the others lie between two of them.
const (
	beforeCreate  = "create.before" // a new run's first write
	afterCreate   = "create.after"
	beforeAppend  = "append.before" // any later write but an answer's
	afterAppend   = "append.after"
	beforeTool    = "tool.before" // the call of a tool
	afterTool     = "tool.after"
	beforeModel   = "model.before" // the call of a model, or the calls that mend its answer
	afterModel    = "model.after"
	pauseNoted    = "pause.noted"  // a pause has its record, no token yet
	tokenMinted   = "token.minted" // and a token, which is not in the store yet
	beforeEnd     = "end.before"   // the record of the end, or of a leg that ends paused
	afterEnd      = "end.after"    // the end is in the store
	beforeRelease = "release.before"
	afterRelease  = "release.after"
	beforeClaim   = "claim.before" // a run that is gone on with
	afterClaim    = "claim.after"
	replayed      = "replay.after"  // its journal has been told to the machine
	beforeAnswer  = "answer.before" // the write that records an answer and consumes its token
	afterAnswer   = "answer.after"
)

// reached says that a boundary is reached.
func reached(name string) {
	if failpoint != nil {
		failpoint(name)
	}
}

// reachedCall is reached for a call of an adapter: of a tool or of a model.
func (in *invocation) reachedCall(tool, model string) {
	if failpoint == nil || in.call.Kind == program.AgentCall {
		return
	}
	if in.call.Kind == program.ModelCall {
		tool = model
	}
	failpoint(tool)
}
