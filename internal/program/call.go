package program

import (
	"encoding/json"
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// CallKind says what a call is of.
type CallKind string

// What calls are of.
const (
	ToolCall      CallKind = "tool"
	ModelCall     CallKind = "model"
	RetrieverCall CallKind = "retriever"
	MemoryCall    CallKind = "memory" // of an agent's
	AgentCall     CallKind = "agent"
)

// Category is that of failures which say nothing themselves.
func (k CallKind) Category() string {
	if k == AgentCall {
		return string(runtime.CategoryModel)
	}
	return string(k)
}

// Call is what a step calls, as far as it is known when the recipe is compiled.
type Call struct {
	Kind  CallKind
	Name  string // of the tool or model; "" for a model that an expression names
	Index int    // of a tool in Workflow.tools
	Step  string
	Pos   diagnostics.Position
	With  *recipe.Value
	Event trace.Data // of adapter.call, when the name is known

	Secrets    bool           // the arguments hold secrets
	Answer     *schema.Schema // of the output; nil: not checked
	AnswerJSON json.RawMessage
	MaxBytes   int // of the output; 0: no bound of its own

	Retry *retry.Layers  // what step and recipe say; nil: nothing
	Key   *expr.Template // of a tool call: the recipe's part of the idempotency key; nil: none

	Agents *AgentSet // that an agent step may run; nil for other calls
}

// CallData is the payload of adapter.call.
func CallData(kind CallKind, name string) trace.Data {
	return trace.Data{{Key: "kind", Value: string(kind)}, {Key: "name", Value: name}}
}

// ConfigError is an error of the category config: a *runtime.Error.
func ConfigError(code diagnostics.Code, format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: string(code), Err: fmt.Errorf(format, args...)}
}
