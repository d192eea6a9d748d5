package yamlnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/yamlnode"
)

// trust 4.4: a plain scalar in a flow mapping may contain a question mark and end in one.
func TestQuestionMarks(t *testing.T) {
	object := func(key string, v any) any { return map[string]any{key: v} }
	for _, tt := range []struct {
		text string
		want any
	}{
		{"{default: How far is it?}", object("default", "How far is it?")},
		{"{default: How far is it?, type: string}", map[string]any{"default": "How far is it?", "type": "string"}},
		{"[a?, b?c, {d: e??}]", []any{"a?", "b?c", object("d", "e??")}},
		{"{a: Pourquoi ?}", object("a", "Pourquoi ?")},
		{"{url: http://x/?q=1&r=2}", object("url", "http://x/?q=1&r=2")},
		{"{a?: b}", object("a?", "b")},
		{"{a: x-?, b:? c}", map[string]any{"a": "x-?", "b:? c": nil}},
		{"{a: is it?\n  or not? }", object("a", "is it? or not?")},
		{"{a: 'it''s?', b: \"? \\u003f?\"}", map[string]any{"a": "it's?", "b": "? ??"}},
		{"a: |\n  what?\n  ? x\nb: why? # really?\nc: what ?", map[string]any{"a": "what?\n? x\n", "b": "why?", "c": "what ?"}},
		{"? a\n: b", object("a", "b")},
		{"\uFEFF? a\n: b", object("a", "b")},
		{"{? a : b}", object("a", "b")},
		{"- ? a\n  : b\n", []any{object("a", "b")}},
		{"a: ?b", object("a", "?b")},
		{"{a: \uE000?, b: \"\\ue001\"}", map[string]any{"a": "\uE000?", "b": "\uE001"}},
	} {
		n, found := yamlnode.Parse("f", []byte(tt.text), nil)
		if diff := cmp.Diff(tt.want, n.Decoded()); diff != "" || len(found) > 0 {
			t.Errorf("Parse(%q): %v (-want +got):\n%s", tt.text, found, diff)
		}
	}

	t.Run("positions", func(t *testing.T) {
		n, found := yamlnode.Parse("f", []byte("{é: wer? wo?, b: [c?], d: x}"), nil)
		if len(found) > 0 {
			t.Fatal(found)
		}
		var got []int
		for _, f := range n.Fields {
			got = append(got, f.Pos.Column, f.Value.Pos.Column, f.Value.Offset)
		}
		if diff := cmp.Diff([]int{2, 5, 0, 15, 18, -1, 24, 27, 0}, got); diff != "" {
			t.Errorf("columns of keys and values, offsets (-want +got):\n%s", diff)
		}
	})
	t.Run("in messages", func(t *testing.T) {
		_, found := yamlnode.Parse("f", []byte("a: !wh?t x\n"), nil)
		want := `f:1:4: tags are not allowed: "!wh?t" [yaml.feature]` + "\n  hint: quote this expression"
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("got %v, want %s", found, want)
		}
	})
}
