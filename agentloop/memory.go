package agentloop

import (
	"context"
	"slices"

	"github.com/braise-run/braise/runtime"
)

// Layer is a piece of memory beside the conversation. All its functions may be nil. One that fails is
// only reported as a diagnostic: after a failed Init the layer is left out of the run.
type Layer struct {
	ID     string
	Slot   int    // layers are recalled in this order, and of equal slots in that of the list
	Scope  string // what the layer is shared by: thread, resource, global or execution
	Budget int    // tokens of what it recalls, four bytes each; 0: 1000

	Init    func(ctx context.Context, key string) error
	Recall  func(ctx context.Context, key, task string) (string, error)        // once, before the first step
	Store   func(ctx context.Context, key string, own []runtime.Message) error // once, when the loop succeeds
	Dispose func(ctx context.Context, key string) error                        // always
}

func (l *Loop) validateLayers(who string, bad func(string, ...any)) {
	seen := map[string]bool{"": true}
	for _, y := range l.Layers {
		if seen[y.ID] {
			bad("%s: layer %q has no id of its own", who, y.ID)
		}
		seen[y.ID] = true
		if !slices.Contains([]string{"thread", "resource", "global", "execution"}, y.Scope) {
			bad("%s: layer %q: unknown scope %q\n  hint: it is thread, resource, global or execution",
				who, y.ID, y.Scope)
		}
		if y.Budget < 0 {
			bad("%s: layer %q: its budget is negative", who, y.ID)
		}
	}
}

// Compaction says when a long conversation is replaced by a summary, and how.
type Compaction struct {
	// Above is the size of a request, in tokens of four bytes, above which the messages before the last Keep ones are
	// replaced, the task apart. 0: the size does not matter.
	Above  int
	Keep   int    // Defaults to 6
	Model  string // that makes the summary; "" is the loop's own
	Prompt string // what it is asked for; "" asks for a summary
	// MaxResult is how many bytes of each tool's result it sees. Defaults to 1024.
	MaxResult int
	// Due is a policy beside the size, asked between two steps. It must be pure. Then the summary replaces all
	// messages, and it is kept in an [Archive], without which nothing is replaced. nil: never.
	Due func(Progress) bool
}

func (c *Compaction) validate(who string, bad func(string, ...any)) {
	if c == nil {
		return
	}
	if min(c.Above, c.Keep, c.MaxResult) < 0 {
		bad("%s: compact: a number is negative", who)
	}
	if c.Above == 0 && c.Due == nil {
		bad("%s: compact: it is never due\n  hint: set above, in tokens", who)
	}
}

// Archive keeps the texts that stand for compacted conversations, by name.
type Archive interface {
	Put(ctx context.Context, name, text string) error
	// Get reports false when there is no text of that name.
	Get(ctx context.Context, name string) (string, bool, error)
}
