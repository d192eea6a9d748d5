package wire

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
)

// Value is decoded JSON whose integers stay integers.
type Value struct{ V any }

// MarshalJSON writes canonical JSON.
func (v Value) MarshalJSON() ([]byte, error) { return value.JSON(v.V) }

// UnmarshalJSON reads any JSON.
func (v *Value) UnmarshalJSON(text []byte) (err error) {
	v.V, err = value.Decode(text)
	return err
}

// ValueOf makes a Value; nil stays nil.
func ValueOf(v any) *Value {
	if v == nil {
		return nil
	}
	return &Value{v}
}

// Diagnostic is a [diagnostics.Diagnostic].
type Diagnostic struct {
	Level    diagnostics.Level
	Kind     diagnostics.Kind
	Code     diagnostics.Code
	Message  string
	Hint     string               `json:",omitempty"`
	Position diagnostics.Position `json:",omitzero"`
	Step     string               `json:",omitempty"`
	Data     *Value               `json:",omitempty"`
}

// DiagnosticsOf takes diagnostics apart.
func DiagnosticsOf(list diagnostics.List) (out []Diagnostic) {
	for _, d := range list {
		f := Diagnostic{Level: d.Level, Kind: d.Kind, Code: d.Code, Message: d.Message, Hint: d.Hint,
			Position: d.Position, Step: d.Step}
		if d.Data != nil {
			f.Data = &Value{d.Data}
		}
		out = append(out, f)
	}
	return out
}

// ListOf puts diagnostics together again.
func ListOf(found []Diagnostic) (list diagnostics.List) {
	for _, f := range found {
		d := diagnostics.Diagnostic{Level: f.Level, Kind: f.Kind, Code: f.Code, Message: f.Message, Hint: f.Hint,
			Position: f.Position, Step: f.Step}
		if f.Data != nil {
			d.Data, _ = f.Data.V.(map[string]any)
		}
		list = append(list, d)
	}
	return list
}

var rawType = reflect.TypeFor[json.RawMessage]()

// Empties makes each json.RawMessage in what v points to nil that encoding/json has written as null.
func Empties(v any) { empties(reflect.ValueOf(v)) }

func empties(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			empties(v.Elem())
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() || f.Kind() == reflect.Struct {
				empties(f)
			}
		}
	case reflect.Slice:
		switch {
		case v.Type() == rawType:
			if v.CanSet() && string(v.Bytes()) == "null" {
				v.SetZero()
			}
		case v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				empties(v.Index(i))
			}
		}
	}
}

// The members by which a payload names what is not plain JSON. A map that has one of them is sent inside of another.
const (
	sealedMember = "$sealed"
	plainMember  = "$plain"
)

// seal writes the places where secrets belong as JSON.
func seal(v any) any {
	switch v := v.(type) {
	case expr.Sealed:
		list := make([]any, len(v.Parts))
		for i, p := range v.Parts {
			pair := []any{p.Text, p.Secret}
			if p.Escape != "" {
				pair = append(pair, string(p.Escape))
			}
			list[i] = pair
		}
		return map[string]any{sealedMember: list}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = seal(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range value.SortedKeys(v) {
			out[k] = seal(v[k])
		}
		_, sealed := v[sealedMember]
		if _, plain := v[plainMember]; sealed || plain {
			return map[string]any{plainMember: out}
		}
		return out
	}
	return v
}

// unseal is the reverse of seal. The error says that seal has not written this.
func unseal(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		var err error
		for i := range v {
			if out[i], err = unseal(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		if list, ok := v[sealedMember].([]any); ok {
			return unsealParts(list)
		}
		inner, wrapped := v[plainMember].(map[string]any)
		if !wrapped {
			inner = v
		}
		out := make(map[string]any, len(inner))
		var err error
		for _, k := range value.SortedKeys(inner) {
			if out[k], err = unseal(inner[k]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// unsealParts reads the parts of a text with secrets: a text, the name of a secret, and how it is escaped.
func unsealParts(list []any) (s expr.Sealed, err error) {
	for i, p := range list {
		words, _ := p.([]any)
		var texts [3]string
		for k, word := range words {
			text, ok := word.(string)
			if !ok || k >= len(texts) {
				return s, fmt.Errorf("part %d of a text with secrets is %v", i+1, p)
			}
			texts[k] = text
		}
		if len(words) < 2 {
			return s, fmt.Errorf("part %d of a text with secrets is %v", i+1, p)
		}
		s.Parts = append(s.Parts, expr.SealedPart{Text: texts[0], Secret: texts[1], Escape: expr.Escape(texts[2])})
	}
	return s, nil
}
