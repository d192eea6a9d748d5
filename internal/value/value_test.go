package value_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
)

type point struct {
	X int     `json:"x"`
	Y float64 `json:"y,omitempty"`
}

type word string

func TestNormalise(t *testing.T) {
	tests := []struct {
		in, want any
	}{
		{nil, nil},
		{true, true},
		{"a", "a"},
		{int(-3), int64(-3)},
		{int8(-3), int64(-3)},
		{int16(-3), int64(-3)},
		{int32(-3), int64(-3)},
		{int64(-3), int64(-3)},
		{uint(3), int64(3)},
		{uint8(3), int64(3)},
		{uint16(3), int64(3)},
		{uint32(3), int64(3)},
		{uint64(3), int64(3)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{uint64(math.MaxUint64), json.Number("18446744073709551615")},
		{float32(0.1), 0.1},
		{1.0, 1.0},
		{json.Number("12"), int64(12)},
		{json.Number("1.5"), 1.5},
		{json.Number("9223372036854775808"), json.Number("9223372036854775808")},
		{[]uint64{1, math.MaxUint64}, []any{int64(1), json.Number("18446744073709551615")}},
		{json.RawMessage(`{"a":1}`), map[string]any{"a": int64(1)}},
		{[]byte("abc"), "YWJj"},
		{word("w"), "w"},
		{[]string{"a"}, []any{"a"}},
		{map[string]int{"a": 1}, map[string]any{"a": int64(1)}},
		{point{X: 1}, map[string]any{"x": int64(1)}},
		{&point{X: 1, Y: 0.5}, map[string]any{"x": int64(1), "y": 0.5}},
		{(*point)(nil), nil},
		{[]any(nil), nil},
		{map[string]any(nil), nil},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "2026-01-02T03:04:05Z"},
		{[]any{1, "a", map[string]any{"k": []int{2}}}, []any{int64(1), "a", map[string]any{"k": []any{int64(2)}}}},
	}
	for _, tt := range tests {
		got, err := value.Normalise(tt.in)
		if err != nil {
			t.Errorf("Normalise(%#v): %v", tt.in, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Normalise(%#v) (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestNormaliseErrors(t *testing.T) {
	cycle := map[string]any{}
	cycle["a"] = []any{cycle}
	tests := []struct {
		name string
		in   any
		want string // contained in the error
	}{
		{"NaN", map[string]any{"a/b": []any{math.NaN()}}, "/a~1b/0: NaN is not a JSON number"},
		{"infinity", math.Inf(-1), "-Inf is not a JSON number"},
		{"float32", float32(math.Inf(1)), "+Inf is not a JSON number"},
		{"channel", []any{make(chan int)}, "/0: chan int is not JSON"},
		{"bad number", json.Number("x"), "json.Number is not JSON"},
		{"cycle", cycle, "nested more than 1000 deep"},
		{"cycle within a typed value", []map[string]any{cycle}, "is not JSON"},
	}
	for _, tt := range tests {
		if _, err := value.Normalise(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestNormaliseDoesNotCopyOrChange(t *testing.T) {
	normal := map[string]any{"a": []any{int64(1), "x", nil}, "b": map[string]any{"c": 1.5}}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := value.Normalise(normal); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a normal value cost %v allocations", n)
	}

	kept := []any{int64(1)}
	in := map[string]any{"kept": kept, "changed": []any{1}}
	got, err := value.Normalise(in)
	if err != nil {
		t.Fatal(err)
	}
	if &got.(map[string]any)["kept"].([]any)[0] != &kept[0] {
		t.Error("a normal part was copied")
	}
	if in["changed"].([]any)[0] != 1 {
		t.Error("the argument was changed")
	}
}

func TestNames(t *testing.T) {
	got := value.Names([]string{"b", " a ", "", "b", "  "})
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none := value.Names(nil); none == nil || len(none) > 0 {
		t.Errorf("of no names %#v, want an empty list", none)
	}
}

func TestSortedKeys(t *testing.T) {
	for _, tt := range []struct {
		m    map[string]int
		want []string
	}{{nil, nil}, {map[string]int{}, nil}, {map[string]int{"b": 1, "": 2, "a": 3}, []string{"", "a", "b"}}} {
		if got := value.SortedKeys(tt.m); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.m, got, tt.want)
		}
	}
}

func TestCloneAndEqual(t *testing.T) {
	v := map[string]any{"a": []any{int64(1), map[string]any{"b": nil}}, "c": "x"}
	c := value.Clone(v)
	if !value.Equal(v, c) {
		t.Fatalf("clone differs: %v", c)
	}
	c.(map[string]any)["a"].([]any)[1].(map[string]any)["b"] = true
	if v["a"].([]any)[1].(map[string]any)["b"] != nil {
		t.Error("changing the clone changed the value")
	}
	if value.Equal(v, c) {
		t.Error("the changed clone is still equal")
	}

	tests := []struct {
		a, b any
		want bool
	}{
		{int64(1), 1.0, true},
		{1.0, int64(1), true},
		{int64(1), 1.5, false},
		{int64(1<<53 + 1), float64(1 << 53), false},
		{int64(math.MaxInt64), float64(1 << 63), false},
		{int64(math.MinInt64), -float64(1 << 63), true},
		{0.0, math.Copysign(0, -1), true},
		{nil, nil, true},
		{nil, false, false},
		{"1", int64(1), false},
		{[]any{}, map[string]any{}, false},
		{[]any{int64(1)}, []any{1.0}, true},
		{[]any{int64(1)}, []any{int64(1), nil}, false},
		{map[string]any{"a": nil}, map[string]any{"b": nil}, false},
		{map[string]any{"a": nil}, map[string]any{}, false},
	}
	for _, tt := range tests {
		if got := value.Equal(tt.a, tt.b); got != tt.want {
			t.Errorf("Equal(%#v, %#v) = %v", tt.a, tt.b, got)
		}
	}
}

func TestJSON(t *testing.T) {
	tests := []struct {
		in   any
		want string
	}{
		{nil, `null`},
		{[]any(nil), `null`},
		{[]any{}, `[]`},
		{map[string]any{}, `{}`},
		{map[string]any{"b": int64(1), "a": true, "B": nil}, `{"B":null,"a":true,"b":1}`},
		{int64(math.MinInt64), `-9223372036854775808`},
		{1.0, `1`},
		{0.1, `0.1`},
		{1e18, `1000000000000000000`},
		{1e19, `1e+19`},
		{json.Number("-9223372036854775809"), `-9223372036854775809`},
		{json.Number("1.50"), `1.5`},
		{1e21, `1e+21`},
		{1e-6, `0.000001`},
		{1e-7, `1e-7`},
		{math.Copysign(0, -1), `0`},
		{"<a href=\"x\">&</a>", `"<a href=\"x\">&</a>"`},
		{"\x00\x1f\b\f\n\r\t\\é\u2028\x7f😀", `"\u0000\u001f\b\f\n\r\t\\é\u2028` + "\x7f😀\""},
		{"a\xffb\xc3", `"a\ufffdb\ufffd"`},
		{[]any{1, point{X: 2}}, `[1,{"x":2}]`},
	}
	for _, tt := range tests {
		got, err := value.JSON(tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("JSON(%#v) = %s, %v; want %s", tt.in, got, err, tt.want)
		}
	}
	if _, err := value.JSON(map[string]any{"a": []any{math.Inf(1)}}); err == nil || err.Error() != "/a/0: +Inf is not a JSON number" {
		t.Errorf("infinity: %v", err)
	}
	var deep any
	for range 1001 {
		deep = []any{deep}
	}
	if _, err := value.JSON(deep); err == nil {
		t.Error("1,001 levels were encoded")
	}
}

func TestSize(t *testing.T) {
	for _, v := range []any{
		nil, false, int64(-12), 1.5, "", "a\n\xff", []any{}, []any{"a", int64(1)}, map[string]any{}, sample, 7,
		1e19, json.Number("18446744073709551615"), json.Number("12.0"),
	} {
		text, err := value.JSON(v)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := value.Size(v, 1000); n != len(text) || err != nil {
			t.Errorf("Size(%v) = %d, %v; it has %d bytes: %s", v, n, err, len(text), text)
		}
	}
	doubled := any("x")
	for range 64 {
		doubled = []any{doubled, doubled}
	}
	if n, err := value.Size(doubled, 1000); n <= 1000 || err != nil {
		t.Errorf("2^64 strings: %d, %v", n, err)
	}
	if _, err := value.Size([]any{math.NaN()}, 1000); err == nil {
		t.Error("NaN has a size")
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		in   any
		want string
	}{
		{nil, ""}, {"a b", "a b"}, {int64(3), "3"}, {true, "true"}, {[]any{"a"}, `["a"]`},
	}
	for _, tt := range tests {
		if got, err := value.Text(tt.in); err != nil || got != tt.want {
			t.Errorf("Text(%#v) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestDecode(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{` null `, nil},
		{"\t[ ]\r\n", []any{}},
		{`{ }`, map[string]any{}},
		{`{"a":[1,2.5,"x"],"b":{"c":false}}`, map[string]any{"a": []any{int64(1), 2.5, "x"}, "b": map[string]any{"c": false}}},
		{`9223372036854775807`, int64(math.MaxInt64)},
		{`9223372036854775808`, json.Number("9223372036854775808")},
		{`-9223372036854775808`, int64(math.MinInt64)},
		{`-9223372036854775809`, json.Number("-9223372036854775809")},
		{`[18446744073709551615,{"a":100000000000000000000}]`, []any{json.Number("18446744073709551615"), map[string]any{"a": json.Number("100000000000000000000")}}},
		{`9223372036854775808.0`, float64(1 << 63)},
		{`1.0e20`, 1e20},
		{`-0`, int64(0)},
		{`1.0`, 1.0},
		{`1e2`, 100.0},
		{`"\"\\\/\b\f\n\r\tA\u00E9"`, "\"\\/\b\f\n\r\tAé"},
		{`"\uD83D\uDE00"`, "😀"},
		{`"\uD83Dx"`, "\ufffdx"},
		{`"\uD83D\u0041"`, "\ufffdA"},
		{`"\uDE00"`, "\ufffd"},
		{"\"a\xffb\"", "a\ufffdb"},
		{`{"a":1,"a":2}`, map[string]any{"a": int64(2)}},
	}
	for _, tt := range tests {
		got, err := value.Decode([]byte(tt.in))
		if err != nil {
			t.Errorf("Decode(%s): %v", tt.in, err)
		} else if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		in, want string
	}{
		{``, `line 1, column 1: the JSON text ends where a value should be`},
		{`{"a": tru}`, `/a: line 1, column 7: 't' where a value should be`},
		{"[1,\n 2 3]", `line 2, column 4: '3' where "," or "]" should be`},
		{`1 2`, `line 1, column 3: '2' where the end should be`},
		{`[1,]`, `/1: line 1, column 4: ']' where a value should be`},
		{`{"a":1,}`, `line 1, column 8: '}' where a member's name in quotes should be`},
		{`{"a" 1}`, `line 1, column 6: '1' where ":" should be`},
		{`01`, `line 1, column 2: '1' where the end should be`},
		{`-`, `line 1, column 2: the JSON text ends where a digit should be`},
		{`1.`, `line 1, column 3: the JSON text ends where a digit should be`},
		{`1e+`, `line 1, column 4: the JSON text ends where a digit should be`},
		{`{"é":{"b":1e999}}`, `/é/b: line 1, column 11: the number is out of range (at most 1.797693134862315`},
		{`"abc`, `line 1, column 5: the JSON text ends where the closing quote of a string should be`},
		{"\"a\nb\"", `line 1, column 3: control character '\n' in a string, write it as an escape`},
		{`"\x"`, `line 1, column 2: no such escape`},
		{`"\u12G4"`, `line 1, column 2: no such escape`},
		{strings.Repeat("[", 1002), `nested more than 1000 deep`},
	}
	for _, tt := range tests {
		_, err := value.Decode([]byte(tt.in))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Decode(%.40s):\n got %.100v\nwant %s", tt.in, err, tt.want)
		}
	}
}

func TestDecodeStrict(t *testing.T) {
	if _, err := value.DecodeStrict([]byte(`{"a":{"x":1},"b":{"x":1}}`)); err != nil {
		t.Errorf("members of different objects: %v", err)
	}
	_, err := value.DecodeStrict([]byte(`{"list":[0,{"x":1,"x":1}]}`))
	want := `/list/1/x: line 1, column 19: member "x" appears twice`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	path, cause := value.Place(err)
	if path != "/list/1/x" || cause.Error() != `line 1, column 19: member "x" appears twice` {
		t.Errorf("Place gave %q, %q", path, cause)
	}
}

// What encoding/json takes we take too, with the same result, and the other way round; what we
// write is what it writes, and reads as the same value again.
func TestIsCanonical(t *testing.T) {
	deep := strings.Repeat("[", value.MaxDepth+1) + strings.Repeat("]", value.MaxDepth+1)
	for want, texts := range map[bool][]string{
		true: {
			`null`, `true`, `false`, `0`, `-1`, `999999999999999999`, `""`, `"a b<>&'"`, `{}`, `[]`, `[[],{}]`, deep,
			`{"":1,"A":[1,"x",null],"a":{"b":{}},"aa":-20}`,
		},
		false: {
			``, ` 1`, `1 `, `[1, 2]`, `{"a": 1}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `-0`, `01`, `-`, `1.0`, `1.5`, `1e3`, `1000000000000000000`,
			`"\u0041"`, `"\n"`, `"é"`, "\"\n\"", `"a`, `"`, `[`, `[1`, `[1,`, `[1,]`, `[,]`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{1:2}`,
			`[}`, `{]`, `tru`, `nul`, `nullx`, `1 2`, `[]]`, "[" + deep + "]",
		},
	} {
		for _, text := range texts {
			if got := value.IsCanonical([]byte(text)); got != want {
				t.Errorf("%.60s: %t", text, got)
			}
		}
	}
}

func FuzzDecode(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, s := range []string{
		`null`, `[1,-0,1.5e3,"a\u00e9\ud83d\ude00"]`, `{"a":{"b":[]},"a":2}`, "\"\xff\"", `-`, `1e999`, `{"":0}`, ` [ ] x`,
		`"\ud800\ud800\udc00"`, `9223372036854775808`, `77202237220223720.5`, "\"\u2028<>&\"", `1E-7`, `"\/"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := value.Decode(text)
		if again, bad := value.JSON(got); value.IsCanonical(text) && (err != nil || bad != nil || string(again) != string(text)) {
			t.Fatalf("%q: no canonical JSON, that is %s (%v, %v)", text, again, err, bad)
		}
		if !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q: encoding/json refuses it, we gave %v", text, got)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		wantErr := dec.Decode(&want)
		if wantErr == nil {
			want, wantErr = value.Normalise(want) // refuses 1e999
		}
		if outOfRange(text) { // even in a member that another one of its name replaces
			wantErr = strconv.ErrRange
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, encoding/json %v", text, err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-encoding/json +got):\n%s", text, diff)
		}
		canonical, err := value.JSON(got)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(got); err != nil {
			t.Fatal(err)
		}
		if s := strings.TrimSuffix(b.String(), "\n"); s != string(canonical) && !strings.Contains(s, "-0") && !largeFloats(got) {
			t.Fatalf("%q: wrote %s, encoding/json %s", text, canonical, s)
		}
		again, err := value.DecodeStrict(canonical)
		if err != nil || !value.Equal(got, again) {
			t.Fatalf("%q: wrote %s, read %v, %v", text, canonical, again, err)
		}
	})
}

// outOfRange reports whether a JSON text has a number that no float64 can hold.
func outOfRange(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if n, ok := token.(json.Number); ok && strings.ContainsAny(string(n), ".eE") {
			if _, err := n.Float64(); err != nil {
				return true
			}
		}
	}
}

// largeFloats reports whether a value has a float64 that encoding/json writes as an integer, with zeros in place of its last
// digits.
func largeFloats(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) >= 1<<53 && math.Abs(v) < 1e21
	case []any:
		return slices.ContainsFunc(v, largeFloats)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), largeFloats)
	}
	return false
}

// A large float64 is an integer. It is read as the same one, or as the same float64.
func TestLargeFloats(t *testing.T) {
	for text, want := range map[string]string{
		"77202237220223720.5": "77202237220223728", "-9007199254740993.0": "-9007199254740992", "9.2233720368547748e18": "9223372036854774784", "9223372036854775808.0": "9.223372036854776e+18",
	} {
		v, err := value.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := value.JSON(v)
		again, _ := value.Decode(got)
		if string(got) != want || err != nil || !value.Equal(v, again) {
			t.Errorf("%s: wrote %s, read %v, %v; want %s", text, got, again, err, want)
		}
	}
}

var sample = map[string]any{
	"id": int64(12345), "name": "A customer with a rather usual name", "active": true, "score": 0.25, "note": nil,
	"tags":    []any{"alpha", "beta", "gamma"},
	"address": map[string]any{"street": "12 Long Road", "city": "Springfield", "zip": "12345", "lines": []any{int64(1), int64(2)}},
}

func BenchmarkNormalise(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Normalise(sample); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		var err error
		if buf, err = value.AppendJSON(buf[:0], sample); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	text, err := value.JSON(sample)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := value.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTokens(t *testing.T) {
	for _, want := range [][]string{{}, {""}, {"a", "0", "b"}, {"a/b", "~1", "~"}} {
		pointer := ""
		for _, token := range want {
			pointer = value.Pointer(pointer, token)
		}
		if diff := cmp.Diff(want, value.Tokens(pointer)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", pointer, diff)
		}
	}
}
