// Package runtime defines what a run may use: the [Runtime] value and the interfaces that users
// implement, above all [Model] and [Tool].
package runtime

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/trace"
)

// Runtime is everything that a run may touch. It is a plain struct: building one does no I/O, its
// zero value runs recipes that need no model, tool or secret, and it holds no state of a run, so
// that many runs may share one. A per-run override is a copy with fields changed.
type Runtime struct {
	Models map[string]Model // by the name that recipes use; nil: none
	// Fallbacks are models that answer instead of another one, by its name, when a call of that has failed in all
	// its attempts with rate_limit, 5xx or network. Each has attempts of its own, and its own fallbacks come before
	// the next one. Nothing else replaces a model. nil: none.
	Fallbacks map[string][]string
	Tools     []Tool  // of two with one name the last counts; nil: none
	Secrets   Secrets // nil: none

	Retriever Retriever // what retrieve steps and agents ask that name no other; nil: none
	// Searchers are what steps look in and, those that are an [Index], write to, by the name that recipes use. nil:
	// none but Retriever, see [Runtime.Searcher].
	Searchers map[string]Searcher
	Rerankers map[string]Reranker // of what steps have found, by the name that recipes use; nil: none
	Files     Files               // what index steps read; nil: none
	Memory    Memory              // of agents' conversations; nil: none
	Skills    SkillLoader         // of agents; nil: none
	Env       Env                 // of agents; nil: none
	// Approval and Deny are the host's settings for the calls of agents, beside those of agents and tools: the stricter
	// one holds. Keys and entries are like those of agents: a tool's name, PREFIX.*, exec.run:PROGRAM, an effect or
	// "*"; the words are those of [ToolSpec]. nil: nothing.
	Approval map[string]string
	Deny     []string
	Agents   AgentLimits // for all agents, beside their own settings: the stricter one holds

	Approver Approver // of agents' calls; nil: those that need an approval are refused, or pause
	Inbox    Inbox    // what steers agents at work; nil: nothing

	Plugins []Plugin // more models and tools, and hooks; nil: none. Of two with one slot, see [Plugin].
	// Providers choose where several offer one thing: under "model:fast" or "tool:crm.lookup" the
	// key of a plugin, "host" for Models and Tools here, or "builtin". nil: by priority, see
	// [Runtime.Resolve].
	Providers map[string]string

	// where runs are kept, see docs/durability.md; nil: nothing is recorded, and pauses last as long as the process
	Store  checkpoint.Store
	Cache  checkpoint.Cache // where runs that pause are kept when there is no Store; nil: the memory of the process
	Resume resume.Adapter   // what comes in for a pause goes through it; nil: resuming is refused
	// receives each pause at once, with a token, while the rest of the run continues, except those of calls that wait
	// in batches; nil: none
	OnPause func(resume.Pause)
	// Interrupt says what a pause does to the steps that have finished. It is fixed when a run begins.
	// "" is resume.Continue.
	Interrupt resume.Interrupt
	// Breakpoints are the paths of steps, as plans have them, before which a run pauses: both/left/ask. The pause is of
	// the kind system, with the reason breakpoint; the decision continue ends it. A path may have the number of an item
	// or a round, as runs have them: each[2], talk#1/turn. They are fixed when a run begins or is put into a queue, and
	// a fork has those of the other run. A path that the plan lacks is breakpoint.unknownStep. nil: none.
	Breakpoints []string

	// of this run: takes precedence over what steps set, see docs/retry.md; nil: nothing
	Retry         retry.Policies
	RetryDefaults retry.Policies // for what steps do not set, before the recipe's defaults; nil: nothing

	Trace       []trace.Sink     // receive events as they happen; nil: the outcome's trace only
	Diagnostics diagnostics.Mode // Defaults to diagnostics.Default.
	Reporter    Reporter         // nil: warnings go to slog.Default

	Prices   map[string]Price // of models, by the name that recipes use, for limits of cost; nil: none
	Limits   Limits
	Budget   Budget        // what a run may use, whatever its recipe says
	NewRunID func() string // nil: UUIDv7s, which sort in the order of their making

	// Drain, once it is closed, makes the runs give way: no call starts any more, and calls in progress end and are
	// recorded. Then the run is given back, and another process can recover it without asking anybody what became of a
	// call. Its outcome is cancelled, with the code run.drained. Calls that wait for their next attempt do not delay
	// that. A call that takes longer than the host can wait ends with its context. nil: never.
	Drain <-chan struct{}

	By     string            // who starts runs, and resumes them: recorded as the host words it; "": unknown
	Origin map[string]string // what the host wants to find again about where a run began: kept in its journal only
}

