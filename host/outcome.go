package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Exit codes of programs that run recipes, see docs/command.md. [ExitCode] gives those of outcomes.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2 // of the command line
	ExitInvalid   = 3 // recipe, configuration or input; nothing ran
	ExitPaused    = 4
	ExitCancelled = 5
	ExitLimit     = 6
	ExitConflict  = 7
	ExitMissing   = 8 // a model, tool, secret or other requirement
	ExitInternal  = 9 // the store, or the engine itself
	ExitInterrupt = 130
)

// ExitCode returns the exit code of an outcome: the first that fits in the table of docs/command.md. Signals are the
// program's own matter, so it is never ExitInterrupt, nor ExitUsage.
func ExitCode(out *workflow.Outcome) int {
	switch out.Status {
	case workflow.StatusOK:
		return ExitOK
	case workflow.StatusCancelled:
		return ExitCancelled
	case workflow.StatusPaused:
		return ExitPaused
	}
	e := out.Failure()
	if e == nil {
		return ExitInternal
	}
	if errors.As(e, new(refusal)) {
		return ExitInvalid
	}
	if code, ok := exitCodes[string(e.Category)+" "+e.Code]; ok {
		return code
	}
	if e.Category == runtime.CategoryLimit {
		return ExitLimit
	}
	return ExitFailed
}

// exitCodes are the errors that do not simply mean that the run failed, by category and code.
var exitCodes = map[string]int{
	"infra command.failed":            ExitInternal,
	"config cluster.codecKey":         ExitInvalid,
	"config cluster.hooks":            ExitInvalid,
	"config cluster.key":              ExitInvalid,
	"config cluster.namespace":        ExitInvalid,
	"config cluster.searchAttributes": ExitInvalid,
	"config cluster.tokenKey":         ExitInvalid,
	"config cluster.unsupported":      ExitUsage,
	"infra cluster.failed":            ExitInternal,
	"infra cluster.payload":           ExitInternal,
	"infra cluster.unavailable":       ExitInternal,
	"infra engine.panic":              ExitInternal,
	"infra resume.failed":             ExitInternal,
	"infra secret.failed":             ExitInternal,
	"infra store.failed":              ExitInternal,
	"infra journal.corrupt":           ExitInternal,
	"infra journal.version":           ExitInternal,
	"infra journal.newer":             ExitInternal,
	"config runtime.invalid":          ExitInvalid,
	"config secret.tooShort":          ExitInvalid,
	"config input.invalid":            ExitInvalid,
	"config fork.unknownStep":         ExitInvalid,
	"config breakpoint.unknownStep":   ExitInvalid,
	"config fork.computed":            ExitInvalid,
	"config answer.unfit":             ExitInvalid,
	"confirmation answer.notAllowed":  ExitConflict,
	"config resume.noAdapter":         ExitInvalid,
	"config recipe.invalid":           ExitInvalid,
	"config channel.unknown":          ExitInvalid,
	"config channel.closed":           ExitConflict,
	"infra run.exists":                ExitConflict,
	"infra run.busy":                  ExitConflict,
	"infra call.alive":                ExitConflict,
	"infra run.fenced":                ExitConflict,
	"infra run.ended":                 ExitConflict,
	"infra pause.answered":            ExitConflict,
	"infra signal.exists":             ExitConflict,
	"infra signal.dropped":            ExitConflict,
	"infra signal.open":               ExitOK, // it is recorded
	"config signal.invalid":           ExitInvalid,
	"config signal.noStore":           ExitInvalid,
	"config enqueue.noStore":          ExitInvalid,
	"config limit.noStore":            ExitInvalid,
	"config fork.queued":              ExitInvalid,
	"config resume.questionChanged":   ExitConflict,
	"infra run.poison":                ExitConflict,
	"infra run.notFound":              ExitConflict,
	"infra resume.invalidToken":       ExitConflict,
	"config resume.invalidToken":      ExitConflict,
	"config resume.definitionChanged": ExitConflict,
	"config resume.needsWorkflow":     ExitConflict,
	"config strict.failed":            ExitMissing,
	"config config.elsewhere":         ExitMissing,
	"config model.missing":            ExitMissing,
	"config model.option":             ExitMissing,
	"config price.missing":            ExitMissing,
	"config tool.missing":             ExitMissing,
	"config agent.unknownTool":        ExitMissing,
	"config tool.denied":              ExitMissing,
	"config secret.missing":           ExitMissing,
	"config var.missing":              ExitMissing,
	"config retriever.missing":        ExitMissing,
	"config reranker.missing":         ExitMissing,
	"config index.readOnly":           ExitMissing,
	"config files.missing":            ExitMissing,
	"config capability.missing":       ExitMissing,
	"limit foreach.maxItems":          ExitFailed, // a step's own limit
	"limit loop.maxIterations":        ExitFailed,
	"limit agent.maxSteps":            ExitFailed,
}

// Refused returns the outcome of a run that could not begin: its recipe, configuration or input is at fault. The
// outcome has the diagnostics of a *diagnostics.Error, else err as its only one, and the first of them as its error. It
// has no run id and no trace. Its exit code is ExitInvalid, whatever the error says.
func Refused(err error) *workflow.Outcome {
	var found *diagnostics.Error
	if !errors.As(err, &found) {
		message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
		found = &diagnostics.Error{List: diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe,
			Code: diagnostics.CodeFile, Message: message, Hint: hint}}}
	}
	out := &workflow.Outcome{Status: workflow.StatusError, Diagnostics: found.List}
	for _, d := range found.List {
		if d.Level == diagnostics.ErrorLevel {
			text := "nothing ran: " + d.Message
			if !d.Position.IsZero() {
				text = fmt.Sprintf("nothing ran: %s: %s", d.Position, d.Message)
			}
			out.Err = &runtime.Error{Category: runtime.CategoryConfig, Code: string(d.Code), Err: refusal(text)}
			break
		}
	}
	return out
}

// refusal is why nothing ran.
type refusal string

func (r refusal) Error() string { return string(r) }

// Failed returns the outcome of an operation on a run, which may be "", that the store, or the host, could not do. An
// error that is a *runtime.Error stays what it is; others get the code that [checkpoint.Code] has for them.
func Failed(runID string, err error) *workflow.Outcome {
	e, ok := errors.AsType[*runtime.Error](err)
	if !ok {
		e = &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
	}
	return &workflow.Outcome{Status: workflow.StatusError, RunID: runID, Err: e}
}
