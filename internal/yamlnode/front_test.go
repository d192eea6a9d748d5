package yamlnode_test

import (
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/yamlnode"
)

func TestCutFrontMatter(t *testing.T) {
	for _, tt := range []struct {
		text, front, body string
		ok                bool
	}{
		{"", "", "", true},
		{"text\n---\n", "", "text\n---\n", true},
		{"---\na: 1\n---\ntext", "\na: 1\n", "\ntext", true},
		{"\uFEFF---\r\na: 1\r\n--- \r\n", "\na: 1\r\n", "\n", true},
		{"---\n---", "\n", "", true},
		{"---\na: ----\n ---\n---\n---\n", "\na: ----\n ---\n", "\n---\n", true},
		{"---", "", "---", false},
		{"\uFEFF---\na: 1\n", "", "---\na: 1\n", false},
	} {
		front, body, ok := yamlnode.CutFrontMatter([]byte(tt.text))
		if string(front) != tt.front || string(body) != tt.body || ok != tt.ok {
			t.Errorf("CutFrontMatter(%q) = %q, %q, %v, want %q, %q, %v", tt.text, front, body, ok, tt.front, tt.body, tt.ok)
		}
		// The lines keep their numbers: front is what stands there, without the dashes of the first line.
		if front != nil && !strings.HasPrefix(strings.TrimPrefix(strings.ReplaceAll(tt.text, "\r\n", "\n"), "\uFEFF"), "---"+strings.ReplaceAll(string(front), "\r\n", "\n")) {
			t.Errorf("CutFrontMatter(%q): the front matter has moved", tt.text)
		}
	}
}
