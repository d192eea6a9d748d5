package yamlnode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
)

func TestJSONValues(t *testing.T) {
	long := strings.Repeat("k", 2000)
	tests := []struct {
		text string
		want any
	}{
		{`null`, nil}, {` true `, true}, {`-0`, int64(0)}, {`1.0`, 1.0}, {`1e3`, 1000.0}, {`"1"`, "1"},
		{`9223372036854775808`, json.Number("9223372036854775808")},
		{`"\ud83d\ude00 \/ \b \u00e9"`, "😀 / \b é"}, {`"\ud83d"`, "\uFFFD"},
		{"\"\u007F\u0085\u2028\uFFFF\"", "\u007F\u0085\u2028\uFFFF"},
		{"{\n\t\"a\": [1,\t[ ] , {}]\r\n}\n", map[string]any{"a": []any{int64(1), []any{}, map[string]any{}}}},
		{`{"a":"b","c":{"d":null}}`, map[string]any{"a": "b", "c": map[string]any{"d": nil}}},
		{`{"` + long + `" : 1, "<<": 2, "1": 3, "": 4}`, map[string]any{long: int64(1), "<<": int64(2), "1": int64(3), "": int64(4)}},
		{"\uFEFF{\"a\": \"${{ x }} # no comment\"}", map[string]any{"a": "${{ x }} # no comment"}},
	}
	for _, tt := range tests {
		n, found := yamlnode.Parse("dir/F.JSON", []byte(tt.text), nil)
		if len(found) > 0 {
			t.Errorf("Parse(%.60q): %v", tt.text, found)
			continue
		}
		if diff := cmp.Diff(tt.want, n.Decoded()); diff != "" {
			t.Errorf("Parse(%.60q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestJSONPositions walks to the last scalar and checks where it says that it stands.
func TestJSONPositions(t *testing.T) {
	tests := []struct {
		text         string
		line, column int
		offset       int
		plain        bool
	}{
		{`{"a": "x"}`, 1, 7, 1, false},
		{`{"é": "ü"}`, 1, 7, 1, false},
		{`{"a": "x\ty"}`, 1, 7, -1, false},
		{`{"a": ""}`, 1, 7, 1, false},
		{"{\n\t\"a\": [\n\t\t12]}", 3, 3, 0, true},
		{"\uFEFF[\r\n  true]", 2, 3, 0, true},
		{`[{"a": {"b": "}", "c": null}}]`, 1, 24, 0, true},
	}
	for _, tt := range tests {
		n, found := yamlnode.Parse("f.json", []byte(tt.text), nil)
		if len(found) > 0 {
			t.Errorf("Parse(%q): %v", tt.text, found)
			continue
		}
		for n.Kind == yamlnode.Map || n.Kind == yamlnode.List {
			if n.Kind == yamlnode.Map {
				n = n.Fields[len(n.Fields)-1].Value
			} else {
				n = n.Items[len(n.Items)-1]
			}
		}
		want := diagnostics.Position{File: "f.json", Line: tt.line, Column: tt.column}
		if n.Pos != want || n.Offset != tt.offset || n.Plain != tt.plain {
			t.Errorf("Parse(%q): got %v, offset %d, plain %v; want %v, %d, %v",
				tt.text, n.Pos, n.Offset, n.Plain, want, tt.offset, tt.plain)
		}
	}
}

func TestJSONRejects(t *testing.T) {
	const (
		cut     = " | the file is cut off, or a quote or a bracket is not closed"
		isYAML  = " | let the name of a file in YAML end in .yaml"
		missing = " | a comma, a colon, a quote or a bracket is missing before it"
		words   = " | write names and texts in double quotes, and other words as true, false or null"
		digits  = " | a number begins with a digit or a minus, and 0 has no digit behind it"
		comment = " | JSON has no comments; let the name of a file in YAML end in .yaml"
		text    = " | quote it if it is meant as text"
	)
	tests := []struct {
		text string
		want []string
	}{
		{"", []string{"1:1 yaml.syntax" + cut}},
		{"apiVersion: braise/v1\n", []string{"1:1 yaml.syntax" + isYAML}},
		{"# a comment\n{}", []string{"1:1 yaml.syntax" + comment}},
		{"{\n  \"a\": 1 // one\n}", []string{"2:10 yaml.syntax" + comment}},
		{"{\"é\": [1,\n 2", []string{"2:3 yaml.syntax" + cut}},
		{`{"a": "b`, []string{"1:9 yaml.syntax" + cut}},
		{`{"a": 1,}`, []string{"1:9 yaml.syntax | remove the comma before it"}},
		{"[1,\n]", []string{"2:1 yaml.syntax | remove the comma before it"}},
		{`{"a" 1}`, []string{"1:6 yaml.syntax" + missing}},
		{`["a" "b"]`, []string{"1:6 yaml.syntax" + missing}},
		{`[1 2]`, []string{"1:4 yaml.syntax" + missing}},
		{`{} {}`, []string{"1:4 yaml.syntax" + missing}},
		{`{a: 1}`, []string{"1:2 yaml.syntax" + words}},
		{`{"a": None}`, []string{"1:7 yaml.syntax" + words}},
		{`{'a': 1}`, []string{"1:2 yaml.syntax" + words}},
		{`[01]`, []string{"1:3 yaml.syntax" + digits}},
		{`[.5]`, []string{"1:2 yaml.syntax" + digits}},
		{`[+1]`, []string{"1:2 yaml.syntax" + digits}},
		{`{"é": 1e999}`, []string{"1:7 yaml.syntax" + text}},
		{`[` + strings.Repeat("9", value.MaxDigits+1) + `]`, []string{"1:2 yaml.syntax" + text}},
		{`["C:\dir"]`, []string{`1:5 yaml.syntax | write a backslash that stands for itself as \\`}},
		{"[\"a\nb\"]", []string{`1:4 yaml.syntax | write a line break as \n and a tab as \t`}},
		{"{\n\"a\": \"\xff\"}", []string{"2:7 yaml.syntax | save the file as UTF-8 text without control characters"}},
		{"{\"a\": 1,\n\"b\": {\"a\": 2}, \"a\": 3, \"\\u0061\": 4}", []string{
			"1:2 yaml.duplicateKey", "2:16 yaml.duplicateKey", "2:24 yaml.duplicateKey"}},
		{"[[[[[1]]]]]", []string{"1:4 yaml.tooLarge"}},
		{"[1, 2, 3, 4, 5, 6, 7, 8]", []string{"1:17 yaml.tooLarge"}},
		{strings.Repeat(" ", 33), []string{"1:1 yaml.tooLarge"}},
	}
	for _, tt := range tests {
		var opts *yamlnode.Options
		if strings.HasSuffix(tt.want[0], "yaml.tooLarge") {
			opts = &yamlnode.Options{MaxBytes: 32, MaxDepth: 3, MaxNodes: 6}
		}
		_, found := yamlnode.Parse("f.json", []byte(tt.text), opts)
		got := findings(found)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "f.json:")
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Parse(%.60q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestOldJSON: a journal of an earlier version may hold a .json file that only a reader of YAML can read.
func TestOldJSON(t *testing.T) {
	for text, want := range map[string]any{
		"# c\n{a: [1,],}\n":  map[string]any{"a": []any{int64(1)}}, // YAML
		`["\/\ud83d\ude00"]`: []any{"/😀"},                          // JSON
	} {
		n, found := yamlnode.Parse("f.json", []byte(text), &yamlnode.Options{OldJSON: true})
		if diff := cmp.Diff(want, n.Decoded()); diff != "" || len(found) > 0 {
			t.Errorf("Parse(%q): %v (-want +got):\n%s", text, found, diff)
		}
	}
}

func TestFormatJSON(t *testing.T) {
	in := "\uFEFF\r\n{\"steps\": {\"a\": {\"with\": [1e3, 1.50, \"\\ud83d\\ude00\\/\"],\r\n\t\"uses\": \"set\"}}, \"name\": \"x\", \"e\": [ ]}"
	want := `{
  "steps": {
    "a": {
      "with": [
        1e3,
        1.50,
        "\ud83d\ude00\/"
      ],
      "uses": "set"
    }
  },
  "name": "x",
  "e": []
}
`
	layout := func(*yamlnode.Node, []string) yamlnode.Layout {
		return yamlnode.Layout{Order: []string{"name", "uses"}, Spaced: true}
	}
	for _, text := range []string{in, want} {
		out, found := yamlnode.Format("f.json", []byte(text), layout)
		if diff := cmp.Diff(want, string(out)); diff != "" || len(found) > 0 {
			t.Errorf("Format(%q): %v (-want +got):\n%s", text, found, diff)
		}
	}
	for _, text := range []string{`{"a": 1,}`, `{"a": 1, "a": 1}`, `"a"`, "[" + strings.Repeat("1,", 200_000) + "1]"} {
		if out, found := yamlnode.Format("f.json", []byte(text), layout); out != nil || !found.HasErrors() {
			t.Errorf("Format(%.30q): got %.30q, want an error", text, out)
		}
	}
}

func TestJSONHostile(t *testing.T) {
	for name, text := range hostile(1 << 18) {
		t.Run(name, func(t *testing.T) {
			_, found := yamlnode.Parse("hostile.json", []byte(text), nil)
			if len(found) > yamlnode.MaxFindings {
				t.Errorf("got %d diagnostics, want at most %d", len(found), yamlnode.MaxFindings)
			}
		})
	}
}

// FuzzJSON compares with encoding/json, which takes the last of two members with one name, any byte in a string and
// numbers of any size, and no byte order mark.
func FuzzJSON(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, s := range []string{
		`null`, `[1,-0,1.5e3,"a\u00e9\ud83d\ude00"]`, `{"a":{"b":[]},"a":2}`, "\"\xff\"", `-`, `1e999`, `{"":0}`, ` [ ] x`,
		`"\ud800\ud800\udc00"`, `9223372036854775808`, "\"\u2028<>&\u0085\"", `1E-7`, `"\/"`, "{\n\t\"a\": [true,\r\n{}]}",
		`[1,]`, `{"a":1,}`, `{"a" 1}`, `["a" "b"]`, `[01]`, "// c\n1", "\uFEFF{}", `{'a': None}`, "[[[[]]]]",
	} {
		f.Add([]byte(s))
	}
	limits := &yamlnode.Options{MaxDepth: 60, MaxNodes: 2000}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, found := yamlnode.Parse("f.json", text, limits)
		for _, d := range found {
			if d.Position.Line < 1 || d.Position.Column < 1 || strings.ContainsAny(d.Message+d.Hint, "\n\r") {
				t.Errorf("%q: bad diagnostic: %+v", text, d)
			}
			switch d.Code {
			case diagnostics.CodeDuplicateKey, diagnostics.CodeTooLarge:
				return
			}
		}
		if (n == nil) != found.HasErrors() {
			t.Fatalf("%q: the node is %v, with %v", text, n, found)
		}
		text = bytes.TrimPrefix(text, []byte("\uFEFF"))
		want, err := decodeJSON(text)
		if (err != nil) != (n == nil) {
			t.Fatalf("%q: got %v, encoding/json %v", text, found, err)
		}
		if err == nil && !reflect.DeepEqual(n.Decoded(), want) {
			t.Fatalf("%q: got %v, encoding/json %v", text, n.Decoded(), want)
		}
	})
}

// decodeJSON decodes with encoding/json what Parse should be able to read.
func decodeJSON(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v)
}

// numbers gives the numbers of a value the types that they have in nodes.
func numbers(v any) (w any, err error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = numbers(v[key]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, err := v.Float64()
			if math.IsInf(f, 0) {
				return nil, err
			}
			return f, nil
		}
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i, nil
		}
		if len(v) > value.MaxDigits {
			return nil, errors.New("too many digits")
		}
	}
	return v, nil
}
