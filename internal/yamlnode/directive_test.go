package yamlnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

func TestDirective(t *testing.T) {
	tests := []struct {
		text         string
		line, column int // of the value of a
	}{
		{"%YAML 1.2\n---\na: 1\n", 3, 4},
		{"%YAML 1.1\n---\na: 1\n", 3, 4},
		{"\uFEFF# c\r\n\r\n%YAML \t1.2  # d\r\n# e\r\n--- {é: 2,\r\n  a: 1}\r\n", 6, 6},
	}
	for _, tt := range tests {
		n, found := yamlnode.Parse("f.yaml", []byte(tt.text), nil)
		if found.HasErrors() {
			t.Errorf("Parse(%q): %v", tt.text, found)
			continue
		}
		got := n.Fields[len(n.Fields)-1].Value
		if want := (diagnostics.Position{File: "f.yaml", Line: tt.line, Column: tt.column}); got.Pos != want {
			t.Errorf("Parse(%q): a stands at %v, want %v", tt.text, got.Pos, want)
		}
	}
	if out := format(t, "# c\n%YAML 1.2\n---\na:   1 # d\n"); out != "# c\na: 1 # d\n" {
		t.Errorf("Format: got %q", out)
	}
}

func TestDirectiveRejects(t *testing.T) {
	const hint = " yaml.syntax | the only directive that may stand here is %YAML 1.2, with --- on the next line"
	tests := []struct{ text, want string }{
		{"%YAML 1.3\n---\na: 1\n", "1" + hint},
		{"%YAML 2.0\n---\na: 1\n", "1:7" + hint},
		{"%FOO bar\n---\na: 1\n", "1" + hint},
		{"%YAML 1.2\na: 1\n", "1:1" + hint},
		{"%YAML 1.2\n%YAML 1.2\n---\na: 1\n", "1:1" + hint},
		{"%YAML 1.2\n%TAG ! x:\n---\na: 1\n", "1:1" + hint},
	}
	for _, tt := range tests {
		_, found := yamlnode.Parse("f", []byte(tt.text), nil)
		if diff := cmp.Diff([]string{tt.want}, findings(found)); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}
