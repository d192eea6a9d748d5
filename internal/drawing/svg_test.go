package drawing_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/drawing"
	"github.com/braise-run/braise/internal/program"
)

// elements reads a picture as XML: how often each element stands in it, all attributes, and all text but styles.
func elements(t *testing.T, svg []byte) (count map[string]int, attributes []xml.Attr, text string) {
	t.Helper()
	count = map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(svg))
	inside := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count, attributes, text
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
			count[inside]++
			attributes = append(attributes, token.Attr...)
		case xml.CharData:
			if inside != "style" {
				text += string(token)
			}
		}
	}
}

func TestSVG(t *testing.T) {
	steps := chain()
	steps[0].Foreach, steps[1].When, steps[5].Needs[0].Kind = true, "${{ inputs.x }}", "order"
	svg := drawing.Draw(steps, &drawing.Options{Open: []string{"c"}, Direction: "LR"}).SVG()
	count, _, _ := elements(t, svg)
	if count["title"] != 1+9 || count["text"] != 2*9 { // the picture, and each step
		t.Errorf("%d titles and %d texts of 9 steps", count["title"], count["text"])
	}
	for _, want := range []string{
		`<g class="step foreach uses-set" data-id="a"><title>a: set, for each item</title>`,
		`<g class="step when uses-set" data-id="b"><title>b: set, on a condition</title>`,
		`<g class="step body uses-recipe" data-id="c"><title>c: recipe, 4 steps inside</title>`,
		`<g class="step body folded uses-recipe" data-id="c/y"><title>c/y: recipe, 1 step inside</title>`,
		`<g class="edge" data-from="a" data-to="b">`,
		`<g class="edge order" data-from="e" data-to="f">`,
		`prefers-color-scheme: dark`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestHostileSVG(t *testing.T) {
	hostile := []string{
		`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `]]><!--`, `' onload='x`, "a\u202eb\u2066c\u200d", "\x00\x1b[31m\xff",
		"&amp;&#0;&x;", strings.Repeat("ä", 5000), strings.Repeat("語", 4000), "line\nbreak\ttab", "</style><script>", "\ufffe\uffff", "",
	}
	var steps []program.PlanStep
	for i, name := range hostile {
		s := program.PlanStep{ID: name, Uses: name, When: name}
		for _, before := range hostile[:i] {
			s.Needs = append(s.Needs, program.Edge{Step: before, Kind: name})
		}
		steps = append(steps, s)
	}
	d := drawing.Draw(steps, nil)
	svg := d.SVG()
	count, attributes, text := elements(t, svg)
	if len(count) != 7 || count["script"] != 0 || count["style"] != 1 { // svg, title, style, rect, g, text, path
		t.Errorf("elements %v", count)
	}
	for _, a := range attributes {
		if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || strings.Contains(a.Value, "url(") {
			t.Errorf("attribute %v", a)
		}
	}
	if strings.ContainsAny(text, "\u202e\u2066\x1b\x00") {
		t.Errorf("the text turns the direction of writing: %q", text)
	}
	for _, n := range d.Nodes {
		if utf8.RuneCountInString(n.Label) > 32 || n.Width > 300 {
			t.Errorf("label %q of %d pixels", n.Label, n.Width)
		}
	}
	ids := 0
	for _, a := range attributes {
		if a.Name.Local == "data-id" && (a.Value == hostile[0] || a.Value == hostile[7]) {
			ids++
		}
	}
	if ids != 2 {
		t.Error("data-id does not have the whole names")
	}
}
