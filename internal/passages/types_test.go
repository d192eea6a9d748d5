package passages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
)

func TestTypes(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		o                Options
		want             []string // headings {metadata}: text
	}{
		{name: "a page", file: "a.html", text: `<!DOCTYPE html><html><head><title>Owls &amp; ducks</title><style>p {}</style></head>
<body><nav><a>Home</a></nav><h1>Owls</h1><p>They fly
   at <b>night</b>.</p><ul><li>barn<li>snowy</ul><h2>Food # 1</h2><table><tr><th>what<th>when<tr><td>mice<td>often</table>
<pre>if a {
	b
}</pre><script>alert("<p>no</p>")</script><form><p>no</form><p># no heading</p></body></html>`, want: []string{
			"[Owls] {title: Owls & ducks}: # Owls\n\nThey fly at night.\n\n- barn\n\n- snowy",
			"[Owls Food # 1] {title: Owls & ducks}: ## Food # 1\n\nwhat | when\n\nmice | often\n\n```\nif a {\n\tb\n}\n```\n\nno heading"}},
		{name: "a page that is cut", file: "a.htm", text: "<p>one<p>two <script>x", want: []string{"[] {}: one\n\ntwo"}},
		{name: "a page in one piece", file: "a.html", text: "<h1>A</h1><p>b<h1>C</h1><p>d", o: Options{Whole: true}, want: []string{"[] {}: # A\n\nb\n\n# C\n\nd"}},
		{name: "Markdown in one piece", file: "a.md", text: "# A\nb\n# C\nd", o: Options{Whole: true}, want: []string{"[] {}: # A\nb\n# C\nd"}},
		{name: "smaller passages", file: "a.txt", text: "one two\n\nthree", o: Options{MaxBytes: 5}, want: []string{"[] {}: one", "[] {}: two", "[] {}: three"}},
		{name: "rows", file: "a.csv", text: "\uFEFFname,price\nlamp,\"1,5\"\n\nchair,,extra\n", want: []string{
			"[] {line: 2, name: lamp, price: 1,5}: name: lamp\nprice: 1,5", "[] {column 3: extra, line: 4, name: chair}: name: chair\ncolumn 3: extra"}},
		{name: "rows with tabs", file: "a.tsv", text: "name\tprice\na,b\t1\n", want: []string{"[] {line: 2, name: a,b, price: 1}: name: a,b\nprice: 1"}},
		{name: "a long field", file: "a.csv", text: "text\n" + strings.Repeat("x", 201), want: []string{"[] {line: 2}: text: " + strings.Repeat("x", 201)}},
		{name: "a list", file: "a.json", text: `[{"text": "Owls fly.", "lang": "en", "about": {"n": 1, "tags": ["a", "b"]}}, "plain", 7, null]`, want: []string{
			"[] {about.n: 1, about.tags: [a b], lang: en}: Owls fly.\n\nabout.n: 1\nabout.tags: a, b\nlang: en", "[] {}: plain", "[] {: 7}: : 7"}},
		{name: "lines", file: "a.jsonl", text: "{\"a\": 1}\n{\"a\": 2}\n", want: []string{"[] {a: 1}: a: 1", "[] {a: 2}: a: 2"}},
		{name: "a type that the name does not say", file: "https://x.test/p", text: "<p>a", o: Options{Type: HTML}, want: []string{"[] {}: a"}},
		{name: "no JSON", file: "a.json", text: "{", want: []string{`"a.json": it is not JSON: unexpected EOF`}},
		{name: "no rows", file: "a.csv", text: "a,b\n", want: nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := Of(tt.file, []byte(tt.text), tt.o)
			var got []string
			if err != nil {
				got = []string{err.Error()}
			}
			for i, p := range list {
				about := p.About()
				delete(about, "first_line")
				delete(about, "last_line")
				delete(about, "headings")
				var shown []string
				for _, name := range value.SortedKeys(about) {
					shown = append(shown, fmt.Sprintf("%s: %v", name, about[name]))
				}
				got = append(got, fmt.Sprintf("%v {%s}: %s", p.Headings, strings.Join(shown, ", "), p.Text))
				if p.Number != i+1 {
					t.Errorf("passage %d has number %d", i+1, p.Number)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("passages (-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever a file has, reading it ends, and no passage is too long.
func FuzzTypes(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add("<h1>a</h1><p>b<pre>c", 0)
	f.Add("a,b\n\"1\n2\",3", 1)
	f.Add(`[{"text": "a", "b": [1, {}]}]`, 2)
	f.Fuzz(func(t *testing.T, text string, i int) {
		if len(text) > 1<<16 || !IsText([]byte(text), false) {
			return
		}
		list, _ := Of("x", []byte(text), Options{Type: []Type{HTML, CSV, JSON}[(i%3+3)%3], MaxBytes: 100})
		for _, p := range list {
			if len(p.Text) > 100 || p.Text == "" {
				t.Fatalf("%+v", p)
			}
		}
	})
}
