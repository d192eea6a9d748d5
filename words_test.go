package braise

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// words are phrases that the project does not use, with what it says instead; docs/glossary.md has its terms.
var words = []struct {
	not  *regexp.Regexp
	but  string
	okay []string // texts that hold one for a reason
	code bool     // comments do not use it either
}{
	{phrase(`(go|goes|gone|going|went) on with`), "resume", nil, true},
	{phrase(`legs?`), "execution; attempt of a call", nil, true},
	{phrase(`nobody knows|doubts?`), "unknown outcome", []string{`"doubts"`, `, doubts`}, true}, // of the journal's format
	{phrase(`(is|are) (not )?there( any more)?`), "is configured", nil, false},
	{phrase(`findings?`), "diagnostic", nil, true},
	{phrase(`what waits|open are`), "pending pauses; nothing is waiting", nil, true},
	{phrase(`bounds?`), "limit", []string{`expr.bound`, // the code and its texts are about slices, which have bounds
		`"the bound of a slice"`}, false},
	{phrase(`told of|looks? on`), "receives; subscribers", nil, false},
	{phrase(`written down`), "recorded", nil, true},
	{phrase(`(begins?|began|begun) anew`), "restart", nil, true},
	{phrase(`the store knows`), "the store has", nil, true},
	{phrase(`says? for (itself|themselves)|(its|their) word`), "sets; its setting", nil, false},
}

var code = regexp.MustCompile("`[^`]*`")

func phrase(p string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + p + `)\b`) }

// Pages, help texts and messages have the terms of the glossary. CHANGELOG.md is history.
func TestWords(t *testing.T) {
	for _, page := range docPages(t) {
		if page == "CHANGELOG.md" {
			continue
		}
		for i, line := range strings.Split(withoutBlocks(read(t, page)), "\n") {
			usual(t.Errorf, page+":"+strconv.Itoa(i+1), code.ReplaceAllString(line, ""), false) // names of code are as they are
		}
	}
	for _, f := range goFiles(t) {
		tags := map[token.Pos]bool{}
		for n := range ast.Preorder(f.syntax) {
			switch n := n.(type) {
			case *ast.Field:
				if n.Tag != nil {
					tags[n.Tag.Pos()] = true
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && !f.test && !tags[n.Pos()] {
					usual(t.Errorf, files.Position(n.Pos()).String(), n.Value, false)
				}
			}
		}
		if f.test {
			continue
		}
		for _, group := range f.syntax.Comments {
			usual(t.Errorf, files.Position(group.Pos()).String(), code.ReplaceAllString(group.Text(), ""), true)
		}
	}
}

// usual reports the phrases in a text that have a usual word; in a comment only those that none may use.
func usual(report func(format string, args ...any), place, text string, comment bool) {
	for _, w := range words {
		if comment && !w.code {
			continue
		}
		rest := text
		for _, okay := range w.okay {
			rest = strings.ReplaceAll(rest, okay, "")
		}
		if found := w.not.FindString(rest); found != "" {
			report("%s: %q: the project says %q: %s", place, found, w.but, strings.TrimSpace(text))
		}
	}
}

// docs/glossary.md has each term once, in order.
func TestGlossary(t *testing.T) {
	var terms []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][a-z -]*) \| `).FindAllStringSubmatch(read(t, "docs/glossary.md"), -1) {
		if m[1] != "term" {
			terms = append(terms, m[1])
		}
	}
	if len(terms) < 40 || !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
		t.Errorf("%d terms, sorted or not, once or not: %q", len(terms), terms)
	}
}

// Sentences of pages are short: 17 words on average, tables, headings and code aside.
func TestSentences(t *testing.T) {
	const limit = 17
	end := regexp.MustCompile(`[.!?:]\s|\n\n|\n- `)
	for _, page := range docPages(t) {
		if !strings.HasPrefix(page, "docs/") && page != "README.md" {
			continue
		}
		text := code.ReplaceAllString(withoutBlocks(read(t, page)), "x")
		text = regexp.MustCompile(`\]\([^)]*\)|(?m)^[|#].*$`).ReplaceAllString(text, "")
		words, sentences := 0, 0
		for _, s := range end.Split(text, -1) {
			if n := len(strings.Fields(s)); n > 2 {
				words += n
				sentences++
			}
		}
		if words > limit*sentences {
			t.Errorf("%s: %d words in %d sentences, more than %d on average", page, words, sentences, limit)
		}
	}
}
