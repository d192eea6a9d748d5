package agentloop

import "context"

// Journal is where the events of a loop and its children go.
type Journal interface {
	// Events returns what earlier legs of the loop appended, in order; nil: nothing.
	Events() []Event
	// Append records events, in order: all of them or, with an error, none. It is called by one
	// goroutine at a time, and the slice is used again when it has returned. If one of the events is a
	// [Event.Barrier], all that was appended is durable when it returns. After an error the loop ends and
	// appends nothing more.
	Append(ctx context.Context, events ...Event) error
}

// Archive keeps the texts that stand for compacted conversations, by name.
type Archive interface {
	Put(ctx context.Context, name, text string) error
	// Get reports false when there is no text of that name.
	Get(ctx context.Context, name string) (string, bool, error)
}

// forgetful is the Journal of a loop that has none: its state is all that there is.
type forgetful struct{}

func (forgetful) Events() []Event                        { return nil }
func (forgetful) Append(context.Context, ...Event) error { return nil }
