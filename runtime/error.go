package runtime

// Category says which part of the world an error came from.
type Category string

// The categories.
const (
	CategoryModel     Category = "model"
	CategoryTool      Category = "tool"
	CategoryConfig    Category = "config" // the recipe, its input or the host's set-up
	CategoryInfra     Category = "infra"
	CategoryLimit     Category = "limit"
	CategoryCancelled Category = "cancelled"
)

// Error is why a run, or a step whose failure was handled, failed. errors.Is and errors.As reach
// the cause.
type Error struct {
	Category Category
	Code     string // stable, for machines: expr.failed, step.timeout, tool.failed, …
	Step     string // the path of the step; "" for errors of the run itself
	Err      error  // what happened; not nil. Begins with file:line:column for a recipe's own mistake.
}

// Error prints what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
