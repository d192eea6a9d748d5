package page_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/braise-run/braise/runtime"
)

const given = `apiVersion: braise/v1
name: given
steps: {give: {uses: test.give}}
output: ${{ steps.give.output }}
`

// give serves a run whose only step has an output, and shows that output.
func give(t *testing.T, output string) *tab {
	s := newSite(t, options{idle: true, recipes: map[string]string{"given": given}, tools: []runtime.Tool{
		tool{"test.give", func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(output), nil }}}})
	return s.open(rita, "#/runs/"+s.run("given", nil)+"/steps?step=give&part=output")
}

// What a tool gives is shown as text, whatever it is.
func TestJSONOfEnemies(t *testing.T) {
	b := give(t, `{"script": "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>", "link": "javascript:window.hit=1",
		"rtl": "safe\u202etxt.exe", "ansi": "\u001b[31mred", "nul": "a\u0000b", "constructor": 1, "__proto__": {"hit": 2},
		"toString": "x", "list": [1.5, true, null, {}, []], "odd key": {"a.b": "c"}}`)
	b.sees(".detail .json", "<script>window.hit = 1</script>")
	b.sees(".detail .json", "javascript:window.hit=1")
	b.sees(".detail .json", `safe\u202etxt.exe`)
	b.sees(".detail .json", `\u001b[31mred`)
	b.sees(".detail .json", `a\u0000b`)
	b.sees(".detail .json", "constructor: 1")
	b.sees(".detail .json", "__proto__: {1}")
	b.sees(".detail .json", "toString: “x”")
	b.is("[window.hit ?? 0, ({}).hit ?? 0, document.querySelectorAll('.json a, .json img, .json script').length]", []int{0, 0, 0})
}

// A tree is walked, folded and copied by keys; long lists and texts come piece by piece.
func TestJSONTree(t *testing.T) {
	b := give(t, `{"a": {"odd key": {"n": 7}}, "list": [`+strings.TrimSuffix(strings.Repeat("0,", 250), ",")+`], "text": "`+strings.Repeat("long ", 1000)+`"}`)
	b.see(".detail .json")
	b.is("navigator.clipboard.writeText = async (text) => { window.copied = text }, document.querySelector('.json [role=treeitem]').focus(), true", true)
	press := func(key string) {
		b.is("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '"+key+"', bubbles: true})), true", true)
	}
	press("ArrowDown")
	press("ArrowDown")
	b.is("document.activeElement.getAttribute('aria-expanded')", "false")
	press("ArrowRight")
	b.is("document.activeElement.getAttribute('aria-expanded')", "true")
	press("ArrowRight")
	press("p")
	b.is("window.copied", `a["odd key"].n`)
	press("c")
	b.is("window.copied", "7")
	b.press("… 150 more")
	b.press("… 50 more")
	b.is("document.querySelectorAll('.json [role=treeitem]').length", 256) // 250, and six others
	b.press("… 3.0 kB more")
	b.is("[...document.querySelectorAll('.json .string')].some((e) => e.textContent.length === 5002)", true)
}

// A value of megabytes comes when it is asked for, and the page stays usable.
func TestJSONOfMegabytes(t *testing.T) {
	b := give(t, `{"blob": "`+strings.Repeat("x", 3<<20)+`", "rows": [`+strings.TrimSuffix(strings.Repeat(`{"n":1},`, 1e4), ",")+`]}`)
	b.sees(".detail", "3.2 MB of JSON")
	b.gone(".detail .json")
	b.is("performance.getEntriesByType('resource').every((e) => e.encodedBodySize < 1e6)", true)
	b.click(".detail p.row button")
	b.sees(".detail .json", "rows: [10000]")
	b.is("document.querySelectorAll('.detail *').length < 1000", true)
	b.press("Events")
	b.see(".detail .event")
}
