// Package value handles decoded JSON: nil, bool, int64, float64, json.Number, string, []any, map[string]any.
//
// Integers stay integers: those that int64 does not hold are json.Number, with their digits. A value is a tree of
// finite depth without NaN or infinities; [Normalise] makes one of any Go value. Nothing in this package changes a
// value that it is given. The errors of this package begin with the JSON pointer of the place, if it is not
// the root.
package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxDepth is how deep values may be nested; what is deeper, a cycle for one, is an error.
const MaxDepth = 1000

// Normalise turns any Go value into decoded JSON. Integers become int64 (json.Number where they do not
// fit), a float32 the float64 with the same shortest decimal form; a nil list or map becomes nil; what
// is not a plain JSON type goes through encoding/json. A value that is normal already is returned
// as it is, uncopied; in others only the containers that hold something to convert are copied.
func Normalise(v any) (any, error) {
	w, changed, err := normalise(v, 0)
	if err != nil || changed {
		return w, err
	}
	return v, nil
}

// normalise reports whether v had to change, and if so to what.
func normalise(v any, depth int) (w any, changed bool, err error) {
	if depth > MaxDepth {
		return nil, false, errDeep
	}
	switch v := v.(type) {
	case nil, bool, int64, string:
		return nil, false, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false, errNumber(v)
		}
		return nil, false, nil
	case json.Number:
		if isBig(v) {
			return nil, false, nil
		}
	case []any:
		return normaliseList(v, depth)
	case map[string]any:
		return normaliseMap(v, depth)
	case float32:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, false, errNumber(f)
		}
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return f, true, err
	case int:
		return int64(v), true, nil
	case int8:
		return int64(v), true, nil
	case int16:
		return int64(v), true, nil
	case int32:
		return int64(v), true, nil
	case uint8:
		return int64(v), true, nil
	case uint16:
		return int64(v), true, nil
	case uint32:
		return int64(v), true, nil
	case uint:
		return fromUint(uint64(v)), true, nil
	case uint64:
		return fromUint(v), true, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, false, fmt.Errorf("%T is not JSON: %w", v, err)
	}
	w, err = decode(text, depth, false)
	return w, true, err
}

func normaliseList(v []any, depth int) (any, bool, error) {
	if v == nil {
		return nil, true, nil
	}
	var out []any
	for i, e := range v {
		w, changed, err := normalise(e, depth+1)
		if err != nil {
			return nil, false, at(strconv.Itoa(i), err)
		}
		if changed {
			if out == nil {
				out = slices.Clone(v)
			}
			out[i] = w
		}
	}
	return out, out != nil, nil
}

func normaliseMap(v map[string]any, depth int) (any, bool, error) {
	if v == nil {
		return nil, true, nil
	}
	var out map[string]any
	for k, e := range v {
		w, changed, err := normalise(e, depth+1)
		if err != nil {
			return nil, false, at(k, err)
		}
		if changed {
			if out == nil {
				out = maps.Clone(v)
			}
			out[k] = w
		}
	}
	return out, out != nil, nil
}

func fromUint(u uint64) any {
	if u > math.MaxInt64 {
		return json.Number(strconv.FormatUint(u, 10))
	}
	return int64(u)
}

// Names returns the names trimmed and sorted, without empty ones and repetitions; it is never nil.
func Names(names []string) []string {
	list := make([]string, 0, len(names))
	for _, n := range names {
		if n = strings.TrimSpace(n); n != "" {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// SortedKeys returns the keys of m in order. Unlike slices.Sorted it makes nothing of an empty map.
func SortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// Clone returns a deep copy of v.
func Clone(v any) any {
	switch v := v.(type) {
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Clone(e)
		}
		return out
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Clone(e)
		}
		return out
	}
	return v
}

// Equal reports whether a and b are the same JSON value; numbers are compared by their exact value,
// so that int64(1) equals float64(1).
func Equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			return compareIntFloat(a, b) == 0
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return compareIntFloat(b, a) == 0
		case float64:
			return a == b
		case json.Number:
			return compareBig(b, a) == 0
		}
	case json.Number:
		switch b := b.(type) {
		case json.Number:
			return a == b
		case float64:
			return compareBig(a, b) == 0
		}
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	}
	return false
}

// TypeName names the type of a decoded JSON value for a message: null, a boolean, a number, a
// string, a list, an object.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64, json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a Go %T", v)
}
