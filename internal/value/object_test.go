package value_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/value"
)

// Objects are written member by member, one after the other, and none changes those before it.
func TestObject(t *testing.T) {
	var o value.Object
	var all [][]byte
	end := func() {
		t.Helper()
		data, err := o.End()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	end()
	o.Int("n", -12)
	o.Value("output", map[string]any{"b": []any{nil, 1.5}, "a": "<é\n"})
	o.Bool("unknown", true)
	end()
	o.String("", "")
	o.Open("error")
	o.String("code", `a"b`)
	o.Open("more")
	o.Close()
	o.Close()
	o.Value("value", nil)
	end()
	for range 100 { // the memory grows
		o.String("text", strings.Repeat("x", 50))
		end()
	}
	want := []string{
		`{}`,
		`{"n":-12,"output":{"a":"<é\n","b":[null,1.5]},"unknown":true}`,
		`{"":"","error":{"code":"a\"b","more":{}},"value":null}`,
	}
	for i, data := range all {
		text := `{"text":"` + strings.Repeat("x", 50) + `"}`
		if i < len(want) {
			text = want[i]
		}
		if string(data) != text {
			t.Errorf("object %d is %s, want %s", i, data, text)
		}
		if cap(data) != len(data) {
			t.Errorf("object %d: who appends to it writes into the next", i)
		}
	}
}

// A mistake is an error, and the next object begins without it.
func TestObjectRefuses(t *testing.T) {
	deep := any("bottom")
	for range value.MaxDepth - 1 {
		deep = []any{deep}
	}
	for _, tt := range []struct {
		name  string
		write func(*value.Object)
		want  string // in the error; "": none
	}{
		{"order", func(o *value.Object) { o.Int("b", 1); o.Int("a", 2) }, `"a" comes after "b"`},
		{"twice", func(o *value.Object) { o.Int("a", 1); o.Int("a", 2) }, `"a" comes after "a"`},
		{"order behind an object", func(o *value.Object) { o.Open("b"); o.Int("z", 1); o.Close(); o.Int("a", 2) }, `"a" comes after "b"`},
		{"two mistakes", func(o *value.Object) { o.Value("a", math.NaN()); o.Close() }, "/a: "},
		{"not closed", func(o *value.Object) { o.Open("b") }, `"b" is not closed`},
		{"not open", func(o *value.Object) { o.Close() }, "no object is open"},
		{"no JSON", func(o *value.Object) { o.Value("a", func() {}) }, "/a: "},
		{"as deep as can be", func(o *value.Object) { o.Value("a", deep) }, ""},
		{"too deep", func(o *value.Object) { o.Value("a", []any{deep}) }, "deep"},
		{"too deep in an object", func(o *value.Object) { o.Open("a"); o.Value("b", deep); o.Close() }, "deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o value.Object
			tt.write(&o)
			data, err := o.End()
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) || data != nil {
				t.Errorf("%s, error %v, want %q", data, err, tt.want)
			}
			o.Bool("next", false)
			if data, err := o.End(); err != nil || string(data) != `{"next":false}` {
				t.Errorf("the next object is %s, error %v", data, err)
			}
		})
	}
}

// Whatever the members are, the text is that of a map with them.
func TestObjectIsAMap(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom([]string{"", "n", "error", "output", "é", "\x80", "\x00"}), rapid.String())
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(), rapid.Int().AsAny(),
		rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Map(rapid.SliceOf(rapid.Int64()), func(l []int64) any { return l }))
	tree := rapid.Deferred(func() *rapid.Generator[any] { return leaf })
	for range 3 {
		inner := tree
		tree = rapid.OneOf(leaf, rapid.MapOfN(name, inner, 0, 5).AsAny(), rapid.SliceOfN(inner, 0, 3).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		var o value.Object
		for range rapid.IntRange(1, 3).Draw(t, "objects") {
			m := rapid.MapOfN(name, tree, 0, 8).Draw(t, "members")
			want, wantErr := value.JSON(m)
			write(&o, m)
			got, err := o.End()
			if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s, error %v\nwant %s, error %v", got, err, want, wantErr)
			}
		}
	})
}

// write writes each member with the method for its type.
func write(o *value.Object, m map[string]any) {
	for _, k := range value.SortedKeys(m) {
		switch v := m[k].(type) {
		case int64:
			o.Int(k, v)
		case bool:
			o.Bool(k, v)
		case string:
			o.String(k, v)
		case map[string]any:
			o.Open(k)
			write(o, v)
			o.Close()
		default:
			o.Value(k, v)
		}
	}
}

// BenchmarkObject is the data of a small record, beside the same from a map.
func BenchmarkObject(b *testing.B) {
	output := map[string]any{"n": int64(12)}
	b.Run("object", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var o value.Object
			o.Int("n", 1234)
			o.Value("output", output)
			if _, err := o.End(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("map", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := map[string]any{}
			m["n"], m["output"] = int64(1234), output
			if _, err := value.JSON(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
