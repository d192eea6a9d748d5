package runtime

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
	CategoryLimit        Category = "limit"  // a bound of the run
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

// Error prints what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
