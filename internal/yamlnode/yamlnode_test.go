package yamlnode_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/yamlnode"
)

func TestParseValues(t *testing.T) {
	tests := []struct {
		text string
		want any
	}{
		{"~", nil}, {"null", nil}, {"Null", nil}, {"---", nil},
		{"true", true}, {"FALSE", false}, {"yes", "yes"}, {"on", "on"}, {"n", "n"}, {"tRue", "tRue"},
		{"1", int64(1)}, {"-0", int64(0)}, {"+7", int64(7)}, {"017", int64(17)}, {"0o17", int64(15)}, {"0xfF", int64(255)},
		{"0b11", "0b11"}, {"1_000", "1_000"}, {"0o8", "0o8"}, {"0x", "0x"}, {"0x-1", "0x-1"}, {"-0x1", "-0x1"}, {"1:30", "1:30"},
		{"9223372036854775807", int64(9223372036854775807)}, {"9223372036854775808", json.Number("9223372036854775808")}, {"-0018446744073709551615", json.Number("-18446744073709551615")}, {"9223372036854775808.0", 9223372036854775808.0},
		{"1.5", 1.5}, {"1.", 1.0}, {".5", 0.5}, {"-1e3", -1000.0}, {"1.2.3", "1.2.3"}, {"1e", "1e"}, {".", "."}, {"-", []any{nil}}, {"+", "+"},
		{"2020-01-02", "2020-01-02"}, {"'1'", "1"}, {`"true"`, "true"}, {`"é\n"`, "é\n"},
		{"|\n a\n b\n", "a\nb\n"}, {">-\n a\n b\n", "a b"}, {"a\n b", "a b"},
		{"[1, [a], {}]", []any{int64(1), []any{"a"}, map[string]any{}}},
		{"a: \nb: {c: 2.0}\n\"<<\": x\n'1': y", map[string]any{"a": nil, "b": map[string]any{"c": 2.0}, "<<": "x", "1": "y"}},
		{"\uFEFFa: 1", map[string]any{"a": int64(1)}},
		{"a: 1\r\nb: 2\r\n...\n", map[string]any{"a": int64(1), "b": int64(2)}},
	}
	for _, tt := range tests {
		n, found := yamlnode.Parse("f", []byte(tt.text), nil)
		if len(found) > 0 {
			t.Errorf("Parse(%q): %v", tt.text, found)
			continue
		}
		if diff := cmp.Diff(tt.want, n.Decoded()); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestParsePositions walks to one scalar each and checks where it says that it stands.
func TestParsePositions(t *testing.T) {
	tests := []struct {
		text         string
		line, column int
		offset       int
		plain        bool
	}{
		{"a: x y\n", 1, 4, 0, true},
		{"é: ü\n", 1, 4, 0, true},
		{"é: {x: 1, a: ü}\n", 1, 14, 0, true},
		{"a: 'x'\n", 1, 4, 1, false},
		{`a: "${{ x }}"`, 1, 4, 1, false},
		{`a: "x\ty"`, 1, 4, -1, false},
		{"a: 'it''s'\n", 1, 4, -1, false},
		{"a: \"x\n  y\"\n", 1, 4, -1, false},
		{"a: x\n  y\n", 1, 4, -1, false},
		{"a: |\n  x\n", 1, 4, -1, false},
		{"\n# c\na:\n  - 1\n  - x\n", 5, 5, 0, true},
		{"b: \"\u2028\"\na: x\n", 2, 4, 0, true},
		{"\uFEFFa: x\n", 1, 4, 0, true},
		{"b: 1\r\na: x\r\n", 2, 4, 0, true},
		{"[[], [a, b], {b: 1, a: {b: 2, c: }}, \"e\", x]", 1, 43, 0, true},
	}
	for _, tt := range tests {
		n, found := yamlnode.Parse("f", []byte(tt.text), nil)
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
		want := diagnostics.Position{File: "f", Line: tt.line, Column: tt.column}
		if n.Pos != want || n.Offset != tt.offset || n.Plain != tt.plain {
			t.Errorf("Parse(%q): got %v, offset %d, plain %v; want %v, %d, %v", tt.text, n.Pos, n.Offset, n.Plain, want, tt.offset, tt.plain)
		}
	}
}

// finding prints a diagnostic for comparison: place, code and hint.
func findings(list diagnostics.List) []string {
	var got []string
	for _, d := range list {
		line := strings.TrimPrefix(d.Position.String(), "f:") + " " + string(d.Code)
		if d.Hint != "" {
			line += " | " + d.Hint
		}
		got = append(got, line)
	}
	return got
}

func TestParseRejects(t *testing.T) {
	const quote = " | quote this expression"
	tests := []struct {
		text string
		want []string
	}{
		{"", []string{"1:1 yaml.syntax"}},
		{"# only a comment\n", []string{"1:1 yaml.syntax"}},
		{"a: 1\n---\nb: 2\n", []string{"2:1 yaml.feature | put it into a file of its own"}},
		{"a: &x 1\n", []string{"1:4 yaml.feature | write the value out where it is needed"}},
		{"a: &x 1\nb: *x\n", []string{
			"1:4 yaml.feature | write the value out where it is needed",
			`2:4 yaml.feature | write the value out, or quote it if it is meant as text: "*x"`}},
		{"a: *md\n", []string{`1:4 yaml.feature | write the value out, or quote it if it is meant as text: "*md"`}},
		{"<<: {a: 1}\n", []string{"1:1 yaml.feature | write the keys out"}},
		{"when: !inputs.x\n", []string{"1:7 yaml.feature" + quote}},
		{"when: ! inputs.x\n", []string{"1:7 yaml.feature" + quote}},
		{"when: !x && y\n", []string{"1:10 yaml.syntax" + quote}},
		{"a: !!int 1\n", []string{"1:4 yaml.feature | leave the tag out"}},
		{"!x [&y 1]\n", []string{"1:1 yaml.feature" + quote, "1:5 yaml.feature | write the value out where it is needed"}},
		{"a: 1\nb: 2\na: 3\na: 4\n", []string{"1:1 yaml.duplicateKey", "3:1 yaml.duplicateKey", "4:1 yaml.duplicateKey"}},
		{"x: {é: 1, a: 1, é: 2}\n", []string{"1:5 yaml.duplicateKey", "1:17 yaml.duplicateKey"}},
		{"1: a\n", []string{`1:1 recipe.wrongType | quote it: "1"`}},
		{"true: a\n", []string{`1:1 recipe.wrongType | quote it: "true"`}},
		{"~: a\n", []string{`1:1 recipe.wrongType | quote it: "~"`}},
		{"[a]: b\n", []string{"1:1 yaml.feature"}},
		{"when: {{ x }}\n", []string{"1:8 yaml.feature" + quote}},
		{"a: .nan\nb: -.Inf\nc: 1e999\n", []string{
			"1:4 recipe.invalid | quote it if it is meant as text",
			"2:4 recipe.invalid | quote it if it is meant as text",
			"3:4 recipe.invalid | quote it if it is meant as text"}},
		{"a: \"\xff\"", []string{"1:5 yaml.syntax | save the file as UTF-8 text without control characters"}},
		{"é\x00", []string{"1:2 yaml.syntax | save the file as UTF-8 text without control characters"}},
		{"\xff\xfea\x00", []string{"1:1 yaml.syntax | save the file as UTF-8 text without control characters"}},
		{"\uFEFF\uFEFFa: b", []string{"1:1 yaml.syntax | save the file as UTF-8 text without control characters"}},
		{"a: [1, 2\nb: 3\n", []string{"2:1 yaml.syntax"}},
		{"with: {a: ${{ x }}}\n", []string{"1:12 yaml.syntax" + quote}},
		{"when: a ? b : c\n", []string{"1:7 yaml.syntax" + quote}},
		{"until: \"a\" == b\n", []string{"1:12 yaml.syntax" + quote}},
		{"a: 1\n---\nb: [\n", []string{"3:4 yaml.syntax"}},
		{"[[[[[1]]]]]", []string{"1:4 yaml.tooLarge"}},
		{"[1, 2, 3, 4, 5, 6, 7, 8]", []string{"1:17 yaml.tooLarge"}},
		{strings.Repeat("a", 33), []string{"1:1 yaml.tooLarge"}},
	}
	for _, tt := range tests {
		var opts *yamlnode.Options
		if strings.HasSuffix(tt.want[0], "yaml.tooLarge") {
			opts = &yamlnode.Options{MaxBytes: 32, MaxDepth: 3, MaxNodes: 6}
		}
		_, found := yamlnode.Parse("f", []byte(tt.text), opts)
		if diff := cmp.Diff(tt.want, findings(found)); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s%v", tt.text, diff, found)
		}
	}
}

func TestParseAdmitsTheCaps(t *testing.T) {
	text := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	if _, found := yamlnode.Parse("f", []byte(text), nil); found != nil {
		t.Errorf("100 levels: %v", found)
	}
	text = "[" + strings.Repeat("1,", 199_999) + "]"
	if _, found := yamlnode.Parse("f", []byte(text), nil); found != nil {
		t.Errorf("200,000 nodes: %v", found)
	}
}

func TestReader(t *testing.T) {
	n, found := yamlnode.Parse("f", []byte(`
name: x
if: y
runs: 1
wiht: 2
x-note: 3
text: 1.4
empty: ""
flag: yes
count: 11
ratio: 3
bare: 30
bad: 30 s
wait: 90s
back: -1s
tags: [a, 2]
mode: fial
map: []
list: {}
gone: !x y
`), nil)
	if len(found) != 1 {
		t.Fatal(found)
	}
	var r yamlnode.Reader
	known := []string{"name", "with", "when", "text", "empty", "flag", "count", "ratio", "bare", "bad", "wait", "back", "tags", "mode", "map", "list", "gone", "x-*"}
	f := r.Object(n, known, map[string]string{"if": "when", "runs": "write uses: exec.run"})
	r.Require(n, f, "name", "with")
	got := []any{
		r.Text(f["name"]), r.String(f["text"]), r.Text(f["empty"]), r.Bool(f["flag"]), r.Int(f["count"], 1, 10), r.Float(f["ratio"]),
		r.Duration(f["bare"]), r.Duration(f["bad"]), r.Duration(f["wait"]), r.Duration(f["back"]), r.Strings(f["tags"]),
		r.OneOf(f["mode"], "fail", "collect"), len(r.Map(f["map"])), len(r.List(f["list"])), r.String(f["gone"]), r.Int(f["absent"], 1, 2),
	}
	want := []any{"x", "", "", false, 0, 3.0, time.Duration(0), time.Duration(0), 90 * time.Second, time.Duration(0), []string{"a", ""}, "", 0, 0, "", 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	wantFound := []string{
		`3:1 recipe.unknownKey | did you mean "when"?`,
		`4:1 recipe.unknownKey | write uses: exec.run`,
		`5:1 recipe.unknownKey | did you mean "with"?`,
		"2:1 recipe.missingKey",
		"7:7 recipe.wrongType | quote it",
		"8:8 recipe.invalid",
		"9:7 recipe.wrongType",
		"10:8 recipe.invalid",
		"12:7 recipe.wrongType | give it a unit: 30s",
		"13:6 recipe.invalid | durations look like 500ms, 30s, 5m, 2h, 1d",
		"15:7 recipe.invalid",
		"16:11 recipe.wrongType | quote it",
		`17:7 recipe.invalid | did you mean "fail"?`,
		"18:6 recipe.wrongType",
		"19:7 recipe.wrongType",
	}
	if diff := cmp.Diff(wantFound, findings(r.Diagnostics)); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	if got, want := r.Diagnostics[4].Message, `"text" must be a string, not a number`; got != want {
		t.Errorf("message: got %s, want %s", got, want)
	}
}

// FuzzParse: no panic, a node or an error, and diagnostics that say where.
func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, text := range []string{"a: 1", "a: [b, {c: *d}]", "? a\n: b", "a: |\n x\n", "\"\\u2028\": é", "a: !x\n", "- - &a x\n", "%YAML 1.1\n---\n", "\uFEFF#\n%YAML 1.2 #\r\n---\na: 1", "{a: ${{ x }}}", "a\r\u2028: b\n\"c\u0085\": d"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, found := yamlnode.Parse("f", data, nil)
		if n == nil && !found.HasErrors() {
			t.Fatal("neither a node nor an error")
		}
		for _, d := range found {
			if d.Position.Line < 1 || strings.ContainsAny(d.Message+d.Hint, "\n\r") {
				t.Errorf("bad diagnostic: %+v", d)
			}
		}
	})
}
