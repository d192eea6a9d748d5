package runtime

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/braise-run/braise/resume"
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
// bool, int64, float64, string, []any, map[string]any) without being encoded. CallValue must not
// change args or anything inside, nor its result once returned.
//
// CallValue promises to be quick, quicker than to start a goroutine and to wait for it: what waits, or computes
// for long, is for Call. The goroutine that drives a run makes such calls itself, one after the other, also where
// steps could run side by side, and nothing watches them: one that blocks holds its run, not others, at most until
// the run is cancelled and its grace period is over. A call with which more comes that takes time or stops it (a
// timeout, a retry policy, a step around its step, hooks of plugins) is made like any other, on a goroutine.
type ValueTool interface {
	CallValue(ctx context.Context, args map[string]any) (any, error)
}

// EffectTool is an optional second interface of a Tool whose effect depends on the arguments:
// http.request only reads when its method is GET. EffectOf must be pure, and returns
// Spec().Effect, or "", for arguments that it cannot read.
type EffectTool interface {
	EffectOf(args json.RawMessage) Effect
}

// ApprovalTool is an optional second interface of a Tool for whose calls by agents the host wants an
// approval. Approval returns "never" (none; also ""), "pause" or "always", the words of an agent's
// own approval. The stricter of the two counts, in that order: an agent cannot loosen what the host
// asks for. A step that calls the tool itself needs no approval.
type ApprovalTool interface {
	Approval() string
}

// ToolSpec describes a tool.
type ToolSpec struct {
	Name        string          // contains a dot: crm.lookup
	Description string          // one line, for people and models
	Parameters  json.RawMessage // JSON Schema of the arguments, type object; nil: any object
	Effect      Effect          // "" means External; see [EffectTool] for one that depends on the arguments
}

// IdempotencyKey returns the key of the call that ctx belongs to: the same for all its attempts and
// after every recovery, and no other call's. "" outside of a run. See [resume.Key].
func IdempotencyKey(ctx context.Context) string { return resume.IdempotencyKey(ctx) }

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
