package value_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/value"
)

// Take measures what Size and Weight measure, of values that are normal and of others.
func TestExtent(t *testing.T) {
	deep := func(n int) any {
		var v any = []any{}
		for range n {
			v = []any{v}
		}
		return v
	}
	many := map[string]any{}
	for _, k := range strings.Fields("a b c d e f g h i j k l m n o p") {
		many[k] = k
	}
	for name, v := range map[string]any{
		"nothing": nil, "a boolean": false, "an integer": int64(-12), "a big one": json.Number("18446744073709551616"),
		"a fraction": 1.5, "text": "é\n", "an empty list": []any{}, "a small object": map[string]any{"a": []any{nil, "x"}},
		"a large object": many, "a struct": struct{ A []int }{[]int{1, 2}}, "nil lists": []any{[]any(nil), map[string]any(nil)},
		"as deep as may be": deep(value.MaxDepth),
	} {
		w, got, err := value.Take(v, math.MaxInt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		normal, _ := value.Normalise(v)
		size, err := value.Size(normal, math.MaxInt)
		want := value.Extent{Bytes: size, Weight: value.Weight(normal, math.MaxInt)}
		// Not by cmp.Diff, whose time grows exponentially with the depth of lists.
		if got != want || !reflect.DeepEqual(normal, w) || err != nil {
			t.Errorf("%s: %v %+v, want %v %+v, %v", name, w, got, normal, want, err)
		}
	}
	if _, _, err := value.Take(deep(value.MaxDepth+1), math.MaxInt); err == nil {
		t.Error("deeper than may be: no error")
	}
	var shared any = "x"
	for range 100 {
		shared = []any{shared, shared}
	}
	if _, got, err := value.Take(shared, 1000); err != nil || got.Bytes <= 1000 {
		t.Errorf("2^100 texts: %+v, %v", got, err)
	}
}
