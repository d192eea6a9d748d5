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

// Compaction says when a long conversation is replaced by a summary, and how. It takes an
// [Archive].
type Compaction struct {
	Due    func(Progress) bool // the policy, asked between two steps; must be pure
	Model  string              // that makes the summary; "" is the loop's own
	Prompt string              // what it is asked for; "" asks for a summary
	// MaxResult is how many bytes of each tool's result it sees. Defaults to 1024.
	MaxResult int
}

// Archive keeps the texts that stand for compacted conversations, by name.
type Archive interface {
	Put(ctx context.Context, name, text string) error
	// Get reports false when there is no text of that name.
	Get(ctx context.Context, name string) (string, bool, error)
}
