package yamlnode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/yamlnode"
)

// hostile holds texts of up to size bytes that cost, at 1 MiB, a careless reader minutes or
// gigabytes. A test that does not end is how they fail.
func hostile(size int) map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-32; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return map[string]string{
		"brackets":           fill("["),
		"braces":             fill("{"),
		"closed brackets":    strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"flow pairs":         fill("[{a: "),
		"block sequences":    fill("- "),
		"question marks":     fill("? "),
		"colons":             fill(": "),
		"deep indent":        deep(1400),
		"many keys":          numbered("%x:\n"),
		"same key":           fill("a:\n"),
		"unknown keys":       numbered("stepz%d: 1\n"),
		"one line of items":  "[" + fill("a,") + "]",
		"quoted items":       "[" + fill(`"é",`) + "]",
		"one line of pairs":  "{" + numbered("k%x: é,") + "}",
		"alias bomb":         bomb,
		"anchors":            numbered("- &a%d x\n"),
		"aliases":            "- &a x\n" + fill("- *a\n"),
		"tags":               fill("- !x y\n"),
		"bad keys":           fill("{[a]: b}\n"),
		"number keys":        numbered("%d: \n"),
		"comments":           fill("#\n"),
		"indented comments":  "a:\n" + fill(" #\n") + " b: 1\n",
		"comment per item":   fill("- # c\n"),
		"comments then item": fill("#c\n\n") + "a: 1\n",
		"empty lines":        fill("\n"),
		"documents":          fill("---\n"),
		"document markers":   fill("...\n"),
		"directives":         fill("%A\n"),
		"plain text":         fill("a "),
		"plain lines":        fill("a\n"),
		"quotes":             fill(`"`),
		"quoted newlines":    `"` + fill("\n ") + `"`,
		"escapes":            `"` + fill(`\n`) + `"`,
		"block scalar":       "a: |\n" + fill(" x\n"),
		"folded scalar":      "a: >\n" + fill(" x\n\n"),
		"spaces":             fill(" "),
		"tabs":               fill("\t"),
		"carriage returns":   fill("- a\r"),
		"line separators":    "a: \"" + fill("\u2028") + "\"",
		"digits":             fill("1"),
		"floats":             fill("- 1e999\n"),
		"braces in syntax":   strings.Repeat("{", 900) + strings.Repeat("a: b\n", 12000),
		"error at the end":   strings.Repeat("a: b\n", 12000) + "c: [",
		"quote at the end":   strings.Repeat("- 'a'\n", 9000) + "'",
		"long line error":    strings.Repeat("a", 60000) + ": : :",
		"ends in a mapping":  strings.Repeat("- a: b\n  c: d\n", 4000) + " e: f",
	}
}

func deep(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestParseHostile(t *testing.T) {
	for name, text := range hostile(1 << 18) { // a quarter of the cap: the race detector makes all of it slow
		t.Run(name, func(t *testing.T) {
			_, found := yamlnode.Parse("hostile.yaml", []byte(text), nil)
			if len(found) > yamlnode.MaxFindings {
				t.Errorf("got %d diagnostics, want at most %d", len(found), yamlnode.MaxFindings)
			}
			for _, d := range found {
				if d.Position.Line == 0 {
					t.Errorf("diagnostic without a line: %v", d)
				}
			}
		})
	}
}

func BenchmarkParseHostile(b *testing.B) {
	for name, text := range hostile(1 << 20) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				yamlnode.Parse("hostile.yaml", []byte(text)[:min(len(text), 1<<20)], nil)
			}
		})
	}
}
