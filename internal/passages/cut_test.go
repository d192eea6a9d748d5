package passages

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/seedtest"
)

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 1200)
	for _, tt := range []struct {
		name, file, text string
		want             []string // first-last headings/titles in the text: text
	}{
		{"one paragraph", "a.txt", "one\ntwo\n", []string{"1-2 []/0: one\ntwo"}},
		{"paragraphs that fit", "a.txt", "\none\n\n\ntwo  \n", []string{"2-5 []/0: one\n\n\ntwo"}},
		{"no newline at the end", "a.txt", "one", []string{"1-1 []/0: one"}},
		{"carriage returns", "a.md", "# A\r\n\r\none\r\n# B\r\ntwo\r\n", []string{"1-3 [A]/1: # A\r\n\r\none", "4-5 [B]/1: # B\r\ntwo"}},
		{"paragraphs that do not fit", "a.txt", "a\n\n" + long + "\n\n" + long + "\nb\n\nc", []string{"1-3 []/0: a\n\n" + long, "5-8 []/0: " + long + "\nb\n\nc"}},
		{"a paragraph that does not fit", "a.txt", long + "\n" + long + "\n" + long, []string{"1-1 []/0: " + long, "2-2 []/0: " + long, "3-3 []/0: " + long}},
		{"a paragraph that does not fit, behind another", "a.txt", "a\n\n" + long + "\n" + long, []string{"1-1 []/0: a", "3-3 []/0: " + long, "4-4 []/0: " + long}},
		{"a line that does not fit", "a.txt", "a\n" + long + " " + long + " b\nc", []string{"1-1 []/0: a", "2-2 []/0: " + long, "2-3 []/0: " + long + " b\nc"}},
		{"a word that does not fit", "a.txt", strings.Repeat("é", 1500), []string{"1-1 []/0: " + strings.Repeat("é", 1000), "1-1 []/0: " + strings.Repeat("é", 500)}},
		{"a word that does not fit, at an odd place", "a.txt", "a" + strings.Repeat("é", 1500), []string{"1-1 []/0: a" + strings.Repeat("é", 999), "1-1 []/0: " + strings.Repeat("é", 501)}},
		{"headings", "a.md", "before\n# A\none\n## B\ntwo\n### C ##\nthree\n## D\nfour\n# E\nfive\n", []string{
			"1-1 []/0: before", "2-3 [A]/1: # A\none", "4-5 [A B]/1: ## B\ntwo", "6-7 [A B C]/1: ### C ##\nthree", "8-9 [A D]/1: ## D\nfour", "10-11 [E]/1: # E\nfive"}},
		{"headings alone", "a.md", "# A\n\n## B\none\n# C\n## D\n# E\n", []string{"1-4 [A B]/2: # A\n\n## B\none", "5-6 [C D]/2: # C\n## D", "7-7 [E]/1: # E"}},
		{"a level left out", "a.md", "# A\none\n### B\ntwo\n## C\nthree", []string{"1-2 [A]/1: # A\none", "3-4 [A B]/1: ### B\ntwo", "5-6 [A C]/1: ## C\nthree"}},
		{"a section that does not fit", "a.md", "# A\n\n" + long + "\n\n" + long, []string{"1-3 [A]/1: # A\n\n" + long, "5-5 [A]/0: " + long}},
		{"no headings", "a.md", "#tag\n#\n# #\n    # code\n####### 7\n", []string{"1-5 []/0: #tag\n#\n# #\n    # code\n####### 7"}},
		{"headings in code", "a.MD", "# A\n````sh\n# no\n```\n# no\n`````\n# B\n", []string{"1-6 [A]/1: # A\n````sh\n# no\n```\n# no\n`````", "7-7 [B]/1: # B"}},
		{"code that does not end", "a.markdown", "# A\n~~~\n# no\n", []string{"1-3 [A]/1: # A\n~~~\n# no"}},
		{"headings in a text", "a.txt", "# A\none\n# B\n", []string{"1-3 []/0: # A\none\n# B"}},
		{"nothing", "a.md", " \n\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for i, c := range of(tt.file, tt.text) {
				got = append(got, fmt.Sprintf("%d-%d %v/%d: %s", c.First, c.Last, c.Headings, c.titles, c.Text))
				if c.Number != i+1 {
					t.Errorf("passage %d has number %d", i+1, c.Number)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("passages (-want +got)\n%s", diff)
			}
		})
	}
}

// of are the passages of a file under the defaults.
func of(name, text string) []Passage {
	list, err := Of(name, []byte(text), Options{})
	if err != nil {
		panic(err)
	}
	return list
}

// For any text: no word is lost or repeated, and passages are in order and within their limits.
func FuzzCut(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("# A\n\n## B\ntext\n```\n# no\n```\n\n", 1)
	f.Add("a\n\nb\n# c\n", 900)
	f.Fuzz(func(t *testing.T, text string, times int) {
		text = strings.Repeat(strings.ToValidUTF8(text, "?"), max(1, min(times, 1000)))
		if len(text) > 1<<20 {
			return
		}
		var all strings.Builder
		last := 1
		for _, c := range of("a.md", text) {
			if len(c.Text) > DefaultMaxBytes || c.Text == "" || !utf8.ValidString(c.Text) || c.First < last || c.Last < c.First || c.titles > len(c.Headings) {
				t.Fatalf("passage %d, lines %d to %d, %d titles: %q", c.Number, c.First, c.Last, c.titles, c.Text)
			}
			last = c.Last
			all.WriteString(c.Text)
			_ = c.Words()
		}
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		text = strings.TrimPrefix(text, "\ufeff") // a byte order mark
		if got, want := bare(all.String()), bare(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
