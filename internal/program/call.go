package program

import (
	"encoding/json"
	"fmt"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// CallKind is the kind of adapter that a call is made to.
type CallKind string

// What calls are of.
const (
	ToolCall      CallKind = "tool"
	ModelCall     CallKind = "model"
	RetrieverCall CallKind = "retriever"
	MemoryCall    CallKind = "memory" // of an agent's
	AgentCall     CallKind = "agent"
)

// Category is the default category of failures.
func (k CallKind) Category() string {
	if k == AgentCall {
		return string(runtime.CategoryModel)
	}
	return string(k)
}

// Step names a step of the kind model or agent, with its article.
func (k CallKind) Step() string {
	if k == AgentCall {
		return "an agent step"
	}
	return "a model step"
}

// Call is the call of a step, as far as it is known when the recipe is compiled.
type Call struct {
	Kind  CallKind
	Name  string // of the tool or model; "" for a model that an expression names
	Index int    // of a tool in Program.Tools

	Step   string
	Recipe string // the name of the recipe in whose file it stands
	Pos    diagnostics.Position
	With   *recipe.Value
	Event  trace.Data // of adapter.call, when the name is known

	Secrets    bool           // the arguments hold secrets
	Answer     *schema.Schema // of the output; nil: not checked
	AnswerJSON json.RawMessage
	MaxBytes   int // of the output; 0: no limit of its own
	Repairs    int // turns that a model or an agent gets to mend its answer

	Retry *Retry         // what step and recipe say; nil: nothing
	Key   *expr.Template // of a tool call: the recipe's part of the idempotency key; nil: none

	OnIndeterminate OnIndeterminate // "": the default

	Agents *AgentSet // that an agent step may run; nil for other calls
}

// OnIndeterminate says what follows if the outcome of a call is unknown.
type OnIndeterminate = recipe.OnIndeterminate

// What follows.
const (
	Ask    = recipe.PauseIndeterminate
	Fail   = recipe.FailIndeterminate
	Ignore = recipe.ContinueIndeterminate
)

// CallData is the payload of adapter.call.
func CallData(kind CallKind, name string) trace.Data {
	return trace.Data{{Key: "kind", Value: string(kind)}, {Key: "name", Value: name}}
}

// ConfigError is an error of the category config: a *runtime.Error.
func ConfigError(code diagnostics.Code, format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: string(code), Err: fmt.Errorf(format, args...)}
}

// modelName returns the model that a model step names; "" when an expression will say.
func (s *stepCompiler) modelName(src *recipe.Step) string {
	name, pos := s.defaults.Model, src.Uses.Pos
	if f := src.With.Field("model"); f != nil {
		v := f.Value
		text, ok := v.Literal().(string)
		if !ok || v.HasExpression() {
			s.need(useOpen, "models", v.Pos, s.path())
			return ""
		}
		name, pos = text, v.Pos
	}
	if name == "" {
		s.errorf(pos, diagnostics.CodeMissingKey, "give model in with, or defaults.model for all steps",
			"step %q names no model", src.ID)
		return ""
	}
	s.need(useModel, name, pos, s.path())
	s.needFiles(src.With, name)
	return name
}

// addCall adds a call to those of the program, and of the file.
func (c *compiler) addCall(call *Call) {
	call.Recipe = c.in.name
	c.calls, c.in.calls = append(c.calls, call), append(c.in.calls, call)
}

func (s *stepCompiler) compileCall(src *recipe.Step, kind CallKind, name string, names *expr.Scope) {
	call := &Call{Kind: kind, Name: name, Step: s.path(), Pos: src.Uses.Pos, With: src.With,
		Repairs: agents.DefaultRepairs}
	if call.OnIndeterminate = src.OnIndeterminate; call.OnIndeterminate == Ask {
		earliest(&s.waits.Answer, src.Uses.Pos, s.path())
	}
	if kind != AgentCall { // which makes calls of several kinds
		call.Retry = s.retryOf(s.defaults.Retry[string(kind)], names)
	}
	if name != "" {
		call.Event = CallData(kind, name)
	}
	if s.node.With != nil {
		call.Secrets = s.node.With.HasSecrets()
	}
	if o := src.Output; o != nil {
		call.MaxBytes = o.MaxBytes
		if o.Repairs != nil {
			call.Repairs = *o.Repairs
		}
		if o.SchemaJSON != nil {
			call.AnswerJSON, _ = value.JSON(o.SchemaJSON)
			call.Answer = s.schema(o)
		}
	}
	if s.node.Timeout == 0 {
		s.node.Timeout = s.defaults.Timeout
	}
	s.node.Kind, s.node.Adapter = machine.Call, call
	s.addCall(call)
}

func (s *stepCompiler) schema(o *recipe.Output) *schema.Schema {
	compiled, err := schema.CompileValue(o.SchemaJSON)
	if err != nil && !s.broken {
		s.errorf(o.Pos, diagnostics.CodeBadSchema, "", "output.schema of step %q: %v", s.src.ID, err)
	}
	return compiled
}

// accept makes the check of a step's output; nil if none is needed.
func (s *stepCompiler) accept(src *recipe.Step) func(any) error {
	o := src.Output
	if o == nil || s.node.Kind == machine.Call {
		return nil
	}
	var want *schema.Schema
	if o.SchemaJSON != nil {
		if want = s.schema(o); want == nil {
			return nil
		}
	}
	return func(v any) error { return CheckOutput(v, want, o.MaxBytes, o.Pos) }
}

// compileChecks lowers the rules for the output of a step, or of each item.
func (s *stepCompiler) compileChecks(src *recipe.Step, inner *expr.Scope) {
	if src.Output == nil || src.Output.Checks == nil {
		return
	}
	names := withVar(inner, expr.Var{Name: outputVar, Index: machine.VarOutput, Noted: true,
		Type: s.typeOf(s.outputOfOne(src))})
	for _, c := range src.Output.Checks {
		said, refs := s.template(c.Else, names)
		s.refer(refs)
		if that := s.condition(c.That, names); that != nil {
			s.node.Rules.Checks = append(s.node.Rules.Checks, machine.Check{That: that, Else: said})
		}
	}
}

// outputVar is the name by which rules for an output read it.
const outputVar = "output"

// CheckOutput reports an output that does not match its schema or is too large. want may be nil
// and maxBytes 0: then that check is left out.
func CheckOutput(v any, want *schema.Schema, maxBytes int, where diagnostics.Position) error {
	if maxBytes > 0 {
		text, err := value.JSON(v)
		if err != nil {
			return fmt.Errorf("%s: the output is not JSON: %w", where, err)
		}
		if len(text) > maxBytes {
			return fmt.Errorf("%s: the output has %d bytes, output.max_bytes is %d", where, len(text), maxBytes)
		}
	}
	if want != nil {
		if problems := want.Check(v); problems != nil {
			return fmt.Errorf("%s: the output does not match output.schema: %s", where, schema.Describe(problems))
		}
	}
	return nil
}
