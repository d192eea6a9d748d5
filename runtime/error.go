package runtime

import (
	"fmt"
	"regexp"
	"strings"
)

// Category says which part of the world an error came from.
type Category string

// The categories.
const (
	CategoryModel     Category = "model"
	CategoryTool      Category = "tool"
	CategoryRetriever Category = "retriever"
	CategoryMemory    Category = "memory"
	// CategoryConfirmation is of a call that was denied, by a plugin's hook for one.
	CategoryConfirmation Category = "confirmation"
	CategoryConfig       Category = "config" // the recipe, its input or the host's set-up
	CategoryInfra        Category = "infra"  // a step's timeout, what holds the secrets, the engine itself
	CategoryLimit        Category = "limit"  // a limit of the run
	CategoryCancelled    Category = "cancelled"
)

// Error is why a run, or a step whose failure was handled, failed. errors.Is and errors.As reach
// the cause.
type Error struct {
	Category Category
	Code     string // stable, for machines; docs/errors.md lists them
	Step     string // the path of the step; "" for errors of the run itself
	Err      error  // what happened; not nil. Begins with file:line:column for a recipe's own mistake.
}

// position is where the text of a recipe's own mistake says that it is.
var position = regexp.MustCompile(`^[^\s:]+:\d+(:\d+)?: `)

// Error prints the position, if what happened has one, then the step, then what happened:
// A text that names its step anyway stays as it is.
//
//	order.yaml:7:5: step "who": customer 8 is unknown
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Step == "" {
		return text
	}
	at, step := position.FindString(text), fmt.Sprintf("step %q", e.Step)
	if text = text[len(at):]; !strings.HasPrefix(text, step) {
		text = step + ": " + text
	}
	return at + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
