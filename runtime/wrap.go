package runtime

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/braise-run/braise/internal/value"
)

// CallFunc makes a call of a tool, as [Tool].Call does.
type CallFunc func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)

// Wrap returns a tool that is t in everything but its calls: those go through around, which may change the arguments
// and the result, call next any number of times, or refuse. What t demands of its callers holds for the new tool
// too: its spec, with effect and approval, and what else it is (a [ValueTool], a [BuiltinTool], [Described]).
//
// Where t is a ValueTool, around has to keep its promise: to be quick. Its arguments and result are then encoded and
// decoded for around. around must be safe for concurrent use.
func Wrap(t Tool, around func(ctx context.Context, args json.RawMessage, next CallFunc) (json.RawMessage, error)) Tool {
	w := wrapped{t, around}
	values, takesValues := t.(ValueTool)
	_, isBuiltin := t.(BuiltinTool)
	switch {
	case takesValues && isBuiltin:
		return wrappedBuiltinValues{wrappedValues{w, values}}
	case takesValues:
		return wrappedValues{w, values}
	case isBuiltin:
		return wrappedBuiltin{w}
	}
	return w
}

type wrapped struct {
	Tool
	around func(ctx context.Context, args json.RawMessage, next CallFunc) (json.RawMessage, error)
}

func (w wrapped) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	return w.around(ctx, args, w.Tool.Call)
}

// Metadata implements Described. The zero Metadata says what a tool without one says: nothing.
func (w wrapped) Metadata() Metadata {
	if d, ok := w.Tool.(Described); ok {
		return d.Metadata()
	}
	return Metadata{}
}

func (w wrapped) constructionError() error {
	if b, ok := w.Tool.(broken); ok {
		return b.constructionError()
	}
	return nil
}

type wrappedBuiltin struct{ wrapped }

func (wrappedBuiltin) Builtin() {}

type wrappedValues struct {
	wrapped
	values ValueTool
}

type wrappedBuiltinValues struct{ wrappedValues }

func (wrappedBuiltinValues) Builtin() {}

// CallValue implements ValueTool.
func (w wrappedValues) CallValue(ctx context.Context, args map[string]any) (any, error) {
	text, err := value.JSON(args)
	if err != nil {
		return nil, err
	}
	out, err := w.around(ctx, text, w.callNext)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return value.Decode(out)
}

// callNext is Call of the tool inside, by value.
func (w wrappedValues) callNext(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	v, err := value.Decode(args)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the arguments of a tool are an object, not %s", value.TypeName(v))
	}
	out, err := w.values.CallValue(ctx, object)
	if err != nil {
		return nil, err
	}
	return value.JSON(out)
}
