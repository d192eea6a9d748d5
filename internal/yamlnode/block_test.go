package yamlnode_test

import (
	"testing"

	"github.com/braise-run/braise/internal/yamlnode"
)

func TestIndentOfBlockScalars(t *testing.T) {
	for text, want := range map[string]int{
		"a: |\n    x\n    y\n":      4,
		"a: |-\n  x\n":              2,
		"a:\n- |\n  x\n":            2,
		"a: |\n\n\n   x\n  \n   y":  3,
		"a: |2\n     x\n":           2, // three more spaces belong to the text
		"a: >\n  x\n  y\n":          0, // folded: its lines are not those of the file
		"a: |\n":                    0,
		"a: \"x\\ny\"\n":            0,
		"a: plain\n":                0,
		"a: | # comment\r\n  x\r\n": 2,
	} {
		n, list := yamlnode.Parse("a.yaml", []byte(text), nil)
		if list.HasErrors() {
			t.Fatal(text, list)
		}
		v := n.Fields[0].Value
		if len(v.Items) > 0 {
			v = v.Items[0]
		}
		if v.Indent != want {
			t.Errorf("%q: indent %d, want %d", text, v.Indent, want)
		}
	}
}