// ToolSpecs describes the tools that a run has, those of plugins with them: what
// workflow.Options.Tools takes.
func (rt *Runtime) ToolSpecs() []ToolSpec { return rt.Resolve().ToolSpecs() }

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input, Output float64
	// CachedRead and CacheWrite are of input that is read from the provider's cache, or written to it. 0: as Input.
	CachedRead, CacheWrite float64
}

// Micros is what a call costs, in millionths of a US dollar: dollars per million tokens are millionths per token. The
// counts are [Usage.Clamped].
func (p Price) Micros(u Usage) float64 {
	plain := u.InputTokens - u.CachedTokens - u.CacheWriteTokens
	return float64(plain)*p.Input + float64(u.CachedTokens)*cmp.Or(p.CachedRead, p.Input) +
		float64(u.CacheWriteTokens)*cmp.Or(p.CacheWrite, p.Input) + float64(u.OutputTokens)*p.Output
}

// Budget is the host's own limit of what a run may use. It applies beside the limits of the recipe, and counts in
// the same way, in all processes that work on the run: the lower one is reached first. It is no part of the
// run: a process that resumes one has its own. A zero field is no limit.
type Budget struct {
	Tokens   int           // of all calls of models together
	CostUSD  float64       // of all calls of models together, at Prices: every model needs one then
	WallTime time.Duration // for as long as the run is worked on

	ToolCalls int // of steps and agents together

	// CostUSDPerDay is what all runs of the Store may cost together on a day in UTC, and PerLabel what the runs with
	// each value of a label may, by the label's key: {"tenant": 5}. A run without the label has no such limit. The
	// limits need a Store, and a price for each model. They count the calls of models by all processes that have such
	// limits. A call that may cost more than is left is not made: it fails with limit.day, or waits until the next day
	// if Pause is set. A process that dies during a call leaves counted what the call might have cost.
	CostUSDPerDay float64
	PerLabel      map[string]float64

	// Pause lets calls wait until a person raises the limit; otherwise the run, or the call, fails.
	Pause bool
}

// Daily reports whether there are limits of a day.
func (b *Budget) Daily() bool { return b.CostUSDPerDay > 0 || len(b.PerLabel) > 0 }

// Limits restrict a run. A zero field means its default. The defaults keep a run below 512 MB of memory, whatever
// its recipe does.
type Limits struct {
	// MaxParallel is how many adapter calls of one run may be under way at once. A lower
	// limits.max_parallel of the recipe takes precedence. 0: as the recipe says, else 8.
	MaxParallel int
	// Grace is how long a cancelled run waits for adapters that are still busy. Defaults to 5 s.
	Grace time.Duration
	// InlineWait is the longest wait that a run with a Store sleeps through; a longer one pauses it.
	// Defaults to 1 s.
	InlineWait time.Duration
	// MaxItems limits the list of a foreach that gives no max_items. Defaults to 10,000.
	MaxItems int
	// MaxSteps limits the steps of a run; those of a body count each time, and so does each item of
	// a foreach. Defaults to 100,000.
	MaxSteps int
	// MaxOutputBytes bounds the output of one step or item, and what goes into it, counted as
	// canonical JSON. Defaults to 4 MiB.
	MaxOutputBytes int
	// MaxRunBytes limits what a run keeps: the outputs of all steps and items together, the lists
	// of its foreach and the inputs of its sub-recipes, as canonical JSON, and as the memory that they take by
	// an estimate: 24 bytes for each value, 336 more for an object with up to 8 members. What its agents say and are
	// told counts too, and 4 KiB for each call. The result of one call of a tool may take an eighth of that memory.
	// Defaults to 64 MiB.
	MaxRunBytes int
}

// The defaults of Limits.
const (
	DefaultMaxParallel    = 8
	DefaultGrace          = 5 * time.Second
	DefaultInlineWait     = time.Second
	DefaultMaxItems       = 10_000
	DefaultMaxSteps       = 100_000
	DefaultMaxOutputBytes = 4 << 20
	DefaultMaxRunBytes    = 64 << 20
)

// WithDefaults returns l with every zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	if l.MaxParallel == 0 {
		l.MaxParallel = DefaultMaxParallel
	}
	if l.Grace == 0 {
		l.Grace = DefaultGrace
	}
	if l.InlineWait == 0 {
		l.InlineWait = DefaultInlineWait
	}
	if l.MaxItems == 0 {
		l.MaxItems = DefaultMaxItems
	}
	if l.MaxSteps == 0 {
		l.MaxSteps = DefaultMaxSteps
	}
	if l.MaxOutputBytes == 0 {
		l.MaxOutputBytes = DefaultMaxOutputBytes
	}
	if l.MaxRunBytes == 0 {
		l.MaxRunBytes = DefaultMaxRunBytes
	}
	return l
}

// Reporter takes warnings for the operator of the host, which belong to no outcome.
type Reporter interface {
	Warn(msg string, attrs ...slog.Attr)
}
