package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
)

// Tool is something a step may call. Call must be safe for concurrent use and should return soon
// after ctx is done; a call that does not is left behind and its result dropped.
//
// args is a JSON object that matches Spec().Parameters. The result is any JSON text; nil or empty
// means null. A failure that trying again could mend is, or wraps, a retry.Failure.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
}

// ValueTool is an optional second interface of a Tool: step values pass as decoded JSON (nil,
// bool, int64, json.Number for an integer that int64 does not hold, float64, string, []any, map[string]any) without
// being encoded. CallValue must not
// change args or anything inside, nor its result once returned.
//
// CallValue promises to be quick, quicker than to start a goroutine and to wait for it: a tool that waits, or computes
// for long, uses Call. The goroutine that drives a run makes such calls itself, one after the other, also where
// steps could run side by side, and nothing watches them: one that blocks holds its run, not others, at most until
// the run is cancelled and its grace period is over. A call with which more comes that takes time or stops it (a
// timeout, a retry policy, a step around its step, hooks of plugins) is made like any other, on a goroutine.
type ValueTool interface {
	CallValue(ctx context.Context, args map[string]any) (any, error)
}

// ToolSpec describes a tool, and says what it demands of those who call it.
type ToolSpec struct {
	Name        string          // contains a dot: crm.lookup
	Description string          // one line, for people and models
	Parameters  json.RawMessage // JSON Schema of the arguments, type object; nil: any object
	Effect      Effect          // "" means External
	// Result is what a call returns, for people: {code, stdout, stderr}. "": it is not known.
	Result string `json:"-"`
	// Missing says why the tool cannot be called, with a hint on a second line: what needs it fails. A name PREFIX.*
	// stands for all tools whose names begin so and are not known. "": it can be called.
	Missing string

	// EffectOf says what the effect is where it depends on the arguments: http.request only reads when its method
	// is GET. It must be pure; "" stands for Effect, as for arguments that it cannot read. nil: it does not depend on
	// them. With a store, what it says is recorded before the call begins, and recovery goes by the record.
	EffectOf func(args json.RawMessage) Effect `json:"-"`
	// Approval says what the host wants before an agent may call the tool: "never" (nothing; also ""), "pause",
	// "always" or "refuse", the words of an agent's own approval. The strictest of them counts, in that order: an
	// agent cannot loosen what the host asks for. A step that calls the tool itself needs no approval.
	Approval string `json:"-"`
	// Off says how the host would allow the tool, of one that it has, so that names and arguments are checked, but does
	// not allow: for a run it is missing. "": it is allowed.
	Off string
	// Changes says that somebody else defines the tool, such as an MCP server, and may define it anew. A run calls it
	// only as it first saw it: with another effect, description or schema, its calls fail with mcp.changed.
	Changes bool `json:",omitempty"`
}

// EffectFor returns the effect of a call with args: what EffectOf says, or else Effect. What is no effect counts as
// External.
func (s *ToolSpec) EffectFor(args json.RawMessage) Effect {
	effect := s.Effect
	if s.EffectOf != nil {
		effect = cmp.Or(s.EffectOf(args), effect)
	}
	if effect != ReadOnly && effect != Idempotent {
		return External
	}
	return effect
}

// IdempotencyKey returns the key of the call that ctx belongs to: the same for all its attempts and
// after every recovery, and no other call's. "" outside of a run. See [resume.Key].
func IdempotencyKey(ctx context.Context) string { return resume.IdempotencyKey(ctx) }

// Say tells whoever watches the run something, as a step of the kind say does: text for people, and a value for
// programs, anything that is JSON; nil: none. It is for tools, models and hooks, in the context that they were called
// with; without a run in it, it does nothing. It is shown at once, at each attempt, of an agent's call when the call
// ends, and recorded with the result of the call. [trace.Emit] says what the error is, and how much may be said.
func Say(ctx context.Context, text string, value any) error {
	data := map[string]any{"text": text}
	if value != nil {
		data["value"] = value
	}
	return trace.Emit(ctx, string(trace.StepSaid), data)
}

// CallInfo says which call of a run is served: by a tool, a model, a retriever, a memory or another port, or by a hook.
type CallInfo struct {
	Run      string // the run's id
	Step     string // the path of the step, of its rollback, or of the agent or child that calls; "" in hooks of runs
	Agent    string // the name of the agent; "" for a step's own call
	Depth    int    // of the agent: 0 is no delegate or sub-agent
	Call     int    // the number of the call in the step or agent, from 1; 0: it is none of a tool, and has no number
	Attempt  int    // from 1; 0 in a hook of the run or of a step
	Thread   string // of the agent's conversation; "": it remembers nothing
	Resource string // likewise, see [Conversation]
	Cwd      string // where the agent's calls work, below the folder that the tool works in; "" is that folder
	Key      string // see [IdempotencyKey]
	Recipe   string // the name of the recipe in whose file the step stands, or the agent
	By       string // who started the run, or gave the last answer, as the journal names them; "": not known
}

// CallOf returns the call that ctx belongs to. All that a [Runtime] and its plugins have for a run is called with such
// a context, so that one retriever or memory can serve several users. It is false outside of a run.
func CallOf(ctx context.Context) (CallInfo, bool) {
	c := resume.CallIn(ctx)
	if c == nil {
		return CallInfo{}, false
	}
	info := CallInfo{Run: c.RunID, Step: c.Path, Call: c.Ordinal, Attempt: c.Attempt, Key: resume.IdempotencyKey(c),
		Recipe: c.Recipe, By: c.By}
	if d := c.Detail; d != nil {
		info.Agent, info.Depth, info.Cwd = d.Agent, d.Depth, d.Cwd
		info.Thread, info.Resource = d.Thread, d.Resource
	}
	return info, true
}

// Effect says what a second call with the same arguments does to the world.
type Effect string

// The effects.
const (
	ReadOnly   Effect = "read_only"
	Idempotent Effect = "idempotent"
	External   Effect = "external"
)

// NewTool makes a Tool of a Go function. The parameters' schema is derived from In, a struct with
// json tags (github.com/google/jsonschema-go says how), unless spec has one; Out is encoded with
// encoding/json. An In that has no schema is reported by [Runtime.Validate].
func NewTool[In, Out any](spec ToolSpec, f func(context.Context, In) (Out, error)) Tool {
	t := funcTool[In, Out]{spec: spec, f: f}
	if spec.Parameters == nil {
		s, err := jsonschema.For[In](nil)
		if err == nil && s.Type != "object" {
			err = fmt.Errorf("%T is not a struct or map", *new(In))
		}
		if err == nil {
			t.spec.Parameters, err = json.Marshal(s)
		}
		if err != nil {
			t.err = fmt.Errorf("tool %q: no schema for its arguments: %w", spec.Name, err)
		}
	}
	return t
}

type funcTool[In, Out any] struct {
	spec ToolSpec
	f    func(context.Context, In) (Out, error)
	err  error
}

func (t funcTool[In, Out]) Spec() ToolSpec { return t.spec }

func (t funcTool[In, Out]) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if t.err != nil {
		return nil, t.err
	}
	var in In
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, fmt.Errorf("arguments of %q: %w", t.spec.Name, err)
	}
	out, err := t.f(ctx, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// broken is implemented by tools whose construction failed.
type broken interface{ constructionError() error }

func (t funcTool[In, Out]) constructionError() error { return t.err }
