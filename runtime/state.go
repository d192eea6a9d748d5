package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/state"
	"github.com/braise-run/braise/internal/value"
)

// The tools that a [Runtime] with a store has: they read and write what the runs of a recipe leave to later ones, see
// package state.
const (
	StateGet = "state.get"
	StatePut = "state.put"
)

// IsState reports whether a tool of that name is one of them.
func IsState(tool string) bool { return tool == StateGet || tool == StatePut }

// stateTool is one of the tools.
type stateTool struct {
	store checkpoint.Documents
	spec  ToolSpec
	call  func(ctx context.Context, store checkpoint.Documents, in *stateArgs) (any, error)
}

// stateTools are the tools of a store; nil: it keeps no state.
func stateTools(store checkpoint.Store) []Tool {
	s, ok := store.(checkpoint.Documents)
	if !ok {
		return nil
	}
	return []Tool{&stateTool{s, getSpec, getState}, &stateTool{s, putSpec, putState}}
}

// Builtin implements BuiltinTool.
func (*stateTool) Builtin() {}

// PortTool implements PortTool.
func (*stateTool) PortTool() {}

// StoreTool says that a call does nothing but to call the store of the runs.
func (*stateTool) StoreTool() {}

// Spec implements Tool.
func (t *stateTool) Spec() ToolSpec { return t.spec }

var (
	getSpec = ToolSpec{Name: StateGet, Effect: ReadOnly, Result: "{key, value, version}",
		Description: "Read what an earlier run of this recipe has kept. Version 0: there is nothing.",
		Parameters: stateParameters(map[string]any{
			"default": map[string]any{"description": "the value if there is none; null if not given"},
		}, "key")}
	putSpec = ToolSpec{Name: StatePut, Effect: Idempotent, Result: "{key, version}",
		Description: "Keep a value for later runs of this recipe, in place of the one before.",
		Parameters: stateParameters(map[string]any{
			"value": map[string]any{"description": "anything, at most 256 KiB as JSON"},
			"ttl": map[string]any{"type": "string",
				"description": "how long it is kept, a duration like 720h or 30d; forever if not given"},
			"if_version": map[string]any{"type": "integer", "minimum": int64(0),
				"description": "write only if this is the version now, 0: if there is no value; else the call fails"},
		}, "key", "value")}
)

func stateParameters(properties map[string]any, required ...string) json.RawMessage {
	properties["key"] = map[string]any{"type": "string", "minLength": int64(1), "maxLength": int64(state.MaxKey),
		"description": "the name of the value, such as inbox/seen"}
	parameters, _ := value.JSON(map[string]any{"type": "object", "additionalProperties": false,
		"required": anys(required), "properties": properties})
	return parameters
}

// stateArgs are the arguments of both tools.
type stateArgs struct {
	Key       string          `json:"key"`
	Default   json.RawMessage `json:"default"`
	Value     json.RawMessage `json:"value"`
	TTL       *string         `json:"ttl"`
	IfVersion *int64          `json:"if_version"`

	recipe string
	call   string // its idempotency key
}

// Call implements Tool.
func (t *stateTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in stateArgs
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	info, _ := CallOf(ctx)
	if in.recipe, in.call = info.Recipe, info.Key; in.recipe == "" {
		return nil, errors.New("state belongs to a recipe, and this call is not made in a run of one")
	}
	out, err := t.call(ctx, t.store, &in)
	if err != nil {
		return nil, stateError(err)
	}
	return json.Marshal(out)
}

// stateError gives errors their codes.
func stateError(err error) error {
	for is, known := range map[error]struct {
		Error
		hint string
	}{
		state.ErrConflict:     {Error{Code: "state.conflict"}, "read it again with state.get, and decide anew"},
		state.ErrTooLarge:     {Error{Code: "state.tooLarge"}, "keep it in a file or a database, and its name here"},
		checkpoint.ErrInvalid: {Error{Code: "state.invalid"}, "a key has 1 to 250 characters, and ttl is a duration"},
	} {
		if errors.Is(err, is) {
			known.Category, known.Err = CategoryTool, fmt.Errorf("%w\n  hint: %s", err, known.hint)
			return &known.Error
		}
	}
	return err
}

func getState(ctx context.Context, store checkpoint.Documents, in *stateArgs) (any, error) {
	v, err := state.Get(ctx, store, in.recipe, in.Key)
	if v.Value == nil {
		v.Value = in.Default
	}
	if v.Value == nil {
		v.Value = json.RawMessage("null")
	}
	return map[string]any{"key": in.Key, "value": v.Value, "version": v.Version}, err
}

func putState(ctx context.Context, store checkpoint.Documents, in *stateArgs) (any, error) {
	w := state.Write{Key: in.Key, Value: in.Value, IfVersion: in.IfVersion, Call: in.call}
	if in.TTL != nil {
		var err error
		if w.TTL, err = value.Duration(*in.TTL); err != nil || w.TTL <= 0 {
			return nil, fmt.Errorf("state %q: %w: its ttl is %q, not a duration above 0 like 720h or 30d",
				in.Key, checkpoint.ErrInvalid, *in.TTL)
		}
	}
	version, err := state.Put(ctx, store, in.recipe, w)
	return map[string]any{"key": in.Key, "version": version}, err
}
